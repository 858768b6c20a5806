// Stores grow up: each missing migration in a transaction of its own, with the version in the file's header.
import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadDriver } from "../../src/store/sqlite/driver.ts";
import { MIGRATIONS } from "../../src/store/sqlite/migrations.ts";
import { openDatabase } from "../../src/store/sqlite/open-database.ts";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import { commit, logRow, start } from "../fixtures/store/example-writes.ts";
import { watchedDriver } from "../fixtures/store/watched-driver-fixture.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";

const KNOWN = MIGRATIONS.length;
const versionOf = (file: string) => readFileSync(file).readUInt32BE(60);

async function storeWithOne(): Promise<string> {
  const directory = temporaryDirectory();
  const store = new SqliteStore({ directory });
  await commit(store, await store.open(), [start("a")]);
  await store.close({ clean: true });
  return directory;
}

test("a store of today gets the migrations of tomorrow and keeps its rows; today's Rondo then refuses it", async () => {
  const directory = await storeWithOne();
  const file = join(directory, "rondo.db");
  expect(versionOf(file)).toBe(KNOWN);
  const migrations = [
    ...MIGRATIONS,
    "CREATE TABLE one (x TEXT) STRICT",
    "ALTER TABLE executions ADD COLUMN y TEXT",
  ];
  const connection = openDatabase(file, { driver: await loadDriver(), migrations });
  expect(connection.prepare("SELECT id, y FROM executions").all([])).toMatchObject([{ id: "a", y: null }]);
  expect(connection.prepare("SELECT * FROM one").all([])).toEqual([]);
  expect(versionOf(file)).toBe(KNOWN + 2);
  await expect(new SqliteStore({ directory }).open()).rejects.toThrow(/newer Rondo/);
});

test("a store of the first version gets the tables of today, keeps its rows, and is found ended", async () => {
  const directory = temporaryDirectory();
  const file = join(directory, "rondo.db");
  const driver = await loadDriver();
  openDatabase(`${file}.old`, { driver, migrations: MIGRATIONS.slice(0, 1) }).exec(
    `INSERT INTO executions VALUES (7, 'a', 0, 'orders', 'h', 'default', 'done', NULL, 'nothing', 0, 1, 2, '{}', NULL, 0);
     INSERT INTO journal VALUES (1, 7, 1, 1, 5, 'chain', 'body'); PRAGMA wal_checkpoint(TRUNCATE)`,
  );
  copyFileSync(`${file}.old`, file);
  expect(versionOf(file)).toBe(1);
  const store = new SqliteStore({ directory });
  const info = await store.open();
  expect(versionOf(file)).toBe(KNOWN);
  expect(await store.listEnded({ finishedBefore: 3, max: 9 })).toEqual(["a"]);
  expect((await store.load(["a"]))[0]).toMatchObject({ chain: "chain", entries: [{ seq: 1, body: "body" }] });
  await commit(store, info, [start("b", { mail: [{ id: "l", to: "a", body: "{}" }], logs: [logRow([1])] })]);
  await store.purge(["a"]);
  await commit(store, info, [start("a")]);
  expect((await store.load(["b", "a"])).map((execution) => execution?.head.order)).toEqual([8, 9]);
  expect(await store.scanMail({ after: 0, max: 9, partitions: null })).toHaveLength(1);
  await store.close({ clean: true });
});

test("at no moment is the version in the header older than the tables", async () => {
  const directory = await storeWithOne();
  const file = join(directory, "rondo.db");
  const { driver, watched } = await watchedDriver();
  const seen: number[] = [];
  watched.beforeExec = () => void seen.push(versionOf(file));
  const migrations = [...MIGRATIONS, "CREATE TABLE one (x TEXT) STRICT", "CREATE TABLE two (x TEXT) STRICT"];
  openDatabase(file, { driver, migrations });
  // After each migration's commit comes another statement, before which its version is already in the file.
  expect([...new Set(seen)]).toEqual([KNOWN, KNOWN + 1, KNOWN + 2]);
});

test("a migration that fails leaves the store at the version before it", async () => {
  const directory = await storeWithOne();
  const file = join(directory, "rondo.db");
  const driver = await loadDriver();
  const migrations = [...MIGRATIONS, "CREATE TABLE two (x TEXT); INSERT INTO nowhere VALUES (1)"];
  expect(() => openDatabase(file, { driver, migrations })).toThrow(/nowhere/);
  expect(versionOf(file)).toBe(KNOWN);
  const store = new SqliteStore({ directory });
  await store.open();
  expect(await store.listHeads({}, { before: null, max: 9 })).toHaveLength(1);
  await store.close({ clean: true });
});
