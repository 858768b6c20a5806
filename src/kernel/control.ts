/** Applies pause, resume, cancel and retry. Each request is applied once by its id, and a repeat gets the first answer. */
import { reject } from "../std/rejection.ts";
import { advance, armWaits, notifyParent, startCleanupTimer } from "./advance.ts";
import { nextCleanup } from "./cleanup.ts";
import { LIMITS } from "./definition/definition.ts";
import type { Ending, Execution, HandlerState } from "./execution.ts";
import type { Answer, ChosenTasks, ControlMessage } from "./message.ts";
import { isRelayName } from "./relay/relay.ts";
import type { Step } from "./step.ts";
import { notifyChildren } from "./tasks/children.ts";
import { clearTimers } from "./timer-ids.ts";
import { arm } from "./timers.ts";

/** Applies a control message. */
export function control(step: Step, message: ControlMessage): Answer {
  const { execution } = step;
  if (isRelayName(execution.plan.definition.name))
    return wrongStatus(
      execution,
      message.kind === "cancel" ? "cancelled" : `${message.kind}d`,
      "it passes events on",
    );
  // @plant repeated messages applied again
  const before = execution.applied.get(message.id);
  // @plant repeated retry without its answer
  if (before !== undefined) return applied(execution, message.id, before);
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
 * Begins to cancel an execution that has not ended; the owner then drains its attempts. If the execution is cleaning up, the
 * rest of the clean-up is left out.
 */
export function cancelExecution(
  step: Step,
  by: { by: string; reason: string | null; id: string; force?: true },
): void {
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
  // Resumes a paused child, because the ending parent waits for its children to end.
  if (isCleaning && message.fromParent === true && execution.status === "paused")
    return resume(step, message);
  // This execution has finished its work, so the cancel applies to the execution that continues it.
  if (isCleaning && execution.continuing !== null && execution.nextCancelled === null) {
    step.emit({ kind: "continuing", input: execution.continuing, cancel: { id, by, reason } });
    if (force !== true) return { kind: "applied", seq: execution.seq };
  }
  // @plant cancel ends the clean-up
  if (isCleaning && force !== true) return { kind: "ignored", why: "already cleaning up" };
  // Whether the whole clean-up is left out, because it has not begun yet.
  const leavesOutAll =
    force === true && !isCleaning && execution.draining && execution.cancelling?.force !== true;
  if ((execution.status === "cancelling" && !leavesOutAll) || execution.status === "cancelled")
    return { kind: "ignored", why: `already ${execution.status}` };
  if (execution.ended) return wrongStatus(execution, "cancelled");
  cancelExecution(step, { by, reason, id, ...(leavesOutAll ? { force } : {}) });
  return { kind: "applied", seq: execution.applied.get(id) ?? execution.seq };
}

function retry(step: Step, { by, id, fromParent, tasks }: ControlMessage): Answer {
  const { execution } = step;
  if (tasks !== undefined) return retryTasks(step, tasks, { by, id });
  // A retry of a clean-up does not change how the execution ended. So a child may be retried without its parent.
  if (execution.ending !== null && execution.ended)
    return retryCleanup(step, execution.ending, { by, id, isAsked: fromParent === true });
  if (execution.parent !== null && fromParent !== true)
    return wrongStatus(
      execution,
      "retried by itself",
      `the execution is a child: retry its parent ${execution.parent.execution}`,
    );
  if (execution.status !== "failed" && execution.status !== "cancelled") {
    const failed = execution.kept.find((visit) => visit.hasFailures)?.plan.name;
    const tasks =
      failed === undefined
        ? ""
        : `; to retry its failed tasks: rondo retry ${execution.id} --phase ${failed}`;
    return wrongStatus(execution, "retried", `only a failed or cancelled execution can be retried${tasks}`);
  }
  const visit = execution.visitToReopen;
  const phase = visit?.plan.name ?? execution.plan.phases[0]?.name ?? "";
  step.emit({ kind: "retried", phase, visit: visit?.visit ?? 1, round: execution.round + 1, by, id });
  const { seq } = execution;
  if (execution.startAt !== null)
    step.emit({ kind: "timer.set", timer: "start", purpose: "start", due: execution.startAt });
  restoreDeadline(step);
  if (execution.current?.status === "running") armWaits(step, execution.current);
  advance(step);
  return { kind: "applied", seq };
}

/** Runs chosen tasks again: failed tasks of the open visit, or tasks of an ended execution that are not done. */
function retryTasks(step: Step, chosen: ChosenTasks, { by, id }: { by: string; id: string }): Answer {
  const { execution } = step;
  const what = "retried task by task";
  if (execution.ending !== null)
    return wrongStatus(execution, what, "the clean-up of the execution has begun: start a new execution");
  if (execution.ended && execution.parent !== null)
    return wrongStatus(
      execution,
      what,
      `the execution is a child of ${execution.parent.execution}, which knows how it ended: retry the parent`,
    );
  const visit = execution.visitAt(chosen);
  const handler = visit?.handler(chosen.handler);
  if (visit === undefined || handler === undefined)
    return refuseUnknown(execution, chosen) ?? noneFailed(execution, chosen);
  if (execution.draining) return wrongStatus(execution, what, "wait until the execution has ended");
  if (!execution.ended && visit.status !== "running")
    return wrongStatus(
      execution,
      what,
      `the phase "${chosen.phase}" is over: wait until the execution has ended`,
    );
  const tasks = tasksToRetry(execution, handler, chosen.numbers);
  if (tasks.length === 0) return noneFailed(execution, chosen);
  if (chosen.dryRun === true) {
    const retried = { tasks: tasks.length, skipped: execution.phasesSkippedBy(visit) };
    return { kind: "ignored", why: "nothing was changed: this is a dry run", retried };
  }
  const hasEnded = execution.ended;
  const round = hasEnded ? execution.round + 1 : execution.round;
  const place = visit.place(handler.plan.name);
  for (let from = 0; from < tasks.length; from += LIMITS.rowItems) {
    const some = tasks.slice(from, from + LIMITS.rowItems);
    const { failed } = handler.tasks;
    const failures = some.map((task) => (failed.has(task) ? handler.tasks.resultOf(task) : 0));
    step.emit({ kind: "tasks.retried", ...place, tasks: some, failures, round, by, id });
  }
  const seq = execution.applied.get(id) ?? execution.seq;
  if (hasEnded) restoreDeadline(step);
  if (handler.plan.waits) arm(step, handler);
  // A signal that was kept may settle a retried task at once.
  advance(step);
  return applied(execution, id, seq);
}

/** Returns the answer to a message that was applied. After a retry of chosen tasks, it includes how many run again. */
function applied(execution: Execution, id: string, seq: number): Answer {
  const retried = execution.retriedTasks.get(id);
  return { kind: "applied", seq, ...(retried === undefined ? {} : { retried }) };
}

/** Returns a rejection if the phase, the handler or the visit does not exist; null if all of them exist. */
function refuseUnknown(execution: Execution, { phase, handler, visit }: ChosenTasks): Answer | null {
  const { plan, visited } = execution;
  const known = plan.byName.get(phase);
  if (known === undefined) {
    const names = plan.definition.phases.map(({ name }) => name).join(", ");
    return reject("not_found", `there is no phase "${phase}"; there are: ${names}`, { path: "phase" });
  }
  if (visit !== undefined && !visited.some((one) => one.phase === phase && one.visit === visit))
    return reject("not_found", `phase "${phase}" has no visit ${visit}`, { path: "visit" });
  if (known.handlers.some(({ name }) => name === handler)) return null;
  const names = known.handlers.map(({ name }) => name).join(", ");
  return reject("not_found", `phase "${phase}" has no handler "${handler}"; there are: ${names}`, {
    path: "handler",
  });
}

function noneFailed({ id }: Execution, { phase, numbers }: ChosenTasks): Answer {
  const which = numbers === undefined || numbers.length === 0 ? "task" : `task of ${numbers.join(", ")}`;
  return reject("wrong_status", `no ${which} of "${phase}" has failed`, {
    hint: `to list the failed tasks: rondo tasks ${id} --failed`,
  });
}

/** Returns the chosen tasks that can run again. After the end of the execution, tasks that were cancelled can be chosen by number too. */
function tasksToRetry(
  { ended }: Execution,
  { tasks, total, dependencies }: HandlerState,
  numbers: readonly number[] | undefined,
): number[] {
  if (numbers === undefined)
    return Array.from({ length: total }, (_, task) => task).filter((task) => tasks.failed.has(task));
  const isOpen = (task: number) => ended && task < total && !tasks.isDone(task);
  const chosen = new Set([...numbers].filter((task) => tasks.failed.has(task) || isOpen(task)));
  // Tasks that failed only because they depend on chosen tasks run again too. The loop also visits the tasks that it adds.
  if (dependencies !== null)
    for (const task of chosen)
      for (const waiter of dependencies.waitersOf(task)) if (tasks.failed.has(waiter)) chosen.add(waiter);
  return [...chosen];
}

/** Sets the timer of the deadline again. A deadline that passed before the retry was requested does not apply to the retry. */
function restoreDeadline(step: Step): void {
  const { deadline } = step.execution;
  if (deadline !== null && deadline > step.now)
    step.emit({ kind: "timer.set", timer: "deadline", purpose: "deadline", due: deadline });
}

/** Runs those tasks of the clean-up again that are not done. The work of the execution does not continue. */
function retryCleanup(
  step: Step,
  ending: Ending,
  { by, id, isAsked }: { by: string; id: string; isAsked: boolean },
): Answer {
  const { execution } = step;
  const round = execution.round + 1;
  const next = nextCleanup(execution, ending, round);
  if (next === null) {
    if (isAsked) {
      // The parent waits for its child again, and has dropped the earlier notice of the child's end.
      notifyParent(step, id);
      return { kind: "applied", seq: execution.seq };
    }
    return wrongStatus(execution, "retried", "the execution has cleaned up after itself: start a new one");
  }
  step.emit({ kind: "retried", phase: next.plan.name, visit: next.visit, round, by, id });
  const { seq } = execution;
  startCleanupTimer(step);
  advance(step);
  return { kind: "applied", seq };
}

function wrongStatus(execution: Execution, what: string, hint?: string): Answer {
  return reject(
    "wrong_status",
    `execution ${execution.id} is ${execution.shownStatus} and cannot be ${what}`,
    hint ? { hint } : {},
  );
}
