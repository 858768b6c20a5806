/** The tasks of one handler in one visit, in 20 bytes a task, with the place of the last outcome in the journal. */
import type { SettledStatus, TasksSettled } from "../../kernel/event.ts";
import { assert } from "../../std/assert.ts";
import { Bitset } from "../../std/bitset.ts";

/** States of tasks; a byte of `tasks/states` is an index into this list. */
export const TASK_STATES = [
  "pending",
  "running",
  "retrying",
  "waiting",
  "done",
  "failed",
  "cancelled",
] as const;

export type TaskState = (typeof TASK_STATES)[number];

const PENDING = 0;
const RUNNING = 1;
const DONE = 4;
const FAILED = 5;
const CANCELLED = 6;
/** The most attempts that fit into the high half of a state byte. */
const ATTEMPTS_SHOWN_MAX = 15;
const BYTES_PER_TASK = 20;

/** The time of an event, in milliseconds since the first event, and its sequence number. */
interface When {
  readonly at: number;
  readonly seq: number;
}

/** A change of a task: the state of an attempt, or that an attempt ended while the task stays open. */
export interface TaskNews {
  readonly state: TaskState;
  readonly attempt: number;
  readonly worker?: string;
  readonly reason?: string | null;
  readonly ms?: number;
  /** The time of the event, in milliseconds since the first event. */
  readonly at?: number;
  /** The place of the payload: the sequence number of the event, and the position in the event's columns. */
  readonly seq?: number;
  readonly place?: number;
}

/** The facts about one task of the index. */
export interface TaskFacts {
  readonly state: TaskState;
  readonly attempts: number;
  readonly worker: string | null;
  readonly reason: string | null;
  readonly ms: number;
  /** The sequence number of the event with the outcome; 0 if there is none. */
  readonly seq: number;
  readonly place: number;
}

export class TaskIndex {
  /** The state that tasks have before any event. */
  readonly #initial: number;
  total = 0;
  /** Whether the tasks are child executions. */
  hasChildren = false;
  #states = new Uint8Array(0);
  #attempts = new Uint16Array(0);
  #ms = new Uint32Array(0);
  #at = new Uint32Array(0);
  #worker = new Uint16Array(0);
  #reason = new Uint8Array(0);
  #seq = new Uint32Array(0);
  #place = new Uint16Array(0);
  readonly #workers = new Names(65_535);
  readonly #reasons = new Names(255);
  readonly #pageFrom: number[] = [];
  readonly #pageSeq: number[] = [];

  /** The events of each task, except its last outcome. */
  readonly #history = new TaskHistory();

  /** Tasks that were never granted in the visit that this one compensates. They stay cancelled. */
  readonly #exempt = new Bitset();

  constructor(initial: "pending" | "waiting", total: number) {
    this.#initial = TASK_STATES.indexOf(initial);
    this.setTotal(total);
  }

  /** Makes the index of the handler that compensates the tasks of this one. */
  compensating(): TaskIndex {
    const index = new TaskIndex("pending", 0);
    for (const from of this.#pageFrom) index.#pageFrom.push(from);
    for (const seq of this.#pageSeq) index.#pageSeq.push(seq);
    index.setTotal(this.total);
    for (let task = 0; task < this.total; task++) {
      if (this.#attempts[task] !== 0) continue;
      index.#exempt.add(task);
      index.note(task, { state: "cancelled", attempt: 0, reason: "not begun" });
    }
    return index;
  }

  /** About how much memory the index takes, in bytes. */
  get bytes(): number {
    return 1_024 + this.#states.length * BYTES_PER_TASK + this.#pageFrom.length * 16 + this.#history.bytes;
  }

  /** The number of tasks that have nothing to compensate. Views of handlers do not count them. */
  get exempt(): number {
    return this.#exempt.size;
  }

  get isPaged(): boolean {
    return this.#pageFrom.length > 0;
  }

  setTotal(total: number): void {
    this.#reserve(total);
    if (total > this.total) this.#states.fill(this.#initial, this.total, total);
    this.total = total;
  }

  addPage(from: number, count: number, seq: number): void {
    this.#pageFrom.push(from);
    this.#pageSeq.push(seq);
    this.setTotal(from + count);
  }

  /** Applies an event of one task to the index. */
  note(task: number, news: TaskNews): void {
    if (task >= this.total) this.setTotal(task + 1);
    this.#attempts[task] = Math.min(65_535, news.attempt);
    this.#states[task] = packed(TASK_STATES.indexOf(news.state), news.attempt);
    if (news.worker !== undefined) this.#worker[task] = this.#workers.number(news.worker);
    if (news.reason !== undefined)
      this.#reason[task] = news.reason === null ? 0 : this.#reasons.number(news.reason);
    if (news.ms !== undefined) this.#ms[task] = inColumn(news.ms);
    if (news.at !== undefined) this.#at[task] = inColumn(news.at);
    if (news.seq === undefined) return;
    this.#history.add(task, this.#seq[task] as number);
    this.#seq[task] = news.seq;
    this.#place[task] = news.place ?? 0;
  }

  /** Remembers an event of a task that is not an outcome, for the task's history. */
  remember(task: number, seq: number): void {
    this.#history.add(task, seq);
  }

  /** The sequence numbers of the events of a task, in order; null if the history has too many events to be kept. */
  historyOf(task: number): readonly number[] | null {
    const earlier = this.#history.of(task);
    const last = this.#seq[task] as number;
    if (earlier === null) return null;
    return [...new Set(last === 0 ? earlier : [...earlier, last])].sort((a, b) => a - b);
  }

  /** Makes failed tasks pending again. */
  retry(tasks: readonly number[]): void {
    for (const task of tasks)
      this.note(task, {
        state: TASK_STATES[this.#initial] ?? "pending",
        attempt: this.#attempts[task] ?? 0,
        reason: null,
      });
  }

  /** Applies one event with the columns of many settled attempts. Journals consist mostly of these events. */
  settle(event: TasksSettled, { at, seq }: When): void {
    const { tasks, attempts, statuses } = event;
    let last = -1;
    for (let i = 0; i < tasks.length; i++) last = Math.max(last, tasks[i] as number);
    if (last >= this.total) this.setTotal(last + 1);
    const [states, tries, times, events, places] = [
      this.#states,
      this.#attempts,
      this.#at,
      this.#seq,
      this.#place,
    ];
    const since = inColumn(at);
    for (let i = 0; i < tasks.length; i++) {
      const task = tasks[i] as number;
      times[task] = since;
      if (events[task] !== 0) this.#history.add(task, events[task] as number);
      events[task] = seq;
      places[task] = i;
    }
    for (let i = 0; i < tasks.length; i++) {
      const task = tasks[i] as number;
      const attempt = attempts[i] as number;
      tries[task] = Math.min(65_535, attempt);
      states[task] = packed(settledState(statuses[i] as SettledStatus), attempt);
    }
    put(this.#ms, tasks, event.ms, inColumn);
    put(this.#worker, tasks, event.workers, (worker) => this.#workers.number(worker));
    put(this.#reason, tasks, event.reasons, (reason) => (reason === null ? 0 : this.#reasons.number(reason)));
  }

  /** Makes a task pending again after an attempt without an outcome. */
  release(task: number): void {
    if (task < this.total) this.#states[task] = packed(PENDING, this.#attempts[task] as number);
  }

  /** Closes the handler: its open tasks count as cancelled. */
  close(): void {
    for (let task = 0; task < this.total; task++)
      if (this.#state(task) < DONE) this.#states[task] = packed(CANCELLED, this.#attempts[task] as number);
  }

  /** Begins a new round: tasks that are not done are pending again. */
  reopen(): void {
    for (let task = 0; task < this.total; task++)
      if (this.#state(task) !== DONE && !this.#exempt.has(task))
        this.#states[task] = packed(this.#initial, this.#attempts[task] as number);
  }

  get(task: number): TaskFacts {
    assert(task < this.total, "the index must have the task that is asked for");
    return {
      state: TASK_STATES[this.#state(task)] as TaskState,
      attempts: this.#attempts[task] as number,
      worker: this.#workers.name(this.#worker[task] as number),
      reason: this.#reasons.name(this.#reason[task] as number),
      ms: this.#ms[task] as number,
      seq: this.#seq[task] as number,
      place: this.#place[task] as number,
    };
  }

  /** The first task from `from` on with this state; -1 if there is none. */
  find(from: number, state: TaskState | undefined): number {
    if (state === undefined) return from < this.total ? from : -1;
    const wanted = TASK_STATES.indexOf(state);
    for (let task = from; task < this.total; task++) if (this.#state(task) === wanted) return task;
    return -1;
  }

  /** The page of tasks in which a task arrived: the number of its event, and of its first task. The event is 0 if there is none. */
  pageOf(task: number): { readonly seq: number; readonly from: number } {
    let low = 0;
    let high = this.#pageFrom.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#pageFrom[middle] as number) <= task) low = middle;
      else high = middle - 1;
    }
    return { seq: this.#pageSeq[low] ?? 0, from: this.#pageFrom[low] ?? 0 };
  }

  /** Returns a byte per task: the state in the low half, the number of attempts (up to 15) in the high half. */
  states(): Uint8Array {
    return this.#states.slice(0, this.total);
  }

  /** One byte per task, computed from its duration (if it has an outcome) and the number of its worker. */
  bytesBy(bucket: (ms: number, worker: number, isSettled: boolean) => number): Uint8Array {
    const bytes = new Uint8Array(this.total);
    for (let task = 0; task < this.total; task++)
      bytes[task] = bucket(this.#ms[task] as number, this.#worker[task] as number, this.#state(task) >= DONE);
    return bytes;
  }

  /** One byte per task: 1 if an attempt ran, or had another event, in this interval. */
  within({ from, to }: { readonly from: number; readonly to: number }): Uint8Array {
    const bytes = new Uint8Array(this.total);
    for (let task = 0; task < this.total; task++) {
      if (this.#attempts[task] === 0) continue;
      const at = this.#at[task] as number;
      const isRunning = this.#state(task) === RUNNING;
      const begin = isRunning ? at : at - (this.#ms[task] as number);
      if (begin <= to && (isRunning || at >= from)) bytes[task] = 1;
    }
    return bytes;
  }

  /** The columns of the index, at least `total` long, for loops over all tasks: state bytes, attempts, times, durations. */
  get columns(): {
    readonly states: Uint8Array;
    readonly attempts: Uint16Array;
    readonly at: Uint32Array;
    readonly ms: Uint32Array;
  } {
    return { states: this.#states, attempts: this.#attempts, at: this.#at, ms: this.#ms };
  }

  /** The names of workers; the number of a worker in the index is its position here plus 1. */
  get workers(): readonly string[] {
    return this.#workers.all;
  }

  #state(task: number): number {
    return (this.#states[task] as number) & 15;
  }

  #reserve(total: number): void {
    if (total <= this.#states.length) return;
    const size = Math.max(total, Math.min(this.#states.length * 2, this.#states.length + 1_048_576), 16);
    this.#states = grown(this.#states, new Uint8Array(size));
    this.#attempts = grown(this.#attempts, new Uint16Array(size));
    this.#ms = grown(this.#ms, new Uint32Array(size));
    this.#at = grown(this.#at, new Uint32Array(size));
    this.#worker = grown(this.#worker, new Uint16Array(size));
    this.#reason = grown(this.#reason, new Uint8Array(size));
    this.#seq = grown(this.#seq, new Uint32Array(size));
    this.#place = grown(this.#place, new Uint16Array(size));
  }
}

/** The most pairs of a task and an event that are kept; they take 32 MB. A handler with more has no histories. */
const PAIRS_MAX = 4_194_304;

/** The events of single tasks, as pairs of a task and a sequence number, in 8 bytes a pair. */
class TaskHistory {
  #pairs = new Uint32Array(0);
  #length = 0;
  #isCut = false;

  /** About how much memory the history takes, in bytes. */
  get bytes(): number {
    return this.#pairs.byteLength;
  }

  /** Adds an event of a task; the sequence number 0 stands for no event. */
  add(task: number, seq: number): void {
    if (seq === 0 || this.#isCut) return;
    if (this.#length === 2 * PAIRS_MAX) {
      this.#isCut = true;
      this.#pairs = new Uint32Array(0);
      return;
    }
    if (this.#length === this.#pairs.length) {
      const grown = new Uint32Array(Math.max(64, 2 * this.#length));
      grown.set(this.#pairs);
      this.#pairs = grown;
    }
    this.#pairs[this.#length++] = task;
    this.#pairs[this.#length++] = seq;
  }

  /** The sequence numbers of a task's events, in the order in which they were added; null if they are not kept. */
  of(task: number): readonly number[] | null {
    if (this.#isCut) return null;
    const found: number[] = [];
    for (let i = 0; i < this.#length; i += 2)
      if (this.#pairs[i] === task) found.push(this.#pairs[i + 1] as number);
    return found;
  }
}

/** Gives numbers to names, from 1. All names beyond the largest number share it. */
class Names {
  readonly all: string[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
  }

  number(name: string): number {
    const known = this.#numbers.get(name);
    if (known !== undefined) return known;
    if (this.all.length === this.#max) return this.#max;
    this.all.push(name);
    this.#numbers.set(name, this.all.length);
    return this.all.length;
  }

  name(number: number): string | null {
    return this.all[number - 1] ?? null;
  }
}

/** Limits milliseconds to the range of four bytes. */
function inColumn(ms: number): number {
  return ms <= 0 ? 0 : ms >= 4_294_967_295 ? 4_294_967_295 : Math.round(ms);
}

/** Writes values into a column by task. Neighbouring tasks mostly have equal values. */
function put<T>(
  column: Uint8Array | Uint16Array | Uint32Array,
  tasks: readonly number[],
  values: readonly T[],
  numberOf: (value: T) => number,
): void {
  let value = values[0] as T;
  let number = numberOf(value);
  for (let i = 0; i < tasks.length; i++) {
    if (values[i] !== value) {
      value = values[i] as T;
      number = numberOf(value);
    }
    column[tasks[i] as number] = number;
  }
}

function settledState(status: SettledStatus): number {
  return status === "done" ? DONE : status === "failed" ? FAILED : CANCELLED;
}

/** The byte of a task in a map by state. */
export function packed(state: number, attempts: number): number {
  return state | (Math.min(ATTEMPTS_SHOWN_MAX, attempts) << 4);
}

function grown<T extends { set(from: T): void }>(from: T, to: T): T {
  to.set(from);
  return to;
}
