// Workflows that tests of the API start.
import { Fatal, workflow } from "rondo";
import { z } from "zod";

/** As many tasks as asked for, three by default: each doubles a number. */
export const doubles = workflow({
  name: "doubles",
  input: z.object({ count: z.number().int().optional() }),
}).phase("double", {
  enumerate: ({ input }) => Array.from({ length: input.count ?? 3 }, (_, n) => ({ n })),
  process: ({ task, log }) => {
    if (task.n < 10) log.info(`doubling ${task.n}`);
    return { twice: task.n * 2 };
  },
});

/** Ends when it gets the signal `approved`. */
export const approval = workflow({ name: "approval" }).waitFor("approved", {
  schema: z.object({ by: z.string() }),
  timeout: "1d",
});

/** One task out of three fails for good. */
export const failing = workflow({ name: "failing" }).phase("work", {
  enumerate: () => [{ n: 0 }, { n: 1 }, { n: 2 }],
  process: ({ task }) => {
    if (task.n === 1) throw new Fatal("no such key");
    return task.n;
  },
});

/** A definition that nobody serves. */
export const idle = {
  rondo: 1,
  name: "idle",
  input: { type: "object", required: ["bucket"], properties: { bucket: { type: "string" } } },
  phases: [
    {
      name: "work",
      handlers: {
        work: {
          use: "idle.work",
          tasks: [{ key: "a" }, { key: "b" }],
          key: "/key",
          identity: "/key",
          concurrency: 5,
        },
      },
    },
  ],
};
