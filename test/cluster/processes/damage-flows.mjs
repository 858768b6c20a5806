/** A workflow that leaves a row in every table, and then waits. */
import { workflow } from "rondo";

export const hold = workflow({ name: "hold" })
  .phase("fan", {
    enumerate: () => Array.from({ length: 5 }, (_, i) => i),
    process: ({ task, log }) => {
      log.info(`task ${task}`);
      if (task === 4) throw new Error("always");
      return task;
    },
    retry: { attempts: 1 },
    tolerate: 1,
  })
  .waitFor("go", { timeout: "30d" })
  .returns(({ phases }) => [phases.fan.count, phases.go.value]);

export const other = workflow({ name: "other" })
  .waitFor("go", { timeout: "30d" })
  .returns(({ phases }) => phases.go.value);
