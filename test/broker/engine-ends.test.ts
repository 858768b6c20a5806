// An engine that ends or is killed with messages in queues: nothing is lost, nothing is counted twice, and the queues
// are used again (A6); and names at the broker.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AmqpFixture, described } from "../fixtures/broker/amqp-fixture.ts";
import { until } from "../fixtures/until.ts";

let fixture: AmqpFixture;
const children: ChildProcess[] = [];
beforeEach(async () => {
  fixture = await AmqpFixture.make({ prefix: "distribot" });
}, 180_000);
afterEach(async () => {
  for (const child of children.splice(0)) child.kill("SIGKILL");
  await fixture.close();
});

const TASKS = Array.from({ length: 100 }, (_, i) => i);
const PHASES = [{ name: "work", handlers: { work: { use: "work", tasks: TASKS } } }];

describe("an engine that ends", () => {
  test("well, with messages in queues: the next one hears what is said meanwhile, and publishes nothing again", async () => {
    const first = await fixture.open();
    const { id } = await first.start(described("flow", PHASES), null as never);
    await until("all are queued", async () => (await fixture.ready(".tasks")) === TASKS.length);
    const queues = await fixture.visitQueues();
    await first.close();
    const worker = await fixture.worker({ work: { process: ({ data }) => data } });
    const second = await fixture.open();
    await until("its queues are consumed", () => worker.processes.length > 0);
    await second.execution(id).result({ timeout: 100_000 });
    expect(worker.seen.map(({ data }) => data).sort((a, b) => Number(a) - Number(b))).toEqual(TASKS);
    expect(queues).toEqual([
      `distribot.workflow.${id}.work.work.finished`,
      `distribot.workflow.${id}.work.work.tasks`,
    ]);
    await fixture.isTidy();
  });

  test("A6 killed, with messages in queues and at workers: all of them are counted, once", async () => {
    const child = fork(new URL("../fixtures/broker/engine-process.mjs", import.meta.url).pathname, [
      JSON.stringify({ ...fixture.place, phases: PHASES }),
    ]);
    children.push(child);
    const [said] = (await once(child, "message")) as [{ id: string }];
    await until("all are queued", async () => (await fixture.ready(".tasks")) === TASKS.length);
    let go: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      go = resolve;
    });
    const worker = await fixture.worker({
      work: { process: ({ data }) => (Number(data) < 50 ? data : gate) },
    });
    await until("half are done, some are under way", () => worker.seen.length >= 55);
    child.kill("SIGKILL");
    await once(child, "exit");
    go();
    const next = await fixture.open();
    const handle = next.execution(said.id);
    await handle.result({ timeout: 100_000 });
    expect((await handle.describe()).phases[0]?.handlers[0]).toMatchObject({ total: 100, done: 100 });
    await fixture.isTidy();
  });

  test("killed after its execution was over elsewhere: what it left is removed by the next", async () => {
    const child = fork(new URL("../fixtures/broker/engine-process.mjs", import.meta.url).pathname, [
      JSON.stringify({ ...fixture.place, phases: PHASES }),
    ]);
    children.push(child);
    const [said] = (await once(child, "message")) as [{ id: string }];
    await until("all are queued", async () => (await fixture.ready(".tasks")) === TASKS.length);
    child.kill("SIGKILL");
    await once(child, "exit");
    const alone = await fixture.open({ broker: null });
    await alone.execution(said.id).cancel();
    await until("it is over", async () => (await alone.execution(said.id).status()) === "cancelled");
    await alone.close();
    await fixture.open();
    await fixture.isTidy();
  });
});

describe("names", () => {
  test("with the prefix distribot are those of the documents that the protocol comes from", async () => {
    const rondo = await fixture.open();
    const worker = await fixture.worker({
      resize: { enumerate: () => [1], process: () => new Promise(() => {}) },
    });
    const phases = [{ name: "start", handlers: { resize: { use: "resize", enumerate: { use: "resize" } } } }];
    const { id } = await rondo.start(described("flow", phases), null as never);
    await until("it is taken", () => worker.seen.length === 1);
    expect(worker.processes[0]).toMatchObject({
      workflow_id: id,
      phase: "start",
      handler: "resize",
      task_queue: `distribot.workflow.${id}.start.resize.tasks`,
      finished_queue: `distribot.workflow.${id}.start.resize.finished`,
      cancel_consumer_queue: "distribot.cancel.consumer",
    });
    const names = (await fixture.broker.queues()).map(({ name }) => name);
    expect(names).toContain("distribot.workflow.handler.resize.enumerate");
    expect(names).toContain("distribot.workflow.handler.enumerated");
    expect(await fixture.broker.management.exchanges(fixture.broker.vhost)).toEqual(
      expect.arrayContaining([
        "distribot.workflow.handler.resize.process",
        "distribot.cancel.consumer",
        "distribot.events",
        "distribot.dead",
      ]),
    );
    const tasks = (await fixture.broker.queues()).find(({ name }) => name.endsWith(".tasks"));
    expect(tasks).toMatchObject({ type: "quorum", arguments: { "x-delivery-limit": 4 } });
  });

  test("and the messages of the engine have the fields of those documents: one enumerates, all process, all stop", async () => {
    const rondo = await fixture.open();
    const asked: Record<string, unknown>[] = [];
    let go: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      go = resolve;
    });
    const enumerate = (_: unknown, body: Record<string, unknown>) => {
      asked.push(body);
      return [1, 2];
    };
    const resize = { enumerate, process: () => gate };
    const workers = [await fixture.worker({ resize }), await fixture.worker({ resize })];
    const phases = [{ name: "start", handlers: { resize: { use: "resize", enumerate: { use: "resize" } } } }];
    const handle = await rondo.start(described("flow", phases), null as never);
    const tasks = `distribot.workflow.${handle.id}.start.resize.tasks`;
    const queues = {
      finished_queue: `distribot.workflow.${handle.id}.start.resize.finished`,
      cancel_consumer_queue: "distribot.cancel.consumer",
    };
    const place = { workflow_id: handle.id, phase: "start", handler: "resize" };
    await until("every worker is asked to process", () =>
      workers.every(({ processes }) => processes.length > 0),
    );
    for (const { processes } of workers)
      expect(processes[0]).toMatchObject({ ...place, ...queues, task_queue: tasks });
    expect(asked).toMatchObject([{ ...place, ...queues, task_queue: expect.any(String) }]);
    expect(workers.some(({ cancelled }) => cancelled.includes(tasks))).toBe(false);
    go();
    await handle.result({ timeout: 100_000 });
    await until("every worker is told to stop", () =>
      workers.every(({ cancelled }) => cancelled.includes(tasks)),
    );
  });
});
