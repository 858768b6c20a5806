/**
 * The workflows of `bench --real`: asynchronous handlers, tasks of 100 bytes, results of 60 bytes. The worker processes of the
 * bench serve this file.
 */
import { workflow } from "../../../src/index.ts";

export const TASK_BYTES = 100;
export const RESULT_BYTES = 60;

/** A value whose JSON text has this many bytes. It is made cheaply, since the cost of user code is not what is measured. */
export function sized(n: number, bytes: number): { readonly n: number; readonly text: string } {
  const rest = bytes - EMPTY_CHARS - String(n).length;
  return { n, text: FILLING.slice(0, Math.max(0, rest)) };
}

const EMPTY_CHARS = JSON.stringify({ n: 0, text: "" }).length - 1;
const FILLING = "x".repeat(1_000);

export const taskOf = (n: number) => sized(n, TASK_BYTES);
type Input = ReturnType<typeof taskOf>;
const resultOf = (n: number) => sized(n, RESULT_BYTES);

/** How often the code of these workflows ran in this process. */
export const ran = { count: 0 };

/** Many tasks in one phase. */
export const fan = workflow<{ tasks: number }>({ name: "real-fan" })
  .phase("work", {
    *enumerate({ input }) {
      for (let n = 0; n < input.tasks; n++) yield taskOf(n);
    },
    async process({ task }) {
      ran.count++;
      return resultOf(task.n);
    },
  })
  .returns(({ phases }) => phases.work.count);

/** The code of a task of `flaky`: one in ten fails once. */
export async function failOnce({ task, attempt }: { readonly task: Input; readonly attempt: number }) {
  if (attempt === 1 && task.n % 10 === 3) throw new Error(`task ${task.n} fails once`);
  ran.count++;
  return resultOf(task.n);
}

/** Many tasks, of which one in ten fails once. */
export const flaky = workflow<{ tasks: number }>({ name: "real-flaky" })
  .phase("work", {
    *enumerate({ input }) {
      for (let n = 0; n < input.tasks; n++) yield taskOf(n);
    },
    retry: { attempts: 2, backoff: "constant", min: 100 },
    process: failOnce,
  })
  .returns(({ phases }) => phases.work.count);

const link = {
  process: async ({ input }: { input: Input }) => {
    ran.count++;
    return resultOf(input.n);
  },
};

/** Five phases of one task each. */
export const chain = workflow<Input>({ name: "real-chain" })
  .phase("one", link)
  .phase("two", link)
  .phase("three", link)
  .phase("four", link)
  .phase("five", link);

/** Three phases of one task each. */
export const shortChain = workflow<Input>({ name: "real-short-chain" })
  .phase("one", link)
  .phase("two", link)
  .phase("three", link);

/** One task with five steps. */
export const stepped = workflow<Input>({ name: "real-steps" }).phase("work", {
  async process({ input, step }) {
    for (const name of ["one", "two", "three", "four", "five"])
      await step(name, async () => resultOf(input.n));
    return resultOf(input.n);
  },
});

/** One task. */
export const single = workflow<Input>({ name: "real-single" }).phase("work", link);

/** Waits for a signal that never comes. */
export const waiting = workflow<Input>({ name: "real-waiting" }).waitFor("go");

/** The times at which the visits of `loop` began, in this process. */
export const visited: number[] = [];

/** One phase that is visited again and again, and a phase at the end. */
export const loop = workflow<{ visits: number }>({ name: "real-loop" })
  .phase(
    "work",
    {
      async process() {
        visited.push(performance.now());
        return resultOf(visited.length);
      },
    },
    {
      maxVisits: 100_000,
      among: ["work", "end"],
      next: ({ input }) => (visited.length < input.visits ? "work" : "end"),
    },
  )
  .phase("end", { process: async () => resultOf(0) });
