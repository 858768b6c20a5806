/**
 * Reads events from workers field by field, by hand, since there are many thousands a second. Rejections name the path of the
 * wrong field.
 */
import { LIMITS } from "../../kernel/definition/definition.ts";
import { refuseName } from "../../kernel/definition/names.ts";
import type { Afters, Items } from "../../kernel/definition/task-name.ts";
import type { RunStats } from "../../kernel/event.ts";
import type {
  ChildRequest,
  CodeNotes,
  Outcome,
  PublishedValues,
  RunNotice,
  StepFailure,
  StepResult,
  TaskWait,
} from "../../kernel/message.ts";
import { PUBLISHED_BYTES_MAX } from "../../kernel/published.ts";
import { CHECKPOINTS_MAX } from "../../kernel/tasks/checkpoint.ts";
import { cutText, storedCause } from "../../protocol/error-cause.ts";
import { CHUNK_BYTES_MAX, pieceLine } from "../../protocol/stream-piece.ts";
import { readAnswer } from "../../protocol/update-answer.ts";
import type { ReportedLine } from "../../protocol/work.ts";
import { RECEIPT_STATUSES, type WireReceipt } from "../../protocol/worker-wire.ts";
import { type Fields, invalid, isObject, jsonFields } from "../../std/decode.ts";
import { type Json, toStoredText } from "../../std/json.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { linesOf, storedFields } from "../../worker/log/log-text.ts";
import { Secrets } from "../../worker/log/secrets.ts";

/** A checked event, without the attempt it belongs to and without its number. */
export type ReadEvent =
  | { readonly kind: "accepted" | "started" }
  | { readonly kind: "lines"; readonly lines: readonly Omit<ReportedLine, "n">[] }
  | {
      readonly kind: "page";
      readonly from: number;
      readonly tasks: readonly string[];
      readonly keys: readonly string[] | null;
      readonly identities: readonly string[] | null;
      readonly afters: Afters | null;
    }
  | StepResult
  | StepFailure
  | ChildRequest
  | CodeNotes
  | PublishedValues
  | {
      readonly kind: "run";
      readonly name: string;
      readonly index: number | null;
      readonly state: string;
      readonly oversized: boolean;
      readonly stats: RunStats;
    }
  | RunNotice
  | { readonly kind: "receipt"; readonly ms: number; readonly outcome: Outcome };

const FIELDS: Readonly<Record<string, ReadonlySet<string>>> = Object.fromEntries(
  Object.entries({
    accepted: [],
    started: [],
    progress: ["done", "total"],
    log: ["text", "level", "at", "run", "fields"],
    page: ["from", "tasks", "keys", "identities", "afters"],
    step: ["name", "result", "map", "answers"],
    step_retrying: ["name", "tries", "forMs", "error"],
    step_failed: ["name", "tries", "error"],
    child: ["name", "workflow", "input", "detached", "mapped"],
    noted: ["times", "failures"],
    published: ["values"],
    chunks: ["stream", "chunks", "index", "step", "end", "at"],
    run_started: ["run"],
    run_finished: ["run", "state", "index", "oversized", "stats"],
    run_crashed: ["run", "message", "stats"],
    receipt: ["status", "result", "total", "wait", "waits", "error", "stats", "adds", "continueAs"],
  }).map(([kind, fields]) => [kind, new Set(["attempt", "token", "n", "kind", ...fields])]),
);

const LEVELS = ["debug", "info", "warn", "error", "progress", "run"];
/** The last millisecond that a JavaScript date can hold. */
const COUNT_MAX = 8_640_000_000_000_000;
const STATE_BYTES_MAX = 8 * 1_048_576;
const NAME_CHARS_MAX = 200;
const KEY_CHARS_MAX = 1_000;
const ANY_OF_MAX = 100;
const MATCH_BYTES_MAX = 4_096;
const NO_SECRETS = new Secrets();

/** Reads an event; `now` becomes the time of log lines that have none. */
export function readEvent(event: Fields, now: number): ReadEvent | Rejection {
  const { kind } = event;
  const allowed = typeof kind === "string" && Object.hasOwn(FIELDS, kind) ? FIELDS[kind] : undefined;
  if (allowed === undefined) return invalid("kind", "is not a kind of event");
  for (const field in event)
    if (!allowed.has(field))
      return reject(
        "unknown_field",
        `${field.slice(0, 100)}: an event of kind ${String(kind)} has no such field`,
        {
          path: field.slice(0, 100),
        },
      );
  switch (kind) {
    case "accepted":
    case "started":
      return { kind };
    case "receipt":
      return readReceipt(event);
    case "log":
      return readLog(event, now);
    case "progress":
      return readProgress(event, now);
    case "page":
      return readPage(event);
    case "step":
      return readStep(event);
    case "step_retrying":
    case "step_failed":
      return readStepFailure(event);
    case "child":
      return readChild(event);
    case "noted":
      return readNotes(event);
    case "published":
      return readPublished(event);
    case "chunks":
      return readChunks(event, now);
    case "run_finished":
      return readRun(event);
    default:
      return readRunNotice(event);
  }
}

function readLog(
  { text, level = "info", at = null, run, fields }: Fields,
  now: number,
): ReadEvent | Rejection {
  if (typeof text !== "string") return invalid("text", "must be a text");
  if (!LEVELS.includes(level as string)) return invalid("level", `must be one of ${LEVELS.join(", ")}`);
  if (at !== null && !isCount(at)) return invalid("at", "must be a time in milliseconds");
  if (run !== undefined && !isName(run)) return invalid("run", "must be the name of a run");
  if (fields !== undefined && !isObject(fields)) return invalid("fields", "must be an object");
  const stored = fields === undefined ? undefined : storedFields(fields, NO_SECRETS);
  return linesEvent(text, { level: level as string, at: at === null ? now : at, run, fields: stored });
}

function readProgress({ done, total }: Fields, now: number): ReadEvent | Rejection {
  if (typeof done !== "number") return invalid("done", "must be a number");
  if (total !== undefined && typeof total !== "number") return invalid("total", "must be a number");
  return linesEvent(total === undefined ? `${done}` : `${done}/${total}`, { level: "progress", at: now });
}

/** Reads the start or the crash of a run of a script. */
function readRunNotice({ kind, run, message, stats }: Fields): ReadEvent | Rejection {
  if (!isName(run)) return invalid("run", "must be the name of a run");
  const named = { name: run, index: null };
  if (kind === "run_started") return { kind: "run.started", ...named };
  if (typeof message !== "string") return invalid("message", "must be a text");
  const measured = stats === undefined ? null : readStats(stats);
  if (isRejection(measured)) return measured;
  return { kind: "run.crashed", ...named, message: cut(message, LIMITS.errorChars) ?? "", stats: measured };
}

function readStats(stats: unknown): RunStats | Rejection {
  const { durationMs = 0, memoryBytes = 0 } = (stats ?? {}) as Fields;
  if (!isCount(durationMs) || !isCount(memoryBytes)) return invalid("stats", "must hold numbers");
  return { durationMs, memoryBytes };
}

/** Splits a text into log lines. The fields of the text belong to the first line. */
function linesEvent(
  text: string,
  more: { level: string; at: number; run?: unknown; fields?: string | undefined },
): ReadEvent {
  const { level, at, run, fields } = more;
  const lines = linesOf(text, NO_SECRETS).map((line, i) => ({
    at,
    level,
    text: line,
    ...(run === undefined ? {} : { run: run as string }),
    ...(fields === undefined || i > 0 ? {} : { fields }),
  }));
  return { kind: "lines", lines };
}

function readPage({ from, ...given }: Fields): ReadEvent | Rejection {
  if (!isCount(from)) return invalid("from", "must be a number of tasks");
  const { tasks } = given;
  if (!Array.isArray(tasks) || tasks.length === 0 || tasks.length > LIMITS.pageTasks)
    return invalid("tasks", `must be a list of 1 to ${LIMITS.pageTasks} tasks`);
  const items = readItems(tasks, given);
  if (isRejection(items)) return items;
  const chars = items.tasks.reduce((sum, { length }) => sum + length, 0);
  if (chars > LIMITS.pageBytes)
    return reject("too_large", `tasks: a page holds at most ${LIMITS.pageBytes} characters of JSON`, {
      path: "tasks",
      hint: "send the tasks as several pages",
    });
  return { kind: "page", from, ...items };
}

/** Reads the tasks that a done task adds. The kernel checks how many they may be. */
function readAdds(adds: unknown): Items | Rejection {
  if (typeof adds !== "object" || adds === null) return invalid("adds", "must be an object");
  for (const field in adds)
    if (!ADDS_FIELDS.has(field))
      return reject("unknown_field", `adds.${field.slice(0, 100)}: adds has no such field`, { path: "adds" });
  const { tasks } = adds as Fields;
  if (!Array.isArray(tasks)) return invalid("adds.tasks", "must be a list of tasks");
  return readItems(tasks, adds as Fields);
}

const ADDS_FIELDS = new Set(["tasks", "keys", "identities", "afters"]);

function readItems(
  tasks: readonly unknown[],
  { keys = null, identities = null, afters = null }: Fields,
): (Items & { readonly afters: Afters | null }) | Rejection {
  for (const [name, list] of [
    ["keys", keys],
    ["identities", identities],
  ] as const)
    if (list !== null && !(isTexts(list) && list.length === tasks.length))
      return invalid(name, "must be a list of short texts, one for each task");
  for (const [i, key] of ((keys ?? []) as string[]).entries()) {
    const wrong = refuseName(key, `keys[${i}]`, "a key");
    if (wrong !== null) return wrong;
  }
  if (afters !== null && !(isLists(afters) && afters.length === tasks.length))
    return invalid("afters", "must be a list with a list of identities for each task");
  const texts: string[] = [];
  for (const [i, task] of tasks.entries()) {
    const text = toStoredText(task, { bytesMax: LIMITS.taskBytes, what: `tasks[${i}]` });
    if (isRejection(text)) return text;
    texts.push(text);
  }
  return { tasks: texts, keys: keys as string[] | null, identities: identities as string[] | null, afters };
}

function readStep({ name, result = null, map, answers }: Fields): ReadEvent | Rejection {
  const wrong =
    refuseName(name, "name", "the name of a step") ??
    (map === undefined ? null : refuseName(map, "map", "the name of a map"));
  if (wrong !== null) return wrong;
  if (map !== undefined && !Array.isArray(result)) return invalid("result", "must be a list of items");
  const text = toStoredText(result, { bytesMax: LIMITS.resultBytes, what: "result" });
  if (isRejection(text)) return text;
  const items = map === undefined ? {} : { map: map as string };
  const done = { kind: "step" as const, name: name as string, result: text, ...items };
  if (answers === undefined) return done;
  if (typeof answers !== "string" || readAnswer(text) === null)
    return invalid(
      "answers",
      "must be the id of an update; the result is its answer, { value } or { error }",
    );
  return { ...done, answers };
}

function readStepFailure({ kind, name, tries, forMs, error }: Fields): ReadEvent | Rejection {
  const wrong = refuseName(name, "name", "the name of a step");
  if (wrong !== null) return wrong;
  if (!isCount(tries) || tries === 0) return invalid("tries", "must be the number of tries");
  const failure = readError(error, "failed");
  if (isRejection(failure)) return failure;
  const failed = { name: name as string, tries, error: failure.payload };
  if (kind === "step_failed") return { kind: "step.failed", ...failed };
  if (!isLength(forMs)) return invalid("forMs", "must be a number of milliseconds");
  return { kind: "step.retrying", ...failed, forMs };
}

function readChild({ name, workflow, input = null, detached, mapped }: Fields): ReadEvent | Rejection {
  const wrong = refuseName(name, "name", "the name of a child");
  if (wrong !== null) return wrong;
  if (!isName(workflow)) return invalid("workflow", "must be the name of a workflow");
  if (detached !== undefined && typeof detached !== "boolean")
    return invalid("detached", "must be true or false");
  if (mapped !== undefined && typeof mapped !== "boolean") return invalid("mapped", "must be true or false");
  if (mapped === true && !isCount(input)) return invalid("input", "must be the number of items");
  const text = toStoredText(input, { bytesMax: LIMITS.inputBytes, what: "input" });
  if (isRejection(text)) return text;
  return {
    kind: "child",
    name: name as string,
    workflow,
    input: text,
    ...(detached === true ? { detached } : {}),
    ...(mapped === true ? { mapped } : {}),
  };
}

function readNotes({ times = {}, failures = [] }: Fields): ReadEvent | Rejection {
  if (!isTexts(failures) || failures.length > CHECKPOINTS_MAX)
    return invalid("failures", "must be a list of names of steps");
  const entries = typeof times === "object" && times !== null ? Object.entries(times) : null;
  if (entries === null || entries.length > CHECKPOINTS_MAX)
    return invalid("times", `must be an object of at most ${CHECKPOINTS_MAX} times by name`);
  for (const [name, at] of entries) {
    const wrong = refuseName(name, "times", "the name of a time");
    if (wrong !== null) return wrong;
    if (!isCount(at)) return invalid("times", "must be times in milliseconds");
  }
  return { kind: "noted", times: Object.fromEntries(entries), failures };
}

function readPublished({ values }: Fields): ReadEvent | Rejection {
  const text = toStoredText(values, { bytesMax: PUBLISHED_BYTES_MAX, what: "values" });
  if (isRejection(text)) return text;
  const read = jsonFields(text);
  if (read === null) return invalid("values", "must be an object");
  for (const key in read) {
    const wrong = refuseName(key, "values", "a key");
    if (wrong !== null) return wrong;
  }
  return { kind: "published", values: read as Readonly<Record<string, Json>> };
}

function readChunks(event: Fields, now: number): ReadEvent | Rejection {
  const { stream, chunks, index, step, end, at = now } = event;
  const wrong =
    refuseName(stream, "stream", "the name of a stream") ??
    (step === undefined ? null : refuseName(step, "step", "the name of a step"));
  if (wrong !== null) return wrong;
  if (!isCount(index)) return invalid("index", "must be the number of the first chunk, from 0");
  if (end !== undefined && end !== true) return invalid("end", "must be true");
  if (!isCount(at)) return invalid("at", "must be a time in milliseconds");
  if (!Array.isArray(chunks) || (chunks.length === 0) !== (end === true))
    return invalid("chunks", "must be a list of chunks; it is empty only at the end of the stream");
  const texts: string[] = [];
  for (const [i, chunk] of chunks.entries()) {
    const text = toStoredText(chunk, { bytesMax: CHUNK_BYTES_MAX, what: `chunks[${i}]` });
    if (isRejection(text)) return text;
    texts.push(text);
  }
  const head = {
    stream: stream as string,
    index,
    ...(step === undefined ? {} : { step: step as string }),
    ...(end === true ? { end: true as const } : {}),
  };
  return { kind: "lines", lines: [{ at, ...pieceLine(head, texts) }] };
}

function readRun({ run, state, index = null, oversized = false, stats }: Fields): ReadEvent | Rejection {
  if (!isName(run)) return invalid("run", "must be the name of a run");
  if (index !== null && !isCount(index)) return invalid("index", "must be the number of the run, from 0");
  if (typeof oversized !== "boolean") return invalid("oversized", "must be true or false");
  const measured = readStats(stats);
  if (isRejection(measured)) return measured;
  const text = toStoredText(state, { bytesMax: STATE_BYTES_MAX, what: "state" });
  if (isRejection(text)) return text;
  return {
    kind: "run",
    name: run,
    index,
    state: text,
    oversized: oversized || text.length > LIMITS.resultBytes,
    stats: measured,
  };
}

function readReceipt(event: Fields): ReadEvent | Rejection {
  const { status, result, total, error, stats } = event;
  if (!RECEIPT_STATUSES.includes(status as WireReceipt["status"]))
    return invalid("status", `must be one of ${RECEIPT_STATUSES.join(", ")}`);
  if (total !== undefined && !isCount(total)) return invalid("total", "must be a number of tasks");
  const durationMs = stats === undefined ? 0 : (stats as Fields | null)?.["durationMs"];
  if (!isCount(durationMs)) return invalid("stats.durationMs", "must be a number of milliseconds");
  const waits = readWaits(event);
  if (isRejection(waits)) return waits;
  if ((status === "suspended") !== (waits !== null))
    return invalid("wait", "must be given with the status suspended, and only with that status");
  const kind = "receipt";
  const ms = durationMs;
  if (status === "done") {
    const text = toStoredText(result, { bytesMax: LIMITS.resultBytes, what: "result" });
    if (isRejection(text)) return { kind, ms, outcome: notStorable(text) };
    const done = { status, payload: text, ...(total === undefined ? {} : { total }) } as const;
    if (event["continueAs"] !== undefined) return readContinuation(done, event["continueAs"], ms);
    if (event["adds"] === undefined) return { kind, ms, outcome: done };
    const adds = readAdds(event["adds"]);
    return isRejection(adds) ? adds : { kind, ms, outcome: { ...done, adds } };
  }
  if (waits !== null) return { kind, ms, outcome: { status: "suspended", payload: "null", ...waits } };
  const failure = readError(error, status as string);
  return isRejection(failure)
    ? failure
    : { kind, ms, outcome: { status: status as Outcome["status"], ...failure } };
}

/** Reads a receipt with which an execution continues as another one. */
function readContinuation(
  done: { readonly status: "done"; readonly payload: string },
  input: unknown,
  ms: number,
): ReadEvent {
  const continueAs = toStoredText(input, { bytesMax: LIMITS.inputBytes, what: "continueAs" });
  const outcome = isRejection(continueAs) ? notStorable(continueAs) : { ...done, continueAs };
  return { kind: "receipt", ms, outcome };
}

/** Reads the waits of a suspended attempt: `wait`, or the list `waits`; null if there are none. */
function readWaits({ wait, waits }: Fields): Pick<Outcome, "wait" | "waits"> | null | Rejection {
  if (waits === undefined || waits === null) {
    if (wait === undefined || wait === null) return null;
    const read = readWait(wait);
    return isRejection(read) ? read : { wait: read };
  }
  if (wait !== undefined && wait !== null) return invalid("waits", "replaces wait");
  if (!Array.isArray(waits) || waits.length === 0 || waits.length > CHECKPOINTS_MAX)
    return invalid("waits", `must be a list of 1 to ${CHECKPOINTS_MAX} waits`);
  const list: TaskWait[] = [];
  const names = new Set<string>();
  for (const one of waits as readonly unknown[]) {
    const read = readWait(one, true);
    if (isRejection(read)) return read;
    if (names.has(read.name)) return invalid("waits", "has two waits with the same name");
    names.add(read.name);
    list.push(read);
  }
  return { waits: list };
}

/** The fields of a wait that only a list of waits can have. */
function readNewWait({ anyOf, match, retry, child }: Fields): Partial<TaskWait> | Rejection {
  if (child !== undefined && child !== true) return invalid("wait.child", "must be true");
  if (anyOf !== undefined) {
    if (!Array.isArray(anyOf) || anyOf.length === 0 || anyOf.length > ANY_OF_MAX)
      return invalid("wait.anyOf", `must be a list of 1 to ${ANY_OF_MAX} signals`);
    for (const signal of anyOf) {
      const wrong = refuseName(signal, "wait.anyOf", "the name of a signal");
      if (wrong !== null) return wrong;
    }
  }
  if (retry !== undefined && retry !== true) return invalid("wait.retry", "must be true");
  const text =
    match === undefined ? undefined : toStoredText(match, { bytesMax: MATCH_BYTES_MAX, what: "wait.match" });
  if (isRejection(text)) return text;
  return {
    ...(anyOf === undefined ? {} : { anyOf: anyOf as string[] }),
    ...(text === undefined ? {} : { match: text }),
    ...(retry === undefined ? {} : { retry }),
    ...(child === undefined ? {} : { child }),
  };
}

function readWait(wait: unknown, isListed = false): TaskWait | Rejection {
  if (typeof wait !== "object" || wait === null) return invalid("wait", "must be an object");
  const { name, untilMs, forMs, signal, timeoutMs } = wait as Fields;
  const more = isListed ? readNewWait(wait as Fields) : {};
  if (isRejection(more)) return more;
  const wrong =
    refuseName(name, "wait.name", "the name of a sleep or a wait") ??
    (signal === undefined ? null : refuseName(signal, "wait.signal", "the name of a signal"));
  if (wrong !== null) return wrong;
  const kinds = [untilMs ?? forMs, signal, more.anyOf, more.child].filter((one) => one !== undefined);
  if (kinds.length !== 1) return invalid("wait", "must have one of untilMs, signal, anyOf and child");
  if (untilMs !== undefined && !isLength(untilMs))
    return invalid("wait.untilMs", "must be a time in milliseconds");
  if (forMs !== undefined && !isLength(forMs))
    return invalid("wait.forMs", "must be a number of milliseconds");
  if (timeoutMs !== undefined && !isLength(timeoutMs))
    return invalid("wait.timeoutMs", "must be a number of milliseconds");
  return {
    name: name as string,
    ...(untilMs === undefined ? {} : { untilMs }),
    ...(forMs === undefined ? {} : { forMs }),
    ...(signal === undefined ? {} : { signal: signal as string }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...more,
  };
}

type Failure = Pick<Outcome, "payload" | "fatal" | "retryAfterMs">;

function readError(error: unknown, status: string): Failure | Rejection {
  if (error === undefined) return { payload: JSON.stringify({ name: "Error", message: status }) };
  if (typeof error !== "object" || error === null) return invalid("error", "must be an object");
  const { name, message, code, stack, cause, hint, path, run, line, fatal, retryAfterMs } = error as Fields;
  if (typeof message !== "string") return invalid("error.message", "must be a text");
  if (retryAfterMs !== undefined && !isLength(retryAfterMs))
    return invalid("error.retryAfterMs", "must be a number of milliseconds");
  const payload = JSON.stringify({
    name: cut(name, 100) ?? "Error",
    message: cut(message, LIMITS.errorChars),
    code: cut(code, 100),
    stack: cut(stack, LIMITS.errorChars),
    cause: storedCause(cause),
    hint: cut(hint, 1_000),
    path: cut(path, 1_000),
    run: cut(run, NAME_CHARS_MAX),
    line: isCount(line) ? line : undefined,
  });
  return {
    payload,
    ...(fatal === true ? { fatal } : {}),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  };
}

function notStorable({ code, message, hint, path }: Rejection): Outcome {
  const payload = JSON.stringify({ name: "NotStorable", code, message, hint, path });
  return { status: "failed", fatal: true, payload };
}

function cut(value: unknown, max: number): string | undefined {
  if (typeof value !== "string") return undefined;
  return cutText(value, max);
}

/** Whether a value is a duration or a time; the kernel limits its size. */
function isLength(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

/** Whether a value is a whole number that a JavaScript date can hold, so that sums stay exact. */
function isCount(value: unknown): value is number {
  return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= COUNT_MAX;
}

function isName(value: unknown): value is string {
  return typeof value === "string" && value !== "" && value.length <= NAME_CHARS_MAX && value.isWellFormed();
}

function isLists(lists: unknown): lists is string[][] {
  return Array.isArray(lists) && lists.every(isTexts);
}

function isTexts(list: unknown): list is string[] {
  return (
    Array.isArray(list) &&
    list.every((text) => typeof text === "string" && text.length <= KEY_CHARS_MAX && text.isWellFormed())
  );
}
