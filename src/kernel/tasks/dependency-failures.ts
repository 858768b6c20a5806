/**
 * Fails tasks that wait for others in vain. The verdicts follow from the state alone:
 * 1. A dependency has failed or was cancelled: its waiters fail (`dependency_failed`), and so do theirs.
 * 2. Every open task of a complete handler waits for another one. Then identities that no task has fail their waiters
 *    (`unknown_dependency`). If there are none, the rest waits in cycles, whose tasks fail (`dependency_cycle`).
 */
import type { HandlerState } from "../execution.ts";
import type { Step } from "../step.ts";
import { ENGINE } from "../timers.ts";
import { BulkRecorder } from "./bulk-recorder.ts";
import type { Dependencies } from "./dependencies.ts";

/** The most names of a cycle that an error shows. */
const CYCLE_SHOWN = 10;

type Reason = "dependency_failed" | "unknown_dependency" | "dependency_cycle";

/** Fails the tasks of a handler that wait in vain; `isComplete`: the handler gets no more tasks except those that tasks add. */
export function failVainWaits(step: Step, handler: HandlerState, isComplete: boolean): void {
  const { dependencies, tasks, total } = handler;
  if (dependencies === null) return;
  // A verdict can leave others that wait in vain for another reason, so this is repeated until there is none.
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

/** Judges the open tasks if each of them waits: unknown identities first, cycles if there are none. */
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
  /** The tasks that failed so far, in order. */
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

  /** Fails a task that waits. A task that has an outcome, or a verdict already, keeps it. */
  fail(task: number, reason: Reason, message: string): void {
    if (this.#seen.has(task) || !this.#dependencies.blocked.has(task)) return;
    this.#seen.add(task);
    this.failed.push(task);
    const payload = JSON.stringify({
      name: "DependencyError",
      code: reason,
      message: `${reason}: ${message}`,
    });
    // No attempt of the task ever ran.
    this.#recorder.settle({ task, attempt: 0, status: "failed", reason, worker: ENGINE, ms: 0, payload });
  }

  /** Fails all tasks that wait for these, directly or through others. */
  cascade(from: readonly number[]): void {
    const queue = [...from];
    for (let task = queue.pop(); task !== undefined; task = queue.pop()) {
      const name = this.#dependencies.nameOf(task);
      for (const waiter of this.#dependencies.waitersOf(task)) {
        const known = this.failed.length;
        this.fail(waiter, "dependency_failed", `waits for the task "${name}", which is not done`);
        if (this.failed.length > known) queue.push(waiter);
      }
    }
  }

  flush(): void {
    this.#recorder.flush();
  }
}

/** Writes a cycle as `a -> b -> a`. The middle of a long one is left out. */
function showCycle(names: readonly string[]): string {
  const [first = ""] = names;
  if (names.length <= CYCLE_SHOWN) return [...names, first].join(" -> ");
  const left = names.length - CYCLE_SHOWN;
  const begin = names.slice(0, CYCLE_SHOWN - 1);
  return [...begin, `(${left} more tasks)`, names.at(-1), first].join(" -> ");
}
