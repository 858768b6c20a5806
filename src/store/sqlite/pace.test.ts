import { expect, test } from "vitest";
import { Pace } from "./pace.ts";

/** The sizes of calls, where one unit takes this many milliseconds in each call. */
function sizes(msPerUnit: readonly number[], fixedMs = 0): number[] {
  let now = 0;
  const pace = new Pace({ goalMs: 10, first: 64, min: 8, max: 512, monotonic: () => now });
  return msPerUnit.map((ms) =>
    pace.run((size) => {
      now += fixedMs + size * ms;
      return size;
    }),
  );
}

test("a call does as much as takes about the goal: less after one that took longer, more after short ones", () => {
  expect(sizes([1, 1, 1, 1])).toEqual([64, 10, 10, 10]);
  expect(sizes([0.01, 0.01, 0.01, 0.01, 0.01, 0.01])).toEqual([64, 128, 256, 512, 512, 512]);
  expect(sizes([1, 0.01, 0.01, 2, 2])).toEqual([64, 10, 20, 40, 8]);
});

test("a call that takes long whatever it does stays at the least", () => {
  expect(sizes([0.1, 0.1, 0.1, 0.1], 100)).toEqual([64, 8, 8, 8]);
});

test("work that throws changes nothing", () => {
  const pace = new Pace({ goalMs: 10, first: 64, min: 8, max: 512 });
  expect(() =>
    pace.run(() => {
      throw new Error("the disk is full");
    }),
  ).toThrow("the disk is full");
  expect(pace.size).toBe(64);
});
