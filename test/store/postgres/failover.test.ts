// The database fails over: the primary is killed under load and its standby promoted.
import { expect, onTestFinished, test } from "vitest";
import { defined } from "../../../src/std/defined.ts";
import { partitionOf } from "../../../src/store/partition-of.ts";
import { PostgresStore } from "../../../src/store/postgres/postgres-store.ts";
import { declareDatabaseRestored } from "../../../src/store/postgres/schema-place.ts";
import { type ExecutionWrite, StoreFault, type StoreInfo } from "../../../src/store/store.ts";
import { effort } from "../../fixtures/long.ts";
import { Committer } from "../../fixtures/store/committer-fixture.ts";
import { commit, headOf, start, step } from "../../fixtures/store/example-writes.ts";
import { openWhole } from "../../fixtures/store/open-whole-fixture.ts";
import { expectWholePairs } from "../../fixtures/store/pairs-fixture.ts";
import { PostgresPair } from "../../fixtures/store/postgres-pair-fixture.ts";
import { PostgresServer, TestDatabase } from "../../fixtures/store/postgres-server-fixture.ts";
import { until } from "../../fixtures/until.ts";

const ROUNDS = effort({ usual: 2, long: 20 });

async function makePair(options: { readonly isSynchronous: boolean }): Promise<PostgresPair> {
  const pair = await PostgresPair.make(options);
  onTestFinished(() => pair.remove());
  return pair;
}

test(
  "with a synchronous standby nothing acknowledged is lost, and work goes on by itself after each promotion",
  async () => {
    const pair = await makePair({ isSynchronous: true });
    const committer = await Committer.begin({ url: pair.nodesUrl, schema: "rondo" });
    for (let round = 1; round <= ROUNDS; round++) {
      const faults = committer.faults.length;
      await committer.reach(committer.acknowledged + 50);
      await pair.killPrimary();
      await committer.hasFailed(faults);
      await pair.promote();
      await committer.reach(committer.acknowledged + 20);
      await pair.joinStandby();
    }
    const store = await committer.stop();
    expect(await expectWholePairs(store, committer.acknowledged)).toBe(committer.acknowledged);
    expect(committer.faults.map(({ message }) => message)).toContainEqual(
      expect.stringContaining("the database is failing over: no host accepts writes yet"),
    );
  },
  60_000 + ROUNDS * 30_000,
);

function makeStore(pair: PostgresPair, nodeUrl: string, onLine?: (line: string) => void): PostgresStore {
  const store = new PostgresStore({
    url: pair.nodesUrl,
    nodeUrl,
    partitions: PARTITIONS,
    ...defined({ onLine }),
  });
  onTestFinished(() => store.close({ clean: false }).catch(() => undefined));
  return store;
}

const PARTITIONS = 4;

/** A write that starts an execution. */
function begin(id: string): ExecutionWrite {
  return start(id, { head: headOf(id, { partition: partitionOf(id, PARTITIONS) }) });
}

test("with an asynchronous standby that has everything, work goes on too, at the other host", async () => {
  const pair = await makePair({ isSynchronous: false });
  const lines: string[] = [];
  const store = makeStore(pair, "http://a", (line) => lines.push(line));
  const info = await openWhole(store);
  await commit(store, info, [begin("a")]);
  const former = pair.primary;
  await pair.caughtUp();
  await pair.killPrimary();
  await pair.promote();
  await until("the store commits again", () => commits(store, info, "b"));
  expect((await store.load(["a", "b"])).map((found) => found?.head.id)).toEqual(["a", "b"]);
  expect(lines.filter((line) => !line.startsWith("the database is failing over"))).toEqual([
    `the database has moved from 127.0.0.1:${former.port} to 127.0.0.1:${pair.primary.port} (timeline 2)`,
  ]);

  // The former primary comes back as if nothing had happened: no node uses it.
  await former.start();
  await pair.query(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'rondo%'",
  );
  await until("the store commits again", () => commits(store, info, "c"));
  await pair.killPrimary();
  const whyUnused = `127.0.0.1:${former.port} is a former primary (timeline 1, the database is at 2): make it a standby`;
  await until("the store says why it cannot commit", async () => {
    const fault: unknown = await commit(store, info, [begin("d")]).catch((thrown: unknown) => thrown);
    return fault instanceof StoreFault && fault.retryable && fault.message.includes(whyUnused);
  });
  expect(await pair.query("SELECT id FROM rondo.executions", [], former)).toEqual([{ id: "a" }]);
}, 60_000);

test("nodes that remember commits which an asynchronous standby lacks stop all nodes, until a new generation begins", async () => {
  const pair = await makePair({ isSynchronous: false });
  const [first, second] = [makeStore(pair, "http://a"), makeStore(pair, "http://b")];
  const info = await openWhole(first);
  await second.open();
  await second.renew();
  await commit(first, info, [begin("a")]);
  await pair.caughtUp();
  await pair.cutStandby();
  const lost = ["a", "a", "b"];
  await commit(first, info, [step("a", 1)]);
  await commit(first, info, [step("a", 2)]);
  await commit(first, info, [begin("b")]);
  await first.putDocument("k", "1", "{}");
  await pair.killPrimary();
  await pair.promote();
  // More write-ahead log than before: its position alone would say nothing.
  await pair.query("CREATE TABLE filler AS SELECT generate_series(1, 100000)");

  const partitions = lost.map((id) => partitionOf(id, PARTITIONS));
  const unusable = await refusal(() => commit(first, info, [step("a", 3)]));
  expect(unusable).toMatchObject({ name: "DatabaseUnusable", reason: "older", retryable: false });
  expect(unusable.message).toContain("http://a misses 3 commits (");
  for (const partition of partitions) {
    const count = partitions.filter((other) => other === partition).length;
    expect(unusable.message).toContain(`${count} of partition ${partition}`);
  }
  expect(unusable.message).toContain(", 1 document.");
  expect(unusable.message).toContain("rondo migrate --restored");
  // The other node has lost nothing. It stops as well, since it would go on with executions of the first one.
  expect(await refusal(() => second.renew())).toMatchObject({ reason: "older", retryable: false });
  expect(await refusal(() => makeStore(pair, "http://c").open())).toMatchObject({
    reason: "older",
    retryable: false,
    message: expect.stringContaining("http://a misses 3 commits ("),
  });
  expect(await pair.query("SELECT seq FROM rondo.journal")).toEqual([{ seq: 1 }]);

  await declareDatabaseRestored({ url: pair.nodesUrl, schema: "rondo" });
  const next = makeStore(pair, "http://c");
  const restored = await openWhole(next);
  expect(restored.generation).not.toBe(info.generation);
  await commit(next, restored, [step("a", 1)]);
}, 60_000);

test("a commit at a primary that froze is given up as soon as another connection finds the new primary", async () => {
  const pair = await makePair({ isSynchronous: false });
  // Nothing but the promotion ends a statement before an hour is over; a renewal is given up after a second.
  const options = {
    url: pair.nodesUrl,
    nodeUrl: "http://a",
    partitions: PARTITIONS,
    leaseMs: 3_000,
    timeoutMs: 3_600_000,
  };
  const store = new PostgresStore(options);
  onTestFinished(() => store.close({ clean: false }).catch(() => undefined));
  const info = await openWhole(store);
  await commit(store, info, [begin("a")]);
  await pair.caughtUp();
  pair.freezePrimary();
  const outcome = commit(store, info, [begin("b")]).catch((thrown: unknown) => thrown);
  await pair.promote();
  await until("the lease is renewed", async () => {
    const renewed = await store.renew().catch((thrown: unknown) => thrown);
    if (renewed instanceof Error && !(renewed instanceof StoreFault && renewed.retryable)) throw renewed;
    return !(renewed instanceof Error);
  });
  expect(await outcome).toMatchObject({ retryable: true, nothingWritten: false });
}, 60_000);

test("a commit that was cancelled while it waited for the synchronous standby is not acknowledged", async () => {
  const pair = await makePair({ isSynchronous: true });
  const store = makeStore(pair, "http://a");
  const info = await openWhole(store);
  await commit(store, info, [begin("a")]);
  await pair.standby.stop("kill");
  const outcome = commit(store, info, [begin("b")]).catch((thrown: unknown) => thrown);
  await until("the commit waits for the standby", async () => {
    const cancelled = await pair.query(
      "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND application_name LIKE 'rondo commits%'",
    );
    return cancelled.length > 0;
  });
  expect(await outcome).toMatchObject({
    name: "StoreFault",
    retryable: true,
    nothingWritten: false,
    message: expect.stringContaining("the wait for the synchronous standby was cancelled"),
  });
}, 60_000);

test("two primaries that do not replicate each other are refused, and neither is written to", async () => {
  const servers = [await PostgresServer.make(), await PostgresServer.make()];
  onTestFinished(async () => {
    for (const server of servers) await server.remove();
  });
  const hosts = servers.map(({ port }) => `127.0.0.1:${port}`);
  const store = new PostgresStore({
    url: `postgres://rondo@${hosts.join()}/postgres?target_session_attrs=read-write`,
    nodeUrl: "http://a",
    partitions: PARTITIONS,
  });
  onTestFinished(() => store.close({ clean: false }).catch(() => undefined));
  const { message } = await refusal(() => openWhole(store));
  expect(message).toContain("the hosts of the URL are different databases, not a primary and its standbys");
  for (const host of hosts) expect(message).toContain(host);
  for (const server of servers) {
    const tables = await TestDatabase.of(server).query("SELECT FROM pg_tables WHERE schemaname = 'rondo'");
    expect(tables).toEqual([]);
  }
}, 60_000);

/** True: the commit was acknowledged; false: the database cannot be reached now. */
async function commits(store: PostgresStore, info: StoreInfo, id: string): Promise<boolean> {
  try {
    await commit(store, info, [begin(id)]);
    return true;
  } catch (thrown) {
    if (thrown instanceof StoreFault && thrown.retryable) return false;
    throw thrown;
  }
}

/** The first fault that no retry helps. */
async function refusal(call: () => Promise<unknown>): Promise<Error> {
  let found: StoreFault | null = null;
  await until("the store refuses", async () => {
    try {
      await call();
    } catch (thrown) {
      if (!(thrown instanceof StoreFault)) throw thrown;
      if (!thrown.retryable) found = thrown;
    }
    return found !== null;
  });
  return found ?? new Error("the store refused nothing");
}
