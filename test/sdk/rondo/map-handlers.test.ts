// `map` with a handler: the items are tasks of a child, over a real engine.
import { ExecutionFailed, Fatal, flow, handler, handlerFor, MapFailed, workflow } from "rondo";
import { simulate, testRondo } from "rondo/testing";
import { describe, expect, test } from "vitest";
import { failure, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

const square = handlerFor<number>()({
  name: "square",
  // For the code of the handler, the item is the task and the input.
  process: ({ task, input }) => task * input,
});

/** Numbers from 0. */
function* numbers(count: number): Generator<number> {
  for (let i = 0; i < count; i++) yield i;
}

describe("map with a handler", () => {
  test("gives a reader of the results, in the order of the items as an array", async () => {
    const squares = flow(
      "squares",
      async ({ map }, count: number) => {
        const all = await map("squares", numbers(count), square);
        const sum = await all.reduce((so, n) => so + n, 0);
        return { count: all.count, failed: all.failed, total: all.total, list: await all.toArray(), sum };
      },
      { children: [square] },
    );
    const rondo = await open([squares]);
    expect(await rondo.run(squares, 5)).toEqual({
      count: 5,
      failed: 0,
      total: 5,
      list: [0, 1, 4, 9, 16],
      sum: 30,
    });
    expect(await rondo.run(squares, 0)).toEqual({ count: 0, failed: 0, total: 0, list: [], sum: 0 });
  });

  test("runs each of many items once, in pages, and takes the items from the code once", async () => {
    let taken = 0;
    let attempts = 0;
    const runs = new Map<number, number>();
    const count = handlerFor<{ n: number; text: string }>()({
      name: "count",
      process: ({ task }) => {
        runs.set(task.n, (runs.get(task.n) ?? 0) + 1);
        return task.n;
      },
    });
    const text = "x".repeat(300);
    const wide = workflow<null>({ name: "wide", children: [count] }).phase("run", {
      process: async ({ map, sleep }) => {
        attempts++;
        const items = async function* () {
          for (const n of numbers(5_000)) {
            taken++;
            yield { n, text };
          }
        };
        const [all] = await Promise.all([map("all", items(), count), sleep("beside", 1)]);
        return all.reduce((sum, n) => sum + n, 0);
      },
    });
    const rondo = await open([wide]);
    const execution = await rondo.start(wide, null, { id: "wide" });
    expect(await execution.result()).toBe((5_000 * 4_999) / 2);
    expect(taken).toBe(5_000);
    expect(attempts).toBeGreaterThan(1);
    expect(runs.size).toBe(5_000);
    expect([...runs.values()].every((n) => n === 1)).toBe(true);
    const steps: string[] = [];
    for await (const event of execution.events({ follow: false, detail: "full" }))
      if ("map" in event) steps.push(event["name"] as string);
    // 5,000 items of more than 300 bytes fill seven or eight pages of a step.
    expect(steps.length).toBeGreaterThan(6);
    expect(steps.length).toBeLessThan(10);
    const { data } = await rondo.list({ workflow: "count" });
    expect(data).toHaveLength(1);
  });

  test("goes on without items that fail within what the handler tolerates, and names them", async () => {
    const picky = handlerFor<number>()({
      name: "picky",
      tolerate: 2,
      retry: { attempts: 1 },
      process: ({ task }) => {
        if (task % 4 === 1) throw new Fatal(`no ${task}`);
        return task;
      },
    });
    const parent = flow(
      "parent",
      async ({ map }) => {
        const some = await map("some", [0, 1, 2, 3, 4, 5], picky);
        const failed: unknown[] = [];
        for await (const { task, data, error } of some.failures()) failed.push([task, data, error.message]);
        return { list: await some.toArray(), failed };
      },
      { children: [picky] },
    );
    const rondo = await open([parent]);
    expect(await rondo.run(parent, null)).toEqual({
      list: [0, 2, 3, 4],
      failed: [
        [1, 1, "no 1"],
        [5, 5, "no 5"],
      ],
    });
  });

  test("throws MapFailed with the failures in every attempt, and a retry runs only the failed items", async () => {
    let isBroken = true;
    const runs: number[] = [];
    const thrown: MapFailed[] = [];
    const brittle = handlerFor<number>()({
      name: "brittle",
      retry: { attempts: 1 },
      concurrency: 1,
      process: ({ task }) => {
        runs.push(task);
        if (isBroken && task === 2) throw new Fatal("two is broken", { cause: new Error("a crack") });
        return task;
      },
    });
    const parent = flow(
      "parent",
      async ({ map }) => {
        try {
          return await (await map("all", [0, 1, 2], brittle)).toArray();
        } catch (error) {
          thrown.push(error as MapFailed);
          throw error;
        }
      },
      { children: [brittle] },
    );
    const rondo = await open([parent]);
    const execution = await rondo.start(parent, null);
    const failed = (await failure(execution.result())) as ExecutionFailed;
    expect(failed).toBeInstanceOf(ExecutionFailed);
    const error = thrown[0] as MapFailed;
    expect(error).toBeInstanceOf(MapFailed);
    expect(error.map).toBe("all");
    expect((error.cause as Error).message).toBe("two is broken");
    expect(((error.cause as Error).cause as Error).message).toBe("a crack");
    const failures: unknown[] = [];
    for await (const { task, data, error: one } of error.failures()) failures.push([task, data, one.message]);
    expect(failures).toEqual([[2, 2, "two is broken"]]);
    isBroken = false;
    await execution.retry();
    expect(await execution.result()).toEqual([0, 1, 2]);
    expect(runs).toEqual([0, 1, 2, 2]);
  });

  test("is cancelled with its parent", async () => {
    const stuck = handlerFor<number>()({ name: "stuck", process: ({ waitFor }) => waitFor("never") });
    const parent = flow("parent", async ({ map }) => (await map("all", [1, 2], stuck)).count, {
      children: [stuck],
    });
    await using t = await testRondo({ workflows: [parent] });
    const execution = await t.start(parent, null);
    await t.settle();
    expect(await execution.why()).toMatch(/1 task waits for a child, such as \S+~[0-9a-f]{24}\.$/);
    await execution.cancel();
    await t.settle();
    expect(await execution.status()).toBe("cancelled");
    const { data } = await t.list({ workflow: "stuck" });
    expect(data.map(({ status }) => status)).toEqual(["cancelled"]);
  });

  test("journals no page twice after a crash, and refuses other items in a later attempt", async () => {
    let attempts = 0;
    const same = flow(
      "same",
      async ({ map }) => {
        attempts++;
        const items = function* () {
          yield* numbers(1_500);
          if (attempts === 1) throw new Error("the list breaks off");
          yield* numbers(10);
        };
        return (await map("all", items(), square)).total;
      },
      { children: [square], retry: { min: 1, max: 1 } },
    );
    const other = flow(
      "other",
      async ({ map, attempt }) => {
        const items = function* () {
          yield* numbers(1_500);
          if (attempt === 1) throw new Error("the list breaks off");
        };
        return (await map("all", attempt === 1 ? items() : [7], square)).total;
      },
      { children: [square], retry: { min: 1, max: 1 } },
    );
    const rondo = await open([same, other]);
    const execution = await rondo.start(same, null);
    expect(await execution.result()).toBe(1_510);
    const pages: unknown[] = [];
    for await (const event of execution.events({ follow: false, detail: "full" }))
      if ("map" in event) pages.push([event["attempt"], (event["result"] as unknown[]).length]);
    expect(pages).toEqual([
      [1, 1_000],
      [2, 510],
    ]);
    const failed = (await failure(rondo.run(other, null))) as ExecutionFailed;
    expect((failed.cause as Error).message).toContain('map "all" has other items than in an earlier attempt');
  });

  test("refuses handlers and options that it cannot run, with the reason", async () => {
    const nameless = handlerFor<number>()({ process: ({ task }) => task });
    expect(() => flow("a", () => 1, { children: [nameless] })).toThrow(
      "children[0]: is a handler without a name",
    );
    const listing = handler({ name: "listing", tasks: [1], process: () => 1 });
    expect(() => flow("a", () => 1, { children: [listing] })).toThrow("is a handler with tasks of its own");
    type Untyped = (...given: readonly unknown[]) => Promise<unknown>;
    const cases: [string, (map: Untyped) => Promise<unknown>, string][] = [
      ["nameless", (map) => map("m", [1], nameless), "the handler has no name"],
      [
        "limited",
        (map) => map("m", [1], square, { concurrency: 2 }),
        '"concurrency" is an option of the handler',
      ],
      ["listless", (map) => map("m", 5, square), "items must be an array, an iterable or an async iterable"],
      ["big", (map) => map("m", ["x".repeat(70_000)], square), 'map "m" item 0'],
      ["inside", (map) => map("m", [1], () => map("n", [1], square)), "waits inside the map"],
    ];
    const flows = cases.map(([name, run]) =>
      flow(name, ({ map }) => run(map as never), { children: [square] }),
    );
    const rondo = await open(flows);
    for (const [i, [, , message]] of cases.entries()) {
      const failed = (await failure(rondo.run(flows[i]?.name ?? "", null))) as ExecutionFailed;
      expect((failed.cause as Error).message).toContain(message);
    }
    const unknown = handlerFor<number>()({ name: "unknown", process: ({ task }) => task });
    const lost = flow("lost", async ({ map }) => map("m", [1], unknown), { retry: { attempts: 1 } });
    const other = await open([lost]);
    const failed = (await failure(other.run(lost, null))) as ExecutionFailed;
    expect(failed.message).toContain('there is no workflow "unknown"');
  });

  test("compensates the items that are done when the map is cancelled", async () => {
    const undone: [number, number][] = [];
    const book = handlerFor<number>()({
      name: "book",
      process: async ({ task, waitFor }) => {
        if (task === 2) await waitFor("never");
        return task * 10;
      },
      compensate: ({ input, task, outcome, result }) => {
        expect(input).toBe(task);
        if (outcome === "done") undone.push([task, result]);
      },
    });
    const trip = flow("trip", async ({ map }) => (await map("book", [0, 1, 2], book)).count, {
      children: [book],
    });
    await using t = await testRondo({ workflows: [trip] });
    const execution = await t.start(trip, null);
    await t.settle();
    await execution.cancel();
    await t.settle();
    expect(undone.sort(([a], [b]) => a - b)).toEqual([
      [0, 0],
      [1, 10],
    ]);
  });

  test("gives every item a result in each simulated run with crashes and lost answers", async () => {
    const squares = flow("squares", async ({ map }) => (await map("all", numbers(30), square)).toArray(), {
      children: [square],
    });
    const { runs } = await simulate(squares, {
      seeds: 8,
      input: null,
      check: ({ output }) => expect(output).toEqual([...numbers(30)].map((n) => n * n)),
    });
    expect(runs).toBe(8);
  });
});
