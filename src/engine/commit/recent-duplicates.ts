/**
 * Keeps the most recent reports of each execution that changed nothing, for the dashboard's Events tab. The lists are in memory only
 * (LRU).
 */
import type { Verdict } from "../../kernel/message.ts";
import type { Report } from "../../protocol/work.ts";
import type { Queued } from "../cache/slot.ts";
import type { Dropped } from "../io.ts";

const DUPLICATES_MAX = 100;
const EXECUTIONS_MAX = 500;

export class RecentDuplicates {
  readonly #lists = new Map<string, Dropped[]>();

  /** Returns the reports about an execution that changed nothing, newest last. */
  of(execution: string): readonly Dropped[] {
    return this.#lists.get(execution) ?? [];
  }

  /** Records the attempts of a report that were not accepted. */
  note(
    { report, worker }: Pick<Extract<Queued, { kind: "report" }>, "report" | "worker">,
    verdicts: readonly Verdict[],
    at: number,
  ): void {
    for (let i = 0; i < verdicts.length; i++) {
      const verdict = verdicts[i] as Verdict;
      if (verdict === "accepted") continue;
      const { phase, visit, handler } = report;
      const { task, attempt } = attemptOf(report, i);
      const list = this.#listOf(report.execution);
      const shown = typeof verdict === "string" ? verdict : "refused";
      list.push({ at, what: report.kind, verdict: shown, phase, visit, handler, task, attempt, worker });
      if (list.length > DUPLICATES_MAX) list.shift();
    }
  }

  forget(executions: readonly string[]): void {
    for (const execution of executions) this.#lists.delete(execution);
  }

  /** Returns the list of an execution, and makes it the most recently used one. */
  #listOf(execution: string): Dropped[] {
    const list = this.#lists.get(execution) ?? [];
    this.#lists.delete(execution);
    this.#lists.set(execution, list);
    for (const oldest of this.#lists.keys()) {
      if (this.#lists.size <= EXECUTIONS_MAX) break;
      this.#lists.delete(oldest);
    }
    return list;
  }
}

function attemptOf(report: Report, i: number): { task: number; attempt: number } {
  if (report.kind === "receipts") return report.receipts[i] ?? { task: -1, attempt: 0 };
  if (report.kind === "accepted" || report.kind === "started")
    return report.attempts[i] ?? { task: -1, attempt: 0 };
  return { task: "task" in report ? report.task : -1, attempt: report.attempt };
}
