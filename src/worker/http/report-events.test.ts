// The events of a report as a server reads them.
import { expect, test } from "vitest";
import type { Report } from "../../protocol/work.ts";
import { eachEvent } from "./report-events.ts";

test.each([true, false])("the fields of a log line go to servers that take them (%s)", (takesFields) => {
  const place = { execution: "e", phase: "p", visit: 1, handler: "h", round: 1, epoch: 1 };
  const line = { n: 1, at: 5, level: "info", text: "paid", fields: '{"order":7}' };
  const report: Report = { kind: "logs", ...place, task: 0, attempt: 1, claim: 0, lines: [line] };
  const events: unknown[] = [];
  eachEvent(report, (_attempt, rest) => events.push(JSON.parse(`{${rest}`)), takesFields);
  const plain = { kind: "log", at: 5, level: "info", text: "paid" };
  expect(events).toEqual([takesFields ? { ...plain, fields: { order: 7 } } : plain]);
});
