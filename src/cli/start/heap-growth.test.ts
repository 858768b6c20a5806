import { expect, test } from "vitest";
import { growthOf } from "./heap-growth.ts";

const MB = 1_048_576;

test("a heap may grow by 100 MB, but by at least 40 % and at most 200 % of its live objects", () => {
  expect(growthOf(0)).toBe(200);
  expect(growthOf(30 * MB)).toBe(200);
  expect(growthOf(80 * MB)).toBe(125);
  expect(growthOf(200 * MB)).toBe(50);
  expect(growthOf(1_000 * MB)).toBe(40);
});
