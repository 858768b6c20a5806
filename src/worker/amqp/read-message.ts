/** Messages from a broker, to which anybody can write: each is read field by field, or rejected with the reason. */
import type {
  CancelConsumerMessage,
  EnumerateMessage,
  ProcessMessage,
  TaskMessage,
} from "../../protocol/amqp-wire.ts";
import { decodeAttempt } from "../../protocol/attempt-id.ts";
import type { CommandMark } from "../../protocol/command-wire.ts";
import { readFields } from "../../protocol/read-body.ts";
import type { ReportedAttempt } from "../../protocol/work.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";

type Fields = Readonly<Record<string, unknown>>;

/** What a field may be; `?` marks one that may be absent. */
type Kind = "text" | "queue" | "count" | "attempt" | "attempts" | "list" | "resume" | "do";
type Shape = Readonly<Record<string, Kind | `${Kind}?`>>;

const PLACE = { workflow_id: "text", phase: "text", handler: "text" } as const;

const ENUMERATE: Shape = {
  ...PLACE,
  workflow: "text?",
  task_queue: "queue",
  finished_queue: "queue",
  attempt: "attempt",
  token: "text",
  resume: "resume?",
  timeout_ms: "count?",
};
const PROCESS: Shape = {
  workflow_id: "text",
  workflow: "text?",
  task_queue: "queue",
  finished_queue: "queue",
  prefetch: "count?",
  batch: "count?",
  timeout_ms: "count?",
  roll_call: "count?",
  token: "text?",
};
const TASK: Shape = {
  ...PLACE,
  task: "count",
  attempt: "attempt",
  token: "text",
  finished_queue: "queue",
  do: "do?",
  phases: "list?",
};

const QUEUE_BYTES_MAX = 255;

const CHECKS: Readonly<Record<Kind, { what: string; fits: (value: unknown) => boolean }>> = {
  text: { what: "a text", fits: (value) => typeof value === "string" },
  queue: { what: "the name of a queue", fits: isQueue },
  count: { what: "a number from 0", fits: isCount },
  attempt: { what: "the id of an attempt", fits: isAttempt },
  attempts: {
    what: "a list of ids of attempts",
    fits: (value) => Array.isArray(value) && value.every(isAttempt),
  },
  list: { what: "a list", fits: Array.isArray },
  resume: { what: "an object with `count` and `checksum`", fits: isResume },
  do: { what: "`next` or `returns`", fits: (value) => value === "next" || value === "returns" },
};

export function readEnumerate(body: Buffer): EnumerateMessage | Rejection {
  return read<EnumerateMessage>(body, ENUMERATE);
}

export function readProcess(body: Buffer): ProcessMessage | Rejection {
  return read<ProcessMessage>(body, PROCESS);
}

export function readTask(body: Buffer): TaskMessage | Rejection {
  return read<TaskMessage>(body, TASK);
}

export function readCancelConsumer(body: Buffer): CancelConsumerMessage | Rejection {
  return read<CancelConsumerMessage>(body, { task_queue: "queue", commands: "attempts?" });
}

/** A command; its attempt and step are those of its mark, null if no engine has sent it. */
export interface ReadCommand {
  readonly command: Fields;
  readonly at: ReportedAttempt | null;
  readonly step: number;
}

export function readCommand(body: Buffer): ReadCommand | Rejection {
  const command = read<Fields>(body, { cmd_type: "text" });
  if (isRejection(command)) return command;
  const mark = (command as { cmd_metadata?: { rondo?: Partial<CommandMark> } | null }).cmd_metadata?.rondo;
  if (mark === undefined || mark === null) return { command, at: null, step: 0 };
  const at = typeof mark.attempt === "string" ? decodeAttempt(mark.attempt) : null;
  if (at === null) return invalid("`cmd_metadata.rondo.attempt` is not the id of an attempt");
  return { command, at, step: isCount(mark.step) ? (mark.step as number) : 0 };
}

function read<T>(body: Buffer, shape: Shape): T | Rejection {
  const fields = readFields(body);
  if (isRejection(fields)) return fields;
  for (const [name, kind] of Object.entries(shape)) {
    const value = fields[name];
    const isOptional = kind.endsWith("?");
    if (value === undefined && isOptional) continue;
    const { what, fits } = CHECKS[(isOptional ? kind.slice(0, -1) : kind) as Kind];
    if (value === undefined) return invalid(`it lacks \`${name}\``);
    if (!fits(value)) return invalid(`\`${name}\` is not ${what}`);
  }
  return fields as T;
}

function isAttempt(value: unknown): boolean {
  return typeof value === "string" && decodeAttempt(value) !== null;
}

function isQueue(value: unknown): boolean {
  return typeof value === "string" && value !== "" && Buffer.byteLength(value) <= QUEUE_BYTES_MAX;
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isResume(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { count, checksum } = value as { count?: unknown; checksum?: unknown };
  return isCount(count) && Number.isSafeInteger(checksum);
}

function invalid(message: string): Rejection {
  return reject("invalid_input", message);
}
