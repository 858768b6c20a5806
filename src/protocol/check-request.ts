/** Decodes requests of programs and of the network, before they reach an engine. */
import { DEFAULT_PROJECT } from "../kernel/definition/definition.ts";
import { composedName, executionId, refuseName, writtenName } from "../kernel/definition/names.ts";
import { VERSION_PATTERN } from "../kernel/definition/parse-option.ts";
import type { ChosenTasks } from "../kernel/message.ts";
import { isUpdate, UPDATE } from "../kernel/updates.ts";
import {
  type Decode,
  type Decoded,
  decode,
  decodeOrNull,
  type Fields,
  flag,
  integer,
  isObject,
  listOf,
  mapOf,
  mapped,
  object,
  oneOf,
  optional,
  orElse,
  orNull,
  refusal,
  text,
  where,
} from "../std/decode.ts";
import { defined } from "../std/defined.ts";
import { parseDuration } from "../std/duration.ts";
import { isRejection, type Rejection, RondoError, reject } from "../std/rejection.ts";
import { anyFunction } from "./check-options.ts";

const TAGS_MAX = 64;
/** The latest time that can be shown as a date, in milliseconds since 1970. */
const TIME_MAX = 8_640_000_000_000_000;
/** The most characters of a search text. */
export const Q_CHARS_MAX = 200;

const shortText = text({ min: 1, max: 200 });

const time: Decode<number> = mapped(
  where<number | Date>(
    "a time",
    (value) => {
      const ms = typeof value === "number" || value instanceof Date ? Number(value) : Number.NaN;
      return Number.isSafeInteger(ms) && ms >= 0 && ms <= TIME_MAX;
    },
    "a Date, or milliseconds since 1970",
  ),
  Number,
);

const tagName = composedName("the name of a tag");
const tagText = composedName("a tag");

/** Decodes tags with short values; an empty value is allowed. */
function tagsOf<T>(value: Decode<T>): Decode<Readonly<Record<string, T>>> {
  const key = where("a name for a tag", (name) => name !== "__proto__");
  return mapOf(value, { key: (name) => tagName(key(name)), max: TAGS_MAX });
}

const tag: Decode<string> = (value) => (value === "" ? value : tagText(value));
const tags = tagsOf(tag);

/** Decodes the project and the tags of a start. */
export const startLabels = {
  project: orElse(writtenName("a project's name"), DEFAULT_PROJECT),
  // The tags are copied, because the caller may change its object later.
  tags: mapped(orElse(tags, {}), (given) => ({ ...given })),
};

const start = object(
  {
    id: optional(executionId),
    ...startLabels,
    startAt: optional(time),
    deadline: optional(time),
    ifExists: mapped(optional(oneOf(["return", "fail", "startNewWhenDone"])), (given) =>
      given === "return" ? undefined : given,
    ),
  },
  { what: "a start" },
);

/** A checked start. Without `ifExists`, a second equal start with the same id returns the first execution. */
export type CheckedStart = Decoded<typeof start>;

/**
 * Decodes the options of a start that has no others than an id and a project, as most starts do. Returns null for any other options, and
 * for wrong ones.
 */
function plainStart(options: Fields): CheckedStart | null {
  let id: string | null = null;
  let project: string | null = DEFAULT_PROJECT;
  for (const field of Object.keys(options)) {
    const value = options[field];
    if (field === "id") {
      if (value === undefined) continue;
      id = decodeOrNull(executionId, value);
      if (id === null) return null;
    } else if (field === "project") {
      project = decodeOrNull(startLabels.project, value);
      if (project === null) return null;
    } else return null;
  }
  return id === null ? { project, tags: {} } : { id, project, tags: {} };
}

/** Decodes the options of a start. */
export function checkStart(options: unknown): CheckedStart | Rejection {
  // Starts are on the hot path.
  const plain = isObject(options) ? plainStart(options) : null;
  if (plain !== null) return plain;
  const checked = decode(start, options, { whole: "options" });
  if (isRejection(checked)) return checked;
  const { startAt, deadline } = checked;
  if (startAt === undefined || deadline === undefined || deadline > startAt) return checked;
  return reject("invalid_input", "deadline: must be after the start time", { path: "deadline" });
}

const control = object(
  {
    id: optional(shortText),
    by: orElse(shortText, "api"),
    reason: orElse(orNull(text({ min: 1, max: 2_000 })), null),
    force: orElse(flag, false),
  },
  { what: "a change of an execution" },
);

/** Decodes the options of pause, resume, cancel and retry. */
export function checkControl(options: unknown): Decoded<typeof control> | Rejection {
  return decode(control, options, { whole: "options" });
}

const moveTarget = object(
  {
    version: optional(text({ pattern: VERSION_PATTERN, what: "a version", hint: 'write it as "1.2.0"' })),
    hash: optional(text({ pattern: /^[\da-f]{64}$/, what: "a hash", hint: "64 digits" })),
    dryRun: optional(flag),
  },
  { what: "a move" },
);

/** The definition that an execution is moved to. */
export interface CheckedMove {
  readonly to: { readonly version: string } | { readonly hash: string };
  readonly dryRun: boolean;
}

/** Decodes the target of a move: a version or a hash. */
export function checkMove(target: unknown, dryRun: unknown): CheckedMove | Rejection {
  const given = isObject(target) ? { ...target, ...(dryRun === undefined ? {} : { dryRun }) } : target;
  const checked = decode(moveTarget, given, { whole: "to" });
  if (isRejection(checked)) return checked;
  const { version, hash, dryRun: isDry = false } = checked;
  if ((version === undefined) === (hash === undefined))
    return reject("invalid_input", "to: give a version or a hash", {
      path: "version",
      hint: 'write { version: "1.2.0" }',
    });
  return { to: version === undefined ? { hash: hash as string } : { version }, dryRun: isDry };
}

const chosen = object({
  phase: optional(text({ min: 1, max: 200 })),
  visit: optional(integer(1, Number.MAX_SAFE_INTEGER)),
  handler: optional(text({ min: 1, max: 200 })),
  numbers: optional(listOf(integer(0, Number.MAX_SAFE_INTEGER), { max: 100_000 })),
  error: optional(text({ min: 1, max: 200 })),
});

/** The tasks of a retry, by their handler or by an error. */
export type CheckedChoice =
  | ChosenTasks
  | {
      readonly error: string;
      readonly phase?: string;
      readonly visit?: number;
      readonly handler?: string;
      readonly dryRun?: boolean;
    };

/** Decodes the tasks of a retry. */
export function checkChosen(choice: unknown, dryRun: unknown): CheckedChoice | Rejection {
  const given = decode(chosen, choice, { whole: "tasks" });
  if (isRejection(given)) return given;
  const isDry = decode(orElse(flag, false), dryRun, { path: "dryRun" });
  if (isRejection(isDry)) return isDry;
  const { phase, handler, visit, numbers, error } = given;
  const dry = isDry ? { dryRun: true } : {};
  if (error !== undefined) {
    if (numbers !== undefined)
      return reject("invalid_input", "tasks are chosen by `numbers` or by `error`, not by both", {
        path: "error",
      });
    return { error, ...defined({ phase, handler, visit }), ...dry };
  }
  if (phase === undefined)
    return reject("invalid_input", "phase: is missing; tasks are chosen by their phase, or by `error`", {
      path: "phase",
    });
  return { phase, handler: handler ?? phase, ...defined({ visit, numbers }), ...dry };
}

/** Checks a signal's name, and the id under which the signal is applied once. */
export function checkSignal(name: unknown, id: unknown): Rejection | null {
  const wrong =
    refuseName(name, "name", "a signal's name") ?? refusal(optional(shortText), id, { path: "id" });
  if (wrong !== null || !isUpdate(name as string)) return wrong;
  return reject("invalid_input", `name: the names of signals do not begin with ${UPDATE}`, {
    path: "name",
    hint: "send an update",
  });
}

/** `new` is the former name of `startNewWhenDone`. */
const ifSignalled: Decode<"signal" | "startNewWhenDone"> = mapped(
  orElse(oneOf(["signal", "startNewWhenDone", "new"]), "signal"),
  (given) => (given === "new" ? "startNewWhenDone" : given),
);

/** A checked start with a signal. */
export type CheckedSignalStart = Omit<CheckedStart, "ifExists"> & {
  readonly id: string;
  readonly ifExists: "signal" | "startNewWhenDone";
};

/** Decodes the options of a start with a signal. */
export function checkSignalStart(options: unknown): CheckedSignalStart | Rejection {
  const { ifExists: given, ...rest } = (isObject(options) ? options : { options }) as Record<string, unknown>;
  const checked = checkStart(rest);
  if (isRejection(checked)) return checked;
  const id = decode(executionId, rest["id"], { path: "id" });
  if (isRejection(id)) return id;
  const asked = decode(ifSignalled, given, { path: "ifExists" });
  return isRejection(asked) ? asked : { ...checked, id, ifExists: asked };
}

/** Throws if an option of a function is unknown or wrong. */
export function checkOptionsOf(
  what: string,
  fields: Readonly<Record<string, Decode<unknown>>>,
  options: unknown,
): void {
  const refused = refusal(object(fields, { what }), options, { whole: "options" });
  if (refused !== null) throw new RondoError(refused);
}

const duration = where('a duration such as "30s"', (value) => !isRejection(parseDuration(value, "timeout")));
const abortSignal = where("an AbortSignal", (value) => value instanceof AbortSignal);
const resultFields = { signal: optional(abortSignal), timeout: optional(duration) };
const detail = oneOf(["summary", "full"]);

/** Throws if an option of `result` is unknown or wrong. */
export function checkResultOptions(options: unknown): void {
  checkOptionsOf("result", resultFields, options);
}

/** Throws if an option of `events` is unknown or wrong. */
export function checkEventsOptions(options: unknown): void {
  checkOptionsOf(
    "events",
    { from: optional(sequenceNumber), detail: optional(detail), follow: optional(flag) },
    options,
  );
}

/** Throws if an option of `logs` is unknown or wrong. */
export function checkLogsOptions(options: unknown): void {
  checkOptionsOf("logs", { after: optional(lineOrder), follow: optional(flag) }, options);
}

/** Throws if the name or an option of `stream` is unknown or wrong. */
export function checkStreamOptions(name: unknown, options: unknown): void {
  const wrong = refuseName(name, "name", "the name of a stream");
  if (wrong !== null) throw new RondoError(wrong);
  const fields = { after: optional(shortText), follow: optional(flag), task: optional(integer()) };
  checkOptionsOf("stream", fields, options);
}

/** Throws if an option of `watch` is unknown or wrong. */
export function checkWatchOptions(options: unknown): void {
  checkOptionsOf("watch", { onConnection: anyFunction }, options);
}

/** Throws if an option of `signal` is unknown or wrong. */
export function checkSignalOptions(options: unknown): void {
  checkOptionsOf("signal", { id: optional(shortText) }, options);
}

/** Throws if an option of `update` is unknown or wrong. */
export function checkUpdateOptions(options: unknown): void {
  checkOptionsOf("update", { id: optional(shortText), ...resultFields }, options);
}

/** Throws if an option of `close` is unknown or wrong. */
export function checkCloseOptions(options: unknown): void {
  checkOptionsOf("close", { graceMs: optional(integer()) }, options);
}

const lineOrder = where(
  "the order of a log line, or 0",
  (value) => Number.isSafeInteger(value) && (value as number) >= 0,
);

const sequenceNumber = where(
  "a sequence number",
  (value) => Number.isSafeInteger(value) && (value as number) >= 1,
  "events are numbered from 1",
);

/** All statuses of an execution. */
export const EXECUTION_STATUSES = [
  "running",
  "paused",
  "cancelling",
  "cleaning",
  "done",
  "failed",
  "cancelled",
  "damaged",
] as const;
const status = oneOf(EXECUTION_STATUSES);
const search = text({ max: Q_CHARS_MAX });

const filterFields = {
  search: optional(search),
  tags: orElse(tagsOf(orNull(tag)), {}),
  project: optional(writtenName("a name")),
  workflow: optional(writtenName("a name")),
  status: optional<string | readonly string[]>((value) =>
    // An empty list is not "every status": a program that has chosen none must not change all executions.
    Array.isArray(value) ? listOf(status, { min: 1 })(value) : status(value),
  ),
  since: optional(time),
  until: optional(time),
  top: orElse(flag, false),
  waiting: orElse(flag, false),
};

const list = object(
  {
    ...filterFields,
    q: optional(search),
    limit: orElse(integer(1, 1_000), 50),
    cursor: optional(text({ pattern: /^\d{1,15}$/, what: "the `next` value of a page" })),
  },
  { what: "a list" },
);

/** Which executions. */
export interface CheckedFilter {
  readonly filter: { readonly project?: string; readonly workflow?: string; readonly status?: string };
  readonly q: string;
  /** Tags that an execution must have; null as a value matches any value. */
  readonly tags: Readonly<Record<string, string | null>>;
  /**
   * Filters that the store cannot apply by itself: one of several statuses, the time of creation, executions without a parent, and those
   * that only wait.
   */
  readonly choice: {
    readonly status: readonly string[];
    readonly since: number;
    readonly until: number;
    readonly top: boolean;
    readonly waiting: boolean;
  };
}

export interface CheckedList extends CheckedFilter {
  readonly max: number;
  readonly before: number | null;
}

/** Decodes the options of a list. */
export function checkList(options: unknown): CheckedList | Rejection {
  const given = decode(list, options, { whole: "options" });
  if (isRejection(given)) return given;
  const { q, search: words = q ?? "", limit, cursor, ...rest } = given;
  const { tags, project, workflow, status: wanted = [], since = 0, until, top, waiting } = rest;
  const statuses = typeof wanted === "string" ? [wanted] : wanted;
  const filter = defined({
    project,
    workflow,
    status: statuses.length === 1 ? (statuses[0] as string) : undefined,
  });
  return {
    filter,
    q: words,
    tags,
    choice: {
      status: statuses.length > 1 ? statuses : [],
      since,
      until: until ?? Number.POSITIVE_INFINITY,
      top,
      waiting,
    },
    max: limit,
    before: cursor === undefined ? null : Number(cursor),
  };
}

const filterOnly = object(filterFields, { what: "a filter of executions" });

/** Checks the filter of a change of many executions. */
export function checkFilter(filter: unknown): Rejection | null {
  return refusal(filterOnly, filter, { path: "filter" });
}
