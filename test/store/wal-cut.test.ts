// What a power loss can leave: the WAL cut or garbled anywhere after the last acknowledged commit.
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { SeededRandom } from "../../src/std/random.ts";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { StoreInfo } from "../../src/store/store.ts";
import { commit, entry, start } from "../fixtures/store/example-writes.ts";
import { expectWholePairs } from "../fixtures/store/pairs-fixture.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";

const TAIL = 8;

const pair = (n: number, chars = (n * 977) % 9_000) =>
  [`left-${n}`, `right-${n}`].map((id) =>
    start(id, {
      entries: [entry(1, JSON.stringify({ id, text: "x".repeat(chars) }))],
      chain: `chain-${id}`,
      timersSet: [{ timer: "t", due: n }],
    }),
  );

/** Where the WAL's valid part ends: frames that bear the salts of its header, from the start. */
function walEnd(wal: Buffer): number {
  const frame = 24 + wal.readUInt32BE(8);
  const salts = wal.subarray(16, 24);
  let end = 32;
  while (end + frame <= wal.length && wal.subarray(end + 8, end + 16).equals(salts)) end += frame;
  return end;
}

function damage(wal: Buffer, from: number, random: SeededRandom): Buffer {
  const copy = Buffer.from(wal);
  const way = random.below(3);
  if (way === 0) return copy.subarray(0, from);
  if (way === 1) return copy.fill(0, from, Math.min(copy.length, from + random.between(1, 20_000)));
  for (let i = from; i < Math.min(copy.length, from + 512); i++) copy[i] = random.below(256);
  return copy;
}

test.each([
  { kind: "a new WAL", large: 0, acknowledged: 30, cuts: 30 },
  { kind: "a WAL begun again", large: 20, acknowledged: 50, cuts: 10 },
])("$kind may be cut after the last acknowledged commit", async ({ kind, large, acknowledged, cuts }) => {
  const random = new SeededRandom(kind);
  const directory = temporaryDirectory();
  const origin = join(directory, "origin");
  const store = new SqliteStore({ directory: origin });
  const info: StoreInfo = await store.open();
  for (let n = 1; n <= acknowledged; n++) await commit(store, info, n <= large ? pair(n, 400_000) : pair(n));
  const database = join(origin, "rondo.db");
  // Reading the file lets go of SQLite's lock on it, which nobody else wants here.
  const from = walEnd(readFileSync(`${database}-wal`));
  for (let n = 1; n <= TAIL; n++) await commit(store, info, pair(acknowledged + n));
  const wal = readFileSync(`${database}-wal`);
  const to = walEnd(wal);
  expect(to).toBeGreaterThan(from);
  expect(wal.length > to).toBe(large > 0);
  const found = new Set<number>();
  for (let cut = 0; cut < cuts; cut++) {
    const place = join(directory, String(cut));
    mkdirSync(place);
    copyFileSync(database, join(place, "rondo.db"));
    writeFileSync(join(place, "rondo.db-wal"), damage(wal, random.between(from, to), random));
    const survivor = new SqliteStore({ directory: place });
    await survivor.open();
    found.add(await expectWholePairs(survivor, acknowledged));
    await survivor.close({ clean: false });
  }
  await store.close({ clean: false });
  // The cuts fell inside of the tail, not all before or after it.
  expect(found.size).toBeGreaterThan(3);
  expect(Math.max(...found)).toBeLessThanOrEqual(acknowledged + TAIL);
});
