// Enumerations that end badly at a broker: they take their workers down, say nothing, or lose what they found.
import type { Channel } from "amqplib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AmqpFixture, described } from "../fixtures/broker/amqp-fixture.ts";
import { testWorker } from "../fixtures/broker/amqp-worker-fixture.ts";
import { until } from "../fixtures/until.ts";

let fixture: AmqpFixture;
const ends: (() => Promise<unknown>)[] = [];
beforeEach(async () => {
  fixture = await AmqpFixture.make();
}, 180_000);
afterEach(async () => {
  await Promise.all(ends.splice(0).map((end) => end()));
  await fixture.close();
});

const flow = (retry: object) =>
  described("flow", [
    { name: "work", handlers: { work: { use: "work", enumerate: { use: "work" }, retry } } },
  ]);

interface Asked {
  readonly workflow_id: string;
  readonly phase: string;
  readonly handler: string;
  readonly task_queue: string;
  readonly attempt: string;
  readonly token: string;
}

/** Consumes the queue of enumerations by hand. */
async function enumerator(onAsked: (asked: Asked, channel: Channel) => Promise<void>): Promise<Asked[]> {
  const connection = await fixture.broker.connect();
  ends.push(() => connection.close());
  const channel = await connection.createChannel();
  const queue = "rondo.workflow.handler.work.enumerate";
  await channel.assertQueue(queue, { durable: true });
  const seen: Asked[] = [];
  await channel.consume(queue, (message) => {
    if (message === null) return;
    const asked = JSON.parse(message.content.toString()) as Asked;
    seen.push(asked);
    void onAsked(asked, channel).then(() => channel.ack(message));
  });
  return seen;
}

/** Puts one task after another into the intake, in this order of positions, and says that it is over. */
function give(asked: Asked, channel: Channel, positions: readonly number[], total: number): void {
  const { workflow_id, phase, handler, attempt, token } = asked;
  for (const position of positions) {
    const item = { workflow_id, phase, handler, position, data: position };
    channel.sendToQueue(asked.task_queue, Buffer.from(JSON.stringify(item)), { persistent: true });
  }
  const word = { ...asked, attempt, token, status: "done", total };
  channel.sendToQueue("rondo.workflow.handler.enumerated", Buffer.from(JSON.stringify(word)));
}

/** A worker that is gone as soon as it has begun the enumeration. */
async function startProcess(onBegun: () => void): Promise<void> {
  const { url, proxy, cut } = await fixture.broker.proxy();
  const enumerate = () => {
    proxy.close();
    cut();
    onBegun();
    return new Promise<never>(() => {});
  };
  const worker = testWorker(url, [{ name: "flow", handlers: [{ use: "work", enumerate }] }], {
    name: "killable",
    capacity: 5,
    onBug: () => {},
  });
  ends.push(() => worker.stop(0));
  await worker.start();
}

describe("an enumeration", () => {
  test("that takes down whoever has it ends as a crash, by policy", async () => {
    const rondo = await fixture.open();
    let begun = 0;
    let hired = 1;
    await startProcess(() => void begun++);
    const handle = await rondo.start(flow({ crashes: 1 }), null as never);
    await until("it has failed", async () => {
      // What was not acknowledged in time comes twice.
      if (begun >= hired && hired < 20) {
        hired++;
        await startProcess(() => void begun++);
      }
      return (await handle.status()) === "failed";
    });
    expect(begun).toBeGreaterThan(3);
    expect(begun).toBeLessThan(20);
    expect((await handle.describe()).error?.message).toMatch(/without a receipt|lost with its worker/);
    await fixture.isTidy();
  }, 90_000);

  test("that workers take and say nothing of is asked for again, less and less often, then it has crashed", async () => {
    const rondo = await fixture.open({ brokerSettings: { silenceMs: 100, silencesMax: 3 } });
    const seen = await enumerator(() => new Promise(() => {}));
    const handle = await rondo.start(flow({ crashes: 1 }), null as never);
    await until("it has failed", async () => (await handle.status()) === "failed");
    expect(seen).toHaveLength(3);
    await fixture.isTidy();
  });

  test("that is said to be done without its total goes on: the message is kept with the reason", async () => {
    const rondo = await fixture.open();
    const asked: Asked[] = [];
    let channel: Channel | null = null;
    await enumerator(async (one, on) => {
      asked.push(one);
      channel = on;
      on.sendToQueue("rondo.workflow.handler.enumerated", Buffer.from(JSON.stringify(one)));
    });
    await fixture.worker({ work: { process: ({ data }) => data } }, 100);
    const handle = await rondo.start(flow({}), null as never);
    await until("it is kept", async () => (await fixture.ready("rondo.dead")) === 1);
    expect((await fixture.messagesIn("rondo.dead"))[0]?.headers["reason"]).toContain("`total` is missing");
    expect(await handle.status()).toBe("running");
    give(asked[0] as Asked, channel as unknown as Channel, [0, 1], 2);
    await handle.result({ timeout: 100_000 });
    expect((await handle.describe()).phases[0]?.handlers[0]).toMatchObject({ total: 2, done: 2 });
  });

  test("whose first task is lost is begun anew, however much is behind it", async () => {
    const rondo = await fixture.open();
    const positions = Array.from({ length: 701 }, (_, i) => i);
    const seen = await enumerator(async (asked, channel) =>
      give(asked, channel, seen.length === 1 ? positions.slice(1) : positions, 701),
    );
    await fixture.worker({ work: { process: ({ data }) => data } }, 100);
    const handle = await rondo.start(flow({ min: 1, max: 1 }), null as never);
    await handle.result({ timeout: 100_000 });
    expect(seen).toHaveLength(2);
    expect((await handle.describe()).phases[0]?.handlers[0]).toMatchObject({ total: 701, done: 701 });
    await fixture.isTidy();
  }, 90_000);

  test("whose first task is lost each time has failed, and says which is missing", async () => {
    const rondo = await fixture.open();
    const positions = Array.from({ length: 600 }, (_, i) => i + 1);
    const seen = await enumerator(async (asked, channel) => give(asked, channel, positions, 601));
    const handle = await rondo.start(flow({ attempts: 2, min: 1, max: 1 }), null as never);
    await until("it has failed", async () => (await handle.status()) === "failed");
    expect(seen).toHaveLength(2);
    expect((await handle.describe()).error?.message).toContain("task 0 of the enumeration has not arrived");
    await fixture.isTidy();
  });

  test("that says its tasks in another order is put in order", async () => {
    const rondo = await fixture.open();
    const positions = Array.from({ length: 400 }, (_, i) => i).toReversed();
    const seen = await enumerator(async (asked, channel) => give(asked, channel, positions, 400));
    await fixture.worker({ work: { process: ({ data }) => data } }, 100);
    const handle = await rondo.start(flow({}), null as never);
    await handle.result({ timeout: 100_000 });
    expect(seen).toHaveLength(1);
    expect((await handle.describe()).phases[0]?.handlers[0]).toMatchObject({ total: 400, done: 400 });
  });
});
