// RabbitMQ itself is killed and comes back, while tasks are queued, under way and finished.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openInProcess } from "../../src/compose/compose.ts";
import { RondoError } from "../../src/std/rejection.ts";
import { described } from "../fixtures/broker/described-workflow.ts";
import { RabbitServer } from "../fixtures/broker/rabbitmq-server-fixture.ts";
import { RawWorker } from "../fixtures/broker/raw-worker-fixture.ts";
import { until } from "../fixtures/until.ts";

/**
 * Waits for the end. A worker that consumes a queue without a leader gets no answer, and the raw worker waits for it for ever. So
 * another worker comes from time to time.
 */
async function endsWithFurtherWorkers(
  handle: { result(options: { timeout: number }): Promise<unknown> },
  hire: () => Promise<unknown>,
): Promise<void> {
  for (let further = 0; ; further++) {
    try {
      await handle.result({ timeout: 20_000 });
      return;
    } catch (thrown) {
      if (!(thrown instanceof RondoError) || thrown.code !== "timeout" || further === 8) throw thrown;
      await hire();
    }
  }
}

test("a broker that is killed and comes back: every task is counted once, and no queue is left", async () => {
  const server = await RabbitServer.make();
  const directory = mkdtempSync(join(tmpdir(), "rondo-amqp-"));
  // A quorum queue that is killed while it is new can stay without a leader. It then answers nothing, until the engine deletes it.
  const brokerSettings = { broadcastMs: 300, lookMs: 200, silenceMs: 3_000, answerMs: 3_000 };
  const rondo = await openInProcess({
    store: `file:${directory}`,
    broker: server.url,
    brokerSettings,
    onFault: () => {},
  });
  const workers: RawWorker[] = [];
  const hire = async () =>
    workers.push(
      await RawWorker.open(server.url, { work: { process: ({ data }) => data } }, { prefetch: 5 }),
    );
  try {
    const tasks = Array.from({ length: 2_000 }, (_, i) => i);
    const flow = described("flow", [{ name: "work", handlers: { work: { use: "work", tasks } } }]);
    await hire();
    const handle = await rondo.start(flow, null as never);
    const done = async () => (await handle.describe()).phases[0]?.handlers[0]?.done ?? 0;
    await until("it is under way", async () => (await done()) > 200);
    // What is durable is there again, at the same address.
    await workers[0]?.channel.assertQueue("kept", { durable: true });
    await workers[0]?.say("kept", "still here");
    await server.restart("kill");
    await hire();
    await until("the message is there again", async () => {
      const message = await workers[1]?.channel.get("kept", { noAck: true });
      return typeof message === "object" && message.content.toString() === "still here";
    });
    await endsWithFurtherWorkers(handle, hire);
    expect((await handle.describe()).phases[0]?.handlers[0]).toMatchObject({ total: 2_000, done: 2_000 });
    await until("no queue is left", async () =>
      (await server.management.queues("/")).every(({ name }) => !name.includes(handle.id)),
    );
  } finally {
    for (const worker of workers) worker.kill();
    await rondo.close({ graceMs: 0 });
    await server.remove();
    rmSync(directory, { recursive: true, force: true, maxRetries: 5 });
  }
}, 240_000);
