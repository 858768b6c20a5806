import fc from "fast-check";
import { expect, test } from "vitest";
import { decodeAttempt } from "../../protocol/attempt-id.ts";
import { isRejection } from "../../std/rejection.ts";
import { readCancelConsumer, readCommand } from "./read-message.ts";

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
