/** Sleeps and waits: what an execution waits for besides tasks, and the timers that end them. */
import type { HandlerState } from "./execution.ts";
import type { Step } from "./step.ts";

/** The name under which the engine itself acts. */
export const ENGINE = "engine";

/** Starts a sleep or a wait: sets its timer, or takes a signal that came before. */
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

/** Gives the oldest kept signal to a wait that is open; false if there is none. */
export function takeKept(step: Step, handler: HandlerState, name: string): boolean {
  const kept = step.execution.signals.get(name)?.[0];
  if (kept === undefined) return false;
  const timer = timerId(step, handler);
  const armed = step.execution.timers.get(timer);
  if (armed !== undefined)
    step.emit({ kind: "timer.cleared", timer, purpose: armed.purpose, due: armed.due });
  settleBuiltIn(step, handler, { status: "done", reason: "signalled", payload: kept.data });
  return true;
}

/** Clears every timer of the execution. */
export function clearTimers(step: Step, which: (purpose: string) => boolean = () => true): void {
  for (const [timer, { purpose, due }] of [...step.execution.timers]) {
    if (which(purpose)) step.emit({ kind: "timer.cleared", timer, purpose, due });
  }
}

/** The id of the timer of a sleep or a wait. */
export function timerId(step: Step, handler: HandlerState): string {
  const visit = step.execution.currentVisit();
  return `${visit.plan.name}.${visit.visit}.${handler.plan.name}`;
}

/** The id of the timer of one task: how long it waits for a signal, or its child may take. */
export function taskTimerId(step: Step, handler: HandlerState, task: number): string {
  return `${timerId(step, handler)}.${task}`;
}

/** The handler and the task that such a timer is for. */
export function taskOfTimer(step: Step, timer: string): { handler: HandlerState; task: number } | null {
  const task = Number(timer.slice(timer.lastIndexOf(".") + 1));
  const handler = step.execution
    .currentVisit()
    .handlers.find((candidate) => taskTimerId(step, candidate, task) === timer);
  return handler === undefined ? null : { handler, task };
}

/** Settles the one task of a sleep or a wait. */
export function settleBuiltIn(
  step: Step,
  handler: HandlerState,
  end: { status: "done" | "failed"; reason: string; payload: string },
): void {
  const visit = step.execution.currentVisit();
  step.emit({
    kind: "tasks.settled",
    ...visit.place(handler.plan.name),
    tasks: [0],
    attempts: [handler.tasks.nextAttempt(0)],
    statuses: [end.status],
    reasons: [end.reason],
    workers: [ENGINE],
    ms: [0],
    payloads: [end.payload],
  });
}
