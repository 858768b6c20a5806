// What can be lost at a broker: purged and deleted queues, cut connections, poison, broken messages, an engine that
// dies with messages in queues. Nothing is lost, nothing is counted twice, and nothing is left behind.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AmqpFixture, described } from "../fixtures/broker/amqp-fixture.ts";
import { all } from "../fixtures/sdk/open-rondo-fixture.ts";
import { until } from "../fixtures/until.ts";

let fixture: AmqpFixture;
beforeEach(async () => {
  fixture = await AmqpFixture.make();
}, 180_000);
afterEach(() => fixture.close());

const TASKS = Array.from({ length: 40 }, (_, i) => i);
const flow = (more: object = {}) =>
  described("flow", [{ name: "work", handlers: { work: { use: "work", tasks: TASKS, ...more } } }]);
const counts = async (handle: {
  describe(): Promise<{ phases: readonly { handlers: readonly object[] }[] }>;
}) => (await handle.describe()).phases[0]?.handlers[0];

/** Does something at the broker as an administrator does. */
async function atBroker(
  act: (queue: string, channel: import("amqplib").Channel) => Promise<unknown>,
): Promise<void> {
  const connection = await fixture.broker.connect();
  const channel = await connection.createChannel();
  for (const name of await fixture.visitQueues()) await act(name, channel);
  await connection.close();
}

describe("tasks that are gone from the broker are found and published again", () => {
  test("after a purge of a queue that nobody consumes", async () => {
    const rondo = await fixture.open();
    const handle = await rondo.start(flow(), null as never);
    await until("all are queued", async () => (await fixture.ready(".tasks")) === TASKS.length);
    await atBroker((queue, channel) => channel.purgeQueue(queue));
    await until("all are queued again", async () => (await fixture.ready(".tasks")) === TASKS.length);
    const worker = await fixture.worker({ work: { process: ({ data }) => data } });
    await handle.result({ timeout: 100_000 });
    expect(worker.seen).toHaveLength(TASKS.length);
    await fixture.isTidy();
  });

  test("after a purge under a worker that has taken some, which is found by its silence", async () => {
    const rondo = await fixture.open({ brokerSettings: { silenceMs: 1_000 } });
    const handle = await rondo.start(flow(), null as never);
    await until("all are queued", async () => (await fixture.ready(".tasks")) === TASKS.length);
    let go: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      go = resolve;
    });
    const worker = await fixture.worker({ work: { process: () => gate } }, 5);
    await until("it has some", () => worker.seen.length === 5);
    await atBroker((queue, channel) => channel.purgeQueue(queue));
    go();
    await handle.result({ timeout: 100_000 });
    expect(await counts(handle)).toMatchObject({ total: TASKS.length, done: TASKS.length });
    await fixture.isTidy();
  });

  test("after the deletion of all queues of the visit, which are made again", async () => {
    const rondo = await fixture.open();
    const handle = await rondo.start(flow(), null as never);
    await until("all are queued", async () => (await fixture.ready(".tasks")) === TASKS.length);
    await atBroker((queue, channel) => channel.deleteQueue(queue));
    const worker = await fixture.worker({ work: { process: ({ data }) => data } });
    await handle.result({ timeout: 100_000 });
    expect(new Set(worker.seen.map(({ data }) => data)).size).toBe(TASKS.length);
    expect(await counts(handle)).toMatchObject({ total: TASKS.length, done: TASKS.length });
    await fixture.isTidy();
  });

  test("after the deletion of the intake and of the queue of enumerations", async () => {
    const rondo = await fixture.open();
    const definition = described("flow", [
      { name: "work", handlers: { work: { use: "work", enumerate: { use: "work" } } } },
    ]);
    const handle = await rondo.start(definition, null as never);
    await until("it is queued", async () => (await fixture.ready(".enumerate")) === 1);
    const connection = await fixture.broker.connect();
    const channel = await connection.createChannel();
    await channel.deleteQueue("rondo.workflow.handler.work.enumerate");
    await connection.close();
    await until("it is queued again", async () => (await fixture.ready(".enumerate")) === 1);
    const worker = await fixture.worker({ work: { enumerate: () => [1, 2], process: ({ data }) => data } });
    await handle.result({ timeout: 100_000 });
    expect(worker.seen.map(({ data }) => Number(data)).sort((a, b) => a - b)).toEqual([1, 2]);
    await fixture.isTidy();
  });
});

describe("what somebody deletes is made again", () => {
  test("the exchange that tells workers of tasks, and those for events and for the end of consuming", async () => {
    const rondo = await fixture.open();
    const handle = await rondo.start(flow(), null as never);
    await until("all are queued", async () => (await fixture.ready(".tasks")) === TASKS.length);
    const { management, vhost } = fixture.broker;
    const exchanges = ["rondo.cancel.consumer", "rondo.events", "rondo.workflow.handler.work.process"];
    for (const name of exchanges) await management.ask("DELETE", `/exchanges/${vhost}/${name}`);
    await until("they are there", async () => {
      const there = await management.exchanges(vhost);
      return exchanges.every((name) => there.includes(name));
    });
    await fixture.worker({ work: { process: ({ data }) => data } });
    await handle.result({ timeout: 100_000 });
    await fixture.isTidy();
  });

  test("the queue of dead letters: nothing is acknowledged that is not kept", async () => {
    const rondo = await fixture.open();
    const handle = await rondo.start(flow(), null as never);
    await until("all are queued", async () => (await fixture.ready(".tasks")) === TASKS.length);
    const worker = await fixture.worker({});
    await worker.channel.deleteQueue("rondo.dead");
    await worker.say(`rondo.workflow.${handle.id}.work.work.finished`, "{");
    await until("it is kept", async () => (await fixture.ready("rondo.dead")) === 1);
  });
});

describe("connections", () => {
  test("that are cut again and again lose nothing and count nothing twice", async () => {
    const { url, cut } = await fixture.broker.proxy();
    const rondo = await fixture.open({ broker: url });
    const worker = await fixture.worker({ work: { process: ({ data }) => data } }, 2);
    const tasks = Array.from({ length: 600 }, (_, i) => i);
    const handle = await rondo.start(flow({ tasks }), null as never);
    for (let i = 1; i <= 4; i++) {
      await until("it goes on", () => worker.seen.length >= i * 60);
      cut();
    }
    await handle.result({ timeout: 100_000 });
    expect(await counts(handle)).toMatchObject({ total: 600, done: 600 });
    const settled = (await all(handle.events({ detail: "full" } as never))).flatMap((event) =>
      event.kind === "workflow.tasks.settled" ? (event as unknown as { tasks: { n: number }[] }).tasks : [],
    );
    expect(settled).toHaveLength(600);
    await fixture.isTidy();
  });

  test("to a broker that is not there: the start is taken, it waits and says why, and goes on later", async () => {
    const { url, proxy } = await fixture.broker.proxy();
    proxy.life = () => ({ up: 1, down: 1 });
    const rondo = await fixture.open({ broker: url });
    const handle = await rondo.start(flow(), null as never);
    expect(await handle.why()).toContain("none serves");
    await until("it was tried", () => fixture.faults.length > 0);
    proxy.cut({ heal: true });
    await fixture.worker({ work: { process: ({ data }) => data } });
    await handle.result({ timeout: 100_000 });
  });
});

describe("poison", () => {
  test("a task that takes its worker down goes alone, then fails; its neighbours are done", async () => {
    const rondo = await fixture.open();
    const tasks = Array.from({ length: 12 }, (_, i) => i);
    const retry = { crashes: 2, min: 1, max: 1 };
    const handle = await rondo.start(flow({ tasks, retry, tolerate: 1 }), null as never);
    let deaths = 0;
    const lives: Promise<void>[] = [];
    const live = async (): Promise<void> => {
      const worker = await fixture.worker(
        {
          work: {
            process: ({ data }) => {
              if (data !== 5) return data;
              deaths++;
              worker.kill();
              lives.push(live());
              return new Promise(() => {});
            },
          },
        },
        4,
      );
    };
    await live();
    await handle.result({ timeout: 100_000 });
    // The last one may be on its way to the broker still.
    await Promise.all(lives);
    expect(await counts(handle)).toMatchObject({ done: 11, failed: 1 });
    // Five deliveries among others, and two alone, each of which counts as a crash.
    expect(deaths).toBeGreaterThanOrEqual(7);
    expect(deaths).toBeLessThanOrEqual(9);
    await fixture.isTidy();
  });

  test.each([
    ["is not JSON", () => "{", "not JSON"],
    ["lacks its token", (word: object) => ({ ...word, token: undefined }), "lacks"],
    ["has another's token", (word: object) => ({ ...word, token: "x".repeat(43) }), "token"],
    ["is of another execution", (word: object) => ({ ...word, workflow_id: "other" }), "workflow_id"],
    ["has no status", (word: object) => ({ ...word, status: undefined }), "status"],
  ])("a finished message that %s goes to the dead letters with the reason", async (_, spoil, reason) => {
    const rondo = await fixture.open();
    let go: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      go = resolve;
    });
    const worker = await fixture.worker({ work: { process: () => gate } });
    const handle = await rondo.start(flow({ tasks: [1] }), null as never);
    await until("it has it", () => worker.seen.length === 1);
    const { finished_queue, attempt, token, task } = worker.seen[0]?.body ?? {};
    const word = {
      workflow_id: handle.id,
      phase: "work",
      handler: "work",
      task,
      attempt,
      token,
      status: "done",
    };
    await worker.say(String(finished_queue), spoil(word));
    await until("it is there", async () => (await fixture.ready("rondo.dead")) === 1);
    const [dead] = await fixture.messagesIn("rondo.dead");
    expect(dead?.headers).toMatchObject({ queue: finished_queue });
    expect(String(dead?.headers["reason"])).toContain(reason);
    expect(await counts(handle)).toMatchObject({ done: 0, failed: 0 });
    go();
    await handle.result({ timeout: 100_000 });
  });
});
