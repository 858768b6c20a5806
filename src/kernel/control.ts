/** Pause, resume, cancel, retry and signals. Each is applied once by its id; a repeat gets the first answer. */
import { byteLength } from "../std/json.ts";
import { type Rejection, reject } from "../std/rejection.ts";
import { advance, armWaits, notifyParent, startCleanupTimer } from "./advance.ts";
import { nextCleanup } from "./cleanup.ts";
import { LIMITS } from "./definition/definition.ts";
import type { Ending, Execution, HandlerState, Visit } from "./execution.ts";
import type { Answer, ControlMessage, SignalMessage } from "./message.ts";
import type { Step } from "./step.ts";
import { notifyChildren } from "./tasks/children.ts";
import { giveSignal } from "./tasks/task-waits.ts";
import { clearTimers, takeKept } from "./timers.ts";

/** Applies a control message. */
export function control(step: Step, message: ControlMessage): Answer {
  const { execution } = step;
  // @plant repeated messages applied again
  const before = execution.applied.get(message.id);
  if (before !== undefined) return { kind: "applied", seq: before };
  switch (message.kind) {
    case "pause":
      return pause(step, message);
    case "resume":
      return resume(step, message);
    case "cancel":
      return cancel(step, message);
    case "retry":
      return retry(step, message);
  }
}

/** Keeps a signal, and gives it to a wait that is open. */
export function signal(step: Step, message: SignalMessage): Answer {
  const { execution } = step;
  // @plant repeated messages applied again 2
  const before = execution.applied.get(message.id);
  if (before !== undefined) return { kind: "applied", seq: before };
  if (execution.ended) return wrongStatus(execution, "signalled");
  const visit = execution.current;
  const isOpen =
    visit !== null &&
    visit.status === "running" &&
    visit.failing === null &&
    execution.status !== "cancelling";
  const waiting = isOpen
    ? visit.handlers.find(
        (handler) => handler.plan.definition.waitFor === message.signal && handler.tasks.settled.size === 0,
      )
    : undefined;
  const waiter = isOpen && waiting === undefined ? taskWaiter(visit, message.signal) : undefined;
  // A signal that an open wait consumes at once is not kept, so it needs no room.
  const refusal = waiting === undefined && waiter === undefined ? noRoomFor(execution, message) : null;
  if (refusal !== null) return refusal;
  step.emit({ kind: "signalled", signal: message.signal, id: message.id, data: message.data });
  const { seq } = execution;
  if (waiting !== undefined) takeKept(step, waiting, message.signal);
  else if (waiter !== undefined) giveSignal(step, waiter.handler, waiter.task, message.signal);
  if (isOpen) advance(step);
  return { kind: "applied", seq };
}

/** Why a signal cannot be kept; null: it can. Signals of one name leave room for those of other names. */
function noRoomFor(execution: Execution, { signal: name, data }: SignalMessage): Rejection | null {
  const bytes = byteLength(data);
  const same = execution.signals.get(name) ?? [];
  const isSmall = execution.signalBytes + bytes <= LIMITS.signalBytesKept;
  const sameBytes = isSmall ? 0 : same.reduce((sum, kept) => sum + byteLength(kept.data), 0);
  if (same.length >= LIMITS.signalsKept || sameBytes + bytes > LIMITS.signalBytesKept)
    return reject(
      "rate_limited",
      `execution ${execution.id} already keeps ${same.length} signals "${name}" that nothing has waited for`,
      {
        hint: `of one name at most ${LIMITS.signalsKept} signals or ${LIMITS.signalBytesKept} bytes are kept`,
      },
    );
  const { signalsKeptInAll, signalBytesKeptInAll } = LIMITS;
  if (execution.signalCount < signalsKeptInAll && execution.signalBytes + bytes <= signalBytesKeptInAll)
    return null;
  return reject(
    "rate_limited",
    `execution ${execution.id} already keeps ${execution.signalCount} signals (${execution.signalBytes} bytes) that nothing has waited for`,
    { hint: `at most ${signalsKeptInAll} signals or ${signalBytesKeptInAll} bytes are kept` },
  );
}

/** The task that has waited longest for a signal inside `process`. */
function taskWaiter(visit: Visit, signal: string): { handler: HandlerState; task: number } | undefined {
  for (const handler of visit.handlers) {
    const task = handler.progress.firstWaitingFor(signal);
    if (task !== undefined) return { handler, task };
  }
  return undefined;
}

/**
 * Begins the cancel of an execution that has not ended; the owner drains its attempts. If it cleans up, the rest of its
 * clean-up is left out.
 */
export function cancelExecution(step: Step, by: { by: string; reason: string | null; id: string }): void {
  step.emit({ kind: "cancelling", ...by });
  clearTimers(step);
}

function pause(step: Step, { by, reason, id }: ControlMessage): Answer {
  const { execution } = step;
  if (execution.ended || execution.status === "cancelling") return wrongStatus(execution, "paused");
  if (execution.status === "paused") return { kind: "ignored", why: "already paused" };
  step.emit({ kind: "paused", by, reason, id });
  // @plant children not paused with their parent
  notifyChildren(step, "pause", { id, reason });
  return { kind: "applied", seq: execution.seq };
}

function resume(step: Step, { by, reason, id }: ControlMessage): Answer {
  const { execution } = step;
  if (execution.status !== "paused")
    return wrongStatus(execution, "resumed", "only a paused execution can be resumed");
  step.emit({ kind: "resumed", by, reason, id });
  const { seq } = execution;
  notifyChildren(step, "resume", { id, reason });
  advance(step);
  return { kind: "applied", seq };
}

function cancel(step: Step, message: ControlMessage): Answer {
  const { execution } = step;
  const { by, reason, id, force } = message;
  const isCleaning = execution.ending !== null && !execution.ended;
  // A parent that ends waits for its children, so it does not leave them paused.
  if (isCleaning && message.fromParent === true && execution.status === "paused")
    return resume(step, message);
  // @plant cancel ends the clean-up
  if (isCleaning && force !== true) return { kind: "ignored", why: "already cleaning up" };
  if (execution.status === "cancelling" || execution.status === "cancelled")
    return { kind: "ignored", why: `already ${execution.status}` };
  if (execution.ended) return wrongStatus(execution, "cancelled");
  cancelExecution(step, { by, reason, id });
  return { kind: "applied", seq: execution.applied.get(id) ?? execution.seq };
}

function retry(step: Step, { by, id, fromParent }: ControlMessage): Answer {
  const { execution } = step;
  if (execution.parent !== null && fromParent !== true)
    return wrongStatus(
      execution,
      "retried by itself",
      `it is a child: retry its parent ${execution.parent.execution}`,
    );
  if (execution.ending !== null && execution.ended) return retryCleanup(step, execution.ending, { by, id });
  if (execution.status !== "failed" && execution.status !== "cancelled") {
    return wrongStatus(execution, "retried", "only a failed or cancelled execution can be retried");
  }
  const visit = visitToReopen(execution);
  const phase = visit?.plan.name ?? execution.plan.phases[0]?.name ?? "";
  step.emit({ kind: "retried", phase, visit: visit?.visit ?? 1, round: execution.round + 1, by, id });
  const { seq } = execution;
  if (execution.startAt !== null)
    step.emit({ kind: "timer.set", timer: "start", purpose: "start", due: execution.startAt });
  // A deadline that has passed does not count for the retry, which was asked for after it.
  if (execution.deadline !== null && execution.deadline > step.now)
    step.emit({ kind: "timer.set", timer: "deadline", purpose: "deadline", due: execution.deadline });
  if (execution.current?.status === "running") armWaits(step, execution.current);
  advance(step);
  return { kind: "applied", seq };
}

/** Runs the tasks of the clean-up that are not done. The work itself does not go on. */
function retryCleanup(step: Step, ending: Ending, { by, id }: { by: string; id: string }): Answer {
  const { execution } = step;
  const round = execution.round + 1;
  const next = nextCleanup(execution, ending, round);
  if (next === null) {
    if (execution.parent !== null) {
      // The parent waits for the end of its child, and has forgotten the one that it was told.
      notifyParent(step, id);
      return { kind: "applied", seq: execution.seq };
    }
    return wrongStatus(execution, "retried", "it has cleaned up after itself: start a new one");
  }
  step.emit({ kind: "retried", phase: next.plan.name, visit: next.visit, round, by, id });
  const { seq } = execution;
  startCleanupTimer(step);
  advance(step);
  return { kind: "applied", seq };
}

/** The visit that a retry reopens: the last one, or the one that failed if the last one was reached by its onError. */
function visitToReopen(execution: Execution): Visit | null {
  const { current, origin } = execution;
  if (origin === null || current === null) return current;
  const isRepair = current.repair || (current.status === "done" && execution.status === "failed");
  return isRepair ? origin : current;
}

function wrongStatus(execution: Execution, what: string, hint?: string): Answer {
  return reject(
    "wrong_status",
    `execution ${execution.id} is ${execution.shownStatus} and cannot be ${what}`,
    hint ? { hint } : {},
  );
}
