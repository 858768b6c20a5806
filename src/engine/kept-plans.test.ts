import { expect, test } from "vitest";
import type { Plan } from "../kernel/plan.ts";
import { KeptPlans } from "./kept-plans.ts";

test("of so many plans those stay that were used last", () => {
  const plans = new KeptPlans(2);
  const plan = (hash: string) => ({ hash }) as Plan;
  for (const hash of ["a", "b"]) plans.set(hash, plan(hash));
  expect(plans.get("a")).toEqual({ hash: "a" });
  plans.set("c", plan("c"));
  expect(["a", "b", "c"].map((hash) => plans.get(hash)?.hash)).toEqual(["a", undefined, "c"]);
  plans.set("a", plan("a"));
  expect(plans.get("c")).toBeDefined();
});
