// How many rows the search index of an embedded store has: starts pay for each of them.
import { join } from "node:path";
import { expect, test } from "vitest";
import { searchWords } from "../../src/store/search-terms.ts";
import { loadDriver } from "../../src/store/sqlite/driver.ts";
import { openDatabase } from "../../src/store/sqlite/open-database.ts";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { commit, endedHead, start, step } from "../fixtures/store/example-writes.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";

const IDS = Array.from({ length: 320 }, (_, i) => `e${i}`);
/** Executions that share a row of a hash or of the name of a tag. */
const BLOCK = 32;

/** Rows by the first character of their terms, after these executions were started and others of them purged. */
async function rowsAfter(
  tags: (i: number) => Record<string, string>,
  purged: readonly string[] = [],
): Promise<Record<string, number>> {
  const directory = temporaryDirectory();
  const store = new SqliteStore({ directory });
  const info = await store.open();
  const writes = IDS.map((id, i) => start(id, { head: endedHead(id, 1, { tags: tags(i) }) }));
  for (let from = 0; from < writes.length; from += 10) {
    await commit(store, info, writes.slice(from, from + 10));
    while (await store.indexSome());
  }
  await store.purge(purged);
  await store.close({ clean: true });
  const connection = openDatabase(join(directory, "rondo.db"), { driver: await loadDriver() });
  const rows = connection
    .prepare("SELECT substr(term, 1, 1) AS kind, count(*) AS n FROM search GROUP BY 1 ORDER BY 1")
    .all<{ kind: string; n: number }>([]);
  connection.close();
  return Object.fromEntries(rows.map(({ kind, n }) => [kind, n]));
}

/** Their numbers begin with 1, so the first block is not a whole one. */
const BLOCKS = IDS.length / BLOCK + 1;

test("an execution without tags has no row of its own", async () => {
  expect(await rowsAfter(() => ({}))).toEqual({ "#": BLOCKS });
});

test("a tag costs one row, that of its value", async () => {
  const tags = (i: number): Record<string, string> => ({ team: `t${i % 7}` });
  expect(await rowsAfter(tags)).toEqual({ "#": BLOCKS, "@": BLOCKS, "=": IDS.length });
});

test("a purge removes the rows of values, and those of blocks once nobody in the block has the term", async () => {
  const tags = (i: number): Record<string, string> => (i % 2 === 0 ? { even: "yes" } : { odd: "yes" });
  expect(await rowsAfter(tags)).toEqual({ "#": BLOCKS, "@": 2 * BLOCKS - 1, "=": IDS.length });
  const even = IDS.filter((_, i) => i % 2 === 0);
  expect(await rowsAfter(tags, even)).toEqual({ "#": BLOCKS, "@": BLOCKS, "=": IDS.length / 2 });
  expect(await rowsAfter(tags, IDS)).toEqual({});
});

test("ends that the process has written itself are not looked for again", async () => {
  const store = new SqliteStore({ directory: temporaryDirectory() });
  const info = await store.open();
  await commit(
    store,
    info,
    IDS.slice(0, 100).map((id, i) => start(id, { head: endedHead(id, i) })),
  );
  expect(await store.indexSome()).toBe(false);
  await store.close({ clean: true });
});

test("executions that fail together are all indexed by one round of calls", async () => {
  const ids = Array.from({ length: 3_000 }, (_, i) => `e${i}`);
  const store = new SqliteStore({ directory: temporaryDirectory() });
  const info = await store.open();
  const writes = ids.map((id) => start(id));
  await commit(store, info, writes);
  while (await store.indexSome());
  const failed = { status: "failed", error: "card declined" } as const;
  await commit(
    store,
    info,
    ids.map((id, i) => step(id, 1, { head: endedHead(id, i, failed) })),
  );
  while (await store.indexSome());
  const [word] = searchWords("declined");
  const { orders } = await store.findOrders(word as NonNullable<typeof word>, {
    before: ids.length + 1,
    max: ids.length,
  });
  expect(orders.length).toBe(ids.length);
  await store.close({ clean: true });
});
