/**
 * Figures of a node's commits, by workflow and handler: counts of outcomes, and histograms of durations. They are counted after each
 * commit. The server takes them regularly and adds them to the stored figures. Without a server, nothing reads them, and their number
 * is bounded.
 */
import type { FinalStatus, Recorded, SettledStatus, TasksSettled } from "../../kernel/event.ts";

/** Counts of outcomes, and a histogram of the durations of those that are done: the number for each bucket of `bucketOf`. */
export interface Outcomes extends Record<SettledStatus, number> {
  readonly ms: Map<number, number>;
}

/** The figures of one workflow of a project in one hour. */
export interface HourFigures {
  readonly project: string;
  readonly workflow: string;
  /** The time at which the hour begins. */
  readonly hour: number;
  started: number;
  readonly runs: Outcomes;
  /** By `phase/handler`. */
  readonly handlers: Map<string, Outcomes>;
}

/** The columns of settled tasks that figures need. They are kept until the commit instead of the events, which are large. */
export type SettledColumns = Pick<TasksSettled, "phase" | "handler" | "statuses" | "ms">;

const HOUR_MS = 3_600_000;
/** The most workflows in the figures of one hour, until the server takes them. */
const WORKFLOWS_MAX = 5_000;
/** The number of buckets in which a duration doubles. So the edges of a bucket differ by about a fifth. */
const PER_OCTAVE = 4;

/** Returns the bucket of a duration. The first bucket is for less than a millisecond. */
export function bucketOf(ms: number): number {
  return ms < 1 ? 0 : 1 + Math.floor(Math.log2(ms) * PER_OCTAVE);
}

/** Returns the duration in the middle of a bucket. */
export function middleOf(bucket: number): number {
  return bucket === 0 ? 0 : 2 ** ((bucket - 0.5) / PER_OCTAVE);
}

export function noOutcomes(): Outcomes {
  return { done: 0, failed: 0, cancelled: 0, ms: new Map() };
}

const NONE: readonly SettledColumns[] = [];

/** Returns the columns for figures of all events that settle tasks. */
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

/** A committed step of an execution, as figures count it. */
export interface Committed {
  readonly project: string;
  readonly workflow: string;
  readonly isStarted: boolean;
  readonly settled: readonly SettledColumns[];
  /** How the execution ended in this step, and how long it took; null if it did not end. */
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

  /** Returns the figures since the last call, and clears them. */
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
