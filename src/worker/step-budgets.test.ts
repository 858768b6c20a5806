// Steps with their own budget, at a worker without an engine.
import { describe, expect, test } from "vitest";
import { fixtureOf } from "../../test/fixtures/workers/steps-fixture.ts";
import type { WorkerFixture } from "../../test/fixtures/workers/worker-fixture.ts";
import { FATAL } from "../protocol/error-brands.ts";
import type { Checkpoint } from "../protocol/work.ts";

const parse = (text: string | undefined) => JSON.parse(text ?? "null") as Record<string, unknown>;
const again = (fixture: WorkerFixture, checkpoints: readonly Checkpoint[]) =>
  fixture.give([], { items: [{ number: 0, attempt: 2, claim: 0, task: "1", checkpoints }] });
const retry = { attempts: 3, backoff: "constant", min: 200 } as const;

describe("a step with a budget", () => {
  test("is tried again within the attempt, and each failed try is journaled", async () => {
    const seen: [number, string][] = [];
    const fixture = fixtureOf(({ step }) =>
      step("call", { retry }, ({ attempt, idempotencyKey }) => {
        seen.push([attempt, idempotencyKey]);
        if (attempt < 3) throw new Error(`try ${attempt}`);
        return "done";
      }),
    );
    await fixture.give([1]);
    await fixture.clock.advance("1s");
    expect(fixture.of("step.retrying").map(({ tries }) => tries)).toEqual([1, 2]);
    expect(fixture.of("step")).toMatchObject([{ name: "call", result: '"done"' }]);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "done" });
    expect(seen.map(([attempt]) => attempt)).toEqual([1, 2, 3]);
    expect(new Set(seen.map(([, key]) => key)).size).toBe(1);
  });

  test("that is used up fails for good with the user's error as cause", async () => {
    const fixture = fixtureOf(({ step }) =>
      step("call", { retry: { attempts: 1 } }, () => {
        throw Object.assign(new Error("no"), { code: "E_NO" });
      }),
    );
    await fixture.give([1]);
    expect(fixture.of("step.failed")).toMatchObject([{ name: "call", tries: 1 }]);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "failed", fatal: true });
    expect(parse(fixture.outcomes.get(0)?.payload)).toMatchObject({
      name: "StepFailed",
      code: "step_failed",
      message: 'step "call" failed: no',
    });
  });

  test("throws the journaled failure in later attempts, and its code does not run", async () => {
    let caught: unknown;
    const fixture = fixtureOf(
      async ({ step }) => {
        await step("call", { retry }, () => "must not run").catch((thrown: unknown) => {
          caught = thrown;
        });
        return "went on";
      },
      { journal: { 4: { error: JSON.stringify({ name: "TypeError", message: "no", code: "E_NO" }) } } },
    );
    await again(fixture, [{ kind: "step", name: "call", seq: 4, failed: true }]);
    expect(caught).toMatchObject({ name: "StepFailed", step: "call" });
    expect((caught as Error).cause).toMatchObject({ name: "TypeError", message: "no", code: "E_NO" });
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "done", payload: '"went on"' });
  });

  test("continues with the tries of earlier attempts, after the rest of their back-off", async () => {
    const tried: number[] = [];
    const fixture = fixtureOf(({ step }) =>
      step("call", { retry }, ({ attempt }) => {
        tried.push(attempt);
        throw new Error("no");
      }),
    );
    await again(fixture, [{ kind: "tries", name: "call", tries: 2, due: fixture.clock.now() + 100 }]);
    expect(tried).toEqual([]);
    await fixture.clock.advance(100);
    expect(tried).toEqual([3]);
    expect(fixture.of("step.failed")).toMatchObject([{ tries: 3 }]);
  });

  test("with a long back-off suspends the task, unless another step runs", async () => {
    let finish: () => void = () => {};
    const code = (isAlone: boolean) =>
      fixtureOf(({ step }) =>
        Promise.all([
          step("call", { retry: { attempts: 2, backoff: "constant", min: "1h" } }, ({ attempt }) => {
            if (attempt === 1)
              throw Object.assign(new Error("later"), { [Symbol.for("rondo.retryAfter")]: 5_000 });
            return "done";
          }),
          isAlone ? null : step("other", () => new Promise<void>((resolve) => (finish = resolve))),
        ]),
      );
    const alone = code(true);
    await alone.give([1]);
    expect(alone.outcomes.get(0)).toMatchObject({
      status: "suspended",
      waits: [{ name: "call", forMs: 5_000, retry: true }],
    });
    const beside = code(false);
    await beside.give([1]);
    await beside.clock.advance(5_000);
    expect(beside.of("step")).toMatchObject([{ name: "call" }]);
    finish();
    await beside.clock.settle();
    expect(beside.outcomes.get(0)).toMatchObject({ status: "done" });
  });

  test("is not used for a fatal error", async () => {
    const fixture = fixtureOf(({ step }) =>
      step("call", { retry }, () => {
        throw Object.assign(new Error("closed"), { [FATAL]: true });
      }),
    );
    await fixture.give([1]);
    expect(fixture.of("step.retrying")).toEqual([]);
    expect(fixture.of("step.failed")).toMatchObject([{ tries: 1 }]);
  });

  test("and a time limit aborts the signal of a try that takes longer, and counts it", async () => {
    const reasons: unknown[] = [];
    const fixture = fixtureOf(({ step }) =>
      step("call", { retry: { attempts: 1 }, timeout: "1s" }, ({ signal }) => {
        signal.addEventListener("abort", () => reasons.push((signal.reason as Error).message));
        return new Promise(() => {});
      }),
    );
    await fixture.give([1]);
    await fixture.clock.advance("1s");
    expect(reasons).toEqual(["ran longer than 1000 ms"]);
    expect(parse(fixture.of("step.failed")[0]?.error)).toMatchObject({ name: "Timeout", code: "timeout" });
  });

  test.each<[string, object, string]>([
    ["an unknown option", { retires: 3 }, 'has the unknown option "retires"'],
    ["crashes", { retry: { crashes: 2 } }, "a crash counts for the whole task"],
    ["a wrong time", { timeout: "5 minutes" }, "is not a duration"],
  ])("refuses %s", async (_what, options, message) => {
    const fixture = fixtureOf(({ step }) => step("call", options, () => 1));
    await fixture.give([1]);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "failed", fatal: true });
    expect(parse(fixture.outcomes.get(0)?.payload)["message"]).toContain(message);
  });
});

describe("values that are derived from the task", () => {
  test("are the same in each attempt, and differ by name and by call", async () => {
    const seen: unknown[][] = [];
    const fixture = fixtureOf(({ random, uuid }) => {
      seen.push([random(), random(), random("a"), uuid(), uuid(), uuid("a")]);
    });
    await fixture.give([1]);
    await again(fixture, []);
    expect(seen[1]).toEqual(seen[0]);
    expect(new Set(seen[0]).size).toBe(6);
    expect(seen[0]?.[0]).toBeGreaterThanOrEqual(0);
    expect(seen[0]?.[0]).toBeLessThan(1);
    expect(seen[0]?.[3]).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  });
});
