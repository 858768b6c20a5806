// Any message that anybody can put into a queue of the engine: it is read as the rules say, or refused with a reason.
import fc from "fast-check";
import { expect, test } from "vitest";
import type { Plan } from "../kernel/definition/plan.ts";
import type { CommandReceipted } from "../kernel/event.ts";
import { DeadLetters } from "../net/amqp/dead-letters.ts";
import type { Delivery } from "../net/amqp/delivery.ts";
import type { Outgoing, Publisher } from "../net/amqp/publisher.ts";
import type { QueueRepair } from "../net/amqp/queue-repair.ts";
import { ROLL_CALL_HELD_MAX, rollCallId } from "../protocol/amqp-wire.ts";
import { encodeAttempt, signAttempt } from "../protocol/attempt-id.ts";
import { systemClock } from "../std/clock.ts";
import { isRejection } from "../std/rejection.ts";
import { receiptMessage } from "./event-publisher.ts";
import { brokerNames } from "./names.ts";
import { readItems, readRollCall, readTaskReport } from "./read-message.ts";
import { readReceipt } from "./topics/read-receipt.ts";

const KEY = "k";
const QUEUE = "rondo.workflow.ex_1.work.work.tasks";
const AT = {
  ...{ execution: "日本 語/1", phase: "work", visit: 1, handler: "work", round: 1 },
  ...{ epoch: 3, task: 4, attempt: 1, claim: 0 },
};
const ATTEMPT = encodeAttempt(AT);
const ODD = fc.oneof(fc.jsonValue(), fc.constantFrom("", 0, -1, 0.5, false, null, "__proto__", "\ud800"));

/** Messages in which each field is as it should be, is something else, or is not there. */
function spoilt(good: Readonly<Record<string, unknown>>) {
  const fields = Object.fromEntries(
    Object.entries(good).map(([name, value]) => [
      name,
      fc.oneof({ weight: 3, arbitrary: fc.constant(value) }, ODD),
    ]),
  );
  return fc.record(fields, { requiredKeys: [] }) as fc.Arbitrary<Record<string, unknown>>;
}
const RUNS = { numRuns: 1_000 };

test("any answer to a roll call is refused, or it is signed and names its worker and what that holds", () => {
  const good = {
    roll_call: 7,
    task_queue: QUEUE,
    token: signAttempt(KEY, rollCallId(QUEUE, 7)),
    worker: "w1",
    consumes: true,
    held: [ATTEMPT],
  };
  expect(readRollCall(good, QUEUE, KEY)).toMatchObject({ rollCall: 7, held: [ATTEMPT] });
  fc.assert(
    fc.property(spoilt(good), (fields) => {
      const read = readRollCall(fields, QUEUE, KEY);
      if (isRejection(read)) {
        expect(read.message).not.toBe("");
        return;
      }
      expect(fields).toMatchObject({ roll_call: 7, task_queue: QUEUE, token: good.token });
      expect([typeof read.worker, typeof read.consumes]).toEqual(["string", "boolean"]);
      expect(read.held.length).toBeLessThanOrEqual(ROLL_CALL_HELD_MAX);
      for (const id of read.held) expect(typeof id).toBe("string");
    }),
    RUNS,
  );
});

test("any last word is refused, or it is signed, and what it says can be stored", () => {
  const good = {
    ...{ workflow_id: AT.execution, phase: "work", handler: "work", task: 4 },
    ...{ attempt: ATTEMPT, token: signAttempt(KEY, ATTEMPT), status: "done", result: { a: 1 }, ms: 5 },
    error: { message: "no" },
  };
  expect(readTaskReport(good, KEY)).toMatchObject({ at: AT, outcome: { status: "done" } });
  fc.assert(
    fc.property(spoilt(good), (fields) => {
      const read = readTaskReport(fields, KEY);
      if (isRejection(read)) {
        expect(read.message).not.toBe("");
        return;
      }
      expect(read.at).toEqual(AT);
      expect(fields["token"]).toBe(good.token);
      expect(() => JSON.parse(read.outcome.payload) as unknown).not.toThrow();
    }),
    RUNS,
  );
});

test("any message in an intake is refused, or each of its tasks has a position and can be stored", () => {
  const good = {
    ...{ workflow_id: AT.execution, phase: "work", handler: "work", position: 3, key: "k", identity: "i" },
    ...{ data: { a: 1 }, items: [{ data: 1 }, { data: null, key: "a/b" }] },
  };
  fc.assert(
    fc.property(spoilt(good), (fields) => {
      const read = readItems(fields, AT, KEY);
      if (isRejection(read)) {
        expect(read.message).not.toBe("");
        return;
      }
      for (const [n, { position, task, key }] of read.entries()) {
        expect(position).toBe((fields["position"] as number) + n);
        expect(() => JSON.parse(task) as unknown).not.toThrow();
        expect(key === null || typeof key === "string").toBe(true);
      }
    }),
    RUNS,
  );
});

test("the copy of a receipt for other readers says the same as the receipt, and carries no token", () => {
  const names = brokerNames("rondo");
  const cmd = { cmd_type: "ADD", cmd_data: {}, cmd_metadata: { trace: "t" } };
  const command = { cmd, topic: "A_CMD", receiptTopic: "A_RECEIPT" };
  const plan = { definition: {}, commands: [{ command }] } as unknown as Plan;
  const error = fc.oneof(
    ODD,
    fc.dictionary(fc.constantFrom("message", "name", "code", "stack", "proc_err", "fatal"), ODD),
  );
  const receipt = fc.record({ cmd_result: ODD, proc_err: error }, { requiredKeys: [] });
  fc.assert(
    fc.property(receipt, (fields) => {
      const outcome = readReceipt(fields);
      if (isRejection(outcome)) return;
      const isDone = outcome.status === "done";
      const event = {
        ...{
          kind: "command.receipted",
          phase: "one",
          visit: 1,
          handler: "one",
          task: 0,
          attempt: 1,
          step: 0,
        },
        ...{ result: isDone ? outcome.payload : null, error: isDone ? null : outcome.payload },
        ...{ procStatus: isDone ? "COMPLETE" : "ERROR", worker: "w", ms: 1 },
      } as CommandReceipted;
      const message = receiptMessage(names, { execution: AT.execution, seq: 5, plan, input: "{}" }, event);
      const copy = JSON.parse(String(message?.body)) as Record<string, unknown>;
      expect(readReceipt(copy)).toMatchObject({ status: outcome.status });
      expect(copy["cmd_metadata"]).toEqual({
        trace: "t",
        rondo: { workflow_id: AT.execution, step: 0, task: 0, attempt: 1 },
      });
      if (isDone) expect(readReceipt(copy)).toEqual(outcome);
    }),
    { numRuns: 3_000 },
  );
});

test("any message becomes a dead letter with its own body, a key that fits and a reason", () => {
  const copies: Outgoing[] = [];
  const publish = (copy: Outgoing): void => {
    copies.push(copy);
    copy.done?.(true);
  };
  const dead = new DeadLetters({
    dead: "rondo.dead",
    clock: systemClock(),
    publisher: { publish } as Publisher,
    repair: {} as QueueRepair,
    session: () => null,
    onFault: (fault) => {
      throw fault;
    },
  });
  fc.assert(
    fc.property(fc.uint8Array(), fc.string({ unit: "grapheme" }), fc.string(), (bytes, queue, reason) => {
      let isAcknowledged = false;
      const content = Buffer.from(bytes);
      const ack = (): void => {
        isAcknowledged = true;
      };
      const delivery = { message: { content }, queue: queue.repeat(40), ack } as unknown as Delivery;
      dead.put(delivery, reason.repeat(200));
      const copy = copies.at(-1);
      expect(isAcknowledged && copy?.body === content).toBe(true);
      expect(Buffer.byteLength(copy?.key ?? "")).toBeLessThanOrEqual(255);
      expect(copy?.headers?.["queue"]).toBe(queue.repeat(40));
      expect(String(copy?.headers?.["reason"]).length).toBeLessThanOrEqual(1_000);
    }),
    RUNS,
  );
  expect(new Set(copies.map(({ id }) => id)).size).toBe(copies.length);
});
