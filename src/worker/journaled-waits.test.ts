// sleep and waitFor inside process, at a worker without an engine.
import { describe, expect, test } from "vitest";
import { fixtureOf } from "../../test/fixtures/workers/steps-fixture.ts";
import type { WorkerFixture } from "../../test/fixtures/workers/worker-fixture.ts";
import type { Checkpoint, Grant } from "../protocol/work.ts";
import type { ProcessContext } from "./handler-code.ts";

const parse = (text: string | undefined) => JSON.parse(text ?? "null") as Record<string, unknown>;
const never = () => new Promise<never>(() => {});
const again = (fixture: WorkerFixture, checkpoints: readonly Checkpoint[], more: Partial<Grant> = {}) =>
  fixture.give([], { items: [{ number: 0, attempt: 2, claim: 0, task: "1", checkpoints }], ...more });

describe("sleep", () => {
  test("ends the attempt as suspended, at once, and its code never goes on", async () => {
    const trace: string[] = [];
    let signal: AbortSignal | undefined;
    const fixture = fixtureOf(async (context) => {
      ({ signal } = context);
      await context.step("a", () => 1);
      await context.sleep("nap", "1h");
      trace.push("went on");
    });
    await fixture.give([1]);
    expect(fixture.outcomes.get(0)).toEqual({
      status: "suspended",
      payload: "null",
      wait: { name: "nap", untilMs: fixture.clock.now() + 3_600_000, forMs: 3_600_000 },
    });
    expect(signal?.aborted).toBe(true);
    await fixture.clock.advance("2h");
    expect(trace).toEqual([]);
    expect(fixture.of("receipts")).toHaveLength(1);
  });

  test("at the very beginning leaves no timer behind", async () => {
    const fixture = fixtureOf(({ sleep }) => sleep("nap", 5));
    await fixture.give([1]);
    expect(fixture.of("receipts")).toHaveLength(1);
    expect(fixture.outcomes.get(0)?.status).toBe("suspended");
    expect(fixture.clock.nextAt).toBe(Number.POSITIVE_INFINITY);
  });

  test.each<[string, (context: ProcessContext) => unknown, string]>([
    [
      "returns a value",
      ({ sleep }) => {
        void sleep("nap", 5);
        return "value";
      },
      "done",
    ],
    [
      "throws",
      async ({ sleep }) => {
        void sleep("nap", 5);
        await Promise.resolve();
        throw new Error("counts");
      },
      "failed",
    ],
  ])("that the code does not await ends nothing: it %s", async (_what, process, status) => {
    const fixture = fixtureOf(process);
    await fixture.give([1]);
    await fixture.clock.advance("1s");
    expect(fixture.outcomes.get(0)).toMatchObject({ status });
    expect(fixture.of("receipts")).toHaveLength(1);
    expect(fixture.clock.nextAt).toBe(Number.POSITIVE_INFINITY);
  });

  test("whose time has passed gives back; one that has not is waited for until its own time", async () => {
    const fixture = fixtureOf(async ({ sleep }) => {
      await sleep("past", "1h");
      await sleep("over", "1h");
      await sleep("future", "1h");
    });
    const now = fixture.clock.now();
    await again(fixture, [
      { kind: "sleep", name: "past", due: now },
      { kind: "step", name: "over", seq: 4 },
      { kind: "sleep", name: "future", due: now + 17 },
    ]);
    expect(fixture.outcomes.get(0)).toMatchObject({ wait: { name: "future", untilMs: now + 17 } });
  });

  test("of several side by side, all are in the receipt", async () => {
    const fixture = fixtureOf(({ sleep, waitFor }) =>
      Promise.all([
        sleep("a", "1h"),
        sleep("b", "2h"),
        waitFor("c"),
        waitFor(["d", "e"], { match: { n: 1 } }),
      ]),
    );
    await fixture.give([1]);
    expect(fixture.outcomes.get(0)).toMatchObject({
      status: "suspended",
      waits: [
        { name: "a", forMs: 3_600_000 },
        { name: "b", forMs: 7_200_000 },
        { name: "c", signal: "c" },
        { name: "d|e", anyOf: ["d", "e"], match: '{"n":1}' },
      ],
    });
    expect(fixture.of("receipts")).toHaveLength(1);
  });

  test("that ends while a step runs beside it is journaled, and its branch goes on", async () => {
    let finish: (value: string) => void = () => {};
    const trace: string[] = [];
    const fixture = fixtureOf(({ sleep, step }) =>
      Promise.all([
        sleep("nap", "1m").then(() => trace.push("awake")),
        step("slow", () => new Promise<string>((resolve) => (finish = resolve))),
      ]),
    );
    await fixture.give([1]);
    await fixture.clock.advance("2m");
    expect(trace).toEqual(["awake"]);
    expect(fixture.of("step")).toMatchObject([{ name: "nap", result: "null" }]);
    finish("done");
    await fixture.clock.settle();
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "done" });
  });

  test("and waits that are answered are given back in the order of the journal", async () => {
    const fixture = fixtureOf(
      ({ sleep, waitFor }) => Promise.race([sleep("limit", "1h").then(() => "late"), waitFor("paid")]),
      { journal: { 7: { result: '"paid"' } } },
    );
    await again(fixture, [
      { kind: "step", name: "paid", seq: 7 },
      { kind: "sleep", name: "limit", due: 0 },
    ]);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "done", payload: '"paid"' });
  });

  describe("beside a step that still runs", () => {
    /** A step that ends when it is told to. */
    const slow = () => {
      const ends: { resolve: (value: unknown) => void; fail: (thrown: Error) => void }[] = [];
      const run = () => new Promise((resolve, fail) => ends.push({ resolve, fail }));
      return { run, end: (i: number) => ends[i] as (typeof ends)[number], ends };
    };

    test.each<[string, (context: ProcessContext) => Promise<unknown>, object]>([
      [
        "sleep",
        ({ sleep }) => sleep("nap", "1h"),
        { untilMs: 3_600_000 + 1_000, forMs: 3_600_000 - 600_000 },
      ],
      ["waitFor", ({ waitFor }) => waitFor("go", { timeout: "1h" }), { timeoutMs: 3_600_000 - 600_000 }],
    ])("%s ends the attempt when that is journaled, at the time it had", async (_name, wait, expected) => {
      const { run, end } = slow();
      const fixture = fixtureOf((context) => Promise.all([context.step("s", run), wait(context)]));
      const begun = fixture.clock.now();
      await fixture.give([1]);
      expect(fixture.outcomes.size).toBe(0);
      await fixture.clock.advance(600_000);
      end(0).resolve("done");
      await fixture.clock.settle();
      expect(fixture.of("step")).toMatchObject([{ name: "s", result: '"done"' }]);
      const outcome = fixture.outcomes.get(0);
      expect(outcome?.status).toBe("suspended");
      const { untilMs, ...others } = expected as { untilMs?: number };
      expect(outcome?.wait).toMatchObject({
        ...others,
        ...(untilMs === undefined ? {} : { untilMs: begun + 3_600_000 }),
      });
    });

    test("what follows the step is done too, as long as it is steps", async () => {
      const { run, end, ends } = slow();
      const chain = async ({ step }: ProcessContext) => {
        await step("one", run);
        await step("two", run);
      };
      const fixture = fixtureOf((context) => Promise.all([chain(context), context.sleep("nap", "1h")]));
      await fixture.give([1]);
      end(0).resolve(1);
      await fixture.clock.settle();
      expect([ends.length, fixture.outcomes.size]).toEqual([2, 0]);
      end(1).resolve(2);
      await fixture.clock.settle();
      expect(fixture.of("step").map(({ name }) => name)).toEqual(["one", "two"]);
      expect(fixture.outcomes.get(0)).toMatchObject({ status: "suspended", wait: { name: "nap" } });
    });

    test("that fails: the code's word counts, if it has one", async () => {
      const fails = slow();
      const throws = fixtureOf(({ sleep, step }) => Promise.all([step("s", fails.run), sleep("nap", "1h")]));
      await throws.give([1]);
      fails.end(0).fail(new Error("boom"));
      await throws.clock.settle();
      expect(throws.outcomes.get(0)).toMatchObject({ status: "failed" });
      const caught = slow();
      const waits = fixtureOf(({ sleep, step }) =>
        Promise.allSettled([step("s", caught.run), sleep("nap", "1h")]),
      );
      await waits.give([1]);
      caught.end(0).fail(new Error("boom"));
      await waits.clock.settle();
      expect(waits.outcomes.get(0)).toMatchObject({ status: "suspended" });
    });

    test("whoever is first: a race is over with the step", async () => {
      const { run, end } = slow();
      const fixture = fixtureOf(({ sleep, step }) => Promise.race([step("s", run), sleep("nap", "1h")]));
      await fixture.give([1]);
      end(0).resolve("won");
      await fixture.clock.settle();
      expect(fixture.outcomes.get(0)).toMatchObject({ status: "done", payload: '"won"' });
    });

    test("not beside but inside of it: the step cannot end before, and runs again", async () => {
      const fixture = fixtureOf(({ sleep, step }) =>
        step("outer", async () => {
          await Promise.resolve();
          await step("inner", () => 1);
          await sleep("nap", "1h");
        }),
      );
      await fixture.give([1]);
      expect(fixture.of("step").map(({ name }) => name)).toEqual(["inner"]);
      expect(fixture.outcomes.get(0)).toMatchObject({ status: "suspended" });
    });
  });

  test.each(["soon", -1, Number.NaN, undefined])("for %s is fatal", async (duration) => {
    const fixture = fixtureOf(({ sleep }) => sleep("nap", duration as string));
    await fixture.give([1]);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "failed", fatal: true });
    expect(parse(fixture.outcomes.get(0)?.payload)["message"]).toContain('sleep "nap"');
  });

  test("frees its place at the worker", async () => {
    const fixture = fixtureOf(({ sleep }) => sleep("nap", "1h").then(never), { concurrency: 1 });
    await fixture.give([1, 2, 3]);
    expect([...fixture.outcomes.values()].map(({ status }) => status)).toEqual([
      "suspended",
      "suspended",
      "suspended",
    ]);
  });
});

describe("waitFor", () => {
  test("ends the attempt as suspended, with its signal and its timeout", async () => {
    const fixture = fixtureOf(({ waitFor, task }) =>
      task === 0 ? waitFor("approved") : waitFor("approved", { timeout: "2d" }),
    );
    await fixture.give([0, 1]);
    expect(fixture.outcomes.get(0)?.wait).toEqual({ name: "approved", signal: "approved" });
    expect(fixture.outcomes.get(1)?.wait).toEqual({
      name: "approved",
      signal: "approved",
      timeoutMs: 172_800_000,
    });
  });

  test("that was answered gives the payload", async () => {
    const fixture = fixtureOf(({ waitFor }) => waitFor("approved"), {
      journal: { 9: { result: '{"by":"ann"}' } },
    });
    await again(fixture, [{ kind: "step", name: "approved", seq: 9 }]);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "done", payload: '{"by":"ann"}' });
  });

  test("that ran out of time throws a WaitTimeout, which can be caught", async () => {
    const error = JSON.stringify({ code: "wait_timeout", message: 'no signal "approved" came within 2 d' });
    const fixture = fixtureOf(
      async ({ waitFor, attempt }) => {
        try {
          return await waitFor("approved", { timeout: "2d" });
        } catch (thrown) {
          if (attempt === 3) throw thrown;
          return [(thrown as Error).name, (thrown as { code?: string }).code, (thrown as Error).message];
        }
      },
      { journal: { 9: { error } } },
    );
    const checkpoints = [{ kind: "step" as const, name: "approved", seq: 9 }];
    await again(fixture, checkpoints);
    expect(JSON.parse(fixture.outcomes.get(0)?.payload ?? "")).toEqual([
      "WaitTimeout",
      "wait_timeout",
      'no signal "approved" came within 2 d',
    ]);
    await fixture.give([], { items: [{ number: 1, attempt: 3, claim: 0, task: "1", checkpoints }] });
    expect(fixture.outcomes.get(1)).toMatchObject({ status: "failed", fatal: true });
    expect(parse(fixture.outcomes.get(1)?.payload)).toMatchObject({ code: "wait_timeout" });
  });

  test("for a name that no signal can have is fatal", async () => {
    const fixture = fixtureOf(({ waitFor }) => waitFor("is it\u200b ok?"));
    await fixture.give([1]);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "failed", fatal: true });
  });

  test("for several signals whose names are too long together says how to name it", async () => {
    const bench = fixtureOf(({ waitFor }) => waitFor(["a", "b"].map((one) => one.repeat(100))));
    await bench.give([1]);
    expect(bench.outcomes.get(0)).toMatchObject({ status: "failed", fatal: true });
    expect(parse(bench.outcomes.get(0)?.payload)["message"]).toContain(
      'waitFor("answer", { signal: [...] })',
    );
  });

  test("that was a sleep before is fatal and says so", async () => {
    const fixture = fixtureOf(({ waitFor }) => waitFor("x"));
    await again(fixture, [{ kind: "sleep", name: "x", due: 5 }]);
    expect(parse(fixture.outcomes.get(0)?.payload)["message"]).toContain("was a sleep in an earlier attempt");
  });
});
