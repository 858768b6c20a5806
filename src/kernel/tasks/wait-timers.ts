/** The timers of waits inside tasks. */
import type { HandlerState } from "../execution.ts";
import type { TaskWait } from "../message.ts";
import type { Step } from "../step.ts";
import { clearTimer, taskTimerId } from "../timer-ids.ts";
import type { Waiting } from "./checkpoint.ts";

/** Clears the timer of a wait that ends without an answer. */
export function closeWait(step: Step, handler: HandlerState, task: number, name: string): void {
  const wait = handler.progress.tasks.get(task)?.waits.find((one) => one.name === name);
  if (wait !== undefined) clearTimer(step, timerOf(step, handler, task, wait));
}

/** Clears the timers of the waits of a task, except for those with these names. */
export function closeWaits(
  step: Step,
  handler: HandlerState,
  task: number,
  except: readonly TaskWait[] = [],
): void {
  for (const wait of handler.progress.tasks.get(task)?.waits ?? [])
    if (!except.some(({ name }) => name === wait.name)) clearTimer(step, timerOf(step, handler, task, wait));
}

/** Returns the id of the timer of a wait. */
export function timerOf(step: Step, handler: HandlerState, task: number, wait: Waiting): string {
  return taskTimerId(step, handler, task, wait.alone === true ? undefined : wait.name);
}
