/** What the workers of the chaos with a broker serve: many trivial tasks, noted as they begin, and a topic that adds. */
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { topic, workflow } from "rondo";

function note(what, { execution, attempt, idempotencyKey }) {
  const line = { what, pid: process.pid, execution, key: idempotencyKey, attempt };
  appendFileSync(join(process.env.FAULTS, "ledger.ndjson"), `${JSON.stringify(line)}\n`);
}

export const many = workflow({ name: "many" })
  .phase("work", {
    *enumerate({ input }) {
      for (let id = 0; id < input.tasks; id++) yield { id };
    },
    process(context) {
      note("begins", context);
      return { id: context.task.id };
    },
    retry: { attempts: 10, crashes: 100, min: "1ms", max: "50ms" },
  })
  .returns(({ phases }) => phases.work.count);

export const add = topic("CHAOS_CMD_ADD", ({ cmd }) => ({ sum: cmd.cmd_data.a + cmd.cmd_data.b }));
