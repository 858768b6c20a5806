// Cancelled commands over a real broker, with Rondo's own worker at their topic.
import { afterEach, beforeEach, expect, test } from "vitest";
import { testWorker } from "../amqp-workers/test-worker.ts";
import { until } from "../faults/until.ts";
import { AmqpBench, described } from "./amqp-bench.ts";

let bench: AmqpBench;
const ends: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  bench = await AmqpBench.make();
}, 180_000);
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
  await bench.close();
});

const flow = described("flow", [
  { name: "one", handlers: { one: { command: { cmd_type: "ONE", cmd_data: {} }, topic: "A_CMD" } } },
]);

test("a worker stops a command that is cancelled, does not run a copy of it, and goes on with others", async () => {
  const begun: unknown[] = [];
  const worker = testWorker(bench.broker.url, [
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
  const connection = await bench.broker.connect();
  ends.push(() => connection.close());
  const channel = await connection.createChannel();
  const { queue } = await channel.assertQueue("", { exclusive: true });
  await channel.bindQueue(queue, "rondo.cancel.consumer", "");
  const rondo = await bench.open();
  const handle = await rondo.start(flow, null as never, { id: "first" });
  await until("it runs", () => begun.length === 1);
  await handle.cancel();
  await until("it is stopped, without a receipt", () => worker.held === 0);
  await until("it is cancelled", async () => (await handle.status()).status === "cancelled");
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
