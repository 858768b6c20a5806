/** Decodes requests of programs and of the network, before they reach an engine. */
import { DEFAULT_PROJECT } from "../kernel/definition/definition.ts";
import { composedName, executionId, refuseName, writtenName } from "../kernel/definition/names.ts";
import type { ChosenTasks } from "../kernel/message.ts";
import {
  type Decode,
  type Decoded,
  decode,
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
import { isRejection, type Rejection, reject } from "../std/rejection.ts";

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
  { id: optional(executionId), ...startLabels, startAt: optional(time), deadline: optional(time) },
  { what: "a start" },
);

export type CheckedStart = Decoded<typeof start>;

/** Decodes the options of a start. */
export function checkStart(options: unknown): CheckedStart | Rejection {
  // Most starts have no options, and starts are on the hot path, so this case comes first.
  if (isObject(options) && Object.keys(options).length === 0) return { project: DEFAULT_PROJECT, tags: {} };
  const checked = decode(start, options, { whole: "options" });
  if (isRejection(checked)) return checked;
  const { startAt, deadline } = checked;
  if (startAt === undefined || deadline === undefined || deadline > startAt) return checked;
  return reject("invalid_input", "deadline: it is not after the start time", { path: "deadline" });
}

const control = object(
  {
    id: optional(shortText),
    by: orElse(shortText, "api"),
    reason: orElse(orNull(text({ min: 1, max: 2_000 })), null),
    force: orElse(flag, false),
  },
  { others: "dropped" },
);

/** Decodes the options of pause, resume, cancel and retry. */
export function checkControl(options: unknown): Decoded<typeof control> | Rejection {
  return decode(control, options, { whole: "options" });
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
    return reject("invalid_input", "phase: it is missing, and there is no `error`", { path: "phase" });
  return { phase, handler: handler ?? phase, ...defined({ visit, numbers }), ...dry };
}

/** Checks a signal's name, and the id under which the signal is applied once. */
export function checkSignal(name: unknown, id: unknown): Rejection | null {
  return refuseName(name, "name", "a signal's name") ?? refusal(optional(shortText), id, { path: "id" });
}

const ifExists = orElse(oneOf(["signal", "new"]), "signal");

/** A checked start with a signal. */
export type CheckedSignalStart = CheckedStart & {
  readonly id: string;
  readonly ifExists: "signal" | "new";
};

/** Decodes the options of a start with a signal. */
export function checkSignalStart(options: unknown): CheckedSignalStart | Rejection {
  const { ifExists: given, ...rest } = (isObject(options) ? options : { options }) as Record<string, unknown>;
  const checked = checkStart(rest);
  if (isRejection(checked)) return checked;
  const id = decode(executionId, rest["id"], { path: "id" });
  if (isRejection(id)) return id;
  const asked = decode(ifExists, given, { path: "ifExists" });
  return isRejection(asked) ? asked : { ...checked, id, ifExists: asked };
}

const sequenceNumber = where(
  "a sequence number",
  (value) => Number.isSafeInteger(value) && (value as number) >= 1,
  "events are numbered from 1",
);

/** Checks the sequence number from which events are read. */
export function checkFrom(from: unknown): Rejection | null {
  return refusal(sequenceNumber, from, { path: "from" });
}

const list = object(
  {
    q: orElse(text({ max: Q_CHARS_MAX }), ""),
    tags: orElse(tagsOf(orNull(tag)), {}),
    project: optional(writtenName("a name")),
    workflow: optional(writtenName("a name")),
    status: optional(
      oneOf(["running", "paused", "cancelling", "cleaning", "done", "failed", "cancelled", "damaged"]),
    ),
    limit: orElse(integer(1, 1_000), 50),
    cursor: optional(text({ pattern: /^\d{1,15}$/, what: "the `next` of a page" })),
  },
  { what: "a list" },
);

export interface CheckedList {
  readonly filter: { readonly project?: string; readonly workflow?: string; readonly status?: string };
  readonly q: string;
  /** Tags that an execution must have; null as a value matches any value. */
  readonly tags: Readonly<Record<string, string | null>>;
  readonly max: number;
  readonly before: number | null;
}

/** Decodes the options of a list. */
export function checkList(options: unknown): CheckedList | Rejection {
  const given = decode(list, options, { whole: "options" });
  if (isRejection(given)) return given;
  const { q, tags, limit, cursor, project, workflow, status } = given;
  const filter = defined({ project, workflow, status });
  return { filter, q, tags, max: limit, before: cursor === undefined ? null : Number(cursor) };
}
