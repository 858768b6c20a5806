/** The commands of an execution as others see them: the seed's `proc`, from the state and the owner's open attempts. */
import type { Json } from "../../std/json.ts";
import type { PlannedCommand } from "../definition/plan.ts";
import type { PostOpKind } from "../event.ts";
import type { Execution } from "../execution.ts";
import type { RunningCounts } from "../view.ts";
import { postOpPlan, targetOf } from "./command-plan.ts";
import { procErr } from "./command-state.ts";

export type ProcStatus = "PENDING" | "RUNNING" | "COMPLETE" | "ERROR" | "CANCELLED";

export interface CommandView {
  /** Counted from 0, in the order of the definition. */
  readonly step: number;
  readonly phase: string;
  readonly handler: string;
  readonly topic: string;
  readonly receiptTopic: string;
  readonly procStatus: ProcStatus;
  readonly procErr: Json;
  readonly createdAt: number;
  /** When it could be sent first; null: not yet. */
  readonly startedAt: number | null;
  /** When its last receipt came; null: none has. */
  readonly receiptedAt: number | null;
  /** Sequence number of its last `command.receipted`, where `cmd_result` is if it has one; null: none is shown. */
  readonly receipt: number | null;
  /** What is owed for it. */
  readonly owed: readonly OwedView[];
  /** Its only open attempts are in queues of a broker: the oldest of them. Whether anybody has it, the broker knows. */
  readonly queued?: QueuedAttempt;
}

/** An attempt that is in a queue. */
export interface QueuedAttempt {
  readonly visit: number;
  readonly round: number;
  readonly task: number;
  readonly attempt: number;
  readonly claim: number;
  readonly epoch: number;
}

/** A post-operation that is owed. */
export interface OwedView {
  readonly op: PostOpKind;
  readonly index: number;
  readonly target: string;
  /** Tries that have ended. */
  readonly attempts: number;
  /** When it is tried again; null: it is tried now. */
  readonly until: number | null;
  readonly error: string | null;
}

/** The commands of an execution at `now`; empty where it has none. */
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

/** A result that was received is shown also where it could not be kept. */
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
