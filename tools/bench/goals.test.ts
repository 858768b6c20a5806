import { expect, test } from "vitest";
import { judge } from "./goals.ts";

const rate = { figure: "rate", label: "items/s", bound: "least", value: 300 } as const;
const memory = { figure: "memory", label: "MB", bound: "most", value: 100 } as const;

test.each([
  [300, "met", 1],
  [150, "missed", 2],
  [100, "missed", 3],
  [99, "broken", 3.03],
  [0, "broken", Number.POSITIVE_INFINITY],
])("a rate of %d where 300 is the least is %s", (reached, verdict, factor) => {
  const [found] = judge("x", [rate], { rate: reached });
  expect(found).toMatchObject({ scenario: "x", reached, verdict });
  expect(found?.factor).toBeCloseTo(factor, 2);
});

test.each([
  [100, "met"],
  [300, "missed"],
  [301, "broken"],
])("%d MB where 100 are the most is %s", (reached, verdict) => {
  expect(judge("x", [memory], { memory: reached })[0]?.verdict).toBe(verdict);
});

test("a figure that is missing breaks its goal", () => {
  expect(judge("x", [memory], {})[0]?.verdict).toBe("broken");
});

test("a machine that is slow just now is given more time before a goal counts as broken", () => {
  expect(judge("x", [rate], { rate: 50 })[0]?.verdict).toBe("broken");
  expect(judge("x", [rate], { rate: 50 }, 2)[0]?.verdict).toBe("missed");
});

test.each([
  // Half of the raw limit, at least 100.
  [1_000, 500],
  [150, 100],
  // The raw limit forbids the goal: 0.7 of it counts.
  [80, 56],
])("beside a raw limit of %d the goal is %d", (raw, value) => {
  const goal = { ...rate, value: 100, raw: { figure: "raw", share: 0.5 } };
  expect(judge("x", [goal], { rate: value, raw })[0]).toMatchObject({ value, rawLimit: raw, verdict: "met" });
});

test("a goal can be a multiple of the raw limit", () => {
  const goal = { figure: "ms", label: "ms", bound: "most", raw: { figure: "raw", share: 1.3 } } as const;
  expect(judge("x", [goal], { ms: 2.6, raw: 2 })[0]).toMatchObject({ value: 2.6, verdict: "met" });
  expect(judge("x", [goal], { ms: 2.7, raw: 2 })[0]).toMatchObject({ verdict: "missed" });
});
