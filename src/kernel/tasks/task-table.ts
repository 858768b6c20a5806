/**
 * The tasks of one handler in one visit of a phase. It has a bit set of settled tasks and one of failed tasks. Only for tasks with an
 * attempt that did not settle them, it also has the number of attempts, failures and crashes and the retry time, in chunks that are
 * allocated on first use. A million tasks take a few hundred kilobytes.
 */
import { Bitset } from "../../std/bitset.ts";

const CHUNK = 1_024;
/** The retry time of a task that waits for an event, and not for a time. */
export const NEVER = Number.MAX_SAFE_INTEGER;

interface Trouble {
  /** The number of ended attempts of each task, over all rounds. */
  readonly ended: Uint32Array;
  readonly fails: Uint8Array;
  readonly crashes: Uint8Array;
  /** The retry time of each task, in milliseconds; 0 if there is none. */
  readonly until: Float64Array;
  /** Whether `takeDue` has returned the task. This is not part of the stored state: a restored table returns the task again. */
  readonly taken: Uint8Array;
  /** A lower bound of the retry times in this chunk; Infinity if there are none. */
  nextDue: number;
}

export interface RecordedStart {
  readonly attempt: number;
  readonly worker: string;
  /** The epoch of the last owner that held the attempt's lease; undefined if the epoch is not known. */
  readonly epoch?: number | undefined;
}

export class TaskTable {
  settled = new Bitset();
  failed = new Bitset();
  readonly #trouble: (Trouble | undefined)[] = [];
  #nextDue = Number.POSITIVE_INFINITY;
  /** The journaled starts of attempts that have not ended, by task. */
  #started: Map<number, RecordedStart> | null = null;
  /** Keys of lost attempts whose late receipt has not arrived yet. */
  #lost: Set<number> | null = null;
  /** The number of tasks that count as settled from the beginning, because nothing has to be done for them. They do not count as done. */
  exempt = 0;
  /** The tasks that were not chosen for a retry of chosen tasks. In that round they count as settled, and are cancelled. */
  leftOut = new Bitset();
  /** The number after the highest task that was released or retried. It is not part of the stored state: the same commit uses it. */
  releasedEnd = 0;
  /**
   * The sequence numbers of the events with the outcomes of tasks, in chunks. They are kept only for failed tasks, and for tasks that
   * may be compensated.
   */
  #results: (Uint32Array | undefined)[] | null = null;

  /** Returns the journaled start of the task, if that attempt has not ended. */
  startOf(task: number): RecordedStart | undefined {
    return this.#started?.get(task);
  }

  /** Returns all journaled starts of attempts that have not ended. */
  starts(): readonly (readonly [number, RecordedStart])[] {
    return this.#started === null ? [] : [...this.#started];
  }

  recordStart(task: number, start: RecordedStart): void {
    this.#started ??= new Map();
    this.#started.set(task, start);
  }

  forgetStarts(): void {
    this.#started = null;
  }

  /** Called when the visit ends: attempts that have started and not ended count as ended. Their tasks may have begun. */
  endStarts(): void {
    for (const [task, { attempt }] of this.#started ?? [])
      this.endAttempt(task, attempt, { burns: "nothing", until: 0 });
    this.#started = null;
  }

  /** Whether the task is done. */
  isDone(task: number): boolean {
    return this.settled.has(task) && !this.failed.has(task) && !this.leftOut.has(task);
  }

  /** Whether the task is done, or its code may have begun. This is known because starts are journaled before attempts are granted. */
  mayHaveBegun(task: number): boolean {
    // @plant unknown outcomes not compensated
    return this.isDone(task) || this.#isUnknown(task);
  }

  /** Whether an attempt of the task was granted and the task is not done. */
  #isUnknown(task: number): boolean {
    return this.ended(task) > 0 || this.startOf(task) !== undefined;
  }

  /** Makes a task count as settled without an outcome. */
  exemptTask(task: number): void {
    if (this.settled.add(task)) this.exempt++;
  }

  /** Returns the sequence number of the event with the task's result or failure; 0 if it is not known. */
  resultOf(task: number): number {
    return this.#results?.[Math.floor(task / CHUNK)]?.[task % CHUNK] ?? 0;
  }

  noteResult(task: number, seq: number): void {
    this.#results ??= [];
    const at = Math.floor(task / CHUNK);
    let chunk = this.#results[at];
    if (chunk === undefined) {
      chunk = new Uint32Array(CHUNK);
      this.#results[at] = chunk;
    }
    chunk[task % CHUNK] = seq;
  }

  /** Forgets, for each failed task, the event in which it failed. */
  forgetFailures(): void {
    for (let c = 0; this.failed.size > 0 && c < (this.#results?.length ?? 0); c++) {
      const chunk = this.#results?.[c];
      for (let i = 0; chunk !== undefined && i < CHUNK; i++) if (this.failed.has(c * CHUNK + i)) chunk[i] = 0;
    }
  }

  /** Whether the attempt was lost and its late receipt has not arrived yet. */
  isLost(task: number, attempt: number): boolean {
    return this.#lost?.has(lostKey(task, attempt)) ?? false;
  }

  noteLost(task: number, attempt: number): void {
    this.#lost ??= new Set();
    this.#lost.add(lostKey(task, attempt));
  }

  forgetLost(task: number, attempt: number): void {
    this.#lost?.delete(lostKey(task, attempt));
  }

  get done(): number {
    return this.settled.size - this.failed.size - this.exempt - this.leftOut.size;
  }

  /** The number of the task's next attempt. */
  nextAttempt(task: number): number {
    return this.ended(task) + 1;
  }

  ended(task: number): number {
    return this.#at(task)?.ended[task % CHUNK] ?? 0;
  }

  fails(task: number): number {
    return this.#at(task)?.fails[task % CHUNK] ?? 0;
  }

  crashes(task: number): number {
    return this.#at(task)?.crashes[task % CHUNK] ?? 0;
  }

  /** The time from which the task may run again; 0 if it may run at once. */
  until(task: number): number {
    return this.#at(task)?.until[task % CHUNK] ?? 0;
  }

  settle(task: number, attempt: number, status: "done" | "failed" | "cancelled"): void {
    if (!this.settled.add(task)) return;
    if (status !== "done") this.failed.add(task);
    this.#started?.delete(task);
    const trouble = this.#at(task);
    if (trouble !== undefined) {
      trouble.until[task % CHUNK] = 0;
      trouble.ended[task % CHUNK] = Math.max(trouble.ended[task % CHUNK] as number, attempt);
    } else if (attempt > 1 || status !== "done") {
      // Keeps the attempt number: a task that is not done may run again in a later round, in which its attempts are numbered on.
      this.#grow(task).ended[task % CHUNK] = attempt;
    }
  }

  /** Records the end of an attempt that did not settle its task. */
  endAttempt(
    task: number,
    attempt: number,
    end: { burns: "attempt" | "crash" | "nothing"; until: number },
  ): void {
    const trouble = this.#grow(task);
    const i = task % CHUNK;
    this.#started?.delete(task);
    trouble.ended[i] = Math.max(trouble.ended[i] as number, attempt);
    if (end.burns === "attempt") trouble.fails[i] = Math.min(255, (trouble.fails[i] as number) + 1);
    if (end.burns === "crash") trouble.crashes[i] = Math.min(255, (trouble.crashes[i] as number) + 1);
    trouble.until[i] = end.until;
    trouble.taken[i] = 0;
    if (end.until > 0 && end.until < NEVER) this.#expect(trouble, end.until);
  }

  /** Keeps a task that has not begun from running, until `release` is called for it. */
  block(task: number): void {
    this.#grow(task).until[task % CHUNK] = NEVER;
  }

  /** Lets a waiting task run, or run again. */
  release(task: number, now: number): void {
    const trouble = this.#grow(task);
    if (task >= this.releasedEnd) this.releasedEnd = task + 1;
    trouble.until[task % CHUNK] = now;
    trouble.taken[task % CHUNK] = 0;
    this.#expect(trouble, now);
  }

  /** Returns a lower bound of the retry times of all open tasks; Infinity if there are none. */
  nextDue(): number {
    return this.#nextDue;
  }

  /** Returns at most `max` open tasks whose retry time has come. Each task is returned only once. */
  takeDue(now: number, max: number): number[] {
    const due: number[] = [];
    let earliest = Number.POSITIVE_INFINITY;
    for (let c = 0; c < this.#trouble.length; c++) {
      const trouble = this.#trouble[c];
      if (trouble === undefined) continue;
      if (trouble.nextDue <= now && due.length < max) takeFrom(trouble, c * CHUNK, { now, max, due });
      if (trouble.nextDue < earliest) earliest = trouble.nextDue;
    }
    this.#nextDue = earliest;
    return due;
  }

  /**
   * Whether an attempt of the task has ended without settling it. Then the retry time decides when the task runs, not its place in
   * the order.
   */
  hasTrouble(task: number): boolean {
    return this.ended(task) > 0;
  }

  /** Returns the number of open tasks whose retry time, or end of sleep, is after `now`. */
  countRetrying(now: number): number {
    let n = 0;
    for (const trouble of this.#trouble) {
      if (trouble === undefined || trouble.nextDue === Number.POSITIVE_INFINITY) continue;
      for (let i = 0; i < CHUNK; i++) {
        const until = trouble.until[i] as number;
        if (until > now && until < NEVER) n++;
      }
    }
    return n;
  }

  /** Begins a new round: every task that is not done is pending again, with all its attempts and crashes. */
  reopen(total: number): void {
    for (let c = 0; c * CHUNK < total; c++) {
      const trouble = this.#trouble[c];
      if (trouble === undefined) continue;
      trouble.fails.fill(0);
      trouble.crashes.fill(0);
      trouble.until.fill(0);
      trouble.taken.fill(0);
      trouble.nextDue = Number.POSITIVE_INFINITY;
    }
    if (this.failed.size > 0) {
      for (let n = 0; n < total; n++)
        if (/* @plant retry clears tasks that are done */ this.failed.has(n)) this.settled.delete(n);
      this.failed = new Bitset();
    }
    if (this.leftOut.size > 0) {
      for (let n = 0; n < total; n++) if (this.leftOut.has(n)) this.settled.delete(n);
      this.leftOut = new Bitset();
    }
    this.#started = null;
    this.#nextDue = Number.POSITIVE_INFINITY;
  }

  /** Leaves out of the new round every task that has no outcome. */
  leaveOutOpen(total: number): void {
    for (let n = this.settled.nextMissing(0, total); n >= 0; n = this.settled.nextMissing(n + 1, total)) {
      this.settled.add(n);
      this.leftOut.add(n);
      const trouble = this.#at(n);
      if (trouble !== undefined) trouble.until[n % CHUNK] = 0;
    }
    this.#started = null;
  }

  /** Makes a task that is not done pending again, due now, with all its attempts and crashes. */
  retry(task: number, now: number): void {
    this.failed.delete(task);
    this.leftOut.delete(task);
    this.settled.delete(task);
    const trouble = this.#grow(task);
    trouble.fails[task % CHUNK] = 0;
    trouble.crashes[task % CHUNK] = 0;
    this.release(task, now);
  }

  toSnapshot(): TaskTableSnapshot {
    const trouble: [number, number, number, number, number][] = [];
    this.#trouble.forEach((chunk, c) => {
      if (chunk === undefined) return;
      for (let i = 0; i < CHUNK; i++) {
        const task = c * CHUNK + i;
        const { ended, fails, crashes, until } = chunk;
        if (ended[i] === 0 && fails[i] === 0 && crashes[i] === 0 && until[i] === 0) continue;
        // A snapshot needs no attempts of a task that is done, because it cannot change any more. A task that waits for others has
        // had no attempt.
        if (this.isDone(task) || (ended[i] === 0 && until[i] === NEVER)) continue;
        trouble.push([
          task,
          ended[i] as number,
          fails[i] as number,
          crashes[i] as number,
          until[i] as number,
        ]);
      }
    });
    const results = this.#resultRuns();
    return {
      settled: this.settled.toText(),
      failed: this.failed.toText(),
      trouble,
      started: this.starts().map(([task, { attempt, worker, epoch }]) =>
        epoch === undefined ? [task, attempt, worker] : [task, attempt, worker, epoch],
      ),
      lostOpen: [...(this.#lost ?? [])],
      ...(this.exempt === 0 ? {} : { exempt: this.exempt }),
      ...(this.leftOut.size === 0 ? {} : { leftOut: this.leftOut.toText() }),
      ...(results.length === 0 ? {} : { results }),
    };
  }

  /** Compresses the sequence numbers of results into runs of consecutive tasks with the same event. */
  #resultRuns(): ResultRun[] {
    const runs: ResultRun[] = [];
    for (const [c, chunk] of (this.#results ?? []).entries())
      for (let i = 0; chunk !== undefined && i < CHUNK; i++) {
        const [task, seq] = [c * CHUNK + i, chunk[i] as number];
        const last = runs.at(-1);
        if (last !== undefined && last[0] + last[1] === task && last[2] === seq) last[1]++;
        else if (seq > 0) runs.push([task, 1, seq]);
      }
    return runs;
  }

  static fromSnapshot(data: TaskTableSnapshot): TaskTable {
    const table = new TaskTable();
    table.settled = Bitset.fromText(data.settled);
    table.failed = Bitset.fromText(data.failed);
    for (const [task, ended, fails, crashes, until] of data.trouble) {
      const chunk = table.#grow(task);
      const i = task % CHUNK;
      chunk.ended[i] = ended;
      chunk.fails[i] = fails;
      chunk.crashes[i] = crashes;
      chunk.until[i] = until;
      if (until > 0 && until < NEVER) table.#expect(chunk, until);
    }
    for (const [task, attempt, worker, epoch] of data.started)
      table.recordStart(task, { attempt, worker, epoch });
    if (data.lostOpen.length > 0) table.#lost = new Set(data.lostOpen);
    table.exempt = data.exempt ?? 0;
    if (data.leftOut !== undefined) table.leftOut = Bitset.fromText(data.leftOut);
    for (const [first, count, seq] of data.results ?? [])
      for (let task = first; task < first + count; task++) table.noteResult(task, seq);
    return table;
  }

  #expect(trouble: Trouble, until: number): void {
    if (until < trouble.nextDue) trouble.nextDue = until;
    if (until < this.#nextDue) this.#nextDue = until;
  }

  #at(task: number): Trouble | undefined {
    return this.#trouble[Math.floor(task / CHUNK)];
  }

  #grow(task: number): Trouble {
    const at = Math.floor(task / CHUNK);
    let trouble = this.#trouble[at];
    if (trouble === undefined) {
      trouble = {
        ended: new Uint32Array(CHUNK),
        fails: new Uint8Array(CHUNK),
        crashes: new Uint8Array(CHUNK),
        until: new Float64Array(CHUNK),
        taken: new Uint8Array(CHUNK),
        nextDue: Number.POSITIVE_INFINITY,
      };
      this.#trouble[at] = trouble;
    }
    return trouble;
  }
}

export interface TaskTableSnapshot {
  readonly settled: string;
  readonly failed: string;
  readonly trouble: readonly (readonly [number, number, number, number, number])[];
  readonly started: readonly (readonly [task: number, attempt: number, worker: string, epoch?: number])[];
  readonly lostOpen: readonly number[];
  readonly exempt?: number;
  readonly leftOut?: string;
  readonly results?: readonly ResultRun[];
}

/** Consecutive tasks whose results are in one event: the first task, their number, and the sequence number of the event. */
type ResultRun = [task: number, count: number, seq: number];

/** Combines a task and an attempt into one number. It is exact for every possible task number and up to 2^29 attempts. */
function lostKey(task: number, attempt: number): number {
  return task * 2 ** 29 + attempt;
}

/** Adds the due tasks of one chunk to the list of due tasks, and updates the chunk's next retry time. */
function takeFrom(trouble: Trouble, first: number, want: { now: number; max: number; due: number[] }): void {
  let next = Number.POSITIVE_INFINITY;
  for (let i = 0; i < CHUNK; i++) {
    const until = trouble.until[i] as number;
    if (until === 0 || trouble.taken[i] === 1) continue;
    if (/* @plant retry before its time */ until <= want.now && want.due.length < want.max) {
      want.due.push(first + i);
      trouble.taken[i] = 1;
    } else if (until < next && until < NEVER) next = until;
  }
  trouble.nextDue = next;
}
