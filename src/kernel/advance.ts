/**
 * Moves an execution forward without a message: finishes complete handlers, ends phases, begins the next phase, ends the execution.
 * Visits that fail or are cancelled are ended by the message `drained`, once none of their attempts is open.
 */
import { assert } from "../std/assert.ts";
import { checksum } from "../std/hash.ts";
import { nextCleanup } from "./cleanup.ts";
import { holdsTasks } from "./command/owed-op.ts";
import { NEXT, type PhasePlan } from "./definition/plan.ts";
import { type Items, listedItems } from "./definition/task-name.ts";
import type { EndingEvent, Parent } from "./event.ts";
import type { Execution, FormerEnd, HandlerState, Visit } from "./execution.ts";
import { rowRanges } from "./journal/journal-entry.ts";
import type { Answer, ChildMessage, DrainedMessage, Sent } from "./message.ts";
import type { Step } from "./step.ts";
import { notifyFirst, startOfSuccessor } from "./succession.ts";
import { failVainWaits } from "./tasks/dependency-failures.ts";
import { closeRun } from "./tasks/run-notices.ts";
import { clearTimers } from "./timer-ids.ts";
import { arm, ENGINE } from "./timers.ts";
import { unreadPhase, unreadSignals } from "./unread.ts";

/** Runs the execution forward until it waits for a message. */
export function advance(step: Step): void {
  const { execution } = step;
  for (;;) {
    if (execution.ended || execution.status === "cancelling") return;
    if (execution.due >= 0) {
      if (execution.status === "paused" || execution.startAt !== null) return;
      startPhase(step, execution.plan.phases[execution.due] as PhasePlan);
      continue;
    }
    const visit = execution.current;
    if (execution.ending !== null && visit?.status !== "running") {
      if (execution.status === "paused") return;
      continueCleanup(step, execution.ending);
      continue;
    }
    if (visit === null || visit.status !== "running" || visit.failing !== null) return;
    for (const handler of visit.handlers) {
      if (handler.dependencies !== null && !handler.finished)
        failVainWaits(step, handler, isSealed(execution, handler));
      if (
        !handler.finished &&
        !execution.draining &&
        /* @plant handler ends before it is sealed */ isSealed(execution, handler) &&
        handler.tasks.settled.size === handler.total &&
        /* @plant handler ends while a child of its code is open */ handler.openTaskChildren === 0
      )
        finishHandler(step, handler);
    }
    if (execution.draining || visit.handlers.some((handler) => !handler.finished)) return;
    if (execution.formerEnd !== null && !goesOn(execution.formerEnd, visit)) {
      endAgain(step, visit, execution.formerEnd);
      continue;
    }
    if (visit.plan.decision !== null && visit.handler(NEXT) === undefined && !visit.isRetried) {
      step.emit({ kind: "handler.started", ...visit.place(NEXT) });
      return;
    }
    // The execution that continues a paused one starts only after the resume.
    // @plant paused execution continues
    if (execution.continuing !== null && execution.status === "paused") return;
    finishPhase(step, visit);
  }
}

/**
 * Whether the handler gets no more tasks. In a clean-up, and while chosen tasks are retried, a failed enumeration also counts as
 * complete: the handler then ends with the tasks that were enumerated.
 */
function isSealed(
  { ending, isChosenRound }: Execution,
  { sealed, enumeration: { failed } }: HandlerState,
): boolean {
  return sealed || (failed && (ending !== null || isChosenRound));
}

/**
 * Whether the execution continues after a round of chosen tasks: the visit is complete now, and it is the visit in which the
 * execution had ended.
 */
function goesOn({ back }: FormerEnd, visit: Visit): boolean {
  return back === null && visit.isComplete;
}

/**
 * Ends an execution again after a round of chosen tasks. The execution fails if failures exceed the tolerance of the visit in which
 * it had ended.
 */
function endAgain(step: Step, visit: Visit, { status, error, failure, back }: FormerEnd): void {
  const { exceeding, leftOut } = visit;
  const phase = visit.plan.name;
  const own = exceeding === undefined ? (visit.isComplete ? "done" : status) : "failed";
  step.emit({ kind: "phase.finished", phase, visit: visit.visit, status: own, next: null });
  if (back !== null || (exceeding === undefined && status === "cancelled"))
    return endWork(step, { status, error });
  if (exceeding !== undefined) {
    const message = `${exceeding.tasks.failed.size} of ${exceeding.total} tasks failed`;
    const generic = { code: "task_failed", message, phase, handler: exceeding.plan.name };
    return endWork(step, { status: "failed", error: failure ?? generic });
  }
  const message =
    leftOut === 0
      ? `the tasks of the phase "${phase}" are not all enumerated: retry the execution`
      : `${leftOut} tasks of the phase "${phase}" have not run: retry the execution`;
  endWork(step, { status: "failed", error: { code: "tasks_cancelled", message, phase } });
}

/** Records the end of a handler. Tasks that are still open count as cancelled. */
export function finishHandler(step: Step, handler: HandlerState): void {
  const visit = step.execution.currentVisit();
  for (const task of [...handler.notices.keys()]) closeRun(step, handler, task, "ended");
  const done = handler.tasks.done;
  const failed = handler.tasks.failed.size;
  step.emit({
    kind: "handler.finished",
    ...visit.place(handler.plan.name),
    done,
    failed,
    cancelled: Math.max(0, handler.total - handler.tasks.exempt - done - failed),
  });
}

type End = Pick<EndingEvent, "status" | "output" | "error">;

/**
 * Ends the work of the execution, and begins its clean-up. If there is nothing to clean up, the execution ends at once. It also ends
 * at once if the clean-up is left out; a retry then runs the clean-up.
 */
function endWork(
  step: Step,
  { status, output = null, error = null }: Partial<End> & Pick<End, "status">,
  isLeftOut = false,
): void {
  const { execution } = step;
  const end = { status, output, error };
  if (!execution.hasBegun || nextCleanup(execution, end) === null) return finish(step, end);
  clearTimers(step);
  step.emit({ kind: "ending", ...end });
  // @plant forced cancel forgotten while the work drains
  if (isLeftOut) finish(step, end);
  else startCleanupTimer(step);
}

/** Sets the timer that ends the clean-up when its longest time has passed. */
export function startCleanupTimer(step: Step): void {
  const due = step.now + step.execution.plan.cleanupTimeoutMs;
  step.emit({ kind: "timer.set", timer: "cleanup", purpose: "cleanup", due });
}

/** Starts the next visit of the clean-up, or ends the execution after the last one. */
function continueCleanup(step: Step, ending: End): void {
  const { execution } = step;
  const next = nextCleanup(execution, ending);
  if (next === null) return finish(step, ending);
  const kept = execution.keptVisit(next.plan.name, next.visit);
  if (kept === undefined) return enterPhase(step, next.plan, next.visit);
  step.emit({ kind: "phase.started", phase: next.plan.name, visit: next.visit });
  armWaits(step, kept);
}

/** Sets the timers of sleeps and waits that have not ended in a reopened visit. */
export function armWaits(step: Step, visit: Visit): void {
  for (const handler of visit.handlers)
    if (handler.plan.waits && handler.tasks.settled.size < handler.total) arm(step, handler);
}

/** Ends the execution and notifies its parent, or starts the execution that continues it. */
function finish(step: Step, { status, output, error }: End): void {
  const { execution } = step;
  clearTimers(step);
  const { round } = execution;
  if (status === "done" && execution.continuing !== null) {
    const start = startOfSuccessor(execution, execution.continuing);
    step.emit({ kind: "finished", status, output: null, error, round, continuedAs: start.execution });
    step.send(start.execution, start);
    return;
  }
  const unread = unreadSignals(execution);
  step.emit({
    kind: "finished",
    status,
    output,
    error,
    round,
    ...(unread.length === 0 ? {} : { unread }),
  });
  notifyParent(step);
  // @plant first execution not told of the last end
  notifyFirst(step, false);
  // The gate knows the first of the executions that follow one another.
  // @plant gate not told about an end
  if (execution.notifies !== null)
    step.send(execution.notifies, { kind: "gate.ended", execution: execution.first });
}

function startPhase(step: Step, plan: PhasePlan): void {
  const { execution } = step;
  const visit = (execution.visitCounts.get(plan.name) ?? 0) + 1;
  if (visit > plan.maxVisits) {
    const message = `phase "${plan.name}" would be visited ${visit} times; at most ${plan.maxVisits} are allowed`;
    endWork(step, {
      status: "failed",
      error: { code: "visits_exceeded", message, phase: plan.name, fatal: true },
    });
    return;
  }
  enterPhase(step, plan, visit);
}

function enterPhase(step: Step, plan: PhasePlan, visit: number): void {
  const { execution } = step;
  step.emit({ kind: "phase.started", phase: plan.name, visit });
  for (const handler of plan.handlers)
    step.emit({ kind: "handler.started", phase: plan.name, visit, handler: handler.name });
  for (const handler of execution.currentVisit().handlers) startHandler(step, handler);
}

function startHandler(step: Step, handler: HandlerState): void {
  const visit = step.execution.currentVisit();
  if (handler.plan.waits) {
    arm(step, handler);
    return;
  }
  const listed = handler.plan.definition.tasks;
  if (listed === undefined) return;
  const items = listedItems(listed, handler.plan.definition);
  emitTasks(step, handler, items);
  step.emit({ kind: "handler.enumerated", ...visit.place(handler.plan.name), total: items.tasks.length });
}

/** Journals more tasks of a handler, in events that each fit into a row. `addedBy` are the tasks that added them. */
export function emitTasks(
  step: Step,
  handler: HandlerState,
  { tasks, keys, identities, afters }: Items,
  addedBy: readonly number[] | null = null,
): void {
  const place = step.execution.currentVisit().place(handler.plan.name);
  const known = handler.paged ? handler.total : 0;
  for (const [from, to] of rowRanges(tasks, afters ?? undefined)) {
    const page = tasks.slice(from, to);
    const { checksum: sum } = handler.enumeration;
    step.emit({
      kind: "tasks.enumerated",
      ...place,
      from: known + from,
      count: page.length,
      checksum: addedBy === null ? checksum(`${page.join("\n")}\n`, sum) : sum,
      tasks: page,
      keys: keys?.slice(from, to) ?? null,
      identities: identities?.slice(from, to) ?? null,
      ...(afters === undefined || afters === null ? {} : { afters: afters.slice(from, to) }),
      ...(addedBy === null ? {} : { addedBy: addedBy.slice(from, to) }),
    });
  }
}

function finishPhase(step: Step, visit: Visit): void {
  const { execution } = step;
  const { plan } = visit;
  const isCleanup = execution.ending !== null;
  const next = isCleanup ? null : nextPhase(execution, visit);
  const isFailed = isCleanup ? visit.hasFailures : visit.isRetried && !visit.isComplete;
  step.emit({
    kind: "phase.finished",
    phase: plan.name,
    visit: visit.visit,
    status: isFailed ? "failed" : "done",
    next: next?.name ?? null,
  });
  if (next !== null || isCleanup) return;
  if (plan.final === "failed") {
    const error = execution.error ?? {
      code: "failed",
      message: `ended in the phase "${plan.name}", which is final: "failed"`,
      phase: plan.name,
    };
    endWork(step, { status: "failed", error });
  } else {
    const { returns, returnsLast } = execution.plan;
    endWork(step, { status: "done", output: returnsLast || plan.index === returns ? visit.answer : null });
  }
}

function nextPhase(execution: Execution, visit: Visit): PhasePlan | null {
  const { plan } = visit;
  if (plan.decision !== null && !visit.isRetried) {
    const chosen = execution.plan.byName.get(JSON.parse(visit.answer ?? "null") as string);
    assert(chosen !== undefined, "a decision that is done must name a phase");
    return chosen;
  }
  if (plan.next >= 0 && !visit.isRetried) return execution.plan.phases[plan.next] as PhasePlan;
  // An execution that is continued by another one need not be checked: the other one gets the unread signals, and returns the output.
  if (plan.final === "failed" || execution.continuing !== null) return null;
  const unread = unreadPhase(execution);
  if (unread !== null) return unread;
  const { returns } = execution.plan;
  return returns < 0 || plan.index === returns ? null : (execution.plan.phases[returns] as PhasePlan);
}

/** Notifies the parent how this execution has ended. `again` is the id of a message that asked for this notice once more. */
export function notifyParent(step: Step, again?: string): void {
  const { execution } = step;
  const { parent, status, output, error } = execution;
  if (parent === null || !execution.ended) return;
  // The failure of a child that has cleaned up is marked as fatal: the child cannot continue its work, so its parent must not retry
  // it.
  const failure = execution.ending === null || error === null ? error : { ...error, fatal: true };
  const payload = status === "done" ? (output ?? "null") : JSON.stringify(failure);
  const id = again === undefined ? "" : `${execution.id}/${again}`;
  const end = endOfChild(execution.id, { id, parent, status: status as ChildMessage["status"], payload });
  if (again === undefined) step.send(parent.execution, end.message);
  else step.sent.push(end);
}

/** Makes the message that tells the parent how its child ended. */
export function endOfChild(
  child: string,
  end: { id: string; parent: Parent; status: ChildMessage["status"]; payload: string },
): Sent {
  const { execution, phase, visit, handler, task, name } = end.parent;
  const { status, payload } = end;
  return {
    id: end.id,
    to: execution,
    message: {
      kind: "child",
      phase,
      visit,
      handler,
      task,
      ...(name === undefined ? {} : { name }),
      child,
      status,
      payload,
    },
  };
}

/** Ends a visit that fails or is cancelled, after the owner of the execution has reported that no attempt of the visit is open. */
export function drained(step: Step, message: DrainedMessage): Answer {
  const { execution } = step;
  const visit = execution.current;
  if (!execution.draining) return { kind: "ignored", why: "nothing drains" };
  if (
    visit !== null &&
    (visit.plan.name !== message.phase || visit.visit !== message.visit || execution.round !== message.round)
  ) {
    return { kind: "ignored", why: "another visit drains" };
  }
  // @plant clean-up begins while children are open
  if (visit !== null && visit.status === "running" && visit.openChildren > 0)
    return { kind: "ignored", why: "children are open" };
  if (holdsTasks(execution)) return { kind: "ignored", why: "post-operations are owed" };
  const cancelled = execution.status === "cancelling";
  if (visit !== null && visit.status === "running") {
    clearTimers(step, (purpose) => purpose !== "deadline");
    for (const handler of visit.handlers) if (!handler.finished) finishHandler(step, handler);
    const repair =
      cancelled || visit.isRetried || visit.plan.onError < 0
        ? null
        : (execution.plan.phases[visit.plan.onError] as PhasePlan);
    const { failing } = visit;
    step.emit({
      kind: "phase.finished",
      phase: visit.plan.name,
      visit: visit.visit,
      status: cancelled ? "cancelled" : "failed",
      next: repair?.name ?? null,
    });
    if (!cancelled && repair === null)
      endWork(step, { status: "failed", error: visit.repair ? (execution.error ?? failing) : failing });
  }
  if (cancelled && execution.ending !== null) finish(step, execution.ending);
  else if (cancelled) {
    const { by, reason, force } = execution.cancelling ?? { by: "unknown", reason: null };
    const code = by === ENGINE && reason === "deadline" ? "deadline" : "cancelled";
    const message = `cancelled by ${by}${reason === null ? "" : `: ${reason}`}`;
    endWork(step, { status: "cancelled", error: { code, message } }, force === true);
  }
  advance(step);
  return { kind: "applied", seq: execution.seq };
}
