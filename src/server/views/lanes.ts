/** An execution over time for the dashboard: a lane per handler of a visit, with the number of tasks in each interval. */
import type { Lane } from "../schemas/execution.ts";
import type { BarState } from "./task-bars.ts";
import { TASK_STATES, type TaskIndex, type TaskState } from "./task-index.ts";
import type { IndexedHandler, TaskScan } from "./task-scan.ts";

/** If a lane has at most this many tasks in the window, it has bars of each task. */
const TASKS_MAX = 200;
/** The most bars of a lane in the window. */
const BARS_MAX = 2_000;
/** The most windows that are cached for one execution. */
const WINDOWS_KEPT = 8;
const [RUNNING, DONE, FAILED] = (["running", "done", "failed"] as const).map((state) =>
  TASK_STATES.indexOf(state),
) as [number, number, number];

/** The window in milliseconds since 1970, and the number of its intervals. */
export interface LaneWindow {
  readonly from: number;
  readonly to: number;
  readonly pieces: number;
}

/** Caches lanes that cannot change any more, since the dashboard requests them again and again. */
export class LaneIndex {
  readonly #kept = new WeakMap<TaskScan, { seq: number; byWindow: Map<string, readonly Lane[]> }>();

  /** All lanes, in the order of their beginnings. `isOver`: the lanes of this window cannot change, so they are cached. */
  lanes(scan: TaskScan, window: LaneWindow, isOver: boolean): readonly Lane[] {
    if (!isOver) return lanesOf(scan, window);
    let kept = this.#kept.get(scan);
    if (kept === undefined || kept.seq !== scan.seq) kept = { seq: scan.seq, byWindow: new Map() };
    this.#kept.set(scan, kept);
    const key = `${window.from} ${window.to} ${window.pieces}`;
    const lanes = kept.byWindow.get(key) ?? lanesOf(scan, window);
    kept.byWindow.delete(key);
    kept.byWindow.set(key, lanes);
    for (const oldest of kept.byWindow.keys())
      if (kept.byWindow.size > WINDOWS_KEPT) kept.byWindow.delete(oldest);
      else break;
    return lanes;
  }
}

function lanesOf(scan: TaskScan, window: LaneWindow): Lane[] {
  return Array.from(scan.handlers, (indexed) => laneOf(indexed, scan.startedAt, window));
}

function laneOf(indexed: IndexedHandler, origin: number, window: LaneWindow): Lane {
  const { phase, visit, handler, startedAt, endedAt, index } = indexed;
  const { pieces } = window;
  const since = { from: window.from - origin, to: window.to - origin, pieces };
  const { within, ...bands } = bandsOf(index, since);
  const bars = within <= TASKS_MAX ? barsOf(indexed, origin, window) : null;
  return { phase, visit, handler, startedAt, endedAt, total: index.total, ...bands, bars };
}

/** Returns the bars in the window: all bars that the journal has, or only the last attempt of each task if those are too many. */
function barsOf(
  { index, bars }: IndexedHandler,
  origin: number,
  window: LaneWindow,
): NonNullable<Lane["bars"]> {
  const { from, to } = window;
  const found = bars.bars?.filter((bar) => bar.from <= to && (bar.to ?? to) >= from);
  return found === undefined || found.length > BARS_MAX ? attemptsOf(index, origin, window) : found;
}

/** The state of the bar of a task's last attempt, by the state of the task. */
const BAR_STATES: Readonly<Record<TaskState, BarState>> = {
  ...{ pending: "lost", running: "running", retrying: "failed", waiting: "suspended" },
  ...{ done: "done", failed: "failed", cancelled: "cancelled" },
};

function attemptsOf(index: TaskIndex, origin: number, { from, to }: LaneWindow): NonNullable<Lane["bars"]> {
  const { states, attempts, at: times, ms } = index.columns;
  const bars: NonNullable<Lane["bars"]>[number][] = [];
  for (let task = 0; task < index.total; task++) {
    const attempt = attempts[task] as number;
    if (attempt === 0) continue;
    const state = (states[task] as number) & 15;
    const at = origin + (times[task] as number);
    const [begin, end] = state === RUNNING ? [at, null] : [at - (ms[task] as number), at];
    if (begin > to || (end ?? to) < from) continue;
    const shown = BAR_STATES[TASK_STATES[state] as TaskState];
    bars.push({ task, kind: "attempt", attempt, state: shown, from: begin, to: end });
  }
  return bars;
}

/**
 * Counts tasks by interval. It iterates over all tasks, perhaps a million, without an object for each. Times are since the
 * first event.
 */
function bandsOf(
  index: TaskIndex,
  { from, to, pieces }: LaneWindow,
): Pick<Lane, "ran" | "done" | "failed"> & { readonly within: number } {
  const perMs = pieces / Math.max(1, to - from);
  const ran = new Occupancy(pieces);
  const done = new Uint32Array(pieces);
  const failed = new Uint32Array(pieces);
  const { states, attempts, at: times, ms } = index.columns;
  const { total } = index;
  let within = 0;
  for (let task = 0; task < total; task++) {
    if (attempts[task] === 0) continue;
    const state = (states[task] as number) & 15;
    const isRunning = state === RUNNING;
    const at = times[task] as number;
    const begin = isRunning ? at : at - (ms[task] as number);
    if (begin > to || (!isRunning && at < from)) continue;
    within++;
    if (!isRunning && state !== DONE && state !== FAILED) continue;
    const end = isRunning || at > to ? pieces : (at - from) * perMs;
    ran.add(begin < from ? 0 : (begin - from) * perMs, end);
    if (isRunning || at > to) continue;
    const ended = state === DONE ? done : failed;
    const piece = Math.min(pieces - 1, Math.floor(end));
    ended[piece] = (ended[piece] as number) + 1;
  }
  return { ran: ran.read(), done: Array.from(done), failed: Array.from(failed), within };
}

/** Computes the average number of running tasks in each interval. */
class Occupancy {
  /** For each interval, the part that is filled by tasks which begin or end in it. */
  readonly #parts: Float64Array;
  /** The change of the number of tasks that fill whole intervals: +1 where a task begins, -1 where it ends. */
  readonly #steps: Float64Array;

  constructor(pieces: number) {
    this.#parts = new Float64Array(pieces + 1);
    this.#steps = new Float64Array(pieces + 2);
  }

  add(begin: number, end: number): void {
    const first = begin | 0;
    const last = end | 0;
    if (first === last) {
      this.#add(first, end - begin);
      return;
    }
    this.#add(first, first + 1 - begin);
    this.#add(last, end - last);
    this.#steps[first + 1] = (this.#steps[first + 1] as number) + 1;
    this.#steps[last] = (this.#steps[last] as number) - 1;
  }

  read(): number[] {
    let whole = 0;
    return Array.from({ length: this.#parts.length - 1 }, (_, i) => {
      whole += this.#steps[i] as number;
      return Math.round((whole + (this.#parts[i] as number)) * 100) / 100;
    });
  }

  #add(piece: number, part: number): void {
    this.#parts[piece] = (this.#parts[piece] as number) + part;
  }
}
