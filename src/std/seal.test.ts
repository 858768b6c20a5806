import { expect, test } from "vitest";
import { seal, sealJoined, sealState } from "./seal.ts";

test("a text in two parts has the seal of the whole text", () => {
  for (const [head, rest] of [
    ["{}\n", "abc"],
    ["{}\n", ""],
    ["", "\u00e9\u{1f600}"],
  ] as const)
    expect(sealJoined(head, rest, "key")).toBe(seal(head + rest, "key"));
  expect(sealState(sealJoined("a", "b", "key"), "key")).toBe("whole");
  expect(sealState(sealJoined("a", "b", "key"), "other")).toBe("broken");
});
