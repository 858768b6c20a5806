/**
 * A schedule: what it starts and when, as its users write it, and how far it has come. How both are kept in the store
 * is the book's to know (schedule-book.ts).
 *
 * `misfire`, for due times that were missed because nothing ran: `fireOnce` (the newest of them fires, once), `skip`
 * (none fires), `all` (each fires, the oldest first, at a bounded rate; after 1,000 of them the rest is dropped).
 * `overlap`, while the execution started last is still open: `allow`, `skip` (the due time passes), `queue` (the due
 * time waits for the end; one can wait, later ones pass).
 */
import { LIMITS, NAME_PATTERN } from "../kernel/definition/definition.ts";
import { checkStart } from "../protocol/check-request.ts";
import { sha256 } from "../std/hash.ts";
import { type Json, toStoredText } from "../std/json.ts";
import { isRejection, type Rejection, type RejectionCode, reject } from "../std/rejection.ts";
import { CronTimes, cronFields } from "./cron-times.ts";

export const MISFIRES = ["fireOnce", "skip", "all"] as const;
export const OVERLAPS = ["allow", "skip", "queue"] as const;
const FIELDS = [
  "id",
  "workflow",
  "input",
  "cron",
  "timeZone",
  "misfire",
  "overlap",
  "project",
  "tags",
] as const;
/** With `~` and a due time it is an execution's id. */
const ID_PATTERN = /^[A-Za-z][A-Za-z0-9_-]{0,59}$/;
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

/** A schedule as written by users, or what is wrong with it. */
export function checkSchedule(data: unknown): ScheduleSpec | Rejection {
  if (typeof data !== "object" || data === null || Array.isArray(data))
    return invalid("schedule", "must be an object");
  const unknown = Object.keys(data).find((key) => !(FIELDS as readonly string[]).includes(key));
  if (unknown !== undefined) {
    return reject("unknown_field", `a schedule has no field "${unknown.slice(0, 60)}"`, {
      path: unknown.slice(0, 60),
      hint: `known are: ${FIELDS.join(", ")}`,
    });
  }
  const given = data as { readonly [K in (typeof FIELDS)[number]]?: unknown };
  const { id, workflow, cron, timeZone = "UTC", misfire = "fireOnce", overlap = "allow" } = given;
  if (typeof id !== "string" || !ID_PATTERN.test(id))
    return invalid(
      "id",
      `${show(id)} is not a schedule's id`,
      "a letter, then up to 59 letters, digits, _ or -",
    );
  if (typeof workflow !== "string" || !NAME_PATTERN.test(workflow))
    return invalid(
      "workflow",
      `${show(workflow)} is not a workflow's name`,
      "a letter, then up to 39 letters, digits, _ or -",
    );
  const times = CronTimes.parse(cron, timeZone);
  if (isRejection(times)) return times;
  if (!isOneOf(MISFIRES, misfire))
    return invalid("misfire", `${show(misfire)} is not a misfire policy`, `one of ${MISFIRES.join(", ")}`);
  if (!isOneOf(OVERLAPS, overlap))
    return invalid("overlap", `${show(overlap)} is not an overlap policy`, `one of ${OVERLAPS.join(", ")}`);
  const input = toStoredText(given.input, { bytesMax: LIMITS.inputBytes, what: "input" });
  if (typeof input !== "string") return input;
  const start = checkStart({
    ...(given.project === undefined ? {} : { project: given.project }),
    ...(given.tags === undefined ? {} : { tags: given.tags }),
  });
  if (isRejection(start)) return start;
  return {
    id,
    workflow,
    input: JSON.parse(input) as Json,
    cron: cronFields(cron as string),
    timeZone: timeZone as string,
    misfire,
    overlap,
    project: start.project,
    tags: start.tags,
  };
}

/** A document: what it holds, under the version of its form. */
export function encode(content: object): string {
  return JSON.stringify({ v: VERSION, ...content });
}

function isOneOf<T extends string>(known: readonly T[], value: unknown): value is T {
  return (known as readonly unknown[]).includes(value);
}

function invalid(path: string, why: string, hint?: string): Rejection {
  return reject("invalid_input", `${path}: ${why}`, { path, ...(hint === undefined ? {} : { hint }) });
}

function show(value: unknown): string {
  if (value === undefined) return "nothing";
  return typeof value === "string" ? `"${value.slice(0, 60)}"` : `a value of type ${typeof value}`;
}
