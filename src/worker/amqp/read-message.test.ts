import fc from "fast-check";
import { expect, test } from "vitest";
import { decodeAttempt } from "../../protocol/attempt-id.ts";
import { isRejection } from "../../std/rejection.ts";
import { readCancelConsumer, readCommand, readEnumerate, readProcess, readTask } from "./read-message.ts";

const ATTEMPT = "ex_2.step-0.1.step-0.1.0.1.1.1";
const ids = fc.array(fc.oneof(fc.constant(ATTEMPT), fc.string(), fc.jsonValue()), { maxLength: 4 });

test("any cancel.consumer is read or refused, and names cancelled commands only by ids of attempts", () => {
  const message = fc.record(
    { task_queue: fc.oneof(fc.constant("a.tasks"), fc.jsonValue()), commands: fc.oneof(ids, fc.jsonValue()) },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(message, (fields) => {
      const read = readCancelConsumer(Buffer.from(JSON.stringify(fields)));
      if (isRejection(read)) return;
      expect(read.task_queue).toBe(fields.task_queue);
      for (const id of read.commands ?? []) expect(decodeAttempt(id)).not.toBeNull();
    }),
    { numRuns: 1_000 },
  );
  expect(readCancelConsumer(Buffer.from(`{"task_queue":"a","commands":["${ATTEMPT}"]}`))).toMatchObject({
    commands: [ATTEMPT],
  });
});

test("any message at a topic is a command or refused; a mark that names no attempt is refused", () => {
  const mark = fc.oneof(
    fc.record({ attempt: fc.oneof(fc.constant(ATTEMPT), fc.jsonValue()) }),
    fc.jsonValue(),
  );
  fc.assert(
    fc.property(mark, fc.oneof(fc.string(), fc.jsonValue()), (rondo, cmd_type) => {
      const read = readCommand(Buffer.from(JSON.stringify({ cmd_type, cmd_metadata: { rondo } })));
      if (isRejection(read)) return;
      expect(typeof cmd_type).toBe("string");
      expect(read.at === null).toBe(rondo === null);
    }),
    { numRuns: 1_000 },
  );
});

const PLACE = { workflow_id: "ex_1", phase: "work", handler: "work" };
const QUEUES = { task_queue: "some.tasks", finished_queue: "some.finished" };

test.each([
  [
    "process",
    readProcess,
    { ...PLACE, ...QUEUES, input: null, roll_call: 7, token: "t", prefetch: 5, batch: 2 },
  ],
  [
    "task",
    readTask,
    { ...PLACE, finished_queue: "some.finished", task: 1, attempt: ATTEMPT, token: "t", data: 1 },
  ],
  [
    "enumerate",
    readEnumerate,
    { ...PLACE, ...QUEUES, attempt: ATTEMPT, token: "t", input: 1, timeout_ms: 5 },
  ],
] as const)("any %s message is read with fields of the right kinds, or refused", (_name, read, good) => {
  expect(isRejection(read(Buffer.from(JSON.stringify(good))))).toBe(false);
  const odd = fc.oneof(fc.jsonValue(), fc.constantFrom("", 0, -1, 0.5, false, null, "x".repeat(300)));
  const fields = Object.fromEntries(
    Object.entries(good).map(([name, value]) => [
      name,
      fc.oneof({ weight: 4, arbitrary: fc.constant(value as unknown) }, odd),
    ]),
  );
  fc.assert(
    fc.property(fc.record(fields, { requiredKeys: [] }), (message) => {
      const found = read(Buffer.from(JSON.stringify(message)));
      if (isRejection(found)) {
        expect(found.message).not.toBe("");
        return;
      }
      const has = found as unknown as Record<string, unknown>;
      expect(typeof has["workflow_id"]).toBe("string");
      for (const name of ["task_queue", "finished_queue"])
        if (has[name] !== undefined) expect(has[name]).toMatch(/^[^]{1,255}$/);
      for (const name of ["task", "roll_call", "prefetch", "batch", "timeout_ms"])
        if (has[name] !== undefined && has[name] !== null)
          expect(Number.isSafeInteger(has[name]) && (has[name] as number) >= 0).toBe(true);
    }),
    { numRuns: 1_000 },
  );
});
