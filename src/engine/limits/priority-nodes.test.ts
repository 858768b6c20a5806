// Priority under a project's limit over three nodes: the home gives permits to the node where the highest priority waits.
import { describe, expect, test } from "vitest";
import type { NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { PermitFixture } from "../../../test/fixtures/engine/permit-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const CASES = [1, 2, 7].flatMap((limit) =>
  [1, 2, 7, 200].flatMap((capacity) => [0, 1, 2].map((high) => [limit, capacity, high] as const)),
);

const planOf = (tasks: number, priority: number) => (node: NodeFixture) =>
  node.plan([phase("a", { tasks: [...Array(tasks).keys()], priority })], `of-${tasks}-${priority}`);

describe("a project's limit on three nodes", () => {
  test.each(CASES)(
    "%i, capacity %i, the higher priority at node %i: nothing lower is given out past it",
    (...of) => {
      const [limit, capacity, at] = of;
      const fixture = new PermitFixture(3, { projects: { default: { concurrency: limit } } }, limit);
      fixture.join(["w.a"], capacity);
      for (const node of [0, 1, 2]) fixture.start(node, `low${node}`, planOf(1_000, -10));
      for (let i = 0; i < 10; i++) fixture.endSome();
      const before = fixture.granted.length;
      const high = fixture.start(at, "high", planOf(20, 10));
      const given = () => fixture.granted.slice(before);
      while (given().filter((id) => id === high).length < 20 && fixture.endSome())
        expect(fixture.open.length).toBeLessThanOrEqual(limit);
      // A worker without room takes nothing: then a permit that its node cannot use goes on.
      const passed = given()
        .slice(0, given().lastIndexOf(high))
        .filter((id) => id !== high);
      if (capacity >= limit) expect(passed).toEqual([]);
    },
  );
});
