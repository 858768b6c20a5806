/**
 * The progress of tasks over their attempts: finished steps and runs, answered waits, sleeps, and the current wait.
 * It has names and sequence numbers only; the payloads are in the journal.
 */
import { SparseMap } from "../../std/sparse.ts";

/** A checkpoint that an earlier attempt of the task journaled; its payload is in the journal at `seq`. */
export type Checkpoint =
  /** A step that is done, or a wait that was answered (or timed out). */
  | { readonly kind: "step"; readonly name: string; readonly seq: number; readonly timedOut?: true }
  /** A sleep, which is over once `due` has passed. */
  | { readonly kind: "sleep"; readonly name: string; readonly due: number }
  /** A finished run; runs are in order. */
  | { readonly kind: "run"; readonly name: string; readonly seq: number };

/** The wait of a suspended task: for a time, or for a signal. */
export interface Waiting {
  readonly name: string;
  /** When a sleep ends; null if the task waits for a signal. */
  readonly due: number | null;
  readonly signal: string | null;
}

/** The most steps and sleeps of a task, over all of its attempts. */
export const CHECKPOINTS_MAX = 1_000;

/** The code of the error of a task that refused a signal's payload; the error's path is the name of the wait. */
export const SIGNAL_REFUSED = "signal_refused";

/** The attempt that journals a checkpoint. */
interface Author {
  readonly task: number;
  readonly attempt: number;
  readonly round: number;
}

export interface TaskProgress {
  /** The newest attempt that journaled a step, a run or a wait, and its round. */
  attempt: number;
  round: number;
  checkpoints: Checkpoint[];
  waiting: Waiting | null;
}

/** The tasks of a handler that have checkpoints or wait, and an index of the waits by signal. */
export class ProgressTable {
  readonly tasks = new SparseMap<number, TaskProgress>();
  /** Waiting tasks by signal, in the order in which they began to wait. */
  readonly #waitingFor = new SparseMap<string, Set<number>>();

  /** Records a step, an answered wait or a sleep; a second one of the same name replaces the first. */
  note(by: Author, checkpoint: Checkpoint): void {
    const progress = this.#at(by);
    const known = progress.checkpoints.findIndex(
      ({ kind, name }) => name === checkpoint.name && (kind === "run") === (checkpoint.kind === "run"),
    );
    if (known >= 0) progress.checkpoints[known] = checkpoint;
    else progress.checkpoints.push(checkpoint);
  }

  /** Records the run with this index, and drops runs with the same or a higher index. */
  noteRun(by: Author, run: { index: number; name: string; seq: number }): void {
    const progress = this.#at(by);
    const runs = progress.checkpoints.filter(({ kind }) => kind === "run").slice(0, run.index);
    progress.checkpoints = [...runs, { kind: "run", name: run.name, seq: run.seq }];
  }

  wait(by: Author, waiting: Waiting): void {
    const { task } = by;
    this.stopWaiting(task);
    const progress = this.#at(by);
    progress.waiting = waiting;
    // The task becomes the last one of `tasks`, so that a snapshot keeps the order of waiting tasks.
    this.tasks.delete(task);
    this.tasks.set(task, progress);
    if (waiting.signal === null) return;
    const waiters = this.#waitingFor.get(waiting.signal) ?? new Set();
    waiters.add(task);
    this.#waitingFor.set(waiting.signal, waiters);
  }

  /** Whether a later attempt than this one journaled a checkpoint or a wait. */
  isPassed({ task, attempt, round }: Author): boolean {
    const progress = this.tasks.get(task);
    return progress !== undefined && (progress.attempt > attempt || progress.round > round);
  }

  stopWaiting(task: number): void {
    const progress = this.tasks.get(task);
    const signal = progress?.waiting?.signal ?? null;
    if (progress !== undefined) progress.waiting = null;
    if (signal === null) return;
    const waiters = this.#waitingFor.get(signal);
    waiters?.delete(task);
    if (waiters?.size === 0) this.#waitingFor.delete(signal);
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
    if (code === SIGNAL_REFUSED)
      progress.checkpoints = progress.checkpoints.filter(
        ({ kind, name }) => kind !== "step" || name !== path,
      );
  }

  /** Drops the progress of a task that is done. */
  forget(task: number): void {
    this.stopWaiting(task);
    this.tasks.delete(task);
  }

  /** Begins a new round: no task waits, finished checkpoints stay, and waits that timed out begin again. */
  reopen(): void {
    for (const task of this.tasks.keys()) this.reopenTask(task);
  }

  /** Begins a new round for one task, like `reopen`. */
  reopenTask(task: number): void {
    this.stopWaiting(task);
    const progress = this.tasks.get(task);
    if (progress === undefined) return;
    progress.checkpoints = progress.checkpoints.filter((one) => one.kind !== "step" || one.timedOut !== true);
  }

  /** The task that has waited longest for the signal. */
  firstWaitingFor(signal: string): number | undefined {
    return this.#waitingFor.get(signal)?.values().next().value;
  }

  /** The number of tasks that wait at `now`. */
  countWaiting(now: number): number {
    let n = 0;
    for (const { waiting } of this.tasks.values())
      if (waiting !== null && (waiting.due === null || waiting.due > now)) n++;
    return n;
  }

  /** The number of tasks that sleep at `now`. */
  countSleeping(now: number): number {
    let n = 0;
    for (const { waiting } of this.tasks.values())
      if (waiting !== null && waiting.due !== null && waiting.due > now) n++;
    return n;
  }

  /** The names of signals that tasks wait for. */
  get signals(): readonly string[] {
    return [...this.#waitingFor.keys()];
  }

  toSnapshot(): ProgressSnapshot {
    return [...this.tasks].map(([task, { attempt, round, checkpoints, waiting }]) => [
      task,
      attempt,
      round,
      checkpoints,
      waiting,
    ]);
  }

  static fromSnapshot(data: ProgressSnapshot): ProgressTable {
    const table = new ProgressTable();
    for (const [task, attempt, round, checkpoints, waiting] of data) {
      table.tasks.set(task, { attempt, round, checkpoints: [...checkpoints], waiting: null });
      if (waiting !== null) table.wait({ task, attempt, round }, waiting);
    }
    return table;
  }

  #at({ task, attempt, round }: Author): TaskProgress {
    let progress = this.tasks.get(task);
    if (progress === undefined) {
      progress = { attempt, round, checkpoints: [], waiting: null };
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
  waiting: Waiting | null,
])[];
