/**
 * What attempts of one task left behind for later ones: steps that are done, waits that were answered, sleeps, finished
 * runs; and what the task waits for now. Only names and places: the payloads are in the journal.
 */

/** Something an earlier attempt of the task journaled; its payload is in the journal at `seq`. */
export type Checkpoint =
  /** A step that is done, or a wait that was answered (or timed out). */
  | { readonly kind: "step"; readonly name: string; readonly seq: number }
  /** A sleep: over once `due` has passed. */
  | { readonly kind: "sleep"; readonly name: string; readonly due: number }
  /** A run that is finished; they are in order. */
  | { readonly kind: "run"; readonly name: string; readonly seq: number };

/** What a suspended task waits for: a time, or a signal. */
export interface Waiting {
  readonly name: string;
  /** When a sleep is over; null: it waits for a signal. */
  readonly due: number | null;
  readonly signal: string | null;
}

/** Steps and sleeps a task may have, over all of its attempts. */
export const CHECKPOINTS_MAX = 1_000;

export interface TaskProgress {
  /** The newest attempt that journaled a step, a run or a wait. */
  attempt: number;
  checkpoints: Checkpoint[];
  waiting: Waiting | null;
}

/** The tasks of a handler that have checkpoints or wait, and who waits for which signal. */
export class ProgressTable {
  readonly tasks = new Map<number, TaskProgress>();
  /** By signal, in the order in which they began to wait. */
  readonly #waitingFor = new Map<string, Set<number>>();

  /** Notes a step, an answered wait or a sleep; a second one of the same name replaces the first. */
  note(task: number, attempt: number, checkpoint: Checkpoint): void {
    const progress = this.#at(task, attempt);
    const known = progress.checkpoints.findIndex(
      ({ kind, name }) => name === checkpoint.name && (kind === "run") === (checkpoint.kind === "run"),
    );
    if (known >= 0) progress.checkpoints[known] = checkpoint;
    else progress.checkpoints.push(checkpoint);
  }

  /** Notes the run with this index; whatever came at or after it is void. */
  noteRun(task: number, attempt: number, run: { index: number; name: string; seq: number }): void {
    const progress = this.#at(task, attempt);
    const runs = progress.checkpoints.filter(({ kind }) => kind === "run").slice(0, run.index);
    progress.checkpoints = [...runs, { kind: "run", name: run.name, seq: run.seq }];
  }

  wait(task: number, attempt: number, waiting: Waiting): void {
    const progress = this.#at(task, attempt);
    progress.waiting = waiting;
    if (waiting.signal === null) return;
    const waiters = this.#waitingFor.get(waiting.signal) ?? new Set();
    waiters.add(task);
    this.#waitingFor.set(waiting.signal, waiters);
  }

  /** The task waits no longer. */
  stopWaiting(task: number): void {
    const progress = this.tasks.get(task);
    const signal = progress?.waiting?.signal ?? null;
    if (progress !== undefined) progress.waiting = null;
    if (signal === null) return;
    const waiters = this.#waitingFor.get(signal);
    waiters?.delete(task);
    if (waiters?.size === 0) this.#waitingFor.delete(signal);
  }

  /** A done task needs none of this any more. */
  forget(task: number): void {
    this.stopWaiting(task);
    this.tasks.delete(task);
  }

  /** A new round: nothing waits; what is journaled stays so. */
  reopen(): void {
    for (const task of this.tasks.keys()) this.stopWaiting(task);
  }

  /** The task that has waited longest for the signal. */
  firstWaitingFor(signal: string): number | undefined {
    return this.#waitingFor.get(signal)?.values().next().value;
  }

  /** How many tasks wait at `now`. */
  countWaiting(now: number): number {
    let n = 0;
    for (const { waiting } of this.tasks.values())
      if (waiting !== null && (waiting.due === null || waiting.due > now)) n++;
    return n;
  }

  /** How many of them wait for a time. */
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
    return [...this.tasks].map(([task, { attempt, checkpoints, waiting }]) => [
      task,
      attempt,
      checkpoints,
      waiting,
    ]);
  }

  static fromSnapshot(data: ProgressSnapshot): ProgressTable {
    const table = new ProgressTable();
    for (const [task, attempt, checkpoints, waiting] of data) {
      table.tasks.set(task, { attempt, checkpoints: [...checkpoints], waiting: null });
      if (waiting !== null) table.wait(task, attempt, waiting);
    }
    return table;
  }

  #at(task: number, attempt: number): TaskProgress {
    let progress = this.tasks.get(task);
    if (progress === undefined) {
      progress = { attempt, checkpoints: [], waiting: null };
      this.tasks.set(task, progress);
    }
    if (attempt > progress.attempt) progress.attempt = attempt;
    return progress;
  }
}

export type ProgressSnapshot = readonly (readonly [
  task: number,
  attempt: number,
  checkpoints: readonly Checkpoint[],
  waiting: Waiting | null,
])[];
