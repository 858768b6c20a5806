/**
 * Fails tasks that can never run because of the tasks for which they wait. Which ones follows from the state alone: 1. If a
 * dependency has failed or was cancelled, the tasks that wait for it fail (`dependency_failed`), and so do those that wait for them.
 * 2. If every open task of a complete handler waits for another one, tasks that wait for an identity that no task has fail
 * (`unknown_dependency`). If there are none, the tasks that wait in cycles fail (`dependency_cycle`).
 */
import type { HandlerState } from "../execution.ts";
import type { Step } from "../step.ts";
import { ENGINE } from "../timers.ts";
import { BulkRecorder } from "./bulk-recorder.ts";
import type { Dependencies } from "./dependencies.ts";

/** The most names of a cycle that an error message shows. */
const CYCLE_SHOWN = 10;

type Reason = "dependency_failed" | "unknown_dependency" | "dependency_cycle";

/**
 * Fails the tasks of a handler whose waits can never end. `isComplete` means that the handler gets no more tasks except those that
 * tasks add.
 */
export function failVainWaits(step: Step, handler: HandlerState, isComplete: boolean): void {
  const { dependencies, tasks, total } = handler;
  if (dependencies === null) return;
  // A failed task can make other waits hopeless, so this is repeated until no more tasks fail.
  for (;;) {
    const failed = new Verdicts(step, handler, dependencies);
    failed.cascade(dependencies.takeFailed(tasks));
    failed.flush();
    const open = total - tasks.settled.size;
    if (step.execution.draining || !isComplete || open === 0) return;
    // @plant unknown dependency judged while tasks can run
    if (dependencies.blocked.size < open) return;
    const verdicts = new Verdicts(step, handler, dependencies);
    judgeBlocked(verdicts, dependencies, total);
    if (verdicts.isEmpty) return;
    verdicts.cascade(verdicts.failed);
    verdicts.flush();
  }
}

/** If every open task waits, fails those that wait for unknown identities. If there are none, fails those in cycles. */
function judgeBlocked(verdicts: Verdicts, dependencies: Dependencies, total: number): void {
  for (const [name, waiters] of dependencies.missing())
    for (const waiter of waiters)
      verdicts.fail(waiter, "unknown_dependency", `waits for the task "${name}", which was never added`);
  if (!verdicts.isEmpty) return;
  for (const cycle of dependencies.cycles(total)) {
    const path = showCycle(cycle.map((task) => dependencies.nameOf(task)));
    for (const task of cycle) verdicts.fail(task, "dependency_cycle", path);
  }
}

class Verdicts {
  /** The tasks that this step has failed so far, in order. */
  readonly failed: number[] = [];
  readonly #seen = new Set<number>();
  readonly #dependencies: Dependencies;
  readonly #recorder: BulkRecorder;

  constructor(step: Step, handler: HandlerState, dependencies: Dependencies) {
    this.#dependencies = dependencies;
    this.#recorder = new BulkRecorder(step, handler);
  }

  get isEmpty(): boolean {
    return this.failed.length === 0;
  }

  /** Fails a task that waits. A task that already has an outcome, or was failed in this step, keeps that. */
  fail(task: number, reason: Reason, message: string): void {
    if (this.#seen.has(task) || !this.#dependencies.blocked.has(task)) return;
    this.#seen.add(task);
    this.failed.push(task);
    const payload = JSON.stringify({
      name: "DependencyError",
      code: reason,
      message: `${reason}: ${message}`,
    });
    // The attempt number is 0, because no attempt of the task ever ran.
    this.#recorder.settle({ task, attempt: 0, status: "failed", reason, worker: ENGINE, ms: 0, payload });
  }

  /** Fails all tasks that wait for these tasks, directly or through other tasks. */
  cascade(from: readonly number[]): void {
    const queue = [...from];
    for (let task = queue.pop(); task !== undefined; task = queue.pop()) {
      const name = this.#dependencies.nameOf(task);
      for (const waiter of this.#dependencies.waitersOf(task)) {
        const known = this.failed.length;
        this.fail(
          waiter,
          "dependency_failed",
          `waits for the task "${name}", which failed or does not run in this round`,
        );
        if (this.failed.length > known) queue.push(waiter);
      }
    }
  }

  flush(): void {
    this.#recorder.flush();
  }
}

/** Writes a cycle as `a -> b -> a`. The middle of a long cycle is left out. */
function showCycle(names: readonly string[]): string {
  const [first = ""] = names;
  if (names.length <= CYCLE_SHOWN) return [...names, first].join(" -> ");
  const left = names.length - CYCLE_SHOWN;
  const begin = names.slice(0, CYCLE_SHOWN - 1);
  return [...begin, `(${left} more tasks)`, names.at(-1), first].join(" -> ");
}
