import { cpSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadDriver } from "../driver.ts";
import { isLogLost, lostInWal } from "./wal-losses.ts";

const home = mkdtempSync(join(tmpdir(), "rondo-wal-"));
afterAll(() => rmSync(home, { recursive: true, force: true }));
const wal = join(home, "copy-wal");
const FRAME = 4_096 + 24;

/** A log of 11 transactions, of one frame each but the first. */
beforeAll(async () => {
  const file = join(home, "made.db");
  const connection = (await loadDriver()).open(file);
  connection.exec("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (a)");
  for (let i = 0; i < 10; i++) connection.exec(`INSERT INTO t VALUES (${i})`);
  cpSync(`${file}-wal`, wal);
  connection.close();
});

function flipped(at: number): number {
  const bytes = readFileSync(wal);
  bytes[at] = (bytes[at] as number) ^ 4;
  const copy = join(home, "flipped-wal");
  writeFileSync(copy, bytes);
  return lostInWal(copy);
}

test("a log that is whole, cut off or not there has lost nothing", () => {
  expect(lostInWal(wal)).toBe(0);
  expect(lostInWal(join(home, "none"))).toBe(0);
  const { length } = readFileSync(wal);
  for (const left of [length - 10, length - FRAME - 1, length - 3 * FRAME, 40, 0]) {
    const copy = join(home, "cut-wal");
    cpSync(wal, copy);
    truncateSync(copy, left);
    expect(lostInWal(copy)).toBe(0);
  }
});

test("a flipped bit loses its transaction and those behind it, but for the last one, which may have been cut off", () => {
  const { length } = readFileSync(wal);
  const frames = Math.floor((length - 32) / FRAME);
  const inFrame = (fromEnd: number, at: number): number => 32 + (frames - fromEnd) * FRAME + at;
  expect(flipped(inFrame(1, 24 + 100))).toBe(0);
  expect(flipped(inFrame(2, 24 + 100))).toBe(2);
  expect(flipped(inFrame(5, 24 + 4_000))).toBe(5);
  expect(flipped(inFrame(5, 9))).toBe(5);
  expect(flipped(inFrame(5, 17))).toBe(5);
  expect(flipped(13)).toBe(11);
});

const LEFT = { generation: "g", epoch: 5 };
const FOUND = { ...LEFT, hasFile: true, hasLog: true, isClean: false };

test.each([
  ["nothing is known of the last owner", null, { ...FOUND, hasLog: false, epoch: 1 }, false],
  ["the owner was killed, and its files are there", LEFT, FOUND, false],
  ["a migration was cut off after the WAL went", null, { ...FOUND, hasLog: false }, false],
  ["the WAL is gone", LEFT, { ...FOUND, hasLog: false }, true],
  ["the WAL is empty, and the epoch was in it", LEFT, { ...FOUND, epoch: 4 }, true],
  [
    "the WAL is gone, and the file is one that was closed before",
    LEFT,
    { ...FOUND, epoch: 4, isClean: true },
    true,
  ],
  [
    "the owner had closed the store, and was killed then",
    LEFT,
    { ...FOUND, hasLog: false, isClean: true },
    false,
  ],
  [
    "everything is gone",
    LEFT,
    { ...FOUND, hasFile: false, hasLog: false, generation: "new", epoch: 0 },
    true,
  ],
  ["another store was put there", LEFT, { ...FOUND, hasLog: false, generation: "other", epoch: 1 }, false],
] as const)("a log is lost or not: %s", (_, left, found, isLost) => {
  expect(isLogLost(left, found)).toBe(isLost);
});
