/**
 * Requests as they come from programs and from the network: every field is checked here, before anything is
 * sent to an engine. What passes can be stored, replayed and shown.
 */
import { DEFAULT_PROJECT, NAME_PATTERN } from "../kernel/definition/definition.ts";
import { cutToBytes, refuseExecutionId, refuseName } from "../kernel/definition/names.ts";
import { type Rejection, reject } from "../std/rejection.ts";
import { fieldsOf, unknownOption } from "./check-options.ts";

const TEXT_MAX = 200;
const REASON_MAX = 2_000;
const TAGS_MAX = 64;
/** The latest time that can be shown as a date. */
const TIME_MAX = 8_640_000_000_000_000;

export interface CheckedStart {
  readonly id: string | undefined;
  readonly project: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly startAt: number | undefined;
  readonly deadline: number | undefined;
}

const START_OPTIONS = ["id", "project", "tags", "startAt", "deadline"];

/** The options of a start. */
export function checkStart(options: unknown): CheckedStart | Rejection {
  const given = fieldsOf(options);
  if (given === null) return invalid("options", "must be an object");
  const unknown = unknownOption(given, "a start", START_OPTIONS);
  if (unknown !== null) return unknown;
  const { id, project = DEFAULT_PROJECT, tags = {} } = given;
  const wrong =
    (id === undefined ? null : checkExecutionId(id)) ??
    checkProject(project) ??
    checkTags(tags) ??
    checkTime(given["startAt"], "startAt") ??
    checkTime(given["deadline"], "deadline");
  if (wrong !== null) return wrong;
  return {
    id: id as string | undefined,
    project: project as string,
    tags: { ...(tags as Record<string, string>) },
    startAt: toMs(given["startAt"]),
    deadline: toMs(given["deadline"]),
  };
}

export interface CheckedControl {
  readonly id: string | undefined;
  readonly by: string;
  readonly reason: string | null;
}

/** The options of pause, resume, cancel and retry. */
export function checkControl(options: unknown): CheckedControl | Rejection {
  const given = fieldsOf(options);
  if (given === null) return invalid("options", "must be an object");
  const { id, by = "api", reason = null } = given;
  if (id !== undefined && !isText(id, TEXT_MAX))
    return invalid("id", `must be a text of 1 to ${TEXT_MAX} characters`);
  if (!isText(by, TEXT_MAX)) return invalid("by", `must be a text of 1 to ${TEXT_MAX} characters`);
  if (reason !== null && !isText(reason, REASON_MAX))
    return invalid("reason", `must be a text of 1 to ${REASON_MAX} characters`);
  return { id: id as string | undefined, by: by as string, reason: reason as string | null };
}

/** A signal's name, and the id under which it is applied once. */
export function checkSignal(name: unknown, id: unknown): Rejection | null {
  const wrong = refuseName(name, "name", "a signal's name");
  if (wrong !== null) return wrong;
  return id === undefined || isText(id, TEXT_MAX)
    ? null
    : invalid("id", `must be a text of 1 to ${TEXT_MAX} characters`);
}

/** The id of an execution as users write it. */
export function checkExecutionId(id: unknown): Rejection | null {
  return refuseExecutionId(id);
}

/** A sequence number to read events from. */
export function checkFrom(from: unknown): Rejection | null {
  return Number.isSafeInteger(from) && (from as number) >= 1
    ? null
    : invalid("from", `${show(from)} is not a sequence number`, "events are numbered from 1");
}

const STATUSES = ["running", "paused", "cancelling", "done", "failed", "cancelled", "damaged"];

const LIST_OPTIONS = ["project", "workflow", "status", "q", "tags", "limit", "cursor"];
/** Longest search. */
export const Q_CHARS_MAX = 200;

export interface CheckedList {
  readonly filter: { readonly project?: string; readonly workflow?: string; readonly status?: string };
  readonly q: string;
  /** Null: with any value. */
  readonly tags: Readonly<Record<string, string | null>>;
  readonly max: number;
  readonly before: number | null;
}

/** The options of a list. */
export function checkList(options: unknown): CheckedList | Rejection {
  const given = fieldsOf(options);
  if (given === null) return invalid("options", "must be an object");
  const unknown = unknownOption(given, "a list", LIST_OPTIONS);
  if (unknown !== null) return unknown;
  const { project, workflow, status, q = "", tags = {}, limit = 50, cursor } = given;
  if (typeof q !== "string" || q.length > Q_CHARS_MAX || !q.isWellFormed())
    return invalid("q", `must be a text of at most ${Q_CHARS_MAX} characters`);
  const wrongTags = checkTags(tags, { isFilter: true });
  if (wrongTags !== null) return wrongTags;
  for (const [path, name] of Object.entries({ project, workflow })) {
    if (name !== undefined && (typeof name !== "string" || !NAME_PATTERN.test(name)))
      return invalid(path, `${show(name)} is not a name`);
  }
  if (status !== undefined && !STATUSES.includes(status as string))
    return invalid("status", `${show(status)} is not a status`, `one of ${STATUSES.join(", ")}`);
  if (!Number.isSafeInteger(limit) || (limit as number) < 1 || (limit as number) > 1_000)
    return invalid("limit", `${show(limit)} is not a whole number from 1 to 1000`);
  if (cursor !== undefined && !(typeof cursor === "string" && /^\d{1,15}$/.test(cursor)))
    return invalid("cursor", `${show(cursor)} is not the \`next\` of a page`);
  const filter = Object.fromEntries(
    Object.entries({ project, workflow, status }).filter(([, value]) => value !== undefined),
  ) as CheckedList["filter"];
  return {
    filter,
    q,
    tags: { ...(tags as Record<string, string | null>) },
    max: limit as number,
    before: cursor === undefined ? null : Number(cursor),
  };
}

function checkProject(project: unknown): Rejection | null {
  return typeof project === "string" && NAME_PATTERN.test(project)
    ? null
    : invalid(
        "project",
        `${show(project)} is not a project's name`,
        "a letter, then up to 39 letters, digits, _ or -",
      );
}

function checkTags(tags: unknown, options: { readonly isFilter?: boolean } = {}): Rejection | null {
  const given = fieldsOf(tags);
  if (given === null) return invalid("tags", "must be an object of short texts");
  const entries = Object.entries(given);
  if (entries.length > TAGS_MAX)
    return invalid("tags", `${entries.length} tags; at most ${TAGS_MAX} are allowed`);
  for (const [key, value] of entries) {
    if (key === "__proto__") return invalid("tags.__proto__", "is not a name for a tag");
    const path = `tags.${cutToBytes(key, 60)}`;
    // A tag can be there without saying anything; whoever looks for it may not care what it says.
    const isNothing = value === "" || (options.isFilter === true && value === null);
    const wrong =
      refuseName(key, path, "the name of a tag") ?? (isNothing ? null : refuseName(value, path, "a tag"));
    if (wrong !== null) return wrong;
  }
  return null;
}

function checkTime(time: unknown, path: string): Rejection | null {
  if (time === undefined) return null;
  const ms = typeof time === "number" || time instanceof Date ? Number(time) : Number.NaN;
  return Number.isSafeInteger(ms) && ms >= 0 && ms <= TIME_MAX
    ? null
    : invalid(path, `${show(time)} is not a time`, "a Date, or milliseconds since 1970");
}

function toMs(time: unknown): number | undefined {
  return time === undefined ? undefined : Number(time);
}

function isText(value: unknown, max: number): boolean {
  return typeof value === "string" && value.length > 0 && value.length <= max && value.isWellFormed();
}

function invalid(path: string, why: string, hint?: string): Rejection {
  return reject("invalid_input", `${path}: ${why}`, { path, ...(hint === undefined ? {} : { hint }) });
}

function show(value: unknown): string {
  if (typeof value === "string") return `"${value.slice(0, 60)}"`;
  return typeof value === "number" || typeof value === "boolean" || value === null
    ? String(value)
    : `a value of type ${typeof value}`;
}
