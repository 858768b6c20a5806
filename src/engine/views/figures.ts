/**
 * Figures of a node's commits, by workflow and handler: outcomes, and durations as histograms. They are counted after the commit
 * and taken away by the server, which adds them to what is stored. Without a server they are bounded and are not read.
 */
import type { FinalStatus, Recorded, SettledStatus, TasksSettled } from "../../kernel/event.ts";

/** Counts of outcomes, and how long those took that are done: the number for each bucket of `bucketOf`. */
export interface Outcomes extends Record<SettledStatus, number> {
  readonly ms: Map<number, number>;
}

/** The figures of one workflow of a project in one hour. */
export interface HourFigures {
  readonly project: string;
  readonly workflow: string;
  /** The begin of the hour. */
  readonly hour: number;
  started: number;
  readonly runs: Outcomes;
  /** By `phase/handler`. */
  readonly handlers: Map<string, Outcomes>;
}

/** The columns of settled tasks that figures need. Events themselves are large, so they are not kept until the commit. */
export type SettledColumns = Pick<TasksSettled, "phase" | "handler" | "statuses" | "ms">;

const HOUR_MS = 3_600_000;
/** The most workflows of one hour, until the figures are taken. */
const WORKFLOWS_MAX = 5_000;
/** Buckets for each doubling of a duration: the edges of a bucket differ by a fifth. */
const PER_OCTAVE = 4;

/** The bucket of a duration; the first one is for less than a millisecond. */
export function bucketOf(ms: number): number {
  return ms < 1 ? 0 : 1 + Math.floor(Math.log2(ms) * PER_OCTAVE);
}

/** The duration in the middle of a bucket. */
export function middleOf(bucket: number): number {
  return bucket === 0 ? 0 : 2 ** ((bucket - 0.5) / PER_OCTAVE);
}

export function noOutcomes(): Outcomes {
  return { done: 0, failed: 0, cancelled: 0, ms: new Map() };
}

const NONE: readonly SettledColumns[] = [];

/** The columns of the events that settle tasks. */
export function settledIn(events: readonly Recorded[]): readonly SettledColumns[] {
  let found: SettledColumns[] | null = null;
  for (const { event } of events)
    if (event.kind === "tasks.settled") {
      const { phase, handler, statuses, ms } = event;
      found ??= [];
      found.push({ phase, handler, statuses, ms });
    }
  return found ?? NONE;
}

/** A committed step of an execution. */
export interface Committed {
  readonly project: string;
  readonly workflow: string;
  readonly isStarted: boolean;
  readonly settled: readonly SettledColumns[];
  /** How the execution ended in this step, and how long it took. */
  readonly end: { readonly status: FinalStatus; readonly ms: number } | null;
}

export class Figures {
  #hours = new Map<string, HourFigures>();

  note({ project, workflow, isStarted, settled, end }: Committed, now: number): void {
    if (!isStarted && end === null && settled.length === 0) return;
    const hour = now - (now % HOUR_MS);
    const key = `${hour} ${project}/${workflow}`;
    let figures = this.#hours.get(key);
    if (figures === undefined) {
      if (this.#hours.size >= WORKFLOWS_MAX) return;
      figures = { project, workflow, hour, started: 0, runs: noOutcomes(), handlers: new Map() };
      this.#hours.set(key, figures);
    }
    if (isStarted) figures.started++;
    if (end !== null) count(figures.runs, end.status, end.ms);
    for (const { phase, handler, statuses, ms } of settled) {
      const name = `${phase}/${handler}`;
      let outcomes = figures.handlers.get(name);
      if (outcomes === undefined) figures.handlers.set(name, (outcomes = noOutcomes()));
      for (let i = 0; i < statuses.length; i++)
        count(outcomes, statuses[i] as SettledStatus, ms[i] as number);
    }
  }

  /** Returns the figures since the last call. */
  take(): readonly HourFigures[] {
    if (this.#hours.size === 0) return [];
    const taken = [...this.#hours.values()];
    this.#hours = new Map();
    return taken;
  }
}

function count(outcomes: Outcomes, status: SettledStatus, ms: number): void {
  outcomes[status]++;
  if (status !== "done") return;
  const bucket = bucketOf(ms);
  outcomes.ms.set(bucket, (outcomes.ms.get(bucket) ?? 0) + 1);
}
