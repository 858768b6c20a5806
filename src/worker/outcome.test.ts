import { expect, test } from "vitest";
import { errorText } from "./outcome.ts";

const cycle: Record<string, unknown> = {};
cycle["self"] = cycle;

test.each<[string, unknown, string]>([
  ["an error", new TypeError("wrong"), "wrong"],
  ["an object with a message", { message: "wrong" }, "wrong"],
  ["an object without one", { code: 5, why: ["no"] }, '{"code":5,"why":["no"]}'],
  ["a list", [1, "x"], '[1,"x"]'],
  ["a text", "wrong", "wrong"],
  ["nothing", undefined, "undefined"],
  ["null", null, "null"],
  ["what has no end", cycle, "user code threw something that cannot be shown"],
])("%s that was thrown is told by what it says", (_what, thrown, message) => {
  expect(JSON.parse(errorText(thrown))).toMatchObject({ message });
});
