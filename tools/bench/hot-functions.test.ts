import { expect, test } from "vitest";
import { hotFunctions } from "./hot-functions.ts";

const frame = (functionName: string, url = "") => ({ functionName, url, lineNumber: 0, columnNumber: 0 });
const profile = {
  nodes: [
    { id: 1, callFrame: frame("(root)"), children: [2, 3, 5] },
    { id: 2, callFrame: frame("(idle)") },
    { id: 3, callFrame: frame("outer", "node:a"), children: [4] },
    { id: 4, callFrame: frame("inner") },
    { id: 5, callFrame: frame("(garbage collector)") },
  ],
  samples: [2, 3, 4, 4, 5, 2],
  timeDeltas: [0, 1_000, 2_000, 3_000, 4_000, 5_000],
};

test("a sample lasts until the next one, and what is no function is told apart", () => {
  const found = hotFunctions("main", [profile], 15);
  expect(found).toMatchObject({ thread: "main", ms: 15, idleMs: 1, collectorMs: 5, programMs: 0 });
});

test("native code is named by its callers, and several profiles are summed up", () => {
  expect(hotFunctions("main", [profile, profile], 15).hottest).toEqual([
    { name: "native < outer", place: "node:a", ms: 14 },
    { name: "outer", place: "node:a", ms: 4 },
  ]);
});

test("only the hottest are given", () => {
  expect(hotFunctions("main", [profile], 1).hottest).toHaveLength(1);
});
