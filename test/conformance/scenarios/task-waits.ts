/** Runs with tasks that wait, and looks at them, for tests. */
import { encodeEntries } from "../../../src/kernel/journal/journal-entry.ts";
import { restore } from "../../../src/kernel/journal/replay.ts";
import { writeSnapshot } from "../../../src/kernel/journal/snapshot.ts";
import { viewExecution } from "../../../src/kernel/view.ts";
import { KernelRun, phase } from "./kernel-run.ts";

/** A run of one phase with so many tasks. */
export const tasks = (n: number, more: object = {}) =>
  new KernelRun([phase("a", { tasks: Array.from({ length: n }, (_, i) => i), ...more })]);

/** What a task waits for; null: it does not. */
export const waiting = (run: KernelRun, task = 0) =>
  run.handler("a").progress.tasks.get(task)?.waiting ?? null;

/** What a handler looks like from outside: pending, running, retrying, waiting, done, failed. */
export const counts = (run: KernelRun) => {
  const [view] = viewExecution(run.execution, run.now).phases[0]?.handlers ?? [];
  return view && [view.pending, view.running, view.retrying, view.waiting, view.done, view.failed];
};

/** The same run, from its journal. */
export function replayed(run: KernelRun): string {
  const { id } = run.execution;
  return writeSnapshot(
    restore(id, run.plan, { snapshot: null, entries: encodeEntries(run.events, run.execution.id) }),
  );
}

/** What waits were given: the signal's data, or the code of the error. */
export const answers = (run: KernelRun) =>
  run
    .of("task.step")
    .filter(({ reason }) => reason !== "done")
    .map(({ task, name, reason, result, error }) => ({
      task,
      name,
      reason,
      result: error === null ? result : (JSON.parse(error) as { code: string }).code,
    }));
