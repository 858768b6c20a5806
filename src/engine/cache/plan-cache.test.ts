// Plans in memory are bounded; one that was let go of is read when an execution needs it.
import { expect, test } from "vitest";
import { NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import type { Plan } from "../../kernel/definition/plan.ts";
import { PlanCache } from "./plan-cache.ts";

const plan = (hash: string) => ({ hash }) as Plan;

test("those that were used last are kept", () => {
  const cache = new PlanCache();
  for (let i = 0; i < 3_000; i++) {
    cache.put(plan(`h${i}`));
    cache.get("h0");
  }
  const kept = Array.from({ length: 3_000 }, (_, i) => i).filter((i) => cache.get(`h${i}`) !== undefined);
  expect(kept).toHaveLength(1_024);
  expect(kept[0]).toBe(0);
  expect(kept.at(-1)).toBe(2_999);
});

test("an execution goes on after many others came with definitions of their own", () => {
  const fixture = new NodeFixture({ idleMax: 0 });
  fixture.start(fixture.plan([{ name: "a", handlers: { a: { waitFor: "go" } } }]), "e0");
  fixture.settle();
  expect(fixture.node.residentCount).toBe(0);
  for (let i = 1; i <= 1_100; i++)
    fixture.start(fixture.plan([phase("end", {}, { final: true })], `w${i}`), `e${i}`);
  fixture.settle();
  fixture.signal("e0", "go");
  fixture.settle();
  expect(fixture.of("get-definition")).toHaveLength(1);
  expect(fixture.status("e0")).toBe("done");
});
