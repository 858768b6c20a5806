/**
 * The fan-out of the demo: a wide phase of tiny tasks, some of which fail at first; a second phase that computes the same sum
 * in another way; a short timer; and both sums as the output.
 */
import { type AnyWorkflow, workflow } from "../../../src/index.ts";

/** The name of the workflow, and the prefix of its execution ids. */
export const DEMO = "demo";
/** Descriptions of the phases. */
export const PHASES = {
  work: "each task computes a checksum; 3 in 100 fail at first and are retried",
  check: "the same sum again, in slices, without reading those results",
  pause: "a timer of two seconds, as durable as the rest",
} as const;
const SLICE = 1_000;
/** One in this many tasks fails at first, about 3 in 100. */
const FAILS_EVERY = 33;

/** The input: the number of tasks. */
export interface DemoInput {
  readonly tasks: number;
}

/** The output of the fan-out. */
export interface DemoOutput {
  /** Tasks done in the wide phase. */
  readonly done: number;
  /** The sum of their results, as journaled. */
  readonly sum: number;
  /** The same sum, computed in slices without reading the results. */
  readonly check: number;
}

/** The result of a task: 24 bits that depend on its number. */
export function checksum(n: number): number {
  return Math.imul(n + 1, 0x9e37_79b1) >>> 8;
}

/** The workflow. `note` is called with every delivery before the task does anything. */
export function fanOut(note: (task: number, attempt: number) => void) {
  const demo = workflow<DemoInput>({ name: DEMO })
    .phase("work", {
      *enumerate({ input }) {
        for (let n = 0; n < input.tasks; n++) yield n;
      },
      process({ task, attempt }) {
        note(task, attempt);
        if (attempt === 1 && task % FAILS_EVERY === 0) throw new Error("not at the first attempt");
        return checksum(task);
      },
      // A task may lose many workers before it fails.
      retry: { attempts: 50, crashes: 50, backoff: "constant", min: "200ms", max: "200ms" },
    })
    .phase("check", {
      *enumerate({ input }) {
        for (let from = 0; from < input.tasks; from += SLICE)
          yield { from, to: Math.min(input.tasks, from + SLICE) };
      },
      process({ task }) {
        let sum = 0;
        for (let n = task.from; n < task.to; n++) sum += checksum(n);
        return sum;
      },
    })
    .sleep("pause", "2s")
    .returns(async ({ phases }): Promise<DemoOutput> => {
      const add = (sum: number, result: number) => sum + result;
      return {
        done: phases.work.count,
        sum: await phases.work.reduce(add, 0),
        check: await phases.check.reduce(add, 0),
      };
    });
  return demo satisfies AnyWorkflow;
}
