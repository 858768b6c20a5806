// Single task messages that are lost at a broker with workers that consume: roll calls find them, without a silence.
import { afterEach, beforeEach, expect, test } from "vitest";
import { AmqpFixture, described } from "../fixtures/broker/amqp-fixture.ts";
import { testWorker } from "../fixtures/broker/amqp-worker-fixture.ts";
import { until } from "../fixtures/until.ts";

let fixture: AmqpFixture;
beforeEach(async () => {
  fixture = await AmqpFixture.make();
}, 180_000);
afterEach(() => fixture.close());

const TASKS = Array.from({ length: 50 }, (_, i) => i);
const flow = described("flow", [{ name: "work", handlers: { work: { use: "work", tasks: TASKS } } }]);
const GONE = /^(\d+) tasks of .* are lost at the broker/;
/** How many tasks were found to be gone. */
const gone = () => fixture.faults.reduce((sum, { message }) => sum + Number(GONE.exec(message)?.[1] ?? 0), 0);

/** One of Rondo's own workers over AMQP; each task takes until `open`. */
async function worker(capacity: number) {
  const seen: number[] = [];
  let open = (): void => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const process = async ({ task }: { task: unknown }): Promise<null> => {
    seen.push(Number(task));
    await gate;
    return null;
  };
  const code = [{ name: "flow", handlers: [{ use: "work", process }] }];
  const one = testWorker(fixture.broker.url, code, { capacity });
  await one.start();
  return { seen, open, stop: () => one.stop(0) };
}

test("five of fifty that somebody takes and acknowledges are found while a worker consumes", async () => {
  const rondo = await fixture.open();
  const handle = await rondo.start(flow, null as never);
  await until("all are queued", async () => (await fixture.ready(".tasks")) === TASKS.length);
  const connection = await fixture.broker.connect();
  const channel = await connection.createChannel();
  for (let i = 0; i < 5; i++)
    await channel.get(`rondo.workflow.${handle.id}.work.work.tasks`, { noAck: true });
  await connection.close();
  const { seen, open, stop } = await worker(10);
  open();
  await handle.result({ timeout: 100_000 });
  expect([...seen].sort((a, b) => a - b)).toEqual(TASKS);
  expect(gone()).toBe(5);
  await stop();
  await fixture.isTidy();
}, 60_000);

test("a queue that is purged under a worker is filled again, and what the worker has is left to it", async () => {
  const rondo = await fixture.open();
  const handle = await rondo.start(flow, null as never);
  await until("all are queued", async () => (await fixture.ready(".tasks")) === TASKS.length);
  const { seen, open, stop } = await worker(10);
  await until("it has some", () => seen.length === 10);
  const connection = await fixture.broker.connect();
  const channel = await connection.createChannel();
  await channel.purgeQueue(`rondo.workflow.${handle.id}.work.work.tasks`);
  await connection.close();
  await until("the others are queued again", async () => (await fixture.ready(".tasks")) === 40);
  open();
  await handle.result({ timeout: 100_000 });
  expect([...seen].sort((a, b) => a - b)).toEqual(TASKS);
  expect(gone()).toBe(40);
  await stop();
  await fixture.isTidy();
}, 60_000);
