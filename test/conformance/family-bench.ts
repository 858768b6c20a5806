/** A parent with children at a node, for tests. */
import { expect } from "vitest";
import type { Plan } from "../../src/kernel/definition/plan.ts";
import { childId } from "../../src/kernel/tasks/children.ts";
import { NodeBench } from "./node-bench.ts";
import { phase } from "./scenarios/kernel-run.ts";

export const KID = [phase("b")];

export const family = (n: number, more: object = {}, options: object = {}) => [
  {
    name: "a",
    handlers: { a: { workflow: "kid", tasks: Array.from({ length: n }, (_, i) => i), ...more } },
    ...options,
  },
];

export const kid = (task: number, parent = "e1") =>
  childId(parent, { phase: "a", visit: 1, handler: "a" }, task);

/** A bench where the workflow "kid" is stored; a worker serves its code unless it is said otherwise. */
export function home(
  n: number,
  more: { handler?: object; kid?: object[]; isServed?: boolean; settings?: object } = {},
): { bench: NodeBench; plan: Plan } {
  const bench = new NodeBench(more.settings ?? {});
  bench.plan(more.kid ?? KID, "kid");
  if (more.isServed !== false) bench.join("w1", ["w.b", "list"], { capacity: 100 });
  return { bench, plan: bench.plan(family(n, more.handler), "w") };
}

/** Everything a family leads to, when nothing goes wrong any more. */
export function expectFamilyDone(bench: NodeBench, n: number): void {
  bench.work();
  expect(bench.status("e1")).toBe("done");
  for (let task = 0; task < n; task++) expect([task, bench.status(kid(task))]).toEqual([task, "done"]);
  expect(bench.events("e1", "child.started")).toHaveLength(n);
  expect(bench.events("e1", "child.finished")).toHaveLength(n);
  expect(bench.letters).toEqual([]);
}
