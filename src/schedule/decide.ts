/**
 * Decides what a schedule does now, from its stored state and the present time. It only decides: the runner starts executions and stores
 * the state.
 */
import { assert } from "../std/assert.ts";
import { type Rejection, unwrap } from "../std/rejection.ts";
import { CronTimes } from "./cron-times.ts";
import { executionOf, type Misfires, type Schedule, type ScheduleState } from "./schedule.ts";

/** A due time that is noticed later than this counts as missed. So do all due times before the runner was started. */
const LATE_MS = 30_000;
/** The most missed due times for which executions are started. */
const CATCH_UP_MAX = 1_000;
/** The pause between the starts for two missed due times. */
const CATCH_UP_PAUSE_MS = 100;

/** The facts on which a decision depends, besides the stored schedule. */
export interface Moment {
  readonly now: number;
  /** When the runner began to watch due times. */
  readonly openedAt: number;
  /** When this schedule last started an execution, since the runner was started; null if it has not. */
  readonly firedAt: number | null;
  /** Whether the last execution is still open. If overlap is allowed, this is not determined. */
  readonly isLastOpen: boolean;
}

/**
 * The decision to start an execution. `begun` is the state to store before the start, which is needed only if overlap is not allowed.
 * `started` is the state to store after the start was acknowledged.
 */
export interface Fire {
  readonly kind: "fire";
  readonly due: number;
  readonly execution: string;
  readonly begun: ScheduleState;
  readonly started: ScheduleState;
}

export type Decision =
  | Fire
  /** The decision to store this state and decide again. */
  | { readonly kind: "note"; readonly state: ScheduleState }
  /** The decision to wait until this time (null means for ever). With `untilEnd`, also until the last execution ends. */
  | { readonly kind: "rest"; readonly until: number | null; readonly untilEnd: boolean };

export function decide(schedule: Schedule, moment: Moment): Decision {
  const { state } = schedule;
  const { now } = moment;
  if (state.paused) return { kind: "rest", until: null, untilEnd: false };
  if (state.starting !== null) return fire(schedule.id, state.starting, state);
  const times = unwrap(CronTimes.parse(schedule.cron, schedule.timeZone));
  const first = times.next(state.after);
  const isCatchingUp = first !== null && first <= (state.misfires?.last ?? 0) && schedule.misfire === "all";
  if (state.queued !== null) {
    if (!moment.isLastOpen) return begin(schedule.id, state.queued, { ...state, queued: null });
    if (first === null || first > now || isCatchingUp)
      return { kind: "rest", until: isCatchingUp ? null : first, untilEnd: true };
    const skipped = state.skipped + times.count(state.after, now, CATCH_UP_MAX);
    return { kind: "note", state: { ...state, after: latestOf(times, state.after, now), skipped } };
  }
  if (first === null || first > now) return { kind: "rest", until: first, untilEnd: false };
  if (isCatchingUp) return catchUp(schedule, { ...moment, times, first });
  const missedUntil = Math.max(moment.openedAt, now - LATE_MS) - 1;
  if (first > missedUntil) return takeDue(schedule, moment, first);
  const last = latestOf(times, state.after, missedUntil);
  const missed = times.count(state.after, last, CATCH_UP_MAX);
  const misfires: Misfires = { noticedAt: now, first, last, missed, fired: 0, left: 0 };
  switch (schedule.misfire) {
    case "skip":
      return {
        kind: "note",
        state: { ...state, after: last, misfires, dropped: state.dropped + missed },
      };
    case "fireOnce":
      return takeDue(
        { ...schedule, state: { ...state, misfires, dropped: state.dropped + missed - 1 } },
        moment,
        last,
      );
    case "all":
      return {
        kind: "note",
        state: { ...state, misfires: { ...misfires, left: CATCH_UP_MAX } },
      };
  }
}

/** Returns the state of a schedule after the engine refused a start. The schedule continues with its next due time. */
export function refused({ due, begun, started }: Fire, why: Rejection, at: number): ScheduleState {
  const { code, message } = why;
  // A conflict means that an execution with this id exists, so the due time counts as started.
  const base = code === "conflict" ? started : { ...begun, starting: null };
  return { ...base, lastError: { due, at, code, message } };
}

/** Decides about missed due times one by one, the oldest first. */
function catchUp(schedule: Schedule, moment: Moment & { times: CronTimes; first: number }): Decision {
  const { state } = schedule;
  const { misfires } = state;
  assert(misfires !== null, "missed due times must be recorded before executions are started for them");
  if (misfires.left === 0) {
    const { last } = misfires;
    const dropped = state.dropped + moment.times.count(state.after, last, CATCH_UP_MAX);
    return { kind: "note", state: { ...state, after: last, dropped } };
  }
  const from = (moment.firedAt ?? 0) + CATCH_UP_PAUSE_MS;
  if (moment.now < from) return { kind: "rest", until: from, untilEnd: false };
  const left = { ...misfires, left: misfires.left - 1 };
  return takeDue({ ...schedule, state: { ...state, misfires: left } }, moment, moment.first);
}

/** Decides about a due time: start an execution, let the due time wait, or skip it. */
function takeDue({ id, overlap, state }: Schedule, { isLastOpen }: Moment, due: number): Decision {
  if (isLastOpen && overlap === "skip")
    return { kind: "note", state: { ...state, after: due, skipped: state.skipped + 1 } };
  if (isLastOpen && overlap === "queue")
    return { kind: "note", state: { ...state, after: due, queued: due } };
  return begin(id, due, { ...state, after: due });
}

function begin(id: string, due: number, state: ScheduleState): Fire {
  const { misfires } = state;
  const isMissed = misfires !== null && due >= misfires.first && due <= misfires.last;
  return fire(id, due, {
    ...state,
    starting: due,
    misfires: isMissed ? { ...misfires, fired: misfires.fired + 1 } : misfires,
  });
}

function fire(id: string, due: number, begun: ScheduleState): Fire {
  const execution = executionOf(id, due);
  const started = { ...begun, starting: null, lastDue: due, lastExecution: execution, lastError: null };
  return { kind: "fire", due, execution, begun, started };
}

function latestOf(times: CronTimes, after: number, until: number): number {
  const latest = times.latest(after, until);
  assert(latest !== null, "there must be a due time in the range");
  return latest;
}
