/** Keeps a bounded list of words that changed nothing, for those who look at an execution. Never stored. */
import type { Verdict } from "../kernel/message.ts";
import type { Report } from "../protocol/work.ts";
import type { Queued, Slot } from "./slot.ts";

const DROPPED_MAX = 100;

/** Notes what was a duplicate, stale, late or gone in a report. */
export function noteDropped(
  slot: Slot,
  { report, worker }: Extract<Queued, { kind: "report" }>,
  { verdicts, now }: { verdicts: readonly Verdict[]; now: number },
): void {
  for (let i = 0; i < verdicts.length; i++) {
    const verdict = verdicts[i] as Verdict;
    if (verdict === "accepted") continue;
    const { phase, visit, handler } = report;
    const { task, attempt } = attemptOf(report, i);
    slot.dropped.push({ at: now, what: report.kind, verdict, phase, visit, handler, task, attempt, worker });
    if (slot.dropped.length > DROPPED_MAX) slot.dropped.shift();
  }
}

function attemptOf(report: Report, i: number): { task: number; attempt: number } {
  if (report.kind === "receipts") return report.receipts[i] ?? { task: -1, attempt: 0 };
  if (report.kind === "started") return report.attempts[i] ?? { task: -1, attempt: 0 };
  return { task: "task" in report ? report.task : -1, attempt: report.attempt };
}
