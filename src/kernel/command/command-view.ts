/** The public view of an execution's commands (`proc`), from its state and the open attempts of its owner. */
import type { Json } from "../../std/json.ts";
import type { PlannedCommand } from "../definition/plan.ts";
import type { PostOpKind } from "../event.ts";
import type { Execution } from "../execution.ts";
import type { RunningCounts } from "../view.ts";
import { postOpPlan, targetOf } from "./command-plan.ts";
import { procErr } from "./command-state.ts";

/** The status of a command. */
export type ProcStatus = "PENDING" | "RUNNING" | "COMPLETE" | "ERROR" | "CANCELLED";

export interface CommandView {
  /** The number of the command, from 0, in the order of the definition. */
  readonly step: number;
  readonly phase: string;
  readonly handler: string;
  readonly topic: string;
  readonly receiptTopic: string;
  readonly procStatus: ProcStatus;
  readonly procErr: Json;
  readonly createdAt: number;
  /** When the command's phase began; null if it has not begun. */
  readonly startedAt: number | null;
  /** When the command's last receipt arrived; null if there is none. */
  readonly receiptedAt: number | null;
  /**
   * The sequence number of the command's last `command.receipted` event, which may have a `cmd_result`; null if the view shows no
   * result.
   */
  readonly receipt: number | null;
  /** The command's post-operations that have not ended. */
  readonly owed: readonly OwedView[];
  /** The oldest attempt, if all open attempts are in queues of a broker. Only the broker knows whether a worker has received it. */
  readonly queued?: QueuedAttempt;
}

/** An attempt in a queue of a broker. */
export interface QueuedAttempt {
  readonly visit: number;
  readonly round: number;
  readonly task: number;
  readonly attempt: number;
  readonly claim: number;
  readonly epoch: number;
}

/** A post-operation that has not ended. */
export interface OwedView {
  readonly op: PostOpKind;
  readonly index: number;
  readonly target: string;
  /** The number of attempts at the post-operation that have ended. */
  readonly attempts: number;
  /** When the post-operation is retried; null if it runs now. */
  readonly until: number | null;
  readonly error: string | null;
}

/** Returns the view of an execution's commands at `now`. */
export function viewCommands(
  execution: Execution,
  now: number,
  running: RunningCounts = new Map(),
  queued: ReadonlyMap<string, QueuedAttempt> = new Map(),
): readonly CommandView[] {
  return execution.plan.commands.map((planned) => {
    const { phase, handler, command } = planned;
    const { step, topic, receiptTopic } = command;
    const state = execution.commands.get(step);
    const procStatus = statusOf(execution, planned, running);
    const owed = [...execution.postops.values()].filter((op) => op.step === step);
    const waiting = procStatus === "RUNNING" ? queued.get(handler.name) : undefined;
    return {
      step,
      phase: phase.name,
      handler: handler.name,
      topic,
      receiptTopic,
      procStatus,
      procErr: procStatus === "ERROR" ? procErr(state?.error ?? null) : null,
      createdAt: execution.createdAt,
      startedAt: state?.startedAt ?? null,
      receiptedAt: state?.receiptedAt ?? null,
      receipt: hasResult(procStatus) && state !== undefined && state.receipt > 0 ? state.receipt : null,
      owed: owed.map(({ op, index, ended, until, lastError }) => {
        const plan = postOpPlan(command, op, index);
        const target = plan === undefined ? "" : targetOf(plan);
        return { op, index, target, attempts: ended, until: until > now ? until : null, error: lastError };
      }),
      ...(waiting === undefined ? {} : { queued: waiting }),
    };
  });
}

/** Whether the view of a command with this status shows its result. A received result is shown even if it could not be persisted. */
function hasResult(status: ProcStatus): boolean {
  return status === "COMPLETE" || status === "ERROR";
}

function statusOf(
  execution: Execution,
  { phase, handler, command }: PlannedCommand,
  running: RunningCounts,
): ProcStatus {
  const state = execution.commands.get(command.step);
  const isCancelled = execution.status === "cancelled";
  if (state === undefined) return isCancelled ? "CANCELLED" : "PENDING";
  if (state.status === "COMPLETE") return "COMPLETE";
  const { current } = execution;
  const isOpen = current !== null && current.status === "running" && current.plan.name === phase.name;
  if (isOpen && (running.get(handler.name) ?? 0) > 0) return "RUNNING";
  if (state.status === "ERROR") return "ERROR";
  return isOpen || !isCancelled ? "PENDING" : "CANCELLED";
}
