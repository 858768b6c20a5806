/** The workflows that the worker processes of the bench serve. */
import { workflow } from "../../../src/index.ts";

/** Many tasks that do nothing. */
export const trivial = workflow<{ tasks: number }>({ name: "trivial" })
  .phase("work", {
    *enumerate({ input }) {
      for (let n = 0; n < input.tasks; n++) yield { n };
    },
    process: ({ task }) => ({ n: task.n }),
  })
  .returns(({ phases }) => phases.work.count);

/** One task that returns the time at which its code ran, in milliseconds since 1970 with fractions. */
export const quick = workflow<null>({ name: "quick" })
  .phase("work", { process: () => ({ at: performance.timeOrigin + performance.now() }) })
  .returns(async ({ phases }) => {
    for await (const { at } of phases.work.results()) return at;
    return 0;
  });
