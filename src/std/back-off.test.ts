import { expect, test } from "vitest";
import { BackOff, backOffMs } from "./back-off.ts";
import { SeededRandom } from "./random.ts";

const BOUNDS = { minMs: 100, maxMs: 1_000 };

test("waits double up to the cap, and begin again after a success", () => {
  const backOff = new BackOff(BOUNDS);
  const waits = Array.from({ length: 6 }, () => backOff.next());
  expect([waits, backOff.failures]).toEqual([[100, 200, 400, 800, 1_000, 1_000], 6]);
  backOff.reset();
  expect([backOff.failures, backOff.next()]).toEqual([0, 100]);
  expect(backOffMs(1_000_000, BOUNDS)).toBe(1_000);
});

test("jitter takes up to half off, by the random port", () => {
  const jittered = (u32: number) => backOffMs(1, { ...BOUNDS, random: { u32: () => u32 } });
  expect([jittered(0), jittered(2 ** 31), jittered(2 ** 32 - 1)]).toEqual([100, 150, 200]);
});

test("C2 waits grow by a factor of two up to a maximum, with jitter; one success begins anew", () => {
  for (let seed = 0; seed < 100; seed++) {
    const backOff = new BackOff({ random: new SeededRandom(seed) });
    const waits = Array.from({ length: 12 }, () => backOff.next());
    waits.forEach((wait, i) => {
      const most = Math.min(10_000, 100 * 2 ** i);
      expect(wait).toBeGreaterThanOrEqual(Math.max(100, most / 2));
      expect(wait).toBeLessThanOrEqual(most);
    });
    backOff.reset();
    expect(backOff.next()).toBe(100);
  }
});
