import { expect, test } from "vitest";
import { decodeAttempt } from "../protocol/attempt-id.ts";
import { type Compensation, type Grant, readCompensation } from "../protocol/work.ts";
import { unwrap } from "../std/rejection.ts";
import { readTask } from "../worker/amqp/read-message.ts";
import { brokerNames } from "./names.ts";
import { commandBody, TaskWriter } from "./write-message.ts";

const PLACE = {
  execution: "orders/7",
  workflow: "w",
  phase: "pay",
  visit: 2,
  handler: "card",
  round: 1,
  epoch: 1,
};

test("all attempts of a command have the same idempotency key, and tasks of one step have different ones", () => {
  const grant = { ...PLACE, do: "command", command: { step: 3 } } as unknown as Grant;
  const marks = [
    { number: 0, attempt: 1, claim: 1 },
    { number: 0, attempt: 2, claim: 1 },
    { number: 1, attempt: 1, claim: 1 },
  ].map((item) => {
    const { body } = commandBody(grant, { ...item, task: '{"cmd_metadata":{"mine":1}}' } as never, "key");
    return (JSON.parse(body.toString()) as { cmd_metadata: { mine: number; rondo: Record<string, unknown> } })
      .cmd_metadata.rondo;
  });
  expect(marks.map(({ task, idempotency_key }) => [task, idempotency_key])).toEqual([
    [0, "orders%2F7/pay/2/card/0"],
    [0, "orders%2F7/pay/2/card/0"],
    [1, "orders%2F7/pay/2/card/1"],
  ]);
  expect(new Set(marks.map(({ attempt }) => attempt)).size).toBe(3);
  expect(marks[0]).toMatchObject({ workflow_id: "orders/7", step: 3 });
});

test("a task has the idempotency key that handler code gets", () => {
  const writer = new TaskWriter({ ...PLACE, do: "process" } as unknown as Grant, brokerNames("rondo"), "key");
  const { body } = writer.write({ number: 4, attempt: 1, claim: 1, task: "null" } as never);
  expect(JSON.parse(body.toString())).toMatchObject({
    workflow_id: "orders/7",
    idempotency_key: "orders%2F7/pay/2/card/4",
  });
});

test("a compensation has the outcome, the result and the key of the task that it undoes, also for a worker here", () => {
  const grant = { ...PLACE, phase: "pay~compensate", do: "process" } as unknown as Grant;
  const writer = new TaskWriter(grant, brokerNames("rondo"), "key");
  const item = { number: 4, attempt: 1, claim: 1, task: "7", checkpoints: null };
  const read = (compensates: Compensation) => unwrap(readTask(writer.write({ ...item, compensates }).body));
  const done = read({ outcome: "done", result: '{"receipt":1}' });
  expect(done).toMatchObject({
    idempotency_key: "orders%2F7/pay/2/card/4",
    outcome: "done",
    result: { receipt: 1 },
  });
  expect(readCompensation(done)).toEqual({ outcome: "done", result: '{"receipt":1}' });
  const unknown = read({ outcome: "unknown", result: null });
  expect(unknown).not.toHaveProperty("result");
  expect(readCompensation(unknown)).toEqual({ outcome: "unknown", result: null });
  expect(decodeAttempt(done.attempt)).toMatchObject({ phase: "pay~compensate", task: 4 });
});
