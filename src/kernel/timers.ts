/** Timers, and the handlers that need no worker: sleeps, and waits for a signal. */
import type { HandlerState } from "./execution.ts";
import type { Step } from "./step.ts";
import { settleOne } from "./tasks/bulk-recorder.ts";

/** The name under which the engine itself acts. */
export const ENGINE = "engine";

/** Starts a sleep or a wait: sets its timer, or takes a signal that arrived before. */
export function arm(step: Step, handler: HandlerState): void {
  const { sleep, waitFor, timeout } = handler.plan.definition;
  if (waitFor !== undefined && takeKept(step, handler, waitFor)) return;
  const ms = handler.plan.mode === "sleep" ? sleep : timeout;
  if (ms === undefined) return;
  step.emit({
    kind: "timer.set",
    timer: timerId(step, handler),
    purpose: handler.plan.mode === "sleep" ? "sleep" : "wait",
    due: step.now + ms,
  });
}

/** Takes the oldest kept signal for an open wait; false if there is none. */
export function takeKept(step: Step, handler: HandlerState, name: string): boolean {
  const kept = step.execution.signals.get(name)?.[0];
  if (kept === undefined) return false;
  clearTimer(step, timerId(step, handler));
  settleBuiltIn(step, handler, { status: "done", reason: "signalled", payload: kept.data });
  return true;
}

/** Clears a timer; false if it is not set. */
export function clearTimer(step: Step, timer: string): boolean {
  const armed = step.execution.timers.get(timer);
  if (armed === undefined) return false;
  step.emit({ kind: "timer.cleared", timer, purpose: armed.purpose, due: armed.due });
  return true;
}

/** Clears the timers of the execution whose purpose matches. */
export function clearTimers(step: Step, which: (purpose: string) => boolean = () => true): void {
  for (const [timer, { purpose }] of [...step.execution.timers]) if (which(purpose)) clearTimer(step, timer);
}

/** The id of the timer of a sleep or a wait. */
export function timerId(step: Step, handler: HandlerState): string {
  const visit = step.execution.currentVisit();
  return `${visit.plan.name}.${visit.visit}.${handler.plan.name}`;
}

/** The id of the timer of one task: of its wait for a signal, or of its child's time limit. */
export function taskTimerId(step: Step, handler: HandlerState, task: number): string {
  return `${timerId(step, handler)}.${task}`;
}

/** The handler and the task that the id of a task's timer names; null if the current visit has no such task. */
export function taskOfTimer(step: Step, timer: string): { handler: HandlerState; task: number } | null {
  const task = Number(timer.slice(timer.lastIndexOf(".") + 1));
  const handler = step.execution
    .currentVisit()
    .handlers.find((candidate) => taskTimerId(step, candidate, task) === timer);
  return handler === undefined ? null : { handler, task };
}

/** The error (a JSON text) of a wait whose signal did not arrive in time. */
export function waitTimeout(signal: string | null | undefined): string {
  const message = `no signal "${signal}" came in time`;
  return JSON.stringify({ name: "WaitTimeout", code: "wait_timeout", message });
}

/** Settles the single task of a sleep or a wait. */
export function settleBuiltIn(
  step: Step,
  handler: HandlerState,
  end: { status: "done" | "failed"; reason: string; payload: string },
): void {
  const attempt = handler.tasks.nextAttempt(0);
  settleOne(step, handler, { task: 0, attempt, worker: ENGINE, ms: 0, ...end });
}
