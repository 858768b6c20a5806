/** The tasks of a handler as one byte each: by state, by duration, by worker, or by whether they ran in an interval. */
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { markRunning, NONE_RUNNING, type RunningTasks } from "./running-tasks.ts";
import { TASK_STATES, type TaskIndex } from "./task-index.ts";

export const MAP_KINDS = ["state", "ms", "worker", "within"] as const;

export type MapKind = (typeof MAP_KINDS)[number];

export interface StateMap {
  readonly bytes: Uint8Array;
  /** The meaning of the bytes of the map, as JSON. */
  readonly legend: string;
}

/**
 * Upper bounds of durations in milliseconds. Byte 0: the task has no outcome yet; byte i: up to the i-th bound; the last byte:
 * above all bounds.
 */
const MS_BOUNDS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000, 3_600_000,
];
/** The number of workers with a byte of their own; all other workers share one byte. */
const WORKERS_NAMED = 40;

/** Maps the tasks of an index to bytes. `span` is an interval in milliseconds since the first event. */
export function mapTasks(
  index: TaskIndex,
  by: MapKind,
  {
    running = NONE_RUNNING,
    ...span
  }: { readonly from: number; readonly to: number; readonly running?: RunningTasks } = {
    from: 0,
    to: Number.MAX_SAFE_INTEGER,
  },
): StateMap {
  switch (by) {
    case "state": {
      const bytes = index.states();
      markRunning(bytes, index, running);
      return {
        bytes,
        legend: JSON.stringify({ low: TASK_STATES, high: "attempts, up to 15" }),
      };
    }
    case "ms":
      return {
        bytes: index.bytesBy((ms, _, isSettled) => (isSettled ? bucketOf(ms) : 0)),
        legend: JSON.stringify({ upToMs: [null, ...MS_BOUNDS, "more"] }),
      };
    case "within":
      return { bytes: index.within(span), legend: JSON.stringify({ within: [false, true] }) };
    case "worker": {
      const named = index.workers.slice(0, WORKERS_NAMED);
      return {
        bytes: index.bytesBy((_, worker) => Math.min(worker, WORKERS_NAMED + 1)),
        legend: ascii(
          JSON.stringify({
            workers: [null, ...named, ...(named.length < index.workers.length ? ["(others)"] : [])],
          }),
        ),
      };
    }
  }
}

const zip = promisify(gzip);

/** A compressed map, and the last event that it contains. */
export interface ZippedMap extends StateMap {
  readonly seq: number;
}

/** The newest compressed maps of each index. They live as long as the index. */
const zipped = new WeakMap<TaskIndex, Map<MapKind, ZippedMap>>();

/**
 * Maps the tasks of an index to compressed bytes. Pages ask for the same map again and again, so the newest one of each kind is
 * kept until the index has further events. `seq`: the last event of the index.
 */
export async function zipMap(
  index: TaskIndex,
  by: Exclude<MapKind, "within">,
  seq: number,
): Promise<ZippedMap> {
  const maps = zipped.get(index) ?? new Map<MapKind, ZippedMap>();
  zipped.set(index, maps);
  const kept = maps.get(by);
  if (kept?.seq === seq) return kept;
  const { bytes, legend } = mapTasks(index, by);
  const made = { bytes: await zipBytes(bytes), legend, seq };
  maps.set(by, made);
  return made;
}

/** Compresses a map, fast: a million tasks are a few kilobytes then. */
export function zipBytes(bytes: Uint8Array): Promise<Uint8Array> {
  return zip(bytes, { level: 1 });
}

/** A lookup table for short durations, which are the most frequent. */
const SHORT_BUCKETS = Uint8Array.from({ length: 1_024 }, (_, ms) => findBucket(ms));

function bucketOf(ms: number): number {
  return SHORT_BUCKETS[ms] ?? findBucket(ms);
}

function findBucket(ms: number): number {
  const bound = MS_BOUNDS.findIndex((max) => ms <= max);
  return bound < 0 ? MS_BOUNDS.length + 1 : bound + 1;
}

/** Escapes JSON to ASCII, because HTTP headers must be ASCII. */
function ascii(json: string): string {
  return json.replaceAll(/[^\x20-\x7e]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
