/** The figures that scale workers, by what one node holds now. */
import type { Holdings } from "../../engine/io.ts";

export interface Scaling {
  /** Ready and held together. */
  readonly tasks: number;
  readonly ready: number;
  readonly held: number;
  readonly workers: number;
  readonly capacity: number;
  /** Held by capacity, from 0 to 1. */
  readonly utilisation: number;
  /** How many workers like these would do it all at once. */
  readonly desired: number;
}

/** The capacity of a worker where there is none to look at. */
const CAPACITY = 100;

/** The figures of remote workers; of those that serve one handler only, if it is named. */
export function scalingOf(overview: Holdings, use: string | null): Scaling {
  const workers = overview.workers.filter(
    ({ local, serves }) => !local && (use === null || serves.some((served) => served.use === use)),
  );
  const ready = overview.ready.reduce(
    (sum, { use: name, tasks }) => (use === null || name === use ? sum + tasks : sum),
    0,
  );
  const held = workers.reduce((sum, worker) => sum + worker.held, 0);
  const capacity = workers.reduce((sum, worker) => sum + worker.capacity, 0);
  const each = workers.length === 0 ? CAPACITY : capacity / workers.length;
  return {
    tasks: ready + held,
    ready,
    held,
    workers: workers.length,
    capacity,
    utilisation: capacity === 0 ? 0 : held / capacity,
    desired: Math.ceil((ready + held) / each),
  };
}
