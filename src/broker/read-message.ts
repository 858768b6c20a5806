/**
 * Reads messages from workers. A token proves that a message belongs to its attempt. Any other message is rejected, and the
 * reason goes to the dead-letter queue.
 */
import { LIMITS } from "../kernel/definition/definition.ts";
import { refuseName } from "../kernel/definition/names.ts";
import type { Items } from "../kernel/definition/task-name.ts";
import type { Outcome } from "../kernel/message.ts";
import { ROLL_CALL_HELD_MAX, rollCallId } from "../protocol/amqp-wire.ts";
import { ATTEMPT_ID_CHARS_MAX, checkToken, decodeAttempt, encodeAttempt } from "../protocol/attempt-id.ts";
import { storedCause } from "../protocol/error-cause.ts";
import { bool, count, invalid, isCount, list, queueName, string } from "../protocol/read-body.ts";
import type { ReportedAttempt } from "../protocol/work.ts";
import { decode, type Fields, object } from "../std/decode.ts";
import { toStoredText } from "../std/json.ts";
import { isRejection, type Rejection, reject } from "../std/rejection.ts";

/** The receipt of a task or, with `at.task` -1, of an enumeration. */
export interface TaskReport {
  readonly at: ReportedAttempt;
  readonly ms: number;
  readonly outcome: Outcome;
}

export interface ReadItem {
  readonly position: number;
  readonly task: string;
  readonly key: string | null;
  readonly identity: string | null;
  readonly after: readonly string[] | null;
}

const STATUSES = ["done", "failed", "crashed", "killed", "cancelled"] as const;
const KEY_CHARS_MAX = 1_000;
const WORKER_CHARS_MAX = 200;
const ROLL_CALL = object(
  { roll_call: count, task_queue: queueName, token: string, worker: string, consumes: bool, held: list },
  { others: "kept" },
);

/** Finds the attempt that a message names, and checks the message's token. Returns a rejection if either is wrong. */
export function readAttempt(fields: Fields, key: string): ReportedAttempt | Rejection {
  const { attempt, token } = fields;
  if (typeof attempt !== "string" || typeof token !== "string")
    return invalid(
      "the message lacks `attempt` or `token`, which must repeat those of the message that it answers",
    );
  const at = decodeAttempt(attempt);
  if (at === null) return invalid("`attempt` is not the id of an attempt");
  if (!checkToken(key, attempt, token))
    return reject("unauthorised", "`token` is not the token of this attempt");
  for (const [name, own] of [
    ["workflow_id", at.execution],
    ["phase", at.phase],
    ["handler", at.handler],
  ] as const)
    if (fields[name] !== undefined && fields[name] !== own)
      return invalid(`\`${name}\` differs from that of the attempt that the message names`);
  if (fields["task"] !== undefined && fields["task"] !== at.task)
    return invalid("`task` differs from that of the attempt that the message names");
  return at;
}

export interface ReadRollCall {
  readonly rollCall: number;
  readonly worker: string;
  readonly consumes: boolean;
  readonly held: readonly string[];
}

/** Whether a message in a queue of receipts is an answer to a roll call. */
export function isRollCall(fields: Fields): boolean {
  return fields["roll_call"] !== undefined;
}

export function readRollCall(fields: Fields, taskQueue: string, key: string): ReadRollCall | Rejection {
  const answer = decode(ROLL_CALL, fields);
  if (isRejection(answer)) return answer;
  const { roll_call: rollCall, task_queue, token, worker, consumes, held } = answer;
  if (task_queue !== taskQueue) return invalid("`task_queue` differs from the queue of the roll call");
  if (!checkToken(key, rollCallId(taskQueue, rollCall), token))
    return reject("unauthorised", "`token` is not the token of this roll call");
  if (worker === "" || worker.length > WORKER_CHARS_MAX)
    return invalid(`\`worker\` is not a text of 1 to ${WORKER_CHARS_MAX} characters`);
  if (held.length > ROLL_CALL_HELD_MAX)
    return invalid(`\`held\` is not a list of at most ${ROLL_CALL_HELD_MAX} attempts`);
  for (const id of held)
    if (typeof id !== "string" || id.length > ATTEMPT_ID_CHARS_MAX)
      return invalid("`held` has an entry that is not the id of an attempt");
  return { rollCall, worker, consumes, held: held as readonly string[] };
}

/** Reads a message that a task has finished, or that an enumeration has ended. */
export function readTaskReport(fields: Fields, key: string): TaskReport | Rejection {
  const at = readAttempt(fields, key);
  if (isRejection(at)) return at;
  const { ms = 0 } = fields;
  const outcome = readOutcome(fields, at.task < 0);
  return isRejection(outcome) ? outcome : { at, ms: isCount(ms) ? ms : 0, outcome };
}

function readOutcome(fields: Fields, isEnumeration: boolean): Outcome | Rejection {
  const { result, error, total } = fields;
  const { status = isEnumeration && error === undefined ? "done" : undefined } = fields;
  if (!isStatus(status)) return invalid("`status` must be done, failed, crashed, killed or cancelled");
  if (status === "done") {
    if (isEnumeration) {
      if (total === undefined)
        return invalid("`total` is missing: the end of an enumeration must give the number of its tasks");
      if (!isCount(total)) return invalid("`total` is not a number of tasks");
      return { status, payload: "null", total };
    }
    const payload = toStoredText(result, { bytesMax: LIMITS.resultBytes, what: "result" });
    if (isRejection(payload)) return notStorable(payload);
    if (fields["adds"] === undefined) return { status, payload };
    const adds = readList(fields["adds"], "adds", { from: 0, max: LIMITS.addedTasks });
    return isRejection(adds) ? adds : { status, payload, adds: itemsOf(adds) };
  }
  return { status, ...readError(error, status) };
}

export function isStatus(status: unknown): status is (typeof STATUSES)[number] {
  return (STATUSES as readonly unknown[]).includes(status);
}

/** Reads the error of a failed task. It may have any shape, because workers in other languages have their own shapes. */
export function readError(
  error: unknown,
  status: string,
): Pick<Outcome, "payload" | "fatal" | "retryAfterMs"> {
  const given = typeof error === "object" && error !== null ? (error as Fields) : { message: error };
  const { name, message, code, stack, cause, fatal, retryAfterMs } = given;
  const payload = JSON.stringify({
    name: cut(name, 100) ?? "Error",
    message:
      cut(message, LIMITS.errorChars) ??
      (error === undefined ? status : JSON.stringify(error).slice(0, 1_000)),
    code: cut(code, 100),
    stack: cut(stack, LIMITS.errorChars),
    cause: storedCause(cause),
  });
  return {
    payload,
    ...(fatal === true ? { fatal } : {}),
    ...(isCount(retryAfterMs) ? { retryAfterMs } : {}),
  };
}

/**
 * Reads a message in an intake queue. It has one task, or a list of tasks with the position of the first. The message may leave out its
 * attempt.
 */
export function readItems(fields: Fields, at: ReportedAttempt, key: string): readonly ReadItem[] | Rejection {
  const { workflow_id, phase, handler, position, items, attempt, token } = fields;
  if (workflow_id !== at.execution || phase !== at.phase || handler !== at.handler)
    return invalid(
      "`workflow_id`, `phase` and `handler` differ from those of the enumeration whose intake queue this is",
    );
  if (attempt !== undefined || token !== undefined) {
    const named = readAttempt(fields, key);
    if (isRejection(named)) return named;
    if (attempt !== encodeAttempt(at))
      return invalid("`attempt` differs from the attempt at the enumeration whose intake queue this is");
  }
  if (!isCount(position)) return invalid("`position` is not the number of a task");
  if (items === undefined) {
    const item = readItem(fields, position);
    return isRejection(item) ? item : [item];
  }
  return readList(items, "items", { from: position, max: LIMITS.pageTasks });
}

/** Reads a list of tasks with their names; `from` is the position of the first one. */
function readList(
  items: unknown,
  field: string,
  { from, max }: { readonly from: number; readonly max: number },
): readonly ReadItem[] | Rejection {
  if (!Array.isArray(items) || items.length === 0 || items.length > max)
    return invalid(`\`${field}\` is not a list of 1 to ${max} tasks`);
  const found: ReadItem[] = [];
  for (const [i, one] of items.entries()) {
    const item = readItem((typeof one === "object" && one !== null ? one : {}) as Fields, from + i);
    if (isRejection(item)) return item;
    found.push(item);
  }
  return found;
}

/** The tasks of a message, stored as one array for each field. A field that no task has is left out. */
export function itemsOf(items: readonly Omit<ReadItem, "position">[]): Items {
  const keyed = items.some(({ key }) => key !== null);
  const named = items.some(({ identity }) => identity !== null);
  const waits = items.some(({ after }) => after !== null);
  return {
    tasks: items.map(({ task }) => task),
    keys: keyed ? items.map(({ key }) => key ?? "") : null,
    identities: named ? items.map(({ identity }) => identity ?? "") : null,
    ...(waits ? { afters: items.map(({ after }) => after ?? []) } : {}),
  };
}

/** Reads a task that is the whole body of a message. */
export function readBareTask(body: Buffer, position: number): ReadItem | Rejection {
  const data: unknown = JSON.parse(body.toString("utf8"));
  return readItem({ data }, position);
}

function readItem(fields: Fields, position: number): ReadItem | Rejection {
  const { data, key, identity, after = [] } = fields;
  const isGiven = fields["after"] !== undefined;
  const task = toStoredText(data, { bytesMax: LIMITS.taskBytes, what: `data of task ${position}` });
  if (isRejection(task)) return task;
  if (!Array.isArray(after) || after.some((name) => typeof name !== "string"))
    return invalid(`\`after\` of task ${position} is not a list of identities`);
  for (const text of [key, identity, ...(after as unknown[])])
    if (
      text !== undefined &&
      !(typeof text === "string" && text.length <= KEY_CHARS_MAX && text.isWellFormed())
    )
      return invalid(
        `\`key\`, \`identity\` or an entry of \`after\` of task ${position} is not a text of at most ${KEY_CHARS_MAX} characters`,
      );
  const wrong = key === undefined ? null : refuseName(key, `key of task ${position}`, "a key");
  if (wrong !== null) return wrong;
  return {
    position,
    task,
    key: (key as string | undefined) ?? null,
    identity: (identity as string | undefined) ?? null,
    after: isGiven ? (after as readonly string[]) : null,
  };
}

/** Returns the outcome of a task whose result or data cannot be stored: the task failed for good. */
export function notStorable({ code, message, hint, path }: Rejection): Outcome & { status: "failed" } {
  const payload = JSON.stringify({ name: "NotStorable", code, message, hint, path });
  return { status: "failed", fatal: true, payload };
}

function cut(text: unknown, max: number): string | undefined {
  return typeof text === "string" && text !== "" ? text.slice(0, max).toWellFormed() : undefined;
}
