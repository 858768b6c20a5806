/**
 * Compensation: undoes the tasks of a visit when the execution is cancelled or fails. It runs as a visit of an implied phase, with
 * the same visit number. Its tasks are those of the compensated visit, with the same numbers and texts, and are not stored again.
 */
import { assert } from "../../std/assert.ts";
import type { Execution, HandlerState } from "../execution.ts";

/** The outcome and the result of a compensated task. */
export interface Compensated {
  /** How the compensated task ended. `unknown` means that it was granted but is not done, so that it may have begun. */
  readonly outcome: "done" | "unknown";
  /** The sequence number of the event that has the result; 0 if there is no result. */
  readonly result: number;
}

/** Returns the handler whose tasks are compensated by this handler of the current visit. */
export function compensatedHandler(execution: Execution, { plan: { name } }: HandlerState): HandlerState {
  const { plan, visit } = execution.currentVisit();
  const origin = execution.keptVisit(plan.compensates ?? "", visit)?.handler(name);
  assert(origin !== undefined, "a visit that is compensated must be kept");
  return origin;
}

/** Returns the outcome and result of the task that is compensated by this task of the current visit. */
export function compensatedTask(execution: Execution, handler: HandlerState, task: number): Compensated {
  const { tasks } = compensatedHandler(execution, handler);
  return tasks.isDone(task)
    ? { outcome: "done", result: tasks.resultOf(task) }
    : { outcome: "unknown", result: 0 };
}
