import { expect, test } from "vitest";
import { LIMITS } from "../kernel/definition/definition.ts";
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

test.each([100, 5_000, 100_000])(
  "a message of %i characters leaves the place of the error in the stack",
  (length) => {
    const error = new TypeError("x".repeat(length), { cause: new Error("y".repeat(length)) });
    const { stack, cause } = JSON.parse(errorText(error)) as { stack: string; cause: { stack: string } };
    for (const text of [stack, cause.stack]) expect(text).toMatch(/\n {4}at .*outcome\.test\.ts:\d+/);
    expect(stack.length).toBeLessThanOrEqual(LIMITS.errorChars);
    expect(stack.startsWith("TypeError: xxx")).toBe(true);
  },
);

test("a stack ends above the worker's call of the code; a name in a message does not shorten it", () => {
  const stackOf = (error: Error): string => (JSON.parse(errorText(error)) as { stack: string }).stack;
  const error = new Error("wrong");
  error.stack =
    "Error: wrong\n    at charge (pay.js:1:2)\n    at Object.callUserCode [as process] (rondo.js:3:4)\n    at x";
  expect(stackOf(error)).toBe("Error: wrong\n    at charge (pay.js:1:2)");
  const named = new Error("no callUserCode");
  expect(stackOf(named)).toBe(named.stack);
});
