// Fairness under limits over one node and three: permits go round the executions and the nodes.
import { describe, expect, test } from "vitest";
import type { NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { PermitFixture } from "../../../test/fixtures/engine/permit-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const KINDS = ["handler", "key", "project", "key with project"] as const;
const CASES = [1, 3].flatMap((nodes) =>
  KINDS.flatMap((kind) =>
    [1, 2, 7].flatMap((limit) => [1, 2, 7, 200].map((capacity) => [nodes, kind, limit, capacity] as const)),
  ),
);

function fixtureOf([nodes, kind, limit, capacity]: (typeof CASES)[number]) {
  const projects = kind.endsWith("project") ? { default: { concurrency: limit } } : {};
  const fixture = new PermitFixture(nodes, { projects }, limit);
  fixture.join(["w.a"], capacity);
  const options = {
    ...(kind === "handler" ? { concurrency: limit } : {}),
    ...(kind.startsWith("key") ? { key: "/k", concurrencyPerKey: limit } : {}),
  };
  const planOf = (n: number) => (node: NodeFixture) => {
    const tasks = Array.from({ length: n }, (_, i) => ({ k: "same", i }));
    return node.plan([phase("a", { tasks, ...options })], `of-${n}`);
  };
  return { fixture, planOf };
}

describe("under a limit", () => {
  test.each(CASES)(
    "%i nodes, of a %s, %i, capacity %i: one task starts within 5 grants per node, behind 200 that wait",
    (...of) => {
      const [nodes, , limit] = of;
      for (let at = 0; at < nodes; at++) {
        const { fixture, planOf } = fixtureOf(of);
        fixture.start(0, "a", planOf(200));
        for (let i = 0; i < 10; i++) fixture.endSome();
        const before = fixture.granted.length;
        const b = fixture.start(at, "b", planOf(1));
        while (!fixture.granted.includes(b) && fixture.endSome())
          expect(fixture.open.length).toBeLessThanOrEqual(limit);
        const behind = fixture.granted.slice(before).indexOf(b);
        expect(behind).toBeGreaterThanOrEqual(0);
        expect(behind).toBeLessThan(5 * nodes);
      }
    },
  );

  test.each(CASES)("%i nodes, of a %s, %i, capacity %i: six equal executions end together", (...of) => {
    const [nodes, , limit] = of;
    const { fixture, planOf } = fixtureOf(of);
    const ids = Array.from({ length: 6 }, (_, i) => fixture.start(i % nodes, `e${i}`, planOf(20)));
    while (fixture.endSome()) expect(fixture.open.length).toBeLessThanOrEqual(limit);
    const last = ids.map((id) => fixture.granted.lastIndexOf(id));
    expect(fixture.granted).toHaveLength(120);
    expect(Math.max(...last) / Math.min(...last)).toBeLessThan(1.5);
  });
});
