// The world fails: processes are killed, servers restarted, connections cut, takeovers raced. What was acknowledged is
// there, what was not is whole or not there at all, and a former owner writes nothing.
import assert from "node:assert/strict";
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { SeededRandom } from "../../../src/std/random.ts";
import { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { fenceOf } from "../../../src/store/store.ts";
import { StoreChild } from "../../fixtures/store/child-process-fixture.ts";
import { Committer } from "../../fixtures/store/committer-fixture.ts";
import { start } from "../../fixtures/store/example-writes.ts";
import { openWhole } from "../../fixtures/store/open-whole-fixture.ts";
import { expectWholePairs } from "../../fixtures/store/pairs-fixture.ts";
import { PostgresServer, TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";
import { describeKill } from "../suites/kill.ts";

let server: PostgresServer;
let database: TestDatabase;
beforeAll(async () => {
  server = await PostgresServer.make();
  database = TestDatabase.of(server);
}, 120_000);
afterAll(() => server.remove());
afterEach(() => assert.ok(server.isRunning, "each test leaves the server running"));

describeKill("postgres", () => {
  const schema = database.newSchema();
  return {
    run: () => StoreChild.run("postgres", server.url, schema),
    // Its lease has to lapse, by the database's clock.
    open: async () => {
      const store = new PostgresStore({ url: server.url, nodeUrl: "http://next", schema });
      const info = await store.open();
      await vi.waitUntil(async () => (await store.renew()).nodes.length === 1, { timeout: 60_000 });
      return { store, info: { ...info, owned: await store.take([0]) } };
    },
  };
});

const beginCommitter = () => Committer.begin({ url: server.url, schema: database.newSchema() });

test.each(["fast", "immediate", "kill"] as const)(
  "a server that is stopped (%s) and started again has lost nothing acknowledged; work goes on by itself",
  async (mode) => {
    const committer = await beginCommitter();
    for (let round = 1; round <= 3; round++) {
      const before = committer.acknowledged;
      const faults = committer.faults.length;
      await committer.reach(before + 20);
      await server.stop(mode);
      await committer.hasFailed(faults);
      await server.start();
      await committer.reach(committer.acknowledged + 20);
    }
    const store = await committer.stop();
    expect(await expectWholePairs(store, committer.acknowledged)).toBe(committer.acknowledged);
    expect(committer.faults.some(({ nothingWritten }) => nothingWritten)).toBe(true);
  },
  120_000,
);

test("connections that are cut at any moment lose nothing acknowledged, and double nothing", async () => {
  const committer = await beginCommitter();
  const random = new SeededRandom("cut");
  for (let cuts = 0; cuts < 40; cuts++) {
    await committer.reach(committer.acknowledged + random.between(1, 6));
    await database.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'rondo commits%'",
    );
  }
  const store = await committer.stop();
  expect(await expectWholePairs(store, committer.acknowledged)).toBe(committer.acknowledged);
  expect(committer.faults.some(({ nothingWritten }) => !nothingWritten)).toBe(true);
});

test("a commit without an answer is given up as unknown, and is over for good before anything is read again", async () => {
  const schema = database.newSchema();
  const store = new PostgresStore({
    url: server.url,
    nodeUrl: "http://n",
    schema,
    partitions: 1,
    timeoutMs: 2_000,
  });
  const fence = fenceOf(await openWhole(store));
  await store.commit({ fence, writes: [start("a")] });
  const other = await database.client();
  // The server is held up in the middle of the call, so that it is still at it when we have given up.
  await other.query(`BEGIN; LOCK TABLE ${schema}.journal IN ACCESS EXCLUSIVE MODE`);
  await expect(store.commit({ fence, writes: [start("b")] })).rejects.toMatchObject({
    retryable: true,
    nothingWritten: false,
  });
  const atIt = () =>
    database.query(
      "SELECT FROM pg_stat_activity WHERE application_name LIKE 'rondo commits%' AND wait_event_type = 'Lock'",
    );
  expect(await atIt()).toHaveLength(1);
  const reading = store.load(["b"]);
  await vi.waitUntil(async () => (await atIt()).length === 0, { timeout: 60_000 });
  await other.query("COMMIT");
  await other.end();
  expect(await reading).toEqual([null]);
  expect(await store.commit({ fence, writes: [start("b")] })).toEqual({ kind: "ok", exists: [], fenced: [] });
  await store.close({ clean: true });
});

test("a commit that the URL's query_timeout gives up is over for good before anything is read again", async () => {
  const schema = database.newSchema();
  const url = new URL(server.url);
  url.searchParams.set("query_timeout", "2000");
  const store = new PostgresStore({ url: url.href, nodeUrl: "http://n", schema, partitions: 1 });
  const fence = fenceOf(await openWhole(store));
  await store.commit({ fence, writes: [start("a")] });
  const other = await database.client();
  await other.query(`BEGIN; LOCK TABLE ${schema}.journal IN ACCESS EXCLUSIVE MODE`);
  await expect(store.commit({ fence, writes: [start("b")] })).rejects.toMatchObject({
    retryable: true,
    nothingWritten: false,
  });
  const reading = store.load(["b"]);
  await vi.waitUntil(
    async () => {
      const atIt = await database.query(
        "SELECT FROM pg_stat_activity WHERE application_name LIKE 'rondo commits%' AND wait_event_type = 'Lock'",
      );
      return atIt.length === 0;
    },
    { timeout: 10_000 },
  );
  await other.query("COMMIT");
  await other.end();
  expect(await reading).toEqual([null]);
  expect(await store.commit({ fence, writes: [start("b")] })).toEqual({ kind: "ok", exists: [], fenced: [] });
  await store.close({ clean: true });
});

test("a renewal without an answer is given up long before the lease ends, and the next one goes through", async () => {
  const schema = database.newSchema();
  const store = new PostgresStore({ url: server.url, nodeUrl: "http://n", schema, leaseMs: 8_000 });
  await openWhole(store);
  const other = await database.client();
  await other.query(`BEGIN; LOCK TABLE ${schema}.nodes IN ACCESS EXCLUSIVE MODE`);
  await expect(store.renew()).rejects.toMatchObject({ retryable: true });
  await other.query("COMMIT");
  await other.end();
  expect((await store.renew()).nodes).toHaveLength(1);
  await store.close({ clean: true });
});

test("while the database hangs, statements do not wait for each other without end, and none passes another", async () => {
  const schema = database.newSchema();
  const store = new PostgresStore({ url: server.url, nodeUrl: "http://n", schema, timeoutMs: 1_000 });
  await openWhole(store);
  await store.putDocument("k", "a", "1");
  const other = await database.client();
  await other.query(`BEGIN; LOCK TABLE ${schema}.documents IN ACCESS EXCLUSIVE MODE`);
  const asked = Array.from({ length: 6 }, () => store.getDocument("k", "a"));
  const answers = (await Promise.allSettled(asked)).map((answer) =>
    answer.status === "rejected" ? String(answer.reason) : "",
  );
  expect(answers.filter((words) => words.includes("no answer in time"))).toHaveLength(2);
  expect(answers.filter((words) => words.includes("timed out while it waited"))).toHaveLength(4);
  await other.query("COMMIT");
  await other.end();
  expect(await store.getDocument("k", "a")).toBe("1");
  await store.close({ clean: true });
});

test("closing while the database is away says so, and leaves nothing running", async () => {
  const store = new PostgresStore({
    url: server.url,
    nodeUrl: "http://n",
    schema: database.newSchema(),
    timeoutMs: 2_000,
  });
  await openWhole(store);
  await server.stop("fast");
  await expect(store.close({ clean: true })).rejects.toThrow("cannot be reached");
  await expect(store.load(["a"])).rejects.toThrow("not open");
  await server.start();
});
