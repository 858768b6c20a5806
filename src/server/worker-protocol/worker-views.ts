/**
 * Workers in answers of the API: one worker of a list, counts of workers, and the figures by which an autoscaler sets their
 * number.
 */
import type { Holdings, Overview } from "../../engine/io.ts";
import { topicOf } from "../../kernel/command/topic-rules.ts";
import { SCRIPT_USE } from "../../protocol/work.ts";
import type { Scaling, Worker } from "../schemas/worker.ts";
import type { WorkerSession } from "./worker-session.ts";

/** The capacity that is assumed for a worker if no worker is registered. */
const CAPACITY = 100;

/** The scaling figures of all remote workers, or of the workers of one handler if it is given. */
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

/** A worker as the engine lists it. */
type HeldWorker = Holdings["workers"][number];

/**
 * Counts of workers. A registration for scripts (`-scripts`) does not count as a worker; its capacity counts while scripts
 * wait.
 */
export interface WorkerCount {
  /** Registrations that count as workers. */
  readonly counted: readonly HeldWorker[];
  /** The number of worker processes. */
  readonly workers: number;
  readonly capacity: number;
}

const SUFFIX = "-scripts";

export function countWorkers({ workers, ready }: Pick<Holdings, "workers" | "ready">): WorkerCount {
  const ids = new Set(workers.map(({ id }) => id));
  // Ids of workers of version 0.2 were made by the server. Two such ids belong to the same process if the names before the `~` are equal.
  const names = new Set(workers.map(({ id }) => nameOf(id)));
  const isLane = ({ id, serves }: HeldWorker): boolean =>
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

/** A worker as the engine lists it, with the data of its session. Workers inside this process have no session. */
export function viewWorker(
  { id, local, capacity, held, serves }: Overview["workers"][number],
  session: WorkerSession | undefined,
): Worker {
  const handlers = serves.filter(({ use }) => topicOf(use) === null);
  return {
    id,
    name: session?.registration.name ?? id,
    kind: local ? "local" : "remote",
    project: session?.registration.project ?? null,
    capacity,
    held,
    handlers: handlers.map(({ use, version }) => (version === undefined ? { use } : { use, version })),
    topics: serves.flatMap(({ use }) => topicOf(use) ?? []),
    version: session?.registration.version ?? null,
    url: session?.registration.url ?? null,
    lastSeenAt: session?.lastSeenAt ?? null,
    memoryBytes: local ? process.memoryUsage.rss() : (session?.memoryBytes ?? null),
    draining: session?.isDraining ?? false,
  };
}
