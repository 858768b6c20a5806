/**
 * Workers as figures count them. A worker process registers its scripts apart, under its own id with `-scripts`, since its
 * sandbox takes fewer tasks at a time than its code does. Such a registration is no worker of its own, and its capacity
 * counts only while there are scripts to do.
 */
import type { Holdings } from "../../engine/io.ts";
import { SCRIPT_USE } from "../../protocol/work.ts";

type Worker = Holdings["workers"][number];

export interface WorkerCount {
  /** Registrations that count. */
  readonly counted: readonly Worker[];
  /** Processes. */
  readonly workers: number;
  readonly capacity: number;
}

const SUFFIX = "-scripts";

export function countWorkers({ workers, ready }: Pick<Holdings, "workers" | "ready">): WorkerCount {
  const ids = new Set(workers.map(({ id }) => id));
  // Workers of 0.2 let the server make their ids: there only the names before the `~` belong together.
  const names = new Set(workers.map(({ id }) => nameOf(id)));
  const isLane = ({ id, serves }: Worker): boolean =>
    serves.length > 0 &&
    serves.every(({ use }) => use === SCRIPT_USE) &&
    ((id.endsWith(SUFFIX) && ids.has(id.slice(0, -SUFFIX.length))) ||
      (nameOf(id).endsWith(SUFFIX) && names.has(nameOf(id).slice(0, -SUFFIX.length))));
  const hasScripts = ready.some(({ use, tasks }) => use === SCRIPT_USE && tasks > 0);
  const counted = workers.filter((worker) => !isLane(worker) || worker.held > 0 || hasScripts);
  return {
    counted,
    workers: workers.filter((worker) => !isLane(worker)).length,
    capacity: counted.reduce((sum, { capacity }) => sum + capacity, 0),
  };
}

function nameOf(id: string): string {
  return id.slice(0, id.indexOf("~") < 0 ? id.length : id.indexOf("~"));
}
