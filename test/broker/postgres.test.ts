// The broker beside a cluster on PostgreSQL: each node hears of the executions that it has, words for others are passed
// on, and whoever takes an execution over goes on with its queues.
import type { Rondo } from "rondo";
import { afterEach, beforeEach, expect, test } from "vitest";
import { AmqpFixture, described } from "../fixtures/broker/amqp-fixture.ts";
import { TestDatabase } from "../fixtures/store/postgres-server-fixture.ts";
import { until } from "../fixtures/until.ts";

let fixture: AmqpFixture;
let database: TestDatabase;
// The nodes of the next test would send what one leaves open.
beforeEach(async () => {
  database = await TestDatabase.make();
  fixture = await AmqpFixture.make({ store: await database.newDatabase() });
}, 180_000);
afterEach(async () => {
  await fixture.close();
  await database.remove();
});

test("two nodes and one broker: every execution is done once, whichever node hears of it", async () => {
  const nodes: Rondo[] = [await fixture.open(), await fixture.open()];
  await fixture.worker({
    work: { enumerate: () => Array.from({ length: 20 }, (_, i) => i), process: ({ data }) => data },
  });
  const flow = described("flow", [
    { name: "work", handlers: { work: { use: "work", enumerate: { use: "work" } } } },
  ]);
  const handles = await Promise.all(
    Array.from({ length: 12 }, (_, i) => (nodes[i % 2] as Rondo).start(flow, null as never, { id: `e${i}` })),
  );
  for (const handle of handles) {
    await handle.result({ timeout: 100_000 });
    expect((await handle.describe()).phases[0]?.handlers[0]).toMatchObject({ total: 20, done: 20 });
  }
  await fixture.isTidy();
}, 90_000);

test("A6 a node that goes leaves its queues to another, which goes on with them", async () => {
  const first = await fixture.open();
  const tasks = Array.from({ length: 50 }, (_, i) => i);
  const flow = described("flow", [{ name: "work", handlers: { work: { use: "work", tasks } } }]);
  const handles = await Promise.all(
    Array.from({ length: 6 }, (_, i) => first.start(flow, null as never, { id: `f${i}` })),
  );
  await until("all are queued", async () => (await fixture.ready(".tasks")) === 300);
  const second = await fixture.open();
  await first.close();
  const worker = await fixture.worker({ work: { process: ({ data }) => data } }, 50);
  for (const { id } of handles) {
    await second.execution(id).result({ timeout: 100_000 });
    const { phases } = await second.execution(id).describe();
    expect(phases[0]?.handlers[0]).toMatchObject({ total: 50, done: 50 });
  }
  expect(worker.seen.length).toBeGreaterThanOrEqual(300);
  await fixture.isTidy();
}, 120_000);

test("two nodes that use a name for the first time in opposite roles: one of them is refused", async () => {
  const nodes: Rondo[] = [await fixture.open(), await fixture.open()];
  const flow = (name: string, topic: string, receiptTopic: string) =>
    described(name, [
      { name: "one", handlers: { one: { command: { cmd_type: "ONE", cmd_data: {} }, topic, receiptTopic } } },
    ]);
  const ends = await Promise.allSettled([
    nodes[0]?.start(flow("commands", "SHARED", "A_RECEIPT"), null as never),
    nodes[1]?.start(flow("receipts", "B_CMD", "SHARED"), null as never),
  ]);
  const refused = ends.flatMap((end) => (end.status === "rejected" ? [String(end.reason)] : []));
  expect(refused).toHaveLength(1);
  expect(refused[0]).toMatch(/"SHARED" is a (command|receipt) topic since its first use/);
}, 90_000);

test("a node that takes over consumes a receipt topic for commands that are only in the store, until they have ended", async () => {
  const settings = { heartbeatMs: 1_000, sentMax: 0, idleMax: 0 };
  const first = await fixture.open({ settings });
  const flow = described("flow", [
    { name: "one", handlers: { one: { command: { cmd_type: "ONE", cmd_data: {} }, topic: "A_CMD" } } },
  ]);
  const ids = ["c0", "c1", "c2"];
  for (const id of ids) await first.start(flow, null as never, { id });
  await until("all are at the broker", async () => (await fixture.ready("A_CMD")) === ids.length);
  const second = await fixture.open({ settings });
  await first.close();
  const connection = await fixture.broker.connect();
  const channel = await connection.createChannel();
  const consumers = async () => (await channel.checkQueue("A_RECEIPT")).consumerCount;
  await until("it is consumed", async () => (await consumers()) === 1);
  for (const { body } of await fixture.messagesIn("A_CMD"))
    channel.sendToQueue("A_RECEIPT", Buffer.from(JSON.stringify({ ...(body as object), cmd_result: 1 })));
  for (const id of ids) await second.execution(id).result({ timeout: 100_000 });
  await until("it is not consumed any more", async () => (await consumers()) === 0);
  expect(await fixture.ready("rondo.dead")).toBe(0);
  await connection.close();
}, 120_000);
