/** The workflows of scenarios that are the same over every store. */
import { workflow } from "../../src/index.ts";

/** How often the code of these workflows ran in this process. */
export const ran = { count: 0 };

export const STEPS = 5;

/** Trivial tasks in one phase. */
export const fan = workflow<{ tasks: number }>({ name: "fan" })
  .phase("work", {
    *enumerate({ input }) {
      for (let n = 0; n < input.tasks; n++) yield { n };
    },
    process({ task }) {
      ran.count++;
      return { n: task.n };
    },
  })
  .returns(({ phases }) => phases.work.count);

const step = {
  process: ({ input }: { input: { n: number } }) => {
    ran.count++;
    return { n: input.n };
  },
};

/** Five phases of one task each. */
export const steps = workflow<{ n: number }>({ name: "steps" })
  .phase("one", step)
  .phase("two", step)
  .phase("three", step)
  .phase("four", step)
  .phase("five", step);

/** Waits for a signal that never comes. */
export const waiting = workflow<{ n: number }>({ name: "waiting" }).waitFor("go");

/** Sleeps for longer than any bench. */
export const sleeping = workflow<{ n: number }>({ name: "sleeping" }).sleep("nap", "10h");
