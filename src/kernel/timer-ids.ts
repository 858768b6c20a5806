/** Makes the ids of timers, and clears timers. */
import type { HandlerState } from "./execution.ts";
import type { Step } from "./step.ts";

/** Clears a timer. Returns false if it is not set. */
export function clearTimer(step: Step, timer: string): boolean {
  const armed = step.execution.timers.get(timer);
  if (armed === undefined) return false;
  step.emit({ kind: "timer.cleared", timer, purpose: armed.purpose, due: armed.due });
  return true;
}

/** Clears the timers of the execution for whose purpose `which` returns true. */
export function clearTimers(step: Step, which: (purpose: string) => boolean = () => true): void {
  for (const [timer, { purpose }] of [...step.execution.timers]) if (which(purpose)) clearTimer(step, timer);
}

/** Returns the id of the timer of a handler that is a sleep or a wait. */
export function timerId(step: Step, handler: HandlerState): string {
  const visit = step.execution.currentVisit();
  return `${visit.plan.name}.${visit.visit}.${handler.plan.name}`;
}

/**
 * Returns the id of the timer of one task: for the time limit of its child, or for its wait for a signal. The id contains the name of
 * the wait if the task may have several.
 */
export function taskTimerId(step: Step, handler: HandlerState, task: number, wait?: string): string {
  const id = `${timerId(step, handler)}.${task}`;
  return wait === undefined ? id : `${id}/${wait}`;
}

/** Returns the task and the wait that the id of a task's timer names; null if the current visit has no such task. */
export function taskOfTimer(
  step: Step,
  timer: string,
): { handler: HandlerState; task: number; wait: string | undefined } | null {
  const [, id = timer, wait] = /^([^/]*)\/(.*)$/s.exec(timer) ?? [];
  const task = Number(id.slice(id.lastIndexOf(".") + 1));
  const handler = step.execution
    .currentVisit()
    .handlers.find((candidate) => taskTimerId(step, candidate, task) === id);
  return handler === undefined ? null : { handler, task, wait };
}
