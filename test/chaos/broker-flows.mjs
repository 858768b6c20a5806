/** What the workers of the chaos with a broker serve: many trivial tasks, and a topic that adds numbers. */
import { topic, workflow } from "rondo";

export const many = workflow({ name: "many" })
  .phase("work", {
    *enumerate({ input }) {
      for (let n = 0; n < input.tasks; n++) yield { n };
    },
    process: ({ task }) => ({ n: task.n }),
    retry: { attempts: 10, crashes: 100, min: "1ms", max: "50ms" },
  })
  .returns(({ phases }) => phases.work.count);

export const add = topic("CHAOS_CMD_ADD", ({ cmd }) => ({ sum: cmd.cmd_data.a + cmd.cmd_data.b }));
