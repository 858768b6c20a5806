/** Reports that give attempts back as they were given out: nothing is burnt by it. */
import type { Outcome } from "../../kernel/message.ts";
import type { Report, ReportedReceipt } from "../../protocol/work.ts";
import type { AttemptRecord } from "./attempt-record.ts";

const OUTCOME: Outcome & { status: "cancelled" } = {
  status: "cancelled",
  payload: JSON.stringify({ name: "Cancelled", code: "cancelled", message: "the worker did not get it" }),
};

/** One report per handler, and one per enumeration. */
export function handedBackReports(records: readonly AttemptRecord[]): Report[] {
  const reports: Report[] = [];
  const byPlace = new Map<string, ReportedReceipt[]>();
  for (const { shared, task, attempt, claim, isEnumeration } of records) {
    if (isEnumeration) {
      reports.push({ kind: "enumeration", ...shared.place, attempt, claim, ms: 0, outcome: OUTCOME });
      continue;
    }
    let receipts = byPlace.get(shared.key);
    if (receipts === undefined) {
      receipts = [];
      byPlace.set(shared.key, receipts);
      reports.push({ kind: "receipts", ...shared.place, receipts });
    }
    receipts.push({ task, attempt, claim, ms: 0, outcome: OUTCOME });
  }
  return reports;
}
