// When a worker process is added, and when one is ended.
import { describe, expect, test } from "vitest";
import { ScalePolicy } from "./worker-fleet.ts";

const busy = (n: number) => Array(n).fill({ held: 95, capacity: 100 });
const idle = (n: number) => Array(n).fill({ held: 0, capacity: 100 });

/** The decisions of the policy over this many samples with the same loads. */
function decide(policy: ScalePolicy, loads: { held: number; capacity: number }[], samples: number): number[] {
  return Array.from({ length: samples }, () => policy.sample(loads)).filter((change) => change !== 0);
}

describe("a process is added", () => {
  test("while there are fewer than the least", () => {
    expect(new ScalePolicy({ min: 2, max: 4 }).sample(idle(1))).toBe(1);
  });

  test("when they are busy over a few samples, not at the first; then its effect is waited for", () => {
    const policy = new ScalePolicy({ min: 1, max: 4 });
    expect([1, 2, 3, 4, 5, 6].map(() => policy.sample(busy(1)))).toEqual([0, 0, 1, 0, 0, 1]);
  });

  test("never beyond the most", () => {
    expect(decide(new ScalePolicy({ min: 1, max: 3 }), busy(3), 20)).toEqual([]);
  });
});

describe("a process is ended", () => {
  test("when the others could do it all easily, for long", () => {
    const policy = new ScalePolicy({ min: 1, max: 4 });
    expect(decide(policy, idle(2), 9)).toEqual([]);
    expect(decide(policy, idle(2), 1)).toEqual([-1]);
  });

  test("not while the others would be busy then: adding and ending do not alternate", () => {
    const policy = new ScalePolicy({ min: 1, max: 4 });
    const half = [
      { held: 60, capacity: 100 },
      { held: 10, capacity: 100 },
    ];
    expect(decide(policy, half, 50)).toEqual([]);
  });

  test("one busy sample begins the wait anew", () => {
    const policy = new ScalePolicy({ min: 1, max: 2 });
    decide(policy, idle(2), 9);
    policy.sample(busy(2));
    expect(decide(policy, idle(2), 9)).toEqual([]);
  });

  test("never below the least", () => {
    expect(decide(new ScalePolicy({ min: 2, max: 4 }), idle(2), 50)).toEqual([]);
  });
});
