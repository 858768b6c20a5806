// Workflows that tests of the API start.
import { Fatal, type HostedWorkflow, workflow } from "../../src/index.ts";

/** Three tasks that double a number. */
export const doubles = workflow({ name: "doubles" }).phase("double", {
  enumerate: ({ input }: { input: { count?: number } | null }) =>
    Array.from({ length: input?.count ?? 3 }, (_, n) => ({ n })),
  process: ({ task, log }: { task: { n: number }; log: (text: string) => void }) => {
    log(`doubling ${task.n}`);
    return { twice: task.n * 2 };
  },
});

/** Ends when it gets the signal `approved`. */
export const approval = workflow({ name: "approval" }).waitFor("approved", { timeout: "1d" });

/** A task out of three fails for good. */
export const failing = workflow({ name: "failing" }).phase("work", {
  enumerate: () => [{ n: 0 }, { n: 1 }, { n: 2 }],
  process: ({ task }: { task: { n: number } }) => {
    if (task.n === 1) throw new Fatal("no such key");
    return task.n;
  },
  tolerate: 1,
});
