// The short `finished` and `enumerated` messages of the first two source documents: with the setting they count, without it
// they are dead letters; and they promise no more than docs/protocol.md says.
import type { Channel } from "amqplib";
import { afterEach, beforeEach, expect, test } from "vitest";
import { AmqpFixture, described } from "../fixtures/broker/amqp-fixture.ts";
import { until } from "../fixtures/until.ts";

type Body = Record<string, unknown>;

let fixture: AmqpFixture;
const ends: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  fixture = await AmqpFixture.make({ prefix: "distribot" });
}, 180_000);
afterEach(async () => {
  await Promise.all(ends.splice(0).map((end) => end()));
  await fixture.close();
});

const SHORT = { brokerSettings: { shortMessages: true } };
const FLOW = described("flow", [
  { name: "work", handlers: { resize: { use: "resize", enumerate: { use: "resize" } } } },
]);

interface WorkerOptions {
  readonly withQueues?: boolean;
  /** The message of a task in the intake; by default one with its position. */
  readonly toMessage?: (data: unknown, place: Body) => unknown;
}

/** A worker that answers with the fields of the first document only. */
class SeedWorker {
  readonly done: unknown[] = [];
  readonly channel: Channel;
  /** How often each `finished` is sent. */
  times = 1;

  private constructor(channel: Channel) {
    this.channel = channel;
  }

  static async open(
    tasks: readonly unknown[],
    { withQueues = true, toMessage }: WorkerOptions = {},
  ): Promise<SeedWorker> {
    const connection = await fixture.broker.connect();
    ends.push(() => connection.close());
    const channel = await connection.createChannel();
    const worker = new SeedWorker(channel);
    const base = "distribot.workflow.handler.resize";
    await channel.assertQueue(`${base}.enumerate`, { durable: true });
    await channel.assertExchange(`${base}.process`, "fanout", { durable: true });
    const { queue } = await channel.assertQueue("", { exclusive: true });
    await channel.bindQueue(queue, `${base}.process`, "");
    await worker.#on(`${base}.enumerate`, ({ workflow_id, phase, handler, task_queue, finished_queue }) => {
      tasks.forEach((data, position) =>
        worker.send(
          String(task_queue),
          toMessage === undefined
            ? { workflow_id, phase, handler, position, data }
            : toMessage(data, { workflow_id, phase, handler }),
        ),
      );
      const queues = withQueues ? { task_queue, finished_queue } : {};
      worker.send("distribot.workflow.handler.enumerated", { workflow_id, phase, handler, ...queues });
    });
    const consumed = new Set<unknown>();
    await worker.#on(queue, async ({ workflow_id, phase, handler, task_queue, finished_queue }) => {
      if (consumed.has(task_queue)) return;
      consumed.add(task_queue);
      await worker.#on(String(task_queue), ({ data }) => {
        worker.done.push(data);
        for (let n = 0; n < worker.times; n++)
          worker.send(String(finished_queue), { workflow_id, phase, handler });
      });
    });
    return worker;
  }

  send(queue: string, body: unknown): void {
    this.channel.sendToQueue(queue, Buffer.from(JSON.stringify(body)), { persistent: true });
  }

  async #on(queue: string, act: (body: Body) => unknown): Promise<void> {
    await this.channel.consume(queue, (message) => {
      if (message === null) return;
      const acted = Promise.resolve(act(JSON.parse(message.content.toString()) as Body));
      void acted.then(
        () => this.channel.ack(message),
        (thrown: unknown) => {
          // The test ended while a queue was about to be consumed.
          if (!String(thrown).includes("Channel ended")) throw thrown;
        },
      );
    });
  }
}

test.each([true, false])(
  "SHORT messages end an enumeration and its tasks; with queues: %s",
  async (withQueues) => {
    const rondo = await fixture.open(SHORT);
    const worker = await SeedWorker.open([1, 2, 3, 4, 5], { withQueues });
    const handle = await rondo.start(FLOW, null as never);
    await handle.result({ timeout: 100_000 });
    expect(new Set(worker.done)).toEqual(new Set([1, 2, 3, 4, 5]));
    expect((await handle.describe()).phases[0]?.handlers[0]).toMatchObject({
      total: 5,
      done: 5,
      sealed: true,
    });
    await fixture.isTidy();
    expect(await fixture.messagesIn("distribot.dead")).toEqual([]);
  },
);

test("SHORT: bare tasks are numbered in the order of their arrival", async () => {
  const rondo = await fixture.open(SHORT);
  const tasks = [{ key: "0.jpg" }, "1.jpg", 2, { kind: "rejection" }];
  const worker = await SeedWorker.open(tasks, { toMessage: (data) => data });
  const handle = await rondo.start(FLOW, null as never);
  await handle.result({ timeout: 100_000 });
  expect(worker.done).toEqual(tasks);
  expect((await handle.describe()).phases[0]?.handlers[0]).toMatchObject({ total: 4, done: 4, sealed: true });
  expect(await fixture.messagesIn("distribot.dead")).toEqual([]);
});

test("tasks that were refused fail the enumeration: it does not end without them", async () => {
  const rondo = await fixture.open(SHORT);
  await SeedWorker.open([1, 2], { toMessage: (data, place) => ({ ...place, data }) });
  const once = described("flow", [
    {
      name: "work",
      handlers: { resize: { use: "resize", enumerate: { use: "resize" }, retry: { attempts: 1 } } },
    },
  ]);
  const handle = await rondo.start(once, null as never);
  await expect(handle.result({ timeout: 100_000 })).rejects.toThrow(/2 messages in the intake/);
  expect((await fixture.messagesIn("distribot.dead")).length).toBe(2);
});

test("an enumeration without tasks ends too", async () => {
  const rondo = await fixture.open(SHORT);
  await SeedWorker.open([]);
  const handle = await rondo.start(FLOW, null as never);
  await handle.result({ timeout: 100_000 });
  expect((await handle.describe()).phases[0]?.handlers[0]).toMatchObject({ total: 0, sealed: true });
});

test("what it cannot promise: a `finished` that comes twice ends two tasks, and the rest are dead letters", async () => {
  const rondo = await fixture.open(SHORT);
  const worker = await SeedWorker.open([1, 2]);
  worker.times = 2;
  const handle = await rondo.start(FLOW, null as never);
  await handle.result({ timeout: 100_000 });
  expect((await handle.describe()).phases[0]?.handlers[0]).toMatchObject({ total: 2, done: 2 });
  expect(worker.done.length).toBeGreaterThanOrEqual(1);
});

test("a short `finished` that reports a failure or names its task ends no task", async () => {
  const rondo = await fixture.open(SHORT);
  const worker = await SeedWorker.open([1]);
  worker.times = 0;
  const handle = await rondo.start(FLOW, null as never);
  await until("the task is at the worker", () => worker.done.length > 0);
  const [queue] = (await fixture.visitQueues()).filter((name) => name.endsWith(".finished"));
  const short = { workflow_id: handle.id, phase: "work", handler: "resize" };
  const odd = [{ status: "failed" }, { status: "cancelled" }, { error: { message: "no" } }, { task: 0 }];
  for (const fields of odd) worker.send(queue ?? "", { ...short, ...fields });
  const reasons: unknown[] = [];
  await until("they are dead letters", async () => {
    for (const { headers } of await fixture.messagesIn("distribot.dead")) reasons.push(headers["reason"]);
    return reasons.length >= odd.length;
  });
  expect(
    reasons.filter((reason) => /cannot (report a failure|name its task)/.test(String(reason))),
  ).toHaveLength(4);
  worker.send(queue ?? "", { ...short, status: "done" });
  await handle.result({ timeout: 100_000 });
});

test("without the setting they are dead letters with the reason, and the execution waits", async () => {
  const rondo = await fixture.open();
  await SeedWorker.open([1]);
  const handle = await rondo.start(FLOW, null as never);
  let dead: { headers: Record<string, unknown> }[] = [];
  await until("it is a dead letter", async () => {
    dead = [...dead, ...(await fixture.messagesIn("distribot.dead"))];
    return dead.length > 0;
  });
  expect(dead[0]?.headers["reason"]).toMatch(/lacks `attempt` or `token`/);
  expect(await handle.status()).toBe("running");
});

test("a message that means no open task or enumeration is a dead letter", async () => {
  const rondo = await fixture.open(SHORT);
  const worker = await SeedWorker.open([1]);
  const handle = await rondo.start(FLOW, null as never);
  await handle.result({ timeout: 100_000 });
  const { id } = handle;
  const short = { workflow_id: id, phase: "work", handler: "resize" };
  worker.send("distribot.workflow.handler.enumerated", short);
  await until("it is a dead letter", async () => (await fixture.messagesIn("distribot.dead")).length === 1);
});
