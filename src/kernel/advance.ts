/** What follows by itself: handlers that are complete finish, phases end, the next one starts, the execution ends. */
import { assert } from "../std/assert.ts";
import { checksum } from "../std/hash.ts";
import { NEXT, type PhasePlan } from "./definition/plan.ts";
import { listedItems } from "./definition/task-name.ts";
import type { ExecutionError } from "./event.ts";
import type { Execution, HandlerState, Visit } from "./execution.ts";
import { rowRanges } from "./journal/rows.ts";
import type { Step } from "./step.ts";
import { notifyParent } from "./tasks/notify-parent.ts";
import { arm, clearTimers } from "./timers.ts";

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

/** Records the end of a handler; what is not settled by now is cancelled. */
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

/** Ends the execution. */
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
  let sum = 0;
  for (const [from, to] of rowRanges(items.tasks)) {
    const tasks = items.tasks.slice(from, to);
    sum = checksum(`${tasks.join("\n")}\n`, sum);
    step.emit({
      kind: "tasks.enumerated",
      ...visit.place(handler.plan.name),
      from,
      count: tasks.length,
      checksum: sum,
      tasks,
      keys: items.keys?.slice(from, to) ?? null,
      identities: items.identities?.slice(from, to) ?? null,
    });
  }
  step.emit({ kind: "handler.enumerated", ...visit.place(handler.plan.name), total: items.tasks.length });
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
