/**
 * The progress of tasks over their attempts: finished steps and runs, answered waits, sleeps, and the open waits. It has names
 * and sequence numbers only; the payloads are in the journal.
 * A task with several waits runs again when one of them is answered. The others stay open while it runs, so that their time
 * limits go on, but take no signal until the task is suspended again.
 */
import { SparseMap } from "../../std/sparse.ts";
import { matchesPayload } from "./payload-match.ts";

/** A checkpoint that an earlier attempt of the task journaled; its payload is in the journal at `seq`. */
export type Checkpoint =
  /** A step that is done or failed for good, or a wait that was answered or timed out. */
  | {
      readonly kind: "step";
      readonly name: string;
      readonly seq: number;
      readonly timedOut?: true;
      readonly failed?: true;
      /** Whether the code has gone on after the failure, so that it must stay. */
      readonly passed?: true;
      /** The name of the map to which the result, a list of items, belongs. Only the child of the map reads it. */
      readonly map?: string;
    }
  /** A sleep, which is over once `due` has passed. `over`: it was over before the checkpoints that follow. */
  | { readonly kind: "sleep"; readonly name: string; readonly due: number; readonly over?: true }
  /** A time that the code has read. */
  | { readonly kind: "time"; readonly name: string; readonly at: number }
  /** A child that has not ended. */
  | { readonly kind: "child"; readonly name: string }
  /** A step with failed tries, which is tried again at `due`. */
  | { readonly kind: "tries"; readonly name: string; readonly tries: number; readonly due: number }
  /** A finished run; runs are in order. */
  | { readonly kind: "run"; readonly name: string; readonly seq: number };

type RunCheckpoint = Extract<Checkpoint, { kind: "run" }>;
type NamedCheckpoint = Exclude<Checkpoint, { kind: "run" | "time" }>;

/** An open wait of a task: for a time, or for a signal. */
export interface Waiting {
  readonly name: string;
  /** When a sleep or a back-off ends; null if the task waits for a signal. */
  readonly due: number | null;
  /** The signals that answer the wait; empty for a time. */
  readonly signals: readonly string[];
  /** Values that the payload of the signal must have, as JSON text. */
  readonly match?: string;
  /** Whether the answer contains the name of its signal. */
  readonly any?: true;
  /** Whether the end of the child with this name answers the wait. */
  readonly child?: true;
  /** Whether the wait was the only one when it began, so that the id of its timer does not contain its name. */
  readonly alone?: true;
}

/** The most steps, sleeps and waits of a task, over all of its attempts. */
export const CHECKPOINTS_MAX = 10_000;

/** The code of the error of a task that refused a signal's payload; the error's path is the name of the wait. */
export const SIGNAL_REFUSED = "signal_refused";

/** The attempt that journals a checkpoint. */
interface Author {
  readonly task: number;
  readonly attempt: number;
  readonly round: number;
}

/** A signal that a wait may take, with its payload as JSON text. */
interface Offered {
  readonly signal: string;
  readonly data: string;
}

export class TaskProgress {
  /** The newest attempt that journaled a step, a run or a wait, and its round. */
  attempt: number;
  round: number;
  /** Steps, sleeps and failed tries by name, in the order in which they ended. */
  readonly named = new Map<string, NamedCheckpoint>();
  /** Times that the code has read, by name. */
  readonly times = new SparseMap<string, number>();
  /** Finished runs of a script, in order. */
  runs: readonly RunCheckpoint[] = [];
  /** Waits that have no answer. */
  waits: readonly Waiting[] = [];
  /** Whether the last attempt ended to wait, and no answer has come since. */
  isSuspended = false;

  constructor(attempt: number, round: number) {
    this.attempt = attempt;
    this.round = round;
  }

  /** The number of checkpoints. */
  get size(): number {
    return this.named.size + this.runs.length + this.times.size;
  }

  /** All checkpoints, in the order in which they ended. Sleeps that may not be over come last. */
  get checkpoints(): readonly Checkpoint[] {
    const last: Extract<Checkpoint, { kind: "sleep" }>[] = [];
    const ended: Checkpoint[] = [];
    for (const known of this.named.values())
      if (known.kind === "sleep" && known.over !== true) last.push(known);
      else ended.push(known);
    return [...this.#times, ...ended, ...last.sort((a, b) => a.due - b.due), ...this.runs];
  }

  get #times(): Checkpoint[] {
    return Array.from(this.times, ([name, at]) => ({ kind: "time", name, at }));
  }

  /** All checkpoints as a snapshot keeps them. */
  toSnapshot(): readonly Checkpoint[] {
    return [...this.named.values(), ...this.runs, ...this.#times];
  }

  /** When the first sleep or back-off of a suspended task ends; null if the task waits for signals only. */
  get due(): number | null {
    let first: number | null = null;
    for (const { due } of this.waits) if (due !== null && (first === null || due < first)) first = due;
    return first;
  }

  /** Whether the task waits at `now`: it is suspended, and no sleep is over. */
  isWaiting(now: number): boolean {
    if (!this.isSuspended) return false;
    const { due } = this;
    return due === null || due > now;
  }

  note(checkpoint: NamedCheckpoint): void {
    this.named.delete(checkpoint.name);
    this.named.set(checkpoint.name, checkpoint);
  }

  /** The first open wait that takes this signal. */
  waitFor({ signal, data }: Offered): Waiting | undefined {
    return this.waits.find(
      ({ signals, match }) =>
        signals.includes(signal) && (match === undefined || matchesPayload(data, match)),
    );
  }
}

/** The tasks of a handler that have checkpoints or wait, and an index of the waits by signal. */
export class ProgressTable {
  readonly tasks = new SparseMap<number, TaskProgress>();
  /** Suspended tasks by signal, in the order in which they began to wait. */
  readonly #waitingFor = new SparseMap<string, Set<number>>();

  /** Records a step, an answered wait or a sleep; a second one of the same name replaces the first. */
  note(by: Author, checkpoint: NamedCheckpoint): void {
    this.#at(by).note(checkpoint);
  }

  /** Records times that the code has read. The first one of a name counts. */
  noteTimes(by: Author, times: Readonly<Record<string, number>>): void {
    const { times: known } = this.#at(by);
    for (const [name, at] of Object.entries(times)) if (!known.has(name)) known.set(name, at);
  }

  /** Records that the code has gone on after the failures of these steps. */
  notePassed(by: Author, failures: readonly string[]): void {
    const { named } = this.#at(by);
    for (const name of failures) {
      const step = named.get(name);
      if (step?.kind === "step" && step.failed === true) named.set(name, { ...step, passed: true });
    }
  }

  /** Records the run with this index, and drops runs with the same or a higher index. */
  noteRun(by: Author, run: { index: number; name: string; seq: number }): void {
    const progress = this.#at(by);
    progress.runs = [...progress.runs.slice(0, run.index), { kind: "run", name: run.name, seq: run.seq }];
  }

  /** Suspends a task with these waits. A wait that was open before keeps its timer. */
  wait(by: Author, waits: readonly Waiting[]): void {
    const { task } = by;
    const progress = this.#at(by);
    this.#leaveIndex(task, progress);
    progress.waits = waits.map((wait) => {
      const { alone: _, ...others } = wait;
      const before = progress.waits.find(({ name }) => name === wait.name);
      return before === undefined ? wait : { ...others, ...(before.alone === true ? { alone: true } : {}) };
    });
    this.#suspend(task, progress);
  }

  /** Removes the wait with this name, which is answered. The others stay open. */
  answer(task: number, name: string): Waiting | undefined {
    const progress = this.tasks.get(task);
    const wait = progress?.waits.find((one) => one.name === name);
    if (progress === undefined || wait === undefined) return undefined;
    this.#leaveIndex(task, progress);
    // @plant answered wait closes the others
    progress.waits = progress.waits.filter((one) => one !== wait);
    return wait;
  }

  /** Ends the suspension of a task. Its waits stay open. */
  resume(task: number): void {
    const progress = this.tasks.get(task);
    if (progress !== undefined) this.#leaveIndex(task, progress);
  }

  /** Whether a later attempt than this one journaled a checkpoint or a wait. */
  isPassed({ task, attempt, round }: Author): boolean {
    const progress = this.tasks.get(task);
    return progress !== undefined && (progress.attempt > attempt || progress.round > round);
  }

  /** Ends all waits of a task without an answer. */
  stopWaiting(task: number): void {
    const progress = this.tasks.get(task);
    if (progress === undefined) return;
    this.#leaveIndex(task, progress);
    progress.waits = [];
  }

  /**
   * Called when the task failed or was cancelled. If it failed because it refused the payload of a signal, the next round waits
   * for another signal.
   */
  settle(task: number, error: string): void {
    const progress = this.tasks.get(task);
    if (progress === undefined) return;
    this.stopWaiting(task);
    const { code, path } = (JSON.parse(error) ?? {}) as { code?: unknown; path?: unknown };
    if (code === SIGNAL_REFUSED && progress.named.get(path as string)?.kind === "step")
      progress.named.delete(path as string);
  }

  /** Drops the progress of a task that is done. */
  forget(task: number): void {
    this.stopWaiting(task);
    this.tasks.delete(task);
  }

  /** Begins a new round: no task waits, finished checkpoints stay, and waits that timed out begin again. Children are asked for again. */
  reopen(): void {
    for (const task of this.tasks.keys()) this.reopenTask(task);
  }

  /**
   * Begins a new round for one task, like `reopen`. A step that failed for good is tried again, with a new budget, unless the code
   * has gone on after the failure, for example to undo earlier steps: then the failure stays.
   */
  reopenTask(task: number): void {
    this.stopWaiting(task);
    const progress = this.tasks.get(task);
    if (progress === undefined) return;
    for (const one of [...progress.named.values()]) {
      const isForgotten =
        one.kind === "step"
          ? one.timedOut === true || (one.failed === true && one.passed !== true)
          : one.kind === "tries" || one.kind === "child";
      if (isForgotten) progress.named.delete(one.name);
    }
  }

  /** The task that has waited longest for the signal, and its wait. */
  firstWaitingFor(offered: Offered, now: number): { task: number; wait: Waiting } | undefined {
    for (const task of this.#waitingFor.get(offered.signal) ?? []) {
      const progress = this.tasks.get(task);
      const wait = progress?.isWaiting(now) === true ? progress.waitFor(offered) : undefined;
      if (wait !== undefined) return { task, wait };
    }
    return undefined;
  }

  /** The number of tasks that wait at `now`. */
  countWaiting(now: number): number {
    let n = 0;
    for (const progress of this.tasks.values()) if (progress.isWaiting(now)) n++;
    return n;
  }

  /** The number of waiting tasks that continue at a time at the latest. */
  countSleeping(now: number): number {
    let n = 0;
    for (const progress of this.tasks.values()) if (progress.isWaiting(now) && progress.due !== null) n++;
    return n;
  }

  /** The number of waiting tasks that wait for a child. */
  countForChild(now: number): number {
    let n = 0;
    for (const progress of this.tasks.values())
      if (progress.isWaiting(now) && progress.waits.some(({ child }) => child === true)) n++;
    return n;
  }

  /** The names of signals that tasks wait for. */
  get signals(): readonly string[] {
    return [...this.#waitingFor.keys()];
  }

  toSnapshot(): ProgressSnapshot {
    return [...this.tasks].map(([task, progress]) => [
      task,
      progress.attempt,
      progress.round,
      progress.toSnapshot(),
      progress.waits,
      progress.isSuspended,
    ]);
  }

  static fromSnapshot(data: ProgressSnapshot): ProgressTable {
    const table = new ProgressTable();
    for (const [task, attempt, round, checkpoints, waits, isSuspended] of data) {
      const progress = new TaskProgress(attempt, round);
      for (const known of checkpoints)
        if (known.kind === "time") progress.times.set(known.name, known.at);
        else if (known.kind !== "run") progress.named.set(known.name, known);
      progress.runs = checkpoints.filter((known) => known.kind === "run");
      progress.waits = waits;
      table.tasks.set(task, progress);
      if (isSuspended) table.#suspend(task, progress);
    }
    return table;
  }

  #suspend(task: number, progress: TaskProgress): void {
    progress.isSuspended = true;
    // The task becomes the last one of `tasks`, so that a snapshot keeps the order of waiting tasks.
    this.tasks.delete(task);
    this.tasks.set(task, progress);
    for (const { signals } of progress.waits)
      for (const signal of signals) {
        const waiters = this.#waitingFor.get(signal) ?? new Set();
        waiters.add(task);
        this.#waitingFor.set(signal, waiters);
      }
  }

  #leaveIndex(task: number, progress: TaskProgress): void {
    if (progress.isSuspended)
      for (const { signals } of progress.waits)
        for (const signal of signals) {
          const waiters = this.#waitingFor.get(signal);
          waiters?.delete(task);
          if (waiters?.size === 0) this.#waitingFor.delete(signal);
        }
    progress.isSuspended = false;
  }

  #at({ task, attempt, round }: Author): TaskProgress {
    let progress = this.tasks.get(task);
    if (progress === undefined) {
      progress = new TaskProgress(attempt, round);
      this.tasks.set(task, progress);
    }
    if (attempt > progress.attempt) progress.attempt = attempt;
    if (round > progress.round) progress.round = round;
    return progress;
  }
}

export type ProgressSnapshot = readonly (readonly [
  task: number,
  attempt: number,
  round: number,
  checkpoints: readonly Checkpoint[],
  waits: readonly Waiting[],
  isSuspended: boolean,
])[];
