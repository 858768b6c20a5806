// Commands that nobody waits for any more, over a real broker: cancelled, or settled by the receipt of an earlier sending.
import type { Rondo } from "rondo";
import { afterEach, describe, expect, test } from "vitest";
import { testWorker } from "../fixtures/broker/amqp-worker-fixture.ts";
import { described } from "../fixtures/broker/described-workflow.ts";
import { type Command, TopicFixture } from "../fixtures/broker/topic-fixture.ts";
import { until } from "../fixtures/until.ts";

const topics = TopicFixture.forEach();
const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

const flow = described("flow", [
  { name: "one", handlers: { one: { command: { cmd_type: "ONE", cmd_data: {} }, topic: "A_CMD" } } },
]);

test("a worker stops a command that is cancelled, does not run a copy of it, and goes on with others", async () => {
  const begun: unknown[] = [];
  const worker = testWorker(topics.amqp.broker.url, [
    {
      name: "topics",
      handlers: [
        {
          use: "topic:A_CMD",
          async process({ task, signal }) {
            begun.push(task);
            if (begun.length > 1) return "done";
            return new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));
          },
        },
      ],
    },
  ]);
  ends.push(() => worker.stop(0));
  await worker.start();
  // Whoever knows the fanout by its first fields finds in it no queue that somebody consumes.
  const { channel } = topics;
  const { queue } = await channel.assertQueue("", { exclusive: true });
  await channel.bindQueue(queue, "rondo.cancel.consumer", "");
  const rondo = await topics.amqp.open();
  const handle = await rondo.start(flow, null as never, { id: "first" });
  await until("it runs", () => begun.length === 1);
  await handle.cancel();
  await until("it is stopped, without a receipt", () => worker.held === 0);
  await until("it is cancelled", async () => (await handle.status()) === "cancelled");
  const heard: unknown[] = [];
  await channel.consume(queue, (message) => void heard.push(JSON.parse(String(message?.content))), {
    noAck: true,
  });
  await until("the fanout tells of it", () => heard.length > 0);
  expect(heard).toEqual([
    {
      task_queue: "rondo.workflow.first.one.one.tasks",
      reason: "cancelled",
      commands: [expect.stringMatching(/^first\.one\.1\.one\.1\.0\.1\./)],
    },
  ]);

  channel.sendToQueue("A_CMD", Buffer.from(JSON.stringify(begun[0])));
  const other = await rondo.start(flow, null as never, { id: "second" });
  await other.result({ timeout: 60_000 });
  // A retry of what was cancelled sends the command anew, and it is done.
  await handle.retry();
  await handle.result({ timeout: 60_000 });
  const ids = begun.map(
    (task) => (task as { cmd_metadata: { rondo: { workflow_id: string } } }).cmd_metadata,
  );
  expect(ids.map(({ rondo: mark }) => mark.workflow_id)).toEqual(["first", "second", "first"]);
});

describe("the copy of a command that the receipt of an earlier sending settles", () => {
  const sendReceipt = (topic: string, command: Command) =>
    topics.say(topic, { ...command, cmd_result: "of the first" });
  const countIn = async (topic: string) => (await topics.channel.checkQueue(topic)).messageCount;

  /** Starts it, takes its command, cancels and retries it: the command is sent a second time. */
  async function sentTwice(rondo: Rondo, workflow = flow) {
    const handle = await rondo.start(workflow, null as never, { id: "pz" });
    const first = await topics.next("A_CMD");
    await handle.cancel();
    await until("it is cancelled", async () => (await handle.status()) === "cancelled");
    await handle.retry();
    return { handle, first };
  }

  test("is taken out of its topic, and others stay there", async () => {
    const rondo = await topics.amqp.open();
    const { handle, first } = await sentTwice(rondo);
    await until("it is sent again", async () => (await countIn("A_CMD")) === 1);
    topics.say("A_CMD", { of: "another system" });
    await until("it is there", async () => (await countIn("A_CMD")) === 2);
    sendReceipt("A_RECEIPT", first);
    await handle.result({ timeout: 60_000 });
    await until("the copy is gone", async () => (await countIn("A_CMD")) === 1);
    expect((await topics.amqp.messagesIn("A_CMD")).map(({ body }) => body)).toEqual([
      { of: "another system" },
    ]);
    expect(topics.amqp.faults).toEqual([]);
  });

  test("is taken out while the phase goes on", async () => {
    const two = described("two", [
      {
        name: "one",
        handlers: {
          one: { command: { cmd_type: "ONE", cmd_data: {} }, topic: "A_CMD" },
          two: { command: { cmd_type: "TWO", cmd_data: {} }, topic: "B_CMD" },
        },
      },
    ]);
    const rondo = await topics.amqp.open();
    const { handle, first } = await sentTwice(rondo, two);
    const other = await topics.next("B_CMD");
    await until("it is sent again", async () => (await countIn("A_CMD")) === 1);
    sendReceipt("A_RECEIPT", first);
    await until("the copy is gone", async () => (await countIn("A_CMD")) === 0);
    expect(await handle.status()).toBe("running");
    sendReceipt("B_RECEIPT", other);
    await handle.result({ timeout: 60_000 });
  });

  test("is stopped at a worker that runs it, without a receipt", async () => {
    const rondo = await topics.amqp.open();
    const { handle, first } = await sentTwice(rondo);
    const begun: unknown[] = [];
    const worker = testWorker(topics.amqp.broker.url, [
      {
        name: "topics",
        handlers: [
          {
            use: "topic:A_CMD",
            async process({ task, signal }) {
              begun.push((task as Command).cmd_metadata.rondo["attempt"]);
              return new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));
            },
          },
        ],
      },
    ]);
    ends.push(() => worker.stop(0));
    await worker.start();
    await until("the copy runs", () => begun.length === 1);
    expect(begun).not.toEqual([first.cmd_metadata.rondo["attempt"]]);
    sendReceipt("A_RECEIPT", first);
    await handle.result({ timeout: 60_000 });
    await until("the copy is stopped", () => worker.held === 0);
    expect(begun).toHaveLength(1);
    expect(await countIn("A_RECEIPT")).toBe(0);
  });
});
