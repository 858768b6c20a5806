// Where tasks come from is written in the definition, whoever is at the broker: version 2 waits for its enumeration, and
// the input as the one task never goes to workers that enumerate.
import type { Rondo } from "rondo";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { parseDefinition } from "../../src/kernel/definition/parse-definition.ts";
import { unwrap } from "../../src/std/rejection.ts";
import { AmqpFixture } from "../fixtures/broker/amqp-fixture.ts";
import { testWorker } from "../fixtures/broker/amqp-worker-fixture.ts";
import { until } from "../fixtures/until.ts";

let fixture: AmqpFixture;
let rondo: Rondo;
let count = 0;
/** The name of the code: each test has its own. */
let use: string;

// A vhost for each test: queues that a failed test leaves behind would fail all tests after it.
beforeEach(async () => {
  use = `resize-${++count}`;
  fixture = await AmqpFixture.make();
  rondo = await fixture.open();
});
afterEach(() => fixture.close());

function flow(rondo: 1 | 2, handler: object = {}) {
  const phases = [{ name: "resize", handlers: { resize: { use, ...handler } } }];
  const definition = unwrap(parseDefinition({ rondo, name: `flow-${count}`, phases }));
  return { name: `flow-${count}`, definition, handlers: [], children: [], inputSchema: undefined } as never;
}

const enumerating = () => ({
  [use]: { enumerate: (input: unknown) => Array(Number(input)).keys(), process: () => null },
});
const counts = async (handle: {
  describe(): Promise<{ phases: readonly { handlers: readonly object[] }[] }>;
}) => (await handle.describe()).phases[0]?.handlers[0];

describe("version 2", () => {
  test("gives all tasks, whether the worker was away before the start, or comes after it", async () => {
    const fixture = await AmqpFixture.make();
    onTestFinished(() => fixture.close());
    // Nothing is asked for again because of silence: a message that is lost fails this test.
    const rondo = await fixture.open({ brokerSettings: { silenceMs: 86_400_000 } });
    for (let i = 0; i < 10; i++) {
      const worker = await fixture.worker(enumerating());
      const there = await rondo.start(flow(2), 20 as never);
      await there.result({ timeout: 100_000 });
      await worker.close();
      const away = await rondo.start(flow(2), 30 as never);
      await until("its enumeration waits", async () => (await away.why()).includes("at the broker"));
      expect(await counts(away)).toMatchObject({ total: 0, done: 0 });
      const back = await fixture.worker(enumerating());
      await away.result({ timeout: 100_000 });
      expect([await counts(there), await counts(away)]).toMatchObject([{ done: 20 }, { done: 30 }]);
      await back.close();
    }
    await fixture.isTidy();
  });

  test("with single has the input as its one task, also for a worker that comes after the start", async () => {
    const early = await rondo.start(flow(2, { single: true }), { a: 1 } as never);
    await until("its queue is there", async () => (await fixture.visitQueues()).length > 0);
    expect(await fixture.ready(".tasks")).toBe(0);
    const worker = await fixture.worker({ [use]: { process: () => null } });
    await early.result({ timeout: 100_000 });
    const late = await rondo.start(flow(2, { single: true }), { a: 2 } as never);
    await late.result({ timeout: 100_000 });
    expect(worker.seen.map(({ data }) => data)).toEqual([{ a: 1 }, { a: 2 }]);
    await fixture.isTidy();
  });
});

describe("version 2 with workers that only process", () => {
  /** One of Rondo's own workers at the broker, or one that knows the protocol only. */
  async function join(kind: "rondo" | "raw", enumerates: boolean): Promise<() => Promise<unknown>> {
    if (kind === "raw") {
      const raw = await fixture.worker(enumerates ? enumerating() : { [use]: { process: () => null } });
      return () => raw.close();
    }
    const code = {
      use,
      process: () => null,
      ...(enumerates ? { enumerate: ({ input }: { input: unknown }) => Array(Number(input)).keys() } : {}),
    };
    const worker = testWorker(fixture.broker.url, [{ name: "fan", handlers: [code] }] as never);
    await worker.start();
    return () => worker.stop(0);
  }

  test.each([
    ["rondo", "first", [false, true]],
    ["rondo", "last", [true, false]],
    ["raw", "first", [false, true]],
    ["raw", "last", [true, false]],
  ] as const)("of the kind %s, which joined %s: each fan-out has all its tasks", async (kind, _, order) => {
    const ends: (() => Promise<unknown>)[] = [];
    const handles = [await rondo.start(flow(2), 40 as never)];
    for (const enumerates of order) {
      ends.push(await join(kind, enumerates));
      handles.push(await rondo.start(flow(2), 40 as never));
    }
    for (const handle of handles) {
      await handle.result({ timeout: 100_000 });
      expect(await counts(handle)).toMatchObject({ total: 40, done: 40 });
    }
    for (const end of ends) await end();
    await fixture.isTidy();
  });

  test.each(["rondo", "raw"] as const)(
    "of the kind %s, and nobody else: it waits, and says that nobody there enumerates",
    async (kind) => {
      const end = await join(kind, false);
      const handle = await rondo.start(flow(2), 40 as never);
      await until("it says what is missing", async () =>
        (await handle.why()).includes(`for a worker there that enumerates "${use}"`),
      );
      expect(await counts(handle)).toMatchObject({ total: 0, done: 0 });
      const enumerator = await join(kind, true);
      await handle.result({ timeout: 100_000 });
      expect(await counts(handle)).toMatchObject({ total: 40, done: 40 });
      for (const stop of [end, enumerator]) await stop();
      await fixture.isTidy();
    },
  );

  test("in the process, beside one at the broker that enumerates: it goes there, whoever was first", async () => {
    const { workflow } = await import("rondo");
    const plain = workflow({ name: `fan-${count}` }).phase("resize", { process: ({ task }) => task });
    use = `fan-${count}.resize`;
    rondo.serve(plain);
    const early = await rondo.start(flow(2), 40 as never);
    await until("it says what is missing", async () =>
      (await early.why()).includes(`waits for a worker that enumerates "${use}"`),
    );
    const end = await join("rondo", true);
    const late = await rondo.start(flow(2), 40 as never);
    for (const handle of [early, late]) {
      await handle.result({ timeout: 100_000 });
      expect(await counts(handle)).toMatchObject({ total: 40, done: 40 });
    }
    await end();
  });
});

describe("version 1 with use alone", () => {
  const waits = (handle: { why(): Promise<string> }) =>
    until("it says what to do", async () =>
      (await handle.why()).includes('register the definition again with "rondo": 2'),
    );

  test("is never given to a worker that enumerates, whether it was there first or not", async () => {
    const before = await rondo.start(flow(1), 10 as never);
    const worker = await fixture.worker(enumerating());
    const after = await rondo.start(flow(1), 10 as never);
    await waits(before);
    await waits(after);
    await worker.close();
    const again = await rondo.start(flow(1), 10 as never);
    const back = await fixture.worker(enumerating());
    for (const handle of [before, after, again]) await waits(handle);
    expect([...worker.seen, ...back.seen]).toEqual([]);
    for (const handle of [before, after, again]) {
      expect(await handle.describe()).toMatchObject({ status: "running" });
      await handle.cancel();
      await until("it is cancelled", async () => (await handle.status()) === "cancelled");
    }
    await fixture.isTidy();
  });

  test("goes to a worker that does not enumerate, once none is there that does", async () => {
    const lister = await fixture.worker(enumerating());
    const handle = await rondo.start(flow(1), 10 as never);
    await waits(handle);
    await lister.close();
    const worker = await fixture.worker({ [use]: { process: () => null } });
    await handle.result({ timeout: 100_000 });
    expect(worker.seen.map(({ data }) => data)).toEqual([10]);
    expect(lister.seen).toEqual([]);
  });

  test("does not count a receipt if the code enumerates by then: a worker may have come meanwhile", async () => {
    let end = (): void => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const worker = await fixture.worker({ [use]: { process: () => ended } });
    const handle = await rondo.start(flow(1), 10 as never);
    await until("the worker has it", () => worker.seen.length === 1);
    const lister = await fixture.worker({ [use]: { enumerate: () => [] } });
    end();
    await waits(handle);
    expect(await handle.describe()).toMatchObject({ status: "running" });
    expect(fixture.faults.map(({ message }) => message).join()).toContain("the result does not count");
    await lister.close();
    await handle.result({ timeout: 100_000 });
    expect(worker.seen).toHaveLength(2);
    await fixture.isTidy();
  });

  test("waits while it is paused, and is given out after that", async () => {
    const handle = await rondo.start(flow(1), 10 as never);
    await until("its queue is there", async () => (await fixture.visitQueues()).length > 0);
    await handle.pause();
    const worker = await fixture.worker({ [use]: { process: () => null } });
    await handle.resume();
    await handle.result({ timeout: 100_000 });
    expect(worker.seen).toHaveLength(1);
  });

  test("goes to a worker elsewhere that comes while it waits at the broker for nobody", async () => {
    const { workflow } = await import("rondo");
    const here = workflow({ name: `here-${count}` }).phase("resize", { process: ({ task }) => task });
    const handle = await rondo.start(here as never, 1 as never);
    await until("its queue is there", async () => (await fixture.visitQueues()).length > 0);
    rondo.serve(here);
    await handle.result({ timeout: 100_000 });
    await fixture.isTidy();
  });
});
