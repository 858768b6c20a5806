// A real PgBouncer between a node and the database.
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { readDatabase } from "../../../src/store/postgres/schema-place.ts";
import { needCommand } from "../../fixtures/need-command.ts";
import { commit, start, step } from "../../fixtures/store/example-writes.ts";
import { openWhole } from "../../fixtures/store/open-whole-fixture.ts";
import { PgBouncer } from "../../fixtures/store/pgbouncer-fixture.ts";
import { TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";
import { until } from "../../fixtures/until.ts";

const isThere = needCommand("pgbouncer", "pgbouncer");

let database: TestDatabase;
beforeAll(async () => {
  database = await TestDatabase.make();
}, 120_000);
afterAll(() => database.remove());

async function startPgBouncer(mode: "session" | "transaction" | "statement"): Promise<PgBouncer> {
  const bouncer = await PgBouncer.start(database.url, mode);
  onTestFinished(() => bouncer.remove());
  return bouncer;
}

function makeStore(url: string, schema: string, nodeUrl = "http://node"): PostgresStore {
  const store = new PostgresStore({ url, nodeUrl, schema, partitions: 1 });
  onTestFinished(() => store.close({ clean: false }).catch(() => undefined));
  return store;
}

test.runIf(isThere)("a pooler in transaction mode is refused at the start, with what to change", async () => {
  const { url } = await startPgBouncer("transaction");
  const schema = database.newSchema();
  const refused = {
    name: "DatabaseUnusable",
    reason: "settings",
    retryable: false,
    message: expect.stringMatching(/behind a pooler in transaction mode .* set pool_mode=session/),
  };
  await expect(makeStore(url, schema).open()).rejects.toMatchObject(refused);
  await expect(readDatabase({ url, schema })).rejects.toMatchObject(refused);
  // Also while other clients use the pool.
  const busy = Array.from({ length: 5 }, () => makeStore(url, schema).open());
  for (const opened of await Promise.allSettled(busy)) expect(opened).toMatchObject({ reason: refused });
  expect(await database.query(`SELECT FROM pg_namespace WHERE nspname = '${schema}'`)).toEqual([]);
});

test.runIf(isThere)(
  "through a pooler in session mode a node works, with hints, and after its connections were cut",
  async () => {
    const { url } = await startPgBouncer("session");
    const schema = database.newSchema();
    const store = makeStore(url, schema);
    const info = await openWhole(store);
    await commit(store, info, [start("a")]);
    const other = makeStore(database.url, schema, "http://other");
    await other.open();
    const hints: string[] = [];
    store.onHint(({ kind }) => hints.push(kind));
    await other.renew();
    await until("a hint came through the pooler", () => hints.length > 0);
    expect(hints).toEqual(["members"]);
    await database.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'rondo commits%'",
    );
    await until("the store commits again", async () => {
      const verdict = await commit(store, info, [step("a", 1)]).catch((thrown: unknown) => thrown);
      return Array.isArray(verdict);
    });
    expect(await database.query(`SELECT seq FROM ${schema}.journal ORDER BY seq`)).toEqual([
      { seq: 1 },
      { seq: 2 },
    ]);
  },
);
