/** The figures that scale workers, by what one node holds now. */

import type { Holdings } from "../../engine/io.ts";
import type { Scaling } from "../schemas/worker.ts";
import { countWorkers } from "./count-workers.ts";

/** The capacity of a worker where there is none to look at. */
const CAPACITY = 100;

/** The figures of remote workers; of those that serve one handler only, if it is named. */
export function scalingOf(overview: Pick<Holdings, "workers" | "ready">, use: string | null): Scaling {
  const remote = overview.workers.filter(({ local }) => !local);
  const serving = remote.filter(({ serves }) => serves.some((served) => served.use === use));
  const { counted, workers, capacity } =
    use === null
      ? countWorkers({ ...overview, workers: remote })
      : {
          counted: serving,
          workers: serving.length,
          capacity: serving.reduce((sum, one) => sum + one.capacity, 0),
        };
  const ready = overview.ready.reduce(
    (sum, { use: name, tasks }) => (use === null || name === use ? sum + tasks : sum),
    0,
  );
  const held = counted.reduce((sum, worker) => sum + worker.held, 0);
  const each = workers === 0 ? CAPACITY : capacity / workers;
  return {
    tasks: ready + held,
    ready,
    held,
    workers,
    capacity,
    utilisation: capacity === 0 ? 0 : held / capacity,
    desired: Math.ceil((ready + held) / each),
  };
}
