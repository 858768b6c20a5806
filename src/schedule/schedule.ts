/**
 * A schedule: what it starts and when, as its users write it, and how far it has come. How both are kept in the store
 * is the book's to know (schedule-book.ts).
 *
 * `misfire`, for due times that were missed because nothing ran: `fireOnce` (the newest of them fires, once), `skip`
 * (none fires), `all` (each fires, the oldest first, at a bounded rate; after 1,000 of them the rest is dropped).
 * `overlap`, while the execution started last is still open: `allow`, `skip` (the due time passes), `queue` (the due
 * time waits for the end; one can wait, later ones pass).
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
/** The version of the form of documents. */
export const VERSION = 1;

/** A schedule as its users write it, checked and with its defaults. */
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

/** Due times that were missed because nothing ran: the last time this happened. */
export interface Misfires {
  readonly noticedAt: number;
  /** The oldest and the newest of them. */
  readonly first: number;
  readonly last: number;
  /** How many, counted up to 1,000. */
  readonly missed: number;
  readonly fired: number;
  /** How many more may fire (`all` only). */
  readonly left: number;
}

/** Why a due time started nothing. */
export interface ScheduleError {
  readonly due: number;
  readonly at: number;
  readonly code: RejectionCode;
  readonly message: string;
}

/** How far a schedule has come. */
export interface ScheduleState {
  readonly paused: boolean;
  /** Due times up to this one are dealt with. */
  readonly after: number;
  /** The due time that is being started. Stored before the start unless overlap is allowed, since later ones depend on it. */
  readonly starting: number | null;
  readonly lastDue: number | null;
  readonly lastExecution: string | null;
  /** The due time that waits for the last execution to end. */
  readonly queued: number | null;
  /** Due times that passed since the last execution was still open. */
  readonly skipped: number;
  /** Due times that were missed and never fire, by the misfire policy; counted up to 1,000 at a time. */
  readonly dropped: number;
  readonly misfires: Misfires | null;
  readonly lastError: ScheduleError | null;
}

/** A schedule as stored. */
export interface Schedule extends ScheduleSpec {
  readonly createdAt: number;
  readonly updatedAt: number;
  /** Since when its times are these, if they were others before. */
  readonly timedSince?: number;
  readonly state: ScheduleState;
}

/** The state of a schedule that begins now. */
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

/** The id of the execution that a due time starts. */
export function executionOf(schedule: string, due: number): string {
  return `${schedule}~${due}`;
}

/** The id of the execution that is started by hand under a key. */
export function keyedExecutionOf(schedule: string, key: string): string {
  return `${schedule}~key-${sha256(key).slice(0, 32)}`;
}

const schedule = object(
  {
    // With `~` and a due time it is an execution's id.
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

/** Decodes a schedule as written by users. */
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

/** A document: what it holds, under the version of its form. */
export function encode(content: object): string {
  return JSON.stringify({ v: VERSION, ...content });
}
