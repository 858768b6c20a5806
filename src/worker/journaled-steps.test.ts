// Steps inside process, at a worker without an engine.
import { describe, expect, test } from "vitest";
import { fixtureOf } from "../../test/fixtures/workers/steps-fixture.ts";
import { beatFor, type WorkerFixture } from "../../test/fixtures/workers/worker-fixture.ts";
import type { Checkpoint, Grant } from "../protocol/work.ts";

const parse = (text: string | undefined) => JSON.parse(text ?? "null") as Record<string, unknown>;
const again = (fixture: WorkerFixture, checkpoints: readonly Checkpoint[], more: Partial<Grant> = {}) =>
  fixture.give([], { items: [{ number: 0, attempt: 2, claim: 0, task: "1", checkpoints }], ...more });

describe("step", () => {
  test("runs, is journaled, and goes on only when that is committed", async () => {
    const trace: string[] = [];
    let acknowledge: () => void = () => {};
    const fixture = fixtureOf(
      async ({ step }) => {
        const value = await step("load", () => {
          trace.push("ran");
          return { at: new Date(0), gone: undefined };
        });
        trace.push(`went on with ${JSON.stringify(value)}`);
        return value;
      },
      {
        acknowledged: () =>
          new Promise((resolve) => {
            acknowledge = resolve;
          }),
      },
    );
    await fixture.give([1]);
    expect(fixture.of("step")).toMatchObject([
      { name: "load", result: '{"at":"1970-01-01T00:00:00.000Z"}', task: 0, attempt: 1, claim: 0, round: 1 },
    ]);
    expect(trace).toEqual(["ran"]);
    acknowledge();
    await fixture.clock.settle();
    // As stored, in this attempt like in any other.
    expect(trace[1]).toBe('went on with {"at":"1970-01-01T00:00:00.000Z"}');
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "done" });
  });

  test("that is journaled gives its result without running", async () => {
    const ran: string[] = [];
    const fixture = fixtureOf(
      async ({ step }) => {
        const a = await step("a", () => ran.push("a"));
        const b = await step("b", () => ran.push("b"));
        return [a, b];
      },
      { journal: { 7: { result: '{"n":1}' } } },
    );
    await again(fixture, [{ kind: "step", name: "a", seq: 7 }]);
    expect(ran).toEqual(["b"]);
    expect(fixture.of("step").map(({ name }) => name)).toEqual(["b"]);
    expect(fixture.outcomes.get(0)?.payload).toBe('[{"n":1},1]');
  });

  test("that is new comes after those that are journaled, though they are read slowly", async () => {
    const reads: (() => void)[] = [];
    const fixture = fixtureOf(
      ({ step }) => {
        const old = async (): Promise<string> => {
          await step("a", () => "new");
          return step("b", () => "new");
        };
        return Promise.race([old(), step("c", () => "new")]);
      },
      {
        results: {
          async *settled() {},
          checkpoint: (_, seq) =>
            new Promise((resolve) => reads.push(() => resolve({ result: `"journaled at ${seq}"` }))),
        },
      },
    );
    await again(fixture, [
      { kind: "step", name: "a", seq: 7 },
      { kind: "step", name: "b", seq: 8 },
    ]);
    for (let read = 0; read < 2; read++) {
      expect(fixture.outcomes.size).toBe(0);
      reads[read]?.();
      await fixture.clock.settle();
    }
    expect(fixture.of("step").map(({ name }) => name)).toEqual(["c"]);
    expect(fixture.outcomes.get(0)?.payload).toBe('"journaled at 8"');
  });

  test("may be sync, async, without a result, and one of many side by side", async () => {
    const fixture = fixtureOf(({ step }) =>
      Promise.all([
        step("a", () => 1),
        step("b", async () => 2),
        step("c", () => undefined),
        ...Array.from({ length: 50 }, (_, i) => step(`n${i}`, async () => i)),
      ]),
    );
    await fixture.give([1]);
    const results = JSON.parse(fixture.outcomes.get(0)?.payload ?? "[]") as unknown[];
    expect(results.slice(0, 3)).toEqual([1, 2, null]);
    expect(fixture.of("step")).toHaveLength(53);
  });

  test("of many tasks in one turn are sent together", async () => {
    let sends = 0;
    const fixture = fixtureOf(({ step, task }) => step("s", () => task), {
      concurrency: 100,
      acknowledged: async () => void sends++,
    });
    await fixture.give(Array.from({ length: 100 }, (_, i) => i));
    expect(fixture.of("step")).toHaveLength(100);
    expect(fixture.outcomes.size).toBe(100);
    expect(sends).toBeLessThanOrEqual(4);
  });

  test("that throws throws in the task, is not journaled, and can be caught", async () => {
    const fixture = fixtureOf(async ({ step, task }) => {
      try {
        await step("s", () => {
          throw new Error("boom");
        });
      } catch (error) {
        if (task === 0) throw error;
      }
      return "caught";
    });
    await fixture.give([0, 1]);
    expect(fixture.of("step")).toEqual([]);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "failed" });
    expect(fixture.outcomes.get(0)?.fatal).toBeUndefined();
    expect(fixture.outcomes.get(1)?.payload).toBe('"caught"');
  });

  test.each<[string, unknown]>([
    ["a Map", new Map()],
    ["NaN", { deep: [Number.NaN] }],
    ["too much", "x".repeat(300_000)],
  ])("whose result is %s has failed for good, with the step in the message", async (_what, value) => {
    const fixture = fixtureOf(({ step }) => step("load", () => value));
    await fixture.give([1]);
    expect(fixture.of("step")).toEqual([]);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "failed", fatal: true });
    expect(parse(fixture.outcomes.get(0)?.payload)).toMatchObject({
      name: "NotStorable",
      message: expect.stringContaining('step "load"'),
    });
  });

  test("twice of the same name is fatal and says so, whatever it is", async () => {
    const fixture = fixtureOf(async ({ step, sleep, task }) => {
      await step("same", () => 1);
      return task === 0 ? step("same", () => 2) : sleep("same", "1s");
    });
    await fixture.give([0, 1]);
    for (const task of [0, 1]) {
      expect(fixture.outcomes.get(task)).toMatchObject({ status: "failed", fatal: true });
      expect(parse(fixture.outcomes.get(task)?.payload)["message"]).toContain('"same" is used twice');
    }
  });

  test("in a later attempt may have the name of one that is journaled, once", async () => {
    const fixture = fixtureOf(
      async ({ step }) => {
        await step("a", () => 1);
        await step("a", () => 2);
      },
      { journal: { 3: { result: "1" } } },
    );
    await again(fixture, [{ kind: "step", name: "a", seq: 3 }]);
    expect(parse(fixture.outcomes.get(0)?.payload)["message"]).toContain('"a" is used twice');
  });

  test.each<[string, unknown]>([
    ["empty", ""],
    ["too long", "x".repeat(201)],
    ["no text", 7],
    ["missing", undefined],
    ["a lone surrogate", "\ud800"],
  ])("with a name that is %s is fatal", async (_what, name) => {
    const fixture = fixtureOf(({ step }) => step(name as string, () => 1));
    await fixture.give([1]);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "failed", fatal: true });
    expect(parse(fixture.outcomes.get(0)?.payload)["message"]).toContain("1 to 200 bytes");
  });

  test("beyond ten thousand names is fatal, those of earlier attempts included", async () => {
    const fixture = fixtureOf(
      async ({ step }) => {
        for (let i = 0; i < 10_001; i++) await step(`s${i}`, () => i);
      },
      { journal: { 1: { result: "0" } } },
    );
    await fixture.give([1]);
    expect(fixture.of("step")).toHaveLength(10_000);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "failed", fatal: true });
    expect(parse(fixture.outcomes.get(0)?.payload)["message"]).toContain("10000 steps");
    const known = Array.from({ length: 9_600 }, (_, i) => ({
      kind: "step" as const,
      name: `old${i}`,
      seq: 1,
    }));
    const before = fixture.of("step").length;
    await again(fixture, known);
    expect(fixture.of("step").length - before).toBe(400);
  });

  test.each(["stale", "gone", "late", "elsewhere"])(
    "whose verdict is %s ends the attempt: its code is told to stop and never goes on",
    async (verdict) => {
      let signal: AbortSignal | undefined;
      const trace: string[] = [];
      const fixture = fixtureOf(
        async (context) => {
          ({ signal } = context);
          await context.step("s", () => trace.push("ran"));
          trace.push("went on");
        },
        { verdict: (report) => (report.kind === "step" ? verdict : "stale") },
      );
      await fixture.give([1]);
      expect(trace).toEqual(["ran"]);
      expect(signal?.aborted).toBe(true);
      expect(fixture.outcomes.get(0)).toMatchObject({ status: "cancelled" });
      expect(fixture.of("receipts")).toHaveLength(1);
    },
  );

  test("whose verdict is duplicate goes on (C6)", async () => {
    const fixture = fixtureOf(({ step }) => step("s", () => 7), {
      verdict: (report) => (report.kind === "step" ? "duplicate" : "accepted"),
    });
    await fixture.give([1]);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "done", payload: "7" });
  });

  test("of an attempt that ran out of time, or was lost, is neither run nor reported any more", async () => {
    const trace: string[] = [];
    let finish: () => void = () => {};
    const fixture = fixtureOf(async ({ step }) => {
      await step("slow", () => new Promise<void>((resolve) => (finish = resolve)));
      trace.push("went on");
      await step("next", () => trace.push("next"));
    });
    await fixture.give([1], { timeoutMs: 1_000 });
    await fixture.clock.advance(1_000);
    finish();
    await fixture.clock.settle();
    expect(trace).toEqual([]);
    expect(fixture.of("step")).toEqual([]);
    const grant = await fixture.give([1]);
    fixture.worker.cancel([beatFor(grant, 0)], "lost");
    finish();
    await fixture.clock.settle();
    expect([trace, fixture.of("step")]).toEqual([[], []]);
  });

  test("of a cancelled attempt is still journaled: its code decides when to stop", async () => {
    let finish: () => void = () => {};
    const fixture = fixtureOf(async ({ step, signal }) => {
      await step("s", () => new Promise<void>((resolve) => (finish = resolve)));
      signal.throwIfAborted();
    });
    const grant = await fixture.give([1]);
    fixture.worker.cancel([beatFor(grant, 0)], "cancel");
    finish();
    await fixture.clock.settle();
    expect(fixture.of("step")).toHaveLength(1);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "cancelled" });
  });

  test("that was a sleep before is fatal and says so", async () => {
    const fixture = fixtureOf(({ step }) => step("x", () => 1));
    await again(fixture, [{ kind: "sleep", name: "x", due: 5 }]);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "failed", fatal: true });
    expect(parse(fixture.outcomes.get(0)?.payload)["message"]).toContain("was a sleep in an earlier attempt");
  });

  test("whose payload cannot be read fails the attempt, to be tried again", async () => {
    const fixture = fixtureOf(({ step }) => step("x", () => 1));
    await again(fixture, [{ kind: "step", name: "x", seq: 99 }]);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "failed" });
    expect(fixture.outcomes.get(0)?.fatal).toBeUndefined();
  });
});
