/** Pause, resume, cancel and retry. Each is applied once by its id; a repeat gets the first answer. */
import { reject } from "../std/rejection.ts";
import { advance, armWaits, notifyParent, startCleanupTimer } from "./advance.ts";
import { nextCleanup } from "./cleanup.ts";
import type { Ending, Execution, Visit } from "./execution.ts";
import type { Answer, ControlMessage } from "./message.ts";
import type { Step } from "./step.ts";
import { notifyChildren } from "./tasks/children.ts";
import { clearTimers } from "./timers.ts";

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
