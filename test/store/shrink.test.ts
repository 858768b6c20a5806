// The file of an embedded store gets smaller after a purge, and after an open if there was free room.
import { cpSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test, vi } from "vitest";
import { restoreBackup } from "../../src/store/sqlite/files/restore-backup.ts";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { StoreThread } from "../../src/store/sqlite/store-thread.ts";
import { commit, endedHead, entry, start } from "../fixtures/store/example-writes.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";

const OLD_FILE = fileURLToPath(new URL("../fixtures/stores/v0.2.0/rondo.db", import.meta.url));
const BODY = `{"v":1}${"x".repeat(8_000)}`;
const IDS = Array.from({ length: 3_000 }, (_, i) => `e${i}`);

/** A store in a directory with many executions that are over. */
async function filled(directory: string): Promise<SqliteStore> {
  const store = new SqliteStore({ directory });
  const info = await store.open();
  const writes = IDS.map((id) => start(id, { head: endedHead(id, 1), entries: [entry(1, BODY)] }));
  for (let from = 0; from < writes.length; from += 500)
    await commit(store, info, writes.slice(from, from + 500));
  return store;
}

function sizeOf(directory: string): number {
  return ["", "-wal"].reduce((sum, end) => {
    const file = statSync(join(directory, `rondo.db${end}`), { throwIfNoEntry: false });
    return sum + (file?.size ?? 0);
  }, 0);
}

async function expectWhole(store: SqliteStore): Promise<void> {
  expect((await store.readJournal({ execution: "e0", from: 1 })).map((row) => row.body)).toEqual([BODY]);
}

test("room that a purge frees is given back to the file system, and what is left is whole", async () => {
  const directory = temporaryDirectory();
  const store = await filled(directory);
  const before = sizeOf(directory);
  await store.purge(IDS.slice(1));
  expect(sizeOf(directory)).toBeLessThan(before / 3);
  await expectWhole(store);
  await store.close({ clean: true });
});

test("room that was free when the file was opened is given back, while the store is used", async () => {
  const directory = temporaryDirectory();
  const store = await filled(directory);
  const before = sizeOf(directory);
  // As if the process had ended before it could give the room back.
  const call = StoreThread.prototype.call;
  const kept = vi.spyOn(StoreThread.prototype, "call").mockImplementation(function (
    this: StoreThread,
    ...one
  ) {
    return one[0] === "shrink" ? Promise.resolve(false) : Reflect.apply(call, this, one);
  });
  await store.purge(IDS.slice(1));
  await store.close({ clean: true });
  kept.mockRestore();
  expect(sizeOf(directory)).toBeGreaterThan(before / 2);
  const again = new SqliteStore({ directory });
  await again.open();
  await expectWhole(again);
  await vi.waitFor(() => expect(sizeOf(directory)).toBeLessThan(before / 3), { timeout: 20_000 });
  await expectWhole(again);
  await again.close({ clean: true });
});

test("a file of 0.2 keeps its size, and shrinks after a backup and a restore", async () => {
  const place = temporaryDirectory();
  const directory = join(place, "old");
  cpSync(OLD_FILE, join(directory, "rondo.db"));
  const store = await filled(directory);
  const before = sizeOf(directory);
  await store.backup(join(place, "backup"));
  await store.purge(IDS.slice(1));
  expect(sizeOf(directory)).toBeGreaterThan(before / 2);
  await store.close({ clean: true });
  const restored = join(place, "restored");
  await restoreBackup({ file: join(place, "backup"), directory: restored });
  const renewed = new SqliteStore({ directory: restored });
  await renewed.open();
  await renewed.purge(IDS.slice(1));
  expect(sizeOf(restored)).toBeLessThan(before / 3);
  await expectWhole(renewed);
  await renewed.close({ clean: true });
});
