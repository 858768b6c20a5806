// What a node meets when it opens: an empty database, one that others are migrating, one it must not use; and what
// becomes of a node when the database behind it is put back.
import { cpSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { toCliError } from "../../../src/cli/cli-error.ts";
import { EXIT } from "../../../src/cli/exit-code.ts";
import { EVENT_VERSION } from "../../../src/kernel/event.ts";
import { migrate } from "../../../src/store/postgres/migrate.ts";
import { MIGRATIONS } from "../../../src/store/postgres/migrations/migrations.ts";
import { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { declareDatabaseRestored, readDatabase } from "../../../src/store/postgres/schema-place.ts";
import { beginSession } from "../../../src/store/postgres/session.ts";
import { fenceOf, type StoreInfo } from "../../../src/store/store.ts";
import { commit, start, step } from "../../fixtures/store/example-writes.ts";
import { openWhole } from "../../fixtures/store/open-whole-fixture.ts";
import { PostgresServer, TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";

let server: PostgresServer;
let database: TestDatabase;
beforeAll(async () => {
  server = await PostgresServer.make();
  database = TestDatabase.of(server);
}, 120_000);
afterAll(() => server.remove());

function makeStore(options: Partial<ConstructorParameters<typeof PostgresStore>[0]>): PostgresStore {
  const store = new PostgresStore({ url: server.url, nodeUrl: "http://node", partitions: 1, ...options });
  onTestFinished(() => store.close({ clean: false }).catch(() => undefined));
  return store;
}

test("a new store has 256 partitions; nodes that start together make it once", async () => {
  const schema = database.newSchema();
  const urls = ["http://a", "http://b", "http://c", "http://d"];
  const stores = urls.map((nodeUrl) => new PostgresStore({ url: server.url, nodeUrl, schema }));
  const infos = await Promise.all(stores.map((store) => store.open()));
  expect(new Set(infos.map((info) => JSON.stringify(info))).size).toBe(1);
  expect(infos[0]).toMatchObject({ partitions: 256, owned: [] });
  expect(await database.query(`SELECT version FROM ${schema}.migrations ORDER BY version`)).toEqual(
    MIGRATIONS.map((_, i) => ({ version: i + 1 })),
  );
  for (const store of stores) await store.close({ clean: true });
});

test("a node that joins as older ones do, without a word about versions, reads the second", async () => {
  const schema = database.newSchema();
  const store = makeStore({ schema });
  const { generation } = await store.open();
  await database.query(
    `SET search_path TO ${schema}; SELECT renew_node_1('${generation}', 'http://old', '', 'old1', 10000)`,
  );
  const { nodes } = await store.renew();
  const said = Object.fromEntries(nodes.map(({ url, reads }) => [url, reads]));
  expect(said["http://old"]).toBe(2);
  expect(Object.values(said)).toContain(EVENT_VERSION);
});

test("a database that lacks acknowledged writes is refused, by doctor too, with the exit code of a running node", async () => {
  const schema = database.newSchema();
  await makeStore({ schema }).open();
  await database.query(`UPDATE ${schema}.meta SET generation = 'lost-1', lost = 'http://a misses 2 commits'`);
  const refused = [makeStore({ schema }).open(), readDatabase({ url: server.url, schema })];
  for (const result of await Promise.allSettled(refused)) {
    const { message, exit } = toCliError((result as PromiseRejectedResult).reason);
    expect(message).toMatch(/lacks writes that it had acknowledged: http:\/\/a misses 2 commits/);
    expect(exit).toBe(EXIT.broken);
  }
});

test("partitions are fixed at creation, whatever is asked for later", async () => {
  const schema = database.newSchema();
  const first = makeStore({ schema, partitions: 8 });
  expect((await first.open()).partitions).toBe(8);
  expect((await makeStore({ schema, partitions: 16 }).open()).partitions).toBe(8);
});

test("a step takes as long as it needs, but waits for running nodes only for a moment", async () => {
  const schema = database.newSchema();
  const client = await database.client();
  onTestFinished(() => client.end());
  await beginSession(client, schema);
  const settings = ["statement_timeout", "lock_timeout"].map((name) => `current_setting('${name}')`).join();
  const sql = `CREATE TABLE seen AS SELECT ARRAY[${settings}] AS settings`;
  await migrate(client, { schema, fill: async () => {}, migrations: [{ compatibleFrom: 1, sql }] });
  expect((await client.query("SELECT settings FROM seen")).rows).toEqual([{ settings: ["0", "5s"] }]);
  expect((await client.query("SHOW statement_timeout")).rows).toEqual([{ statement_timeout: "30s" }]);
});

test("a schema of a newer Rondo is refused, unless that one says that it goes together", async () => {
  const schema = database.newSchema();
  await makeStore({ schema }).open();
  await database.query(`INSERT INTO ${schema}.migrations VALUES ($1, $2)`, [99, MIGRATIONS.length]);
  await makeStore({ schema }).open();
  await database.query(`INSERT INTO ${schema}.migrations VALUES ($1, $2)`, [100, 100]);
  await expect(makeStore({ schema }).open()).rejects.toMatchObject({
    name: "DatabaseUnusable",
    reason: "newer",
    message: expect.stringContaining("newer Rondo"),
  });
});

test("a database that cannot be reached, or does not exist, says so; nothing is written", async () => {
  const nowhere = makeStore({ url: "postgres://rondo@127.0.0.1:1/postgres", timeoutMs: 2_000 });
  await expect(nowhere.open()).rejects.toMatchObject({ retryable: true, nothingWritten: true });
  const none = makeStore({ url: server.url.replace(/postgres$/, "none") });
  await expect(none.open()).rejects.toMatchObject({
    retryable: false,
    message: expect.stringContaining("create it first"),
  });
});

test("a server with fsync=off is refused", async () => {
  const store = makeStore({ schema: database.newSchema() });
  await server.stop("fast");
  await server.start({ fsync: "off" });
  await expect(store.open()).rejects.toMatchObject({
    name: "DatabaseUnusable",
    reason: "settings",
    message: expect.stringContaining("fsync=off"),
  });
  await server.stop("fast");
  await server.start();
});

test("a commit is on the disk when it is acknowledged, though the server's default is another", async () => {
  await server.stop("fast");
  await server.start({ synchronous_commit: "off" });
  const schema = database.newSchema();
  const store = makeStore({ schema });
  await commit(store, await openWhole(store), [start("a")]);
  await server.stop("kill");
  await server.start();
  expect(await database.query(`SELECT id FROM ${schema}.executions`)).toEqual([{ id: "a" }]);
});

test("a copy in another database is refused until it is declared restored, which voids what was before", async () => {
  const schema = database.newSchema();
  const store = makeStore({ schema });
  const info = await openWhole(store);
  await commit(store, info, [start("a")]);
  // Whoever is connected keeps a database from being copied.
  await store.close({ clean: false });
  await database.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> pg_backend_pid()",
  );
  await database.query("CREATE DATABASE copy TEMPLATE postgres");
  const url = server.url.replace(/postgres$/, "copy");
  await expect(makeStore({ url, schema }).open()).rejects.toMatchObject({
    reason: "restored",
    retryable: false,
    message: expect.stringContaining("rondo migrate --restored"),
  });
  await declareDatabaseRestored({ url, schema });
  const copy = makeStore({ url, schema });
  const restored = await openWhole(copy);
  expect(restored.generation).not.toBe(info.generation);
  expect(restored.key).not.toBe(info.key);
  expect(restored.owned).toMatchObject([{ partition: 0, epoch: 2, uncleanEpoch: 1 }]);
  expect((await copy.load(["a"]))[0]).toMatchObject({ entries: [{ seq: 1 }] });
  await commit(copy, restored, [step("a", 1)]);
  expect(await copy.commit({ fence: fenceOf(info), writes: [step("a", 2)] })).toMatchObject({
    kind: "fenced",
  });
});

test("a store that was put back from a dump into its own database is refused until it is declared restored", async () => {
  const schema = database.newSchema();
  const store = makeStore({ schema });
  await store.open();
  await store.close({ clean: true });
  // What a dump makes of a table: another one with the same rows.
  await database.query(
    `SET search_path TO ${schema}; ALTER TABLE meta RENAME TO dumped; CREATE TABLE meta AS TABLE dumped; DROP TABLE dumped`,
  );
  await expect(makeStore({ schema }).open()).rejects.toMatchObject({ reason: "restored", retryable: false });
  await declareDatabaseRestored({ url: server.url, schema });
  await makeStore({ schema }).open();
  // A store of a version that did not note its table.
  await database.query(`UPDATE ${schema}.meta SET origin = regexp_replace(origin, '/[0-9]+$', '')`);
  await makeStore({ schema }).open();
});

test("a node whose database is declared restored stops loudly, whatever it does next", async () => {
  const schema = database.newSchema();
  const store = makeStore({ schema });
  const info = await openWhole(store);
  await commit(store, info, [start("a")]);
  await store.putDocument("k", "there", "1");
  await store.putDefinition("w", "there", "{}");
  await declareDatabaseRestored({ url: server.url, schema });
  const restored = { name: "DatabaseUnusable", reason: "restored", retryable: false };
  await expect(commit(store, info, [step("a", 1)])).rejects.toMatchObject(restored);
  await expect(store.renew()).rejects.toMatchObject(restored);
  await expect(store.take([0])).rejects.toMatchObject(restored);
  await expect(store.post([{ id: "l", to: "a", body: "{}" }])).rejects.toMatchObject(restored);
  await expect(store.putDocument("k", "there", "2")).rejects.toMatchObject(restored);
  await expect(store.putDocument("k", "there", null)).rejects.toMatchObject(restored);
  await expect(store.swapDocument("k", "new", { was: null, body: "1" })).rejects.toMatchObject(restored);
  await expect(store.swapDocument("k", "there", { was: "1", body: "2" })).rejects.toMatchObject(restored);
  await expect(store.putDefinition("w", "h", "{}")).rejects.toMatchObject(restored);
  await expect(store.dropDefinition("w", "there")).rejects.toMatchObject(restored);
  await expect(store.purge(["a"])).rejects.toMatchObject(restored);
});

/** Puts the database's files back to how they were before `meanwhile`. */
async function putBack(meanwhile: () => Promise<void>): Promise<void> {
  const copy = join(server.place, "copy");
  await server.stop("fast");
  cpSync(server.data, copy, { recursive: true, preserveTimestamps: true });
  server.give(copy);
  await server.start();
  await meanwhile();
  await server.stop("fast");
  rmSync(server.data, { recursive: true });
  renameSync(copy, server.data);
  await server.start();
}

test("a database that was put back under a running node is noticed before anything is written", async () => {
  const schema = database.newSchema();
  const store = makeStore({ schema });
  const info: StoreInfo = await openWhole(store);
  await commit(store, info, [start("a")]);
  await putBack(async () => {
    await commit(
      store,
      info,
      Array.from({ length: 50 }, (_, i) => step("a", i + 1)),
    );
    await store.renew();
  });
  await expect(commit(store, info, [step("a", 51)])).rejects.toMatchObject({
    name: "DatabaseUnusable",
    reason: "older",
    message: expect.stringContaining("rondo migrate --restored"),
  });
  expect(await database.query(`SELECT seq FROM ${schema}.journal`)).toEqual([{ seq: 1 }]);
});
