/** Looks at tasks that wait, for tests. */
import type { KernelRun } from "./kernel-run.ts";

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
