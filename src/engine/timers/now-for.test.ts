import { expect, test } from "vitest";
import type { Input } from "../io.ts";
import type { EngineNode } from "../node.ts";
import { nowFor } from "./now-for.ts";

test("a node is told once that the clock was set forward, before it gets the time", () => {
  const told: [Input, number][] = [];
  const node = { input: (input: Input, now: number) => told.push([input, now]) } as unknown as EngineNode;
  const at = { now: 1_000, stepped: 70 };
  const now = nowFor(node, {
    now: () => at.now,
    stepped: () => at.stepped,
    after: () => () => {},
    soon: () => {},
  });
  expect([now(), told]).toEqual([1_000, []]);
  Object.assign(at, { now: 9_000, stepped: 7_070 });
  expect([now(), now()]).toEqual([9_000, 9_000]);
  expect(told).toEqual([[{ kind: "clock-stepped", ms: 7_000 }, 9_000]]);
});
