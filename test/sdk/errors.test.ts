import { expect, test } from "vitest";
import type { ExecutionView } from "../../src/kernel/view.ts";
import { ExecutionCancelled, ExecutionFailed, Fatal, RetryAfter } from "../../src/sdk/errors.ts";

const view = { id: "ex_1", status: "failed", error: null } as unknown as ExecutionView;

test("Fatal and RetryAfter carry brands that every copy of the package knows", () => {
  const cause = new Error("404");
  expect(new Fatal("gone", { cause })).toMatchObject({
    name: "Fatal",
    [Symbol.for("rondo.fatal")]: true,
    cause,
  });
  expect(new RetryAfter("2s")).toMatchObject({
    name: "RetryAfter",
    message: "to be retried after 2s",
    [Symbol.for("rondo.retryAfter")]: 2_000,
  });
  expect(new RetryAfter(500, "busy")).toMatchObject({
    message: "busy",
    [Symbol.for("rondo.retryAfter")]: 500,
  });
  expect(() => new RetryAfter("soon")).toThrow('RetryAfter: "soon" is not a duration');
});

test("the end of an execution is told with its view and a code", () => {
  const error = { code: "wait_timeout", message: "no approval in 2 d" };
  expect(new ExecutionFailed({ ...view, error })).toMatchObject({
    name: "ExecutionFailed",
    code: "wait_timeout",
    message: "execution ex_1 failed: no approval in 2 d",
    execution: { id: "ex_1" },
  });
  expect(new ExecutionFailed(view)).toMatchObject({ code: "failed" });
  expect(new ExecutionCancelled(view)).toMatchObject({
    code: "cancelled",
    message: "execution ex_1 was cancelled",
    execution: view,
  });
});
