import { cpSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadDriver } from "./driver.ts";
import { lostInWal } from "./wal-losses.ts";

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
