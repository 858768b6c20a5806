// What a purge leaves on the disk: nothing, also if it was cut off in between.
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Driver, loadDriver } from "../../src/store/sqlite/driver.ts";
import { openDatabase } from "../../src/store/sqlite/open-database.ts";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { commit, endedHead, entry, logRow, start } from "../fixtures/store/example-writes.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";

/** An execution that has ended, with more rows than one sweep takes. */
const long = (id: string) =>
  start(id, {
    head: endedHead(id, 1),
    entries: Array.from({ length: 1_500 }, (_, i) => entry(i + 1, `${id} ${i}`)),
    timersSet: [{ timer: "t", due: 1 }],
    opened: { "p.1.h": 3 },
    snapshot: { seq: 1_500, foldVersion: 1, chain: `chain-${id}-1`, body: "state" },
    logs: Array.from({ length: 800 }, (_, i) => logRow([i + 1])),
    deadLetters: [{ seq: 1, tasks: [1] }],
  });

const TABLES = ["executions", "journal", "snapshots", "timers", "opened", "logs", "dead_letters", "purged"];

/** How many rows each table has, in a copy of a store that nobody has open. */
function counts(directory: string, driver: Driver): Record<string, unknown> {
  const copy = join(temporaryDirectory(), "rondo.db");
  copyFileSync(join(directory, "rondo.db"), copy);
  const connection = openDatabase(copy, { driver });
  const count = (table: string) =>
    connection.prepare(`SELECT count(*) AS n FROM ${table}`).get<{ n: number }>([])?.n;
  const found = Object.fromEntries(TABLES.map((table) => [table, count(table)]));
  connection.close();
  return found;
}

const EMPTY = Object.fromEntries(TABLES.map((table) => [table, 0]));

test("nothing of what was purged is left in any table", async () => {
  const directory = temporaryDirectory();
  const store = new SqliteStore({ directory });
  await commit(store, await store.open(), [long("a"), long("b")]);
  await store.purge(["a", "b"]);
  await store.close({ clean: true });
  expect(counts(directory, await loadDriver())).toEqual(EMPTY);
});

test("a purge that was cut off is invisible, and the next one finishes it", async () => {
  const directory = temporaryDirectory();
  const first = new SqliteStore({ directory });
  await commit(first, await first.open(), [long("a"), long("b")]);
  const [purge] = await Promise.allSettled([first.purge(["a"]), first.close({ clean: false })]);
  expect(purge).toMatchObject({ status: "rejected", reason: { message: "the store is not open" } });
  const driver = await loadDriver();
  expect(counts(directory, driver)).toMatchObject({ executions: 1, journal: 3_000, logs: 1_600, purged: 1 });

  const second = new SqliteStore({ directory });
  const info = await second.open();
  expect(await second.load(["a"])).toEqual([null]);
  expect(await second.readJournal({ execution: "a", from: 1 })).toEqual([]);
  const dead = async (filter: Parameters<typeof second.listDeadLetters>[0]) =>
    (await second.listDeadLetters(filter, { before: null, max: 9 })).map(({ execution }) => execution);
  expect(await dead({})).toEqual(["b"]);
  expect(await dead({ project: "default" })).toEqual(["b"]);
  expect(await dead({ execution: "a" })).toEqual([]);
  await commit(second, info, [start("a", { logs: [logRow([1])] })]);
  await second.purge([]);
  expect(await second.readJournal({ execution: "a", from: 1 })).toHaveLength(1);
  expect(await second.readLogs({ execution: "a", after: 0, rowsMax: 9_999 })).toHaveLength(1);
  expect(await second.readJournal({ execution: "b", from: 1 })).toHaveLength(1_500);
  await second.close({ clean: true });
  expect(counts(directory, driver)).toEqual({
    executions: 2,
    journal: 1_501,
    snapshots: 1,
    timers: 1,
    opened: 1,
    logs: 801,
    dead_letters: 1,
    purged: 0,
  });
});

test("an execution that is known from recent commits is forgotten with its row", async () => {
  const store = new SqliteStore({ directory: temporaryDirectory() });
  const info = await store.open();
  await commit(store, info, [long("a")]);
  await store.purge(["a"]);
  expect(await commit(store, info, [start("a")])).toEqual([]);
  expect((await store.load(["a"]))[0]?.head.order).toBe(2);
  await store.close({ clean: true });
});
