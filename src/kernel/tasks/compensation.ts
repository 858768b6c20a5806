/**
 * Compensation: undoes the tasks of a visit when its execution is cancelled or fails. It is a visit of an implied phase with
 * the same visit number, and its tasks are those of the compensated visit, by reference: same numbers, same texts.
 */
import { assert } from "../../std/assert.ts";
import type { Execution, HandlerState } from "../execution.ts";

/** The outcome and the result of a compensated task. */
export interface Compensated {
  /** How the compensated task ended; `unknown` means that it was granted and is not done, so that it may have begun. */
  readonly outcome: "done" | "unknown";
  /** The sequence number of the event with the result; 0 if there is none. */
  readonly result: number;
}

/** The handler whose tasks a handler of the current visit compensates. */
export function compensatedHandler(execution: Execution, { plan: { name } }: HandlerState): HandlerState {
  const { plan, visit } = execution.currentVisit();
  const origin = execution.keptVisit(plan.compensates ?? "", visit)?.handler(name);
  assert(origin !== undefined, "a visit that is compensated is kept");
  return origin;
}

/** The task that a task of the current visit compensates. */
export function compensatedTask(execution: Execution, handler: HandlerState, task: number): Compensated {
  const { tasks } = compensatedHandler(execution, handler);
  return tasks.isDone(task)
    ? { outcome: "done", result: tasks.resultOf(task) }
    : { outcome: "unknown", result: 0 };
}
