// The file of an embedded store gets smaller after a purge.
import { statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { commit, endedHead, entry, start } from "./example-writes.ts";
import { temporaryDirectory } from "./temporary-directory.ts";

test("room that a purge frees is given back to the file system, and what is left is whole", async () => {
  const directory = temporaryDirectory();
  const store = new SqliteStore({ directory });
  const info = await store.open();
  const ids = Array.from({ length: 3_000 }, (_, i) => `e${i}`);
  const body = `{"v":1}${"x".repeat(8_000)}`;
  const writes = ids.map((id) => start(id, { head: endedHead(id, 1), entries: [entry(1, body)] }));
  for (let from = 0; from < writes.length; from += 500)
    await commit(store, info, writes.slice(from, from + 500));
  const size = () =>
    ["", "-wal"].reduce((sum, end) => sum + statSync(join(directory, `rondo.db${end}`)).size, 0);
  const before = size();
  await store.purge(ids.slice(1));
  expect(size()).toBeLessThan(before / 3);
  expect((await store.readJournal({ execution: "e0", from: 1 })).map((row) => row.body)).toEqual([body]);
  await store.close({ clean: true });
});
