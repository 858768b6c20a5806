// Groups A and B of the conformance cases over real queues, with a worker that knows nothing but the protocol.
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AmqpFixture, described } from "../fixtures/broker/amqp-fixture.ts";
import { fatal } from "../fixtures/broker/raw-worker-fixture.ts";
import { all } from "../fixtures/sdk/open-rondo-fixture.ts";
import { until } from "../fixtures/until.ts";

let fixture: AmqpFixture;
beforeEach(async () => {
  fixture = await AmqpFixture.make();
}, 180_000);
afterEach(() => fixture.close());

const work = (name = "work", more: object = {}) => ({
  name,
  handlers: { [name]: { use: name, enumerate: { use: name }, retry: { min: 1, max: 1 }, ...more } },
});
const kinds = (events: readonly { kind: string }[]) =>
  events.map(({ kind }) => kind.replace("workflow.", ""));

describe("phases over queues", () => {
  test("A1 three tasks are processed, and handler, phase and workflow finish once each, in this order", async () => {
    const rondo = await fixture.open();
    const worker = await fixture.worker({
      work: { enumerate: () => ["a", "b", "c"], process: ({ data }) => `${String(data)}!` },
    });
    const flow = described("flow", [work(), { name: "end", handlers: {}, final: true }]);
    const handle = await rondo.start(flow, { n: 1 } as never);
    await handle.result({ timeout: 100_000 });
    expect(new Set(worker.seen.map(({ data }) => data))).toEqual(new Set(["a", "b", "c"]));
    expect(worker.seen).toHaveLength(3);
    const events = kinds(await all(handle.events()));
    expect(events.filter((kind) => kind.endsWith("finished"))).toEqual([
      "handler.finished",
      "phase.finished",
      "phase.finished",
      "finished",
    ]);
    await fixture.isTidy();
    expect(fixture.faults).toEqual([]);
  });

  test("A2 B5 a phase of several handlers finishes after all of their tasks, once", async () => {
    const rondo = await fixture.open();
    await fixture.worker({
      two: { enumerate: () => [1, 2], process: () => null },
      five: { enumerate: () => [1, 2, 3, 4, 5], process: () => null },
      one: { enumerate: () => [1], process: () => null },
    });
    const handlers = Object.fromEntries(
      ["two", "five", "one"].map((use) => [use, { use, enumerate: { use } }]),
    );
    const flow = described("flow", [{ name: "both", handlers }]);
    const handle = await rondo.start(flow, null as never);
    await handle.result({ timeout: 100_000 });
    const events = kinds(await all(handle.events()));
    expect(events.filter((kind) => kind === "handler.finished")).toHaveLength(3);
    expect(events.filter((kind) => kind === "phase.finished")).toHaveLength(1);
    expect(events.indexOf("phase.finished")).toBeGreaterThan(events.lastIndexOf("handler.finished"));
    const { phases } = await handle.describe();
    expect(phases[0]?.handlers.map(({ done }) => done)).toEqual([2, 5, 1]);
  });

  test("A3 B1 an enumeration without tasks, and a phase without handlers, finish at once", async () => {
    const rondo = await fixture.open();
    await fixture.worker({ work: { enumerate: () => [], process: () => null } });
    const flow = described("flow", [{ name: "none", handlers: {} }, work()]);
    const handle = await rondo.start(flow, null as never);
    await handle.result({ timeout: 100_000 });
    expect(await handle.status()).toBe("done");
    await fixture.isTidy();
  });

  test("A4 B8 the same finished message again, and one for a phase that is over, change nothing", async () => {
    const rondo = await fixture.open();
    let go: () => void = () => {};
    const gate = new Promise<void>((resolve) => {
      go = resolve;
    });
    const worker = await fixture.worker({
      work: { enumerate: () => [0, 1, 2], process: ({ data }) => (data === 2 ? gate : data) },
    });
    const handle = await rondo.start(described("flow", [work()]), null as never);
    await until("two are done", async () => (await handle.describe()).phases[0]?.handlers[0]?.done === 2);
    const [first] = worker.seen.filter(({ data }) => data === 0);
    const { finished_queue, attempt, token, task } = first?.body ?? {};
    const again = { workflow_id: handle.id, phase: "work", handler: "work", task, attempt, token };
    for (let i = 0; i < 3; i++)
      await worker.say(String(finished_queue), {
        ...again,
        status: i === 2 ? "failed" : "done",
        result: "other",
      });
    await until("they are taken", async () => (await fixture.ready(".finished")) === 0);
    expect((await handle.describe()).phases[0]?.handlers[0]).toMatchObject({ done: 2, failed: 0 });
    go();
    await handle.result({ timeout: 100_000 });
    const events = kinds(await all(handle.events()));
    expect(events.filter((kind) => kind === "phase.finished")).toHaveLength(1);
    await fixture.isTidy();
  });

  test("A5 a task done before the next is enumerated does not finish the handler", async () => {
    const rondo = await fixture.open();
    let isDone: () => void = () => {};
    const firstDone = new Promise<void>((resolve) => {
      isDone = resolve;
    });
    await fixture.worker({
      work: {
        async *enumerate() {
          yield 1;
          await firstDone;
          yield 2;
        },
        process: ({ data }) => {
          if (data === 1) isDone();
        },
      },
    });
    const handle = await rondo.start(described("flow", [work()]), null as never);
    await handle.result({ timeout: 100_000 });
    expect((await handle.describe()).phases[0]?.handlers[0]).toMatchObject({ total: 2, done: 2 });
  });

  test("A7 a worker killed in the middle of its tasks: they run elsewhere, and as many are done as were enumerated", async () => {
    const rondo = await fixture.open();
    const stuck = await fixture.worker({
      work: {
        enumerate: () => Array.from({ length: 20 }, (_, i) => i),
        process: () => new Promise(() => {}),
      },
    });
    const handle = await rondo.start(described("flow", [work()]), null as never);
    await until("it has some", () => stuck.seen.length >= 10);
    // The enumeration may not have been over: then it is delivered again, too.
    const other = await fixture.worker({
      work: { enumerate: () => Array.from({ length: 20 }, (_, i) => i), process: ({ data }) => data },
    });
    stuck.kill();
    await handle.result({ timeout: 100_000 });
    expect(other.seen).toHaveLength(20);
    expect((await handle.describe()).phases[0]?.handlers[0]).toMatchObject({ total: 20, done: 20 });
    await fixture.isTidy();
  });

  test("B10 pause with tasks queued: none start; resume: all of them run; cancel while paused is allowed", async () => {
    const rondo = await fixture.open();
    const tasks = Array.from({ length: 30 }, (_, i) => i);
    const flow = described("flow", [{ name: "work", handlers: { work: { use: "work", tasks } } }]);
    const handle = await rondo.start(flow, null as never);
    const other = await rondo.start(flow, null as never);
    await until("all are queued", async () => (await fixture.ready(".tasks")) === 60);
    await handle.pause();
    await other.pause();
    await until("none is queued", async () => (await fixture.ready(".tasks")) === 0);
    const worker = await fixture.worker({ work: { process: ({ data }) => data } });
    await other.cancel();
    await until("the other is cancelled", async () => (await other.status()) === "cancelled");
    expect(worker.seen).toEqual([]);
    await handle.resume();
    await handle.result({ timeout: 100_000 });
    expect(worker.seen.map(({ data }) => data).sort((a, b) => Number(a) - Number(b))).toEqual(tasks);
    await fixture.isTidy();
  });

  test("B11 a task that fails for good leads to onError; without it the execution is failed", async () => {
    const rondo = await fixture.open();
    const worker = await fixture.worker({
      work: {
        enumerate: () => [1],
        process: () => {
          throw fatal("no good");
        },
      },
      mend: { process: () => "mended" },
    });
    const mended = described("mended", [
      { ...work(), onError: "mend", final: true },
      { name: "mend", handlers: { mend: { use: "mend" } }, final: "failed" },
    ]);
    const failed = await rondo.start(mended, null as never);
    await until("it has failed", async () => (await failed.status()) === "failed");
    expect(worker.seen.map(({ body }) => body["phase"])).toEqual(["work", "mend"]);
    const plain = await rondo.start(described("plain", [work()]), null as never);
    await until("it has failed", async () => (await plain.status()) === "failed");
    expect((await plain.describe()).error?.message).toContain("no good");
    await fixture.isTidy();
  });

  test("an attempt that fails is tried again by its policy, and says so in the next message", async () => {
    const rondo = await fixture.open();
    let tries = 0;
    const worker = await fixture.worker({
      work: {
        enumerate: () => [1],
        process: () => {
          if (++tries < 3) throw new Error("not yet");
          return tries;
        },
      },
    });
    const handle = await rondo.start(described("flow", [work()]), null as never);
    await handle.result({ timeout: 100_000 });
    expect(worker.seen).toHaveLength(3);
    expect(new Set(worker.seen.map(({ body }) => body["attempt"])).size).toBe(3);
    expect(new Set(worker.seen.map(({ body }) => body["idempotency_key"]))).toEqual(
      new Set([[handle.id, "work", 1, "work", 0].join("/")]),
    );
  });
});

describe("who gets the work", () => {
  test("code that does not enumerate gets the input as its one task", async () => {
    const rondo = await fixture.open();
    const worker = await fixture.worker({ work: { process: () => null } });
    const flow = described("flow", [{ name: "work", handlers: { work: { use: "work" } } }]);
    const handle = await rondo.start(flow, { a: 1 } as never);
    await handle.result({ timeout: 100_000 });
    expect(worker.seen.map(({ data }) => data)).toEqual([{ a: 1 }]);
  });

  test("a worker that comes in this process gets what waits at the broker for nobody", async () => {
    const { workflow } = await import("rondo");
    const flow = workflow({ name: "late" }).phase("work", {
      enumerate: () => [1, 2, 3],
      process: ({ task }) => task,
    });
    const rondo = await fixture.open();
    const handle = await rondo.start(flow as never, null as never);
    await until("its enumeration is at the broker", async () => (await fixture.ready(".enumerate")) === 1);
    expect(await handle.why()).toContain("at the broker");
    rondo.serve(flow);
    await handle.result({ timeout: 100_000 });
    await fixture.isTidy();
  });
});
