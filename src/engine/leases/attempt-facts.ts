/** Answers questions about one attempt, and filters log lines that name runs of a script. */
import { finishedRuns, indexOfRun } from "../../kernel/tasks/script-runs.ts";
import { type ReportedAttempt, type ScriptWork, UNKNOWN_WORKER } from "../../protocol/work.ts";
import { isRejection, type Rejection } from "../../std/rejection.ts";
import type { LogRow } from "../../store/store.ts";
import type { Slot } from "../cache/slot.ts";
import type { NodeState } from "../node-state.ts";
import { ENUMERATION } from "./lease.ts";
import { scriptOf } from "./lease-granter.ts";
import { holderOf, isLive, queueOf } from "./report-intake.ts";

/** The worker that holds the lease of an attempt. */
export interface AttemptHolder {
  readonly worker: string;
  /** Whether the attempt was asked to stop. */
  readonly isCancelled: boolean;
  /** For a command: its number within the workflow, from 0. */
  readonly step?: number;
}

/** The state of an attempt that holds its lease. */
export interface AttemptFacts extends AttemptHolder {
  /** The progress of the attempt's script; null if the attempt runs no script. */
  readonly script: ScriptFacts | null;
}

/** The progress of an attempt that runs a script. */
export interface ScriptFacts {
  readonly runs: ScriptWork["runs"];
  /** The number of runs of the script that are finished. */
  readonly finished: number;
  /** The script's state before its next run, as JSON text, or the sequence number of the event that contains it. */
  readonly state: string | number;
  /** The run that this attempt began last and that is not finished: it is open or has crashed. Null if there is no such run. */
  readonly begun: { readonly name: string; readonly isOpen: boolean } | null;
}

/** Returns the state of an attempt, from committed data. An attempt of a former owner is adopted. Null if the attempt has no lease. */
export function attemptFacts(node: NodeState, slot: Slot, at: ReportedAttempt): AttemptFacts | null {
  if (!isLive(node, slot, at, UNKNOWN_WORKER)) return null;
  const holder = holderOf(slot, at);
  const queue = queueOf(slot, at);
  if (holder === null || queue === undefined) return null;
  const { plan } = queue.state;
  if (plan.mode !== "script" || at.task === ENUMERATION) return { ...holder, script: null };
  const { runs, state } = scriptOf(plan);
  const finished = finishedRuns(queue.state, at);
  const begin =
    state ?? (queue.state.paged ? queue.state.pageOf(at.task) : (slot.execution?.input ?? "null"));
  const notices = queue.state.notices.get(at.task);
  const begun = notices?.attempt === at.attempt ? notices.run : null;
  return {
    ...holder,
    script: { runs, finished: finished.length, state: finished.at(-1)?.seq ?? begin, begun },
  };
}

/** Leaves out log lines that name a run which the handler's script does not have. */
export function knownRuns(
  slot: Slot,
  row: LogRow,
): Pick<LogRow, "lines"> & { readonly refusal: Rejection | null } {
  if (!row.lines.some(({ level }) => level === "run")) return { lines: row.lines, refusal: null };
  const handler = slot.execution?.handlerAt(row);
  let refusal: Rejection | null = null;
  const lines = row.lines.filter(({ level, run }) => {
    if (level !== "run" || run === undefined || handler === undefined) return true;
    const index = indexOfRun(handler, { name: run, index: null });
    if (isRejection(index)) refusal = index;
    return !isRejection(index);
  });
  return { lines, refusal };
}
