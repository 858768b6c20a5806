/**
 * Tasks whose attempts have begun, by the leases of the node that owns the execution. A start is journaled up to 300 ms later
 * (decision 086), so the index of the journal does not know it yet.
 */
import type { OpenAttempt } from "../../engine/io.ts";
import { packed, TASK_STATES, type TaskFacts, type TaskIndex, type TaskState } from "./task-index.ts";

/** Open attempts of a handler by the numbers of their tasks. */
export type RunningTasks = ReadonlyMap<number, Pick<OpenAttempt, "n" | "worker">>;

export const NONE_RUNNING: RunningTasks = new Map();
const RUNNING = TASK_STATES.indexOf("running");
const SETTLED: readonly TaskState[] = ["done", "failed", "cancelled"];

/** The attempts of one handler that have begun. */
export function runningOf(
  attempts: readonly OpenAttempt[],
  { phase, visit, handler }: Pick<OpenAttempt, "phase" | "visit" | "handler">,
): RunningTasks {
  const ofHandler = attempts.filter(
    (one) =>
      one.status === "running" && one.phase === phase && one.visit === visit && one.handler === handler,
  );
  return new Map(ofHandler.map((one) => [one.task, one]));
}

/** The facts of a task: those of the journal, unless its attempt has begun and is not journaled yet. */
export function factsOf(index: TaskIndex, running: RunningTasks, task: number): TaskFacts {
  const known = index.get(task);
  const attempt = running.get(task);
  if (attempt === undefined || known.state === "running" || SETTLED.includes(known.state)) return known;
  return { ...known, state: "running", attempts: attempt.n, worker: attempt.worker, reason: null };
}

/** The first task from `from` on with this state; -1 if there is none. */
export function findTask(
  index: TaskIndex,
  running: RunningTasks,
  { from, state }: { readonly from: number; readonly state: TaskState | undefined },
): number {
  const isWanted = (task: number): boolean =>
    state === undefined || factsOf(index, running, task).state === state;
  let found = index.find(from, state);
  while (found >= 0 && !isWanted(found)) found = index.find(found + 1, state);
  for (const task of running.keys())
    if (task >= from && task < index.total && (found < 0 || task < found) && isWanted(task)) found = task;
  return found;
}

/** Marks the tasks whose attempts have begun in a map by state. */
export function markRunning(bytes: Uint8Array, index: TaskIndex, running: RunningTasks): void {
  for (const task of running.keys()) {
    if (task < 0 || task >= index.total) continue;
    const { state, attempts } = factsOf(index, running, task);
    if (state === "running") bytes[task] = packed(RUNNING, attempts);
  }
}
