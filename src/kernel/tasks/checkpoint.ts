/**
 * The progress of tasks across their attempts: finished steps and runs, answered waits, sleeps, and open waits. It has only names and
 * sequence numbers; the payloads are in the journal. A task with several waits runs again when one of them is answered. The other
 * waits stay open while the task runs, so that their time limits continue. They take no signal until the task is suspended again.
 */

import { SparseMap } from "../../std/sparse.ts";
import { TransientMap } from "../../std/transient-map.ts";
import { matchesPayload } from "./payload-match.ts";

/** A checkpoint that an earlier attempt of the task journaled. Its payload is in the journal event with the number `seq`. */
export type Checkpoint =
  /** A step that is done or failed for good, or a wait that was answered or timed out. */
  | {
      readonly kind: "step";
      readonly name: string;
      readonly seq: number;
      readonly timedOut?: true;
      readonly failed?: true;
      /** Whether the code has gone on after the failure of the step. Then the failure stays, and the step is not tried again. */
      readonly passed?: true;
      /** The name of the map to which this result belongs. The result is a list of items that only the child of the map reads. */
      readonly map?: string;
    }
  /** A sleep, which is over once `due` has passed. `over` means that it was over before the checkpoints that follow it. */
  | { readonly kind: "sleep"; readonly name: string; readonly due: number; readonly over?: true }
  /** A time that the code of the task has read. */
  | { readonly kind: "time"; readonly name: string; readonly at: number }
  /** A child execution that has not ended. */
  | { readonly kind: "child"; readonly name: string }
  /** A step whose tries so far have failed. It is tried again at `due`. */
  | { readonly kind: "tries"; readonly name: string; readonly tries: number; readonly due: number }
  /** A finished run of a script. Runs are in order. */
  | { readonly kind: "run"; readonly name: string; readonly seq: number };

type RunCheckpoint = Extract<Checkpoint, { kind: "run" }>;
type NamedCheckpoint = Exclude<Checkpoint, { kind: "run" | "time" }>;

/** An open wait of a task: for a time, or for a signal. */
export interface Waiting {
  readonly name: string;
  /** The time at which a sleep or a back-off ends; null if the task waits for a signal. */
  readonly due: number | null;
  /** The names of the signals that answer the wait; empty if it is a wait for a time. */
  readonly signals: readonly string[];
  /** Values that the payload of the signal must have, as JSON text. */
  readonly match?: string;
  /** Whether the answer contains the name of its signal. */
  readonly any?: true;
  /** Whether the end of the child with this name answers the wait. */
  readonly child?: true;
  /** Whether the wait was the only one of its task when it began. Then the id of its timer does not contain the name of the wait. */
  readonly alone?: true;
}

const NO_NAMES: readonly string[] = [];

/** The most steps, sleeps and waits of a task in all of its attempts together. */
export const CHECKPOINTS_MAX = 10_000;

/** The error code of a task that refused the payload of a signal. The path of the error is the name of the wait. */
export const SIGNAL_REFUSED = "signal_refused";

/** The attempt that journals a checkpoint, with its round. */
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
  /** The number of the newest attempt that journaled a step, a run or a wait. The next field is its round. */
  attempt: number;
  round: number;
  /** Steps, sleeps and failed tries by name, in the order in which they ended. */
  readonly named = new Map<string, NamedCheckpoint>();
  /** The times that the code has read, by name. */
  readonly times = new SparseMap<string, number>();
  /** Finished runs of a script, in order. */
  runs: readonly RunCheckpoint[] = [];
  /** The open waits, which have no answer yet. */
  waits: readonly Waiting[] = [];
  /** The names of waits and children that were answered since the task was last suspended, while an attempt perhaps ran. */
  answeredMeanwhile: readonly string[] = NO_NAMES;
  /** Whether there may be sleeps that are not over and not among the waits, as after the end of a round. */
  hasLooseSleeps = false;
  /** Whether the last attempt ended in order to wait, and no answer has come since. */
  isSuspended = false;

  constructor(attempt: number, round: number) {
    this.attempt = attempt;
    this.round = round;
  }

  /** The number of checkpoints. */
  get size(): number {
    return this.named.size + this.runs.length + this.times.size;
  }

  /** All checkpoints, in the order in which they ended. Sleeps that are perhaps not over come last. */
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

  /** Returns all checkpoints in the form for a snapshot. */
  toSnapshot(): readonly Checkpoint[] {
    return [...this.named.values(), ...this.runs, ...this.#times];
  }

  /** The time at which the first sleep or back-off of a suspended task ends; null if the task waits for signals only. */
  get due(): number | null {
    let first: number | null = null;
    for (const { due } of this.waits) if (due !== null && (first === null || due < first)) first = due;
    return first;
  }

  /** Whether the task waits at `now`: it is suspended, and none of its sleeps is over. */
  isWaiting(now: number): boolean {
    if (!this.isSuspended) return false;
    const { due } = this;
    return due === null || due > now;
  }

  note(checkpoint: NamedCheckpoint): void {
    this.named.delete(checkpoint.name);
    this.named.set(checkpoint.name, checkpoint);
  }

  /** Returns the names of the answers that came after the event `seen`, at which the running attempt was granted. */
  answersSince(seen: number): readonly string[] {
    if (this.answeredMeanwhile.length === 0) return NO_NAMES;
    return this.answeredMeanwhile.filter((name) => {
      const known = this.named.get(name);
      return known?.kind === "step" && known.seq > seen;
    });
  }

  /**
   * Marks the sleeps that are over at `now`, in the order of their times, so that they come before the next checkpoint. Sleeps with
   * these names are left out.
   */
  endSleeps(now: number, except: readonly string[]): void {
    const names = this.waits.flatMap(({ name, due }) => (due === null ? [] : [name]));
    if (this.hasLooseSleeps)
      for (const { kind, name } of this.named.values()) if (kind === "sleep") names.push(name);
    const over: Extract<Checkpoint, { kind: "sleep" }>[] = [];
    let isLoose = false;
    for (const name of new Set(names)) {
      const sleep = this.named.get(name);
      if (sleep?.kind !== "sleep" || sleep.over === true) continue;
      if (sleep.due <= now && !except.includes(name)) over.push(sleep);
      else if (!this.waits.some((wait) => wait.name === name)) isLoose = true;
    }
    this.hasLooseSleeps &&= isLoose;
    for (const sleep of over.sort((a, b) => a.due - b.due)) this.note({ ...sleep, over: true });
  }

  /** Puts the answers with these names after all other checkpoints. */
  postpone(names: readonly string[]): void {
    for (const name of names) {
      const known = this.named.get(name);
      if (known !== undefined) this.note(known);
    }
  }

  /** Returns the first open wait that takes this signal; undefined if there is none. */
  waitFor({ signal, data }: Offered): Waiting | undefined {
    return this.waits.find(
      ({ signals, match }) =>
        signals.includes(signal) && (match === undefined || matchesPayload(data, match)),
    );
  }
}

/** The progress of those tasks of a handler that have checkpoints or wait, and an index of waiting tasks by signal. */
export class ProgressTable {
  readonly tasks = new TransientMap<number, TaskProgress>();
  /** The suspended tasks by the signals for which they wait, in the order in which they began to wait. */
  readonly #waitingFor = new TransientMap<string, Set<number>>();

  /** Records a step, an answered wait or a sleep. A second record with the same name replaces the first. */
  note(by: Author, checkpoint: NamedCheckpoint): void {
    this.#at(by).note(checkpoint);
  }

  /** Records times that the code has read. For each name, only the first time counts. */
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

  /** Records the run with this index, and drops earlier records of runs with the same or a higher index. */
  noteRun(by: Author, run: { index: number; name: string; seq: number }): void {
    const progress = this.#at(by);
    progress.runs = [...progress.runs.slice(0, run.index), { kind: "run", name: run.name, seq: run.seq }];
  }

  /** Suspends a task with these waits. A wait that was already open keeps its timer. */
  wait(by: Author, waits: readonly Waiting[]): void {
    const { task } = by;
    const progress = this.#at(by);
    this.#leaveIndex(task, progress);
    progress.answeredMeanwhile = NO_NAMES;
    progress.hasLooseSleeps ||= progress.waits.some(
      ({ name, due }) => due !== null && !waits.some((wait) => wait.name === name),
    );
    progress.waits = waits.map((wait) => {
      const { alone: _, ...others } = wait;
      const before = progress.waits.find(({ name }) => name === wait.name);
      return before === undefined ? wait : { ...others, ...(before.alone === true ? { alone: true } : {}) };
    });
    this.#suspend(task, progress);
  }

  /** Removes the wait with this name, because it is answered. The other waits stay open. */
  answer(task: number, name: string): Waiting | undefined {
    const progress = this.tasks.get(task);
    const wait = progress?.waits.find((one) => one.name === name);
    if (progress === undefined || wait === undefined) return undefined;
    this.#leaveIndex(task, progress);
    // @plant answered wait closes the others
    progress.waits = progress.waits.filter((one) => one !== wait);
    return wait;
  }

  /** Records that a wait or a child of a task was answered while an attempt perhaps ran. */
  answerMeanwhile(task: number, name: string): void {
    const progress = this.tasks.get(task);
    if (progress !== undefined) progress.answeredMeanwhile = [...progress.answeredMeanwhile, name];
  }

  /** Ends the suspension of a task. Its waits stay open. */
  resume(task: number): void {
    const progress = this.tasks.get(task);
    if (progress !== undefined) this.#leaveIndex(task, progress);
  }

  /** Whether an attempt later than this one has journaled a checkpoint or a wait. */
  isPassed({ task, attempt, round }: Author): boolean {
    const progress = this.tasks.get(task);
    return progress !== undefined && (progress.attempt > attempt || progress.round > round);
  }

  /** Ends all waits of a task without an answer. */
  stopWaiting(task: number): void {
    const progress = this.tasks.get(task);
    if (progress === undefined) return;
    this.#leaveIndex(task, progress);
    progress.hasLooseSleeps ||= progress.waits.some(({ due }) => due !== null);
    progress.waits = [];
  }

  /**
   * Called when the task failed or was cancelled: ends its waits. If it failed because it refused the payload of a signal, the next
   * round waits for another signal.
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

  /** Begins a new round: no task waits, finished checkpoints stay, and waits that timed out begin again. Children are requested again. */
  reopen(): void {
    for (const task of this.tasks.keys()) this.reopenTask(task);
  }

  /**
   * Begins a new round for one task, like `reopen`. A step that failed for good is tried again with new tries. But if the code has
   * gone on after the failure, for example to undo earlier steps, the failure stays.
   */
  reopenTask(task: number): void {
    this.stopWaiting(task);
    const progress = this.tasks.get(task);
    if (progress === undefined) return;
    progress.answeredMeanwhile = NO_NAMES;
    for (const one of [...progress.named.values()]) {
      const isForgotten =
        one.kind === "step"
          ? one.timedOut === true || (one.failed === true && one.passed !== true)
          : one.kind === "tries" || one.kind === "child";
      if (isForgotten) progress.named.delete(one.name);
    }
  }

  /** Returns the task that has waited longest for the signal, and its wait; undefined if there is none. */
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

  /** Returns the number of waiting tasks that have a sleep or a back-off among their waits, so that they continue at a time. */
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

  /** The names of the signals for which tasks wait. */
  get signals(): readonly string[] {
    return [...this.#waitingFor.keys()];
  }

  toSnapshot(): ProgressSnapshot {
    return [...this.tasks].map(([task, progress]) => {
      const { attempt, round, waits, isSuspended, answeredMeanwhile } = progress;
      return [task, attempt, round, progress.toSnapshot(), waits, isSuspended, answeredMeanwhile];
    });
  }

  static fromSnapshot(data: ProgressSnapshot): ProgressTable {
    const table = new ProgressTable();
    for (const [task, attempt, round, checkpoints, waits, isSuspended, answeredMeanwhile] of data) {
      const progress = new TaskProgress(attempt, round);
      for (const known of checkpoints)
        if (known.kind === "time") progress.times.set(known.name, known.at);
        else if (known.kind !== "run") progress.named.set(known.name, known);
      progress.hasLooseSleeps = true;
      progress.runs = checkpoints.filter((known) => known.kind === "run");
      progress.waits = waits;
      progress.answeredMeanwhile = answeredMeanwhile;
      table.tasks.set(task, progress);
      if (isSuspended) table.#suspend(task, progress);
    }
    return table;
  }

  #suspend(task: number, progress: TaskProgress): void {
    progress.isSuspended = true;
    // Moves the task to the end of `tasks`, so that a snapshot keeps the order of waiting tasks.
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
  answeredMeanwhile: readonly string[],
])[];
