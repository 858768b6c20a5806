/** The end of a visit that fails or is cancelled: once no attempt is open, the rest of its tasks are cancelled. */
import { advance, finish, finishHandler } from "./advance.ts";
import { holdsTasks } from "./command/owed-op.ts";
import type { PhasePlan } from "./definition/plan.ts";
import type { Answer, DrainedMessage } from "./message.ts";
import type { Step } from "./step.ts";
import { clearTimers, ENGINE } from "./timers.ts";

/** The owner says that no attempt of the closing visit is open. */
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
