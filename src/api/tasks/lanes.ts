/**
 * An execution over time: a lane per handler of a visit, with how many of its tasks ran, were done and failed in each
 * piece of the time; the tasks themselves where they are few. Made from the task indexes in one pass, no row is read.
 */
import { TASK_STATES, type TaskState } from "./task-index.ts";
import type { IndexedHandler, TaskScan } from "./task-scan.ts";

/** Up to so many tasks, a lane has a bar for each. */
const BARS_MAX = 200;
const [RUNNING, DONE, FAILED] = (["running", "done", "failed"] as const).map((state) =>
  TASK_STATES.indexOf(state),
) as [number, number, number];

export interface Lane {
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
  readonly startedAt: number;
  readonly endedAt: number | null;
  readonly total: number;
  /** Per piece: tasks that ran, on average; tasks that were done; tasks that failed. */
  readonly ran: readonly number[];
  readonly done: readonly number[];
  readonly failed: readonly number[];
  /** Null: they are too many. */
  readonly bars:
    | readonly {
        readonly task: number;
        readonly state: TaskState;
        readonly from: number;
        readonly to: number;
      }[]
    | null;
}

/** The window that is looked at, in milliseconds since 1970, and in how many pieces. */
export interface LaneWindow {
  readonly from: number;
  readonly to: number;
  readonly pieces: number;
}

/** All lanes, in the order in which they began. */
export function lanesOf(scan: TaskScan, window: LaneWindow): Lane[] {
  return Array.from(scan.handlers, (indexed) => laneOf(indexed, scan.startedAt, window));
}

function laneOf(indexed: IndexedHandler, origin: number, window: LaneWindow): Lane {
  const { phase, visit, handler, startedAt, endedAt, index } = indexed;
  const { from, to, pieces } = window;
  const width = Math.max(1, to - from) / pieces;
  const ran = new Occupancy(pieces);
  const done = new Array<number>(pieces).fill(0);
  const failed = new Array<number>(pieces).fill(0);
  const bars: { task: number; state: TaskState; from: number; to: number }[] | null =
    index.total <= BARS_MAX ? [] : null;
  const { states, attempts, at: times, ms: durations } = index.columns;
  for (let task = 0; task < index.total; task++) {
    if (attempts[task] === 0) continue;
    const state = (states[task] as number) & 15;
    const at = origin + (times[task] as number);
    const isRunning = state === RUNNING;
    const begin = isRunning ? at : at - (durations[task] as number);
    const end = isRunning ? to : at;
    if (bars !== null) bars.push({ task, state: TASK_STATES[state] as TaskState, from: begin, to: end });
    if (end < from || begin > to) continue;
    if (isRunning || state === DONE || state === FAILED)
      ran.add((Math.max(from, begin) - from) / width, (Math.min(to, end) - from) / width);
    if (at < from || at > to || isRunning) continue;
    const piece = Math.min(pieces - 1, Math.floor((at - from) / width));
    if (state === DONE) (done[piece] as number)++;
    else if (state === FAILED) (failed[piece] as number)++;
  }
  return {
    phase,
    visit,
    handler,
    startedAt,
    endedAt,
    total: index.total,
    ran: ran.read(),
    done,
    failed,
    bars,
  };
}

/** How many things there were on average in each piece of a line, each of them from one place to another. */
class Occupancy {
  /** What begins and ends within a piece. */
  readonly #parts: Float64Array;
  /** What fills whole pieces: one more from here on, one less. */
  readonly #steps: Float64Array;

  constructor(pieces: number) {
    this.#parts = new Float64Array(pieces + 1);
    this.#steps = new Float64Array(pieces + 2);
  }

  add(begin: number, end: number): void {
    const first = Math.floor(begin);
    const last = Math.floor(end);
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
