/**
 * A schedule: its definition by the user, and its progress. stored-schedule.ts says how both are stored. `misfire` says what happens to
 * due times that were missed because no server ran: `fireOnce` (an execution is started for the newest one), `skip` (none is started),
 * `all` (one is started for each, the oldest first, at a bounded rate; after 1,000 the rest is dropped). `overlap` says what happens
 * while the last execution is still open: `allow`, `skip` (the due time is skipped), `queue` (one due time waits for the end; later ones
 * are skipped).
 */
import { LIMITS } from "../kernel/definition/definition.ts";
import { writtenName } from "../kernel/definition/names.ts";
import { startLabels } from "../protocol/check-request.ts";
import { anything, decode, object, oneOf, orElse, text } from "../std/decode.ts";
import { sha256 } from "../std/hash.ts";
import { type Json, toStoredText } from "../std/json.ts";
import { isRejection, type Rejection, type RejectionCode } from "../std/rejection.ts";
import { CronTimes, cronFields } from "./cron-times.ts";

export const MISFIRES = ["fireOnce", "skip", "all"] as const;
export const OVERLAPS = ["allow", "skip", "queue"] as const;
/** The version of the format of stored schedules. */
export const VERSION = 1;

/** A schedule as the user defines it, checked and with defaults. */
export interface ScheduleSpec {
  readonly id: string;
  readonly workflow: string;
  readonly input: Json;
  readonly cron: string;
  readonly timeZone: string;
  readonly misfire: (typeof MISFIRES)[number];
  readonly overlap: (typeof OVERLAPS)[number];
  readonly project: string;
  readonly tags: Readonly<Record<string, string>>;
}

/** The last period in which due times were missed because no server ran. */
export interface Misfires {
  readonly noticedAt: number;
  /** The oldest and the newest missed due time of that period. */
  readonly first: number;
  readonly last: number;
  /** The number of missed due times, counted up to 1,000. */
  readonly missed: number;
  readonly fired: number;
  /** For how many more missed due times executions may be started (only for `all`). */
  readonly left: number;
}

/** Why a due time started no execution. */
export interface ScheduleError {
  readonly due: number;
  readonly at: number;
  readonly code: RejectionCode;
  readonly message: string;
}

/** The progress of a schedule. */
export interface ScheduleState {
  readonly paused: boolean;
  /** All due times up to this one are handled. */
  readonly after: number;
  /** The due time whose execution is being started. It is stored before the start, unless overlap is allowed. */
  readonly starting: number | null;
  readonly lastDue: number | null;
  readonly lastExecution: string | null;
  /** The due time that waits for the last execution to end. */
  readonly queued: number | null;
  /** The number of due times that were skipped because the last execution was open. */
  readonly skipped: number;
  /** The number of missed due times for which nothing is started, according to the misfire policy; counted up to 1,000 at a time. */
  readonly dropped: number;
  readonly misfires: Misfires | null;
  readonly lastError: ScheduleError | null;
}

export interface Schedule extends ScheduleSpec {
  readonly createdAt: number;
  readonly updatedAt: number;
  /** If the cron expression or the time zone was changed: when that was. */
  readonly timedSince?: number;
  readonly state: ScheduleState;
}

/** The state of a new schedule. */
export function newState(now: number): ScheduleState {
  return {
    paused: false,
    after: now,
    starting: null,
    lastDue: null,
    lastExecution: null,
    queued: null,
    skipped: 0,
    dropped: 0,
    misfires: null,
    lastError: null,
  };
}

/** Returns the id of the execution that is started at a due time. */
export function executionOf(schedule: string, due: number): string {
  return `${schedule}~${due}`;
}

/** Returns the id of an execution that a user starts by hand with an idempotency key. */
export function keyedExecutionOf(schedule: string, key: string): string {
  return `${schedule}~key-${sha256(key).slice(0, 32)}`;
}

const schedule = object(
  {
    // The id of the schedule. The ids of its executions are this id, `~` and the due time.
    id: text({
      pattern: /^[A-Za-z][A-Za-z0-9_-]{0,59}$/,
      what: "a schedule's id",
      hint: "a letter, then up to 59 letters, digits, _ or -",
    }),
    workflow: writtenName("a workflow's name"),
    input: anything,
    cron: anything,
    timeZone: orElse(anything, "UTC"),
    misfire: orElse(oneOf(MISFIRES), "fireOnce"),
    overlap: orElse(oneOf(OVERLAPS), "allow"),
    ...startLabels,
  },
  { what: "a schedule" },
);

/** Decodes a schedule in the form in which users write it. */
export function checkSchedule(data: unknown): ScheduleSpec | Rejection {
  const given = decode(schedule, data, { whole: "schedule" });
  if (isRejection(given)) return given;
  const times = CronTimes.parse(given.cron, given.timeZone);
  if (isRejection(times)) return times;
  const input = toStoredText(given.input, { bytesMax: LIMITS.inputBytes, what: "input" });
  if (typeof input !== "string") return input;
  return {
    ...given,
    input: JSON.parse(input) as Json,
    cron: cronFields(given.cron as string),
    timeZone: given.timeZone as string,
  };
}

/** Encodes a stored document: the content with the version of its format. */
export function encode(content: object): string {
  return JSON.stringify({ v: VERSION, ...content });
}
