// Backoff: exponential or constant, full jitter from a hash of the attempt's id.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { compilePlan, type HandlerPlan } from "../definition/plan.ts";
import { backoffMs } from "./retry.ts";

// The same run every time; change the seed to look elsewhere.
fc.configureGlobal({ seed: 1 });

function plan(retry: object): HandlerPlan {
  const handlers = { a: { use: "a", retry } };
  return compilePlan({ rondo: 1, name: "w", phases: [{ name: "a", handlers }] }).phases[0]
    ?.handlers[0] as HandlerPlan;
}

/** The largest delay over many ids: close to the ceiling, never above it. */
function largest(handler: HandlerPlan, failures: number): number {
  let most = 0;
  for (let i = 0; i < 2_000; i++) most = Math.max(most, backoffMs(handler, failures, `e/${i}`));
  return most;
}

describe("backoff", () => {
  test.each([
    [1, 1_000],
    [2, 2_000],
    [3, 4_000],
    [7, 60_000],
    [250, 60_000],
  ])("after failure %i has the ceiling %i ms by default", (failures, ceiling) => {
    const most = largest(plan({}), failures);
    expect(most).toBeLessThanOrEqual(ceiling);
    expect(most).toBeGreaterThan(ceiling * 0.95);
  });

  test("constant stays at min", () => {
    const handler = plan({ backoff: "constant", min: 500 });
    for (const failures of [1, 5, 100]) {
      expect(largest(handler, failures)).toBeLessThanOrEqual(500);
      expect(largest(handler, failures)).toBeGreaterThan(475);
    }
  });

  test("is spread over the whole range", () => {
    const quarters = [0, 0, 0, 0];
    for (let i = 0; i < 4_000; i++) {
      const ms = backoffMs(plan({ backoff: "constant", min: 1_000 }), 1, `e${i}/a/1/a/${i % 7}/1`);
      quarters[Math.min(3, Math.floor(ms / 250))] = (quarters[Math.min(3, Math.floor(ms / 250))] ?? 0) + 1;
    }
    for (const n of quarters) expect(n).toBeGreaterThan(800);
  });

  test("is within its bounds, whole, and the same for the same attempt", () => {
    fc.assert(
      fc.property(
        fc.nat(10_000),
        fc.nat(1_000_000),
        fc.integer({ min: 1, max: 300 }),
        fc.string(),
        (min, more, failures, id) => {
          const handler = plan({ min, max: min + more });
          const ms = backoffMs(handler, failures, id);
          expect(ms).toBe(backoffMs(handler, failures, id));
          expect(Number.isSafeInteger(ms)).toBe(true);
          expect(ms).toBeGreaterThanOrEqual(0);
          expect(ms).toBeLessThanOrEqual(min + more);
        },
      ),
    );
  });

  test("differs between attempts", () => {
    const delays = new Set(Array.from({ length: 100 }, (_, i) => backoffMs(plan({}), 5, `e/a/1/a/0/${i}`)));
    expect(delays.size).toBeGreaterThan(90);
  });
});
