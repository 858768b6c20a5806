import { expect, test } from "vitest";
import type { Plan } from "../../kernel/definition/plan.ts";
import { PlanCache } from "./plan-cache.ts";

/** A plan whose definition has about this many characters. */
function plan(hash: string, chars = 10): Plan {
  return { hash, definition: { name: "x".repeat(chars), phases: [] } } as unknown as Plan;
}

test("the plans that were used last are kept", () => {
  const cache = new PlanCache();
  for (let n = 0; n < 1_024; n++) cache.put(plan(`h${n}`));
  expect(cache.get("h0")?.hash).toBe("h0");
  cache.put(plan("new"));
  expect([cache.get("h0")?.hash, cache.get("h1"), cache.get("new")?.hash]).toEqual(["h0", undefined, "new"]);
});

test("large definitions leave the cache earlier, and the newest stays however large it is", () => {
  const cache = new PlanCache();
  for (let n = 0; n < 5; n++) cache.put(plan(`h${n}`, 1_000_000));
  expect([0, 1, 2, 3, 4].map((n) => cache.get(`h${n}`) !== undefined)).toEqual([
    false,
    true,
    true,
    true,
    true,
  ]);
  cache.put(plan("huge", 5_000_000));
  expect([cache.get("h4"), cache.get("huge")?.hash]).toEqual([undefined, "huge"]);
});
