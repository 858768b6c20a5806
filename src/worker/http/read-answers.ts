/**
 * Decodes the answers of a server to a worker. A decoder returns null for an answer of the wrong form, such as the error page
 * of a proxy, or damaged bytes.
 */
import { decodeAttempt, encodeAttempt } from "../../protocol/attempt-id.ts";
import type {
  Claimed,
  EventsAnswer,
  HeartbeatAnswer,
  Registered,
  TaskBatch,
  WorkItem,
} from "../../protocol/worker-wire.ts";
import {
  type Decode,
  decodeOrNull,
  flag,
  integer,
  KEPT,
  listOf,
  mapOf,
  number,
  object,
  oneOf,
  optional,
  orNull,
  string,
  text,
  where,
} from "../../std/decode.ts";

/** The most nodes and finished runs that an answer may have. Longer ones are refused, because each entry takes memory. */
const NODES_MAX = 1_000;
const RUNS_MAX = 100_000;
const positive: Decode<number> = where(
  "a number above zero",
  (value) => Number.isFinite(value) && (value as number) > 0,
);
const attempt: Decode<string> = where(
  "the id of an attempt",
  (value) => typeof value === "string" && decodeAttempt(value) !== null,
);
const url: Decode<string> = where(
  "an http or https address",
  (value) => typeof value === "string" && URL.canParse(value) && /^https?:$/.test(new URL(value).protocol),
);
const nodeList = listOf(url, { max: NODES_MAX });
/** Decodes the nodes of the cluster, without duplicates. Null and a missing list both mean that the server names no nodes. */
const nodes: Decode<readonly string[] | undefined> = (value) =>
  value === undefined || value === null ? undefined : [...new Set(nodeList(value))];

const phaseCounts = listOf(
  object({ phase: string, visit: integer(), handlers: listOf(object({ name: string }, KEPT)) }, KEPT),
);

const workItem = object(
  {
    attempt,
    token: string,
    do: oneOf(["enumerate", "process", "next", "returns", "command", "script"]),
    execution: string,
    workflow: string,
    project: string,
    phase: string,
    handler: string,
    use: string,
    version: orNull(string),
    traceparent: optional(string),
    heartbeatMs: positive,
    timeoutMs: orNull(positive),
    visit: integer(1),
    batch: integer(1),
    finished: optional(integer(0, RUNS_MAX)),
    steps: optional(listOf(object({ name: string, until: optional(number) }, KEPT))),
    tries: optional(listOf(object({ name: string, tries: number, until: number }, KEPT))),
    runs: optional(listOf(object({ name: string, expression: string, timeoutMs: orNull(positive) }, KEPT))),
    resume: optional(object({ count: integer(), checksum: integer(Number.MIN_SAFE_INTEGER) }, KEPT)),
    phases: optional(phaseCounts),
  },
  KEPT,
) as Decode<unknown> as Decode<WorkItem>;

/** Whether a value can be a number in the id of an attempt: a whole number of at most 15 digits. */
const isCount = (value: unknown): boolean =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) < 1e15;

/** Whether an entry of a batch has the numbers and the token of an attempt. */
const taskEntry: Decode<TaskBatch["tasks"][number]> = where(
  "the number, attempt, claim and token of a task, and the task",
  (value) => {
    if (!Array.isArray(value) || value.length !== 5) return false;
    const [task, attemptNumber, claim, token] = value as unknown[];
    return isCount(task) && isCount(attemptNumber) && isCount(claim) && typeof token === "string";
  },
);

const sharedFields = object(
  {
    ...{ execution: string, workflow: string, project: string, phase: string, handler: string, use: string },
    ...{ version: orNull(string), traceparent: optional(string), heartbeatMs: positive },
    ...{ timeoutMs: orNull(positive), visit: integer(1), batch: integer(1) },
    ...{ do: oneOf(["process"]), round: integer(), epoch: integer() },
    tasks: listOf(taskEntry),
  },
  KEPT,
) as Decode<unknown> as Decode<TaskBatch>;

/** Decodes a batch of tasks. The ids of its attempts must be decodable, like those of other attempts. */
const taskBatch: Decode<TaskBatch> = where(
  "a list of tasks whose attempts have valid ids",
  (value) => decodeAttempt(encodeAttempt({ ...sharedFields(value), task: 0, attempt: 1, claim: 0 })) !== null,
);

const registered = object(
  { worker: text({ min: 1 }), heartbeatMs: positive, leaseMs: positive, nodes, logFields: optional(flag) },
  { others: "dropped" },
);

const claimed = object(
  {
    work: listOf(workItem),
    batches: optional(listOf(taskBatch)),
    inputs: mapOf((value) => value),
    phases: mapOf(phaseCounts),
    cancel: listOf(attempt),
    lost: listOf(attempt),
    drain: (value) => (value === true ? value : undefined),
    nodes,
  },
  { others: "dropped" },
) as Decode<unknown> as Decode<Claimed>;

const eventsAnswer = object(
  {
    stored: mapOf(number),
    verdicts: mapOf(string),
    rest: optional(oneOf(["accepted"])),
    claimed: optional(claimed),
  },
  KEPT,
) as Decode<unknown> as Decode<EventsAnswer>;

export function readRegistered(value: unknown): Registered | null {
  return decodeOrNull(registered, value);
}

export function readClaimed(value: unknown): Claimed | null {
  return decodeOrNull(claimed, value);
}

export function readEventsAnswer(value: unknown): EventsAnswer | null {
  return decodeOrNull(eventsAnswer, value);
}

export function readHeartbeatAnswer(value: unknown): HeartbeatAnswer | null {
  return decodeOrNull(mapOf(string), value) as HeartbeatAnswer | null;
}
