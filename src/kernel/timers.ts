/** Sets timers, and runs the handlers that need no worker: sleeps, and waits for a signal. */
import type { HandlerState } from "./execution.ts";
import type { Step } from "./step.ts";
import { settleOne } from "./tasks/bulk-recorder.ts";
import { clearTimer, timerId } from "./timer-ids.ts";

/** The worker name that stands for the engine itself, in events that no worker caused. */
export const ENGINE = "engine";

/** Starts a handler that is a sleep or a wait: sets its timer, or takes a signal that arrived before. */
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

/** Takes the oldest kept signal for an open wait. Returns false if there is none. */
export function takeKept(step: Step, handler: HandlerState, name: string): boolean {
  const kept = step.execution.signals.get(name)?.[0];
  if (kept === undefined) return false;
  clearTimer(step, timerId(step, handler));
  settleBuiltIn(step, handler, { status: "done", reason: "signalled", payload: kept.data });
  return true;
}

/** Returns the error, as JSON text, of a wait whose signal did not arrive in time. */
export function waitTimeout(signal: string | null | undefined): string {
  const message = `no signal "${signal}" came in time`;
  return JSON.stringify({ name: "WaitTimeout", code: "wait_timeout", message });
}

/** Settles the only task of a handler that is a sleep or a wait. */
export function settleBuiltIn(
  step: Step,
  handler: HandlerState,
  end: { status: "done" | "failed"; reason: string; payload: string },
): void {
  const attempt = handler.tasks.nextAttempt(0);
  settleOne(step, handler, { task: 0, attempt, worker: ENGINE, ms: 0, ...end });
}
