/**
 * Moves an execution forward without a message: finishes complete handlers, ends phases, starts the next one, ends the
 * execution. Visits that fail or are cancelled end in `drained`, once none of their attempts is open.
 */
import { assert } from "../std/assert.ts";
import { checksum } from "../std/hash.ts";
import { holdsTasks } from "./command/owed-op.ts";
import { NEXT, type PhasePlan } from "./definition/plan.ts";
import { type Items, listedItems } from "./definition/task-name.ts";
import type { ExecutionError, Parent } from "./event.ts";
import type { Execution, HandlerState, Visit } from "./execution.ts";
import { rowRanges } from "./journal/journal-entry.ts";
import type { Answer, ChildMessage, DrainedMessage, Sent } from "./message.ts";
import type { Step } from "./step.ts";
import { arm, clearTimers, ENGINE } from "./timers.ts";

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
    if (visit === null || visit.status !== "running" || visit.failing !== null) return;
    for (const handler of visit.handlers) {
      if (
        !handler.finished &&
        /* @plant handler ends before it is sealed */ handler.sealed &&
        handler.tasks.settled.size === handler.total
      )
        finishHandler(step, handler);
    }
    if (visit.handlers.some((handler) => !handler.finished)) return;
    if (visit.plan.decision !== null && visit.handler(NEXT) === undefined) {
      step.emit({ kind: "handler.started", ...visit.place(NEXT) });
      return;
    }
    finishPhase(step, visit);
  }
}

/** Records the end of a handler; its open tasks count as cancelled. */
export function finishHandler(step: Step, handler: HandlerState): void {
  const visit = step.execution.currentVisit();
  const done = handler.tasks.done;
  const failed = handler.tasks.failed.size;
  step.emit({
    kind: "handler.finished",
    ...visit.place(handler.plan.name),
    done,
    failed,
    cancelled: Math.max(0, handler.total - done - failed),
  });
}

/** Ends the execution and notifies its parent. */
export function finish(
  step: Step,
  end: { status: "done" | "failed" | "cancelled"; output?: string | null; error?: ExecutionError | null },
): void {
  clearTimers(step);
  step.emit({
    kind: "finished",
    status: end.status,
    output: end.output ?? null,
    error: end.error ?? null,
    round: step.execution.round,
  });
  notifyParent(step);
}

function startPhase(step: Step, plan: PhasePlan): void {
  const { execution } = step;
  const visit = (execution.visitCounts.get(plan.name) ?? 0) + 1;
  if (visit > plan.maxVisits) {
    const message = `phase "${plan.name}" would be visited ${visit} times; at most ${plan.maxVisits} are allowed`;
    finish(step, {
      status: "failed",
      error: { code: "visits_exceeded", message, phase: plan.name, fatal: true },
    });
    return;
  }
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

/** Journals more tasks of a handler, in events that each fit a row. */
export function emitTasks(step: Step, handler: HandlerState, { tasks, keys, identities }: Items): void {
  const place = step.execution.currentVisit().place(handler.plan.name);
  const known = handler.paged ? handler.total : 0;
  for (const [from, to] of rowRanges(tasks)) {
    const page = tasks.slice(from, to);
    step.emit({
      kind: "tasks.enumerated",
      ...place,
      from: known + from,
      count: page.length,
      checksum: checksum(`${page.join("\n")}\n`, handler.enumeration.checksum),
      tasks: page,
      keys: keys?.slice(from, to) ?? null,
      identities: identities?.slice(from, to) ?? null,
    });
  }
}

function finishPhase(step: Step, visit: Visit): void {
  const { execution } = step;
  const { plan } = visit;
  const next = nextPhase(execution, visit);
  step.emit({
    kind: "phase.finished",
    phase: plan.name,
    visit: visit.visit,
    status: "done",
    next: next?.name ?? null,
  });
  if (next !== null) return;
  if (plan.final === "failed") {
    const error = execution.error ?? {
      code: "failed",
      message: `ended in the phase "${plan.name}", which is final: "failed"`,
      phase: plan.name,
    };
    finish(step, { status: "failed", error });
  } else
    finish(step, { status: "done", output: plan.index === execution.plan.returns ? visit.answer : null });
}

function nextPhase(execution: Execution, visit: Visit): PhasePlan | null {
  const { plan } = visit;
  if (plan.decision !== null) {
    const chosen = execution.plan.byName.get(JSON.parse(visit.answer ?? "null") as string);
    assert(chosen !== undefined, "a decision that settled done names a phase");
    return chosen;
  }
  if (plan.next >= 0) return execution.plan.phases[plan.next] as PhasePlan;
  const { returns } = execution.plan;
  if (plan.final === "failed" || returns < 0 || plan.index === returns) return null;
  return execution.plan.phases[returns] as PhasePlan;
}

function notifyParent(step: Step): void {
  const { execution } = step;
  const { parent, status, output, error } = execution;
  if (parent === null || !execution.ended) return;
  const payload = status === "done" ? (output ?? "null") : JSON.stringify(error);
  const end = { id: "", parent, status: status as ChildMessage["status"], payload };
  step.send(parent.execution, endOfChild(execution.id, end).message);
}

/** The message to the parent that says how a child ended. */
export function endOfChild(
  child: string,
  end: { id: string; parent: Parent; status: ChildMessage["status"]; payload: string },
): Sent {
  const { execution, phase, visit, handler, task } = end.parent;
  const { status, payload } = end;
  return {
    id: end.id,
    to: execution,
    message: { kind: "child", phase, visit, handler, task, child, status, payload },
  };
}

/** Ends a visit that fails or is cancelled: the owner says that none of its attempts is open. */
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
  if (visit !== null && visit.status === "running" && visit.openChildren > 0)
    return { kind: "ignored", why: "children are open" };
  if (holdsTasks(execution)) return { kind: "ignored", why: "post-operations are owed" };
  const cancelled = execution.status === "cancelling";
  if (visit !== null && visit.status === "running") {
    clearTimers(step, (purpose) => purpose !== "deadline");
    for (const handler of visit.handlers) if (!handler.finished) finishHandler(step, handler);
    const repair =
      cancelled || visit.plan.onError < 0 ? null : (execution.plan.phases[visit.plan.onError] as PhasePlan);
    const { failing } = visit;
    step.emit({
      kind: "phase.finished",
      phase: visit.plan.name,
      visit: visit.visit,
      status: cancelled ? "cancelled" : "failed",
      next: repair?.name ?? null,
    });
    if (!cancelled && repair === null)
      finish(step, { status: "failed", error: visit.repair ? (execution.error ?? failing) : failing });
  }
  if (cancelled) {
    const { by, reason } = execution.cancelling ?? { by: "unknown", reason: null };
    const isDeadline = by === ENGINE && reason === "deadline";
    finish(step, {
      status: "cancelled",
      error: {
        code: isDeadline ? "deadline" : "cancelled",
        message: `cancelled by ${by}${reason === null ? "" : `: ${reason}`}`,
      },
    });
  }
  advance(step);
  return { kind: "applied", seq: execution.seq };
}
