/** Decodes messages from the broker, to which any application can write, and turns them into grants. */
import { topicUse } from "../../kernel/command/topic-rules.ts";
import type {
  CancelConsumerMessage,
  EnumerateMessage,
  ProcessMessage,
  TaskMessage,
} from "../../protocol/amqp-wire.ts";
import { decodeAttempt } from "../../protocol/attempt-id.ts";
import type { CommandMark } from "../../protocol/command-wire.ts";
import {
  attemptId,
  attemptIds,
  count,
  invalid,
  isCount,
  list,
  queueName,
  readBody,
  string,
} from "../../protocol/read-body.ts";
import type { Grant, GrantItem, ReportedAttempt } from "../../protocol/work.ts";
import { type Fields, object, optional, secret } from "../../std/decode.ts";
import { isRejection, type Rejection } from "../../std/rejection.ts";
import { reportPlace } from "../attempt-place.ts";
import type { TaskQueue } from "./task-queues.ts";

const DOES = ["next", "returns", "script"];
const PLACE = { workflow_id: string, phase: string, handler: string };
const QUEUES = { task_queue: queueName, finished_queue: queueName };
const OTHERS = { others: "kept" } as const;

const ENUMERATE = object(
  {
    ...PLACE,
    ...QUEUES,
    workflow: optional(string),
    attempt: attemptId,
    token: string,
    resume: optional(secret("an object with `count` and `checksum`", isResume)),
    timeout_ms: optional(count),
  },
  OTHERS,
);
const PROCESS = object(
  {
    ...QUEUES,
    workflow_id: string,
    workflow: optional(string),
    prefetch: optional(count),
    batch: optional(count),
    timeout_ms: optional(count),
    roll_call: optional(count),
    token: optional(string),
  },
  OTHERS,
);
const TASK = object(
  {
    ...PLACE,
    task: count,
    attempt: attemptId,
    token: string,
    finished_queue: queueName,
    do: optional(secret("`next`, `returns` or `script`", (value) => DOES.includes(value as string))),
    phases: optional(list),
    outcome: optional(secret("`done` or `unknown`", (value) => value === "done" || value === "unknown")),
  },
  OTHERS,
);
const CANCEL = object({ task_queue: queueName, commands: optional(attemptIds) }, OTHERS);
const COMMAND = object({ cmd_type: string }, OTHERS);

export function readEnumerate(body: Buffer): EnumerateMessage | Rejection {
  return readBody(body, ENUMERATE) as EnumerateMessage | Rejection;
}

export function readProcess(body: Buffer): ProcessMessage | Rejection {
  return readBody(body, PROCESS) as ProcessMessage | Rejection;
}

export function readTask(body: Buffer): TaskMessage | Rejection {
  return readBody(body, TASK) as TaskMessage | Rejection;
}

export function readCancelConsumer(body: Buffer): CancelConsumerMessage | Rejection {
  return readBody(body, CANCEL);
}

/** A command, with the attempt and the step that the engine wrote into it. The attempt is null if no engine sent the command. */
export interface ReadCommand {
  readonly command: Fields;
  readonly at: ReportedAttempt | null;
  readonly step: number;
}

export function readCommand(body: Buffer): ReadCommand | Rejection {
  const command = readBody(body, COMMAND);
  if (isRejection(command)) return command;
  const mark = (command as { cmd_metadata?: { rondo?: Partial<CommandMark> } | null }).cmd_metadata?.rondo;
  if (mark === undefined || mark === null) return { command, at: null, step: 0 };
  const at = typeof mark.attempt === "string" ? decodeAttempt(mark.attempt) : null;
  if (at === null) return invalid("`cmd_metadata.rondo.attempt` is not the id of an attempt");
  return { command, at, step: isCount(mark.step) ? mark.step : 0 };
}

/** The deliveries of one task queue that arrived in one turn of the event loop. */
export interface TaskBatch {
  readonly queue: TaskQueue;
  readonly at: ReportedAttempt;
  readonly message: TaskMessage;
  readonly items: GrantItem[];
}

const SHARED = {
  ...{ project: "", version: null, heartbeatMs: 0, phases: [], resume: null, batch: 1 },
  ...{ script: null, command: null, trace: null },
} as const;

export function enumerateGrant(use: string, message: EnumerateMessage, at: ReportedAttempt): Grant {
  const { resume } = message;
  return {
    ...SHARED,
    ...reportPlace(at),
    do: "enumerate",
    use,
    workflow: message.workflow ?? "",
    input: JSON.stringify(message.input ?? null),
    timeoutMs: message.timeout_ms ?? null,
    resume: resume === undefined ? null : { ...resume, last: JSON.stringify(resume.last) },
    items: [{ number: -1, attempt: at.attempt, claim: at.claim, task: null, checkpoints: null }],
  };
}

export function taskGrant({ queue, at, message, items }: TaskBatch): Grant {
  return {
    ...SHARED,
    ...reportPlace(at),
    do: message.do ?? "process",
    use: queue.use,
    workflow: queue.message.workflow ?? "",
    input: queue.input,
    timeoutMs: queue.message.timeout_ms ?? null,
    phases: message.phases ?? [],
    batch: queue.message.batch ?? 1,
    items,
  };
}

export function commandGrant(
  topic: string,
  at: ReportedAttempt,
  { command, receiptTopic, step }: { command: object; receiptTopic: string; step: number },
): Grant {
  const { task: number, attempt, claim } = at;
  return {
    ...SHARED,
    ...reportPlace(at),
    do: "command",
    use: topicUse(topic),
    workflow: "",
    input: "null",
    timeoutMs: null,
    command: { step, topic, receiptTopic },
    items: [{ number, attempt, claim, task: JSON.stringify(command), checkpoints: null }],
  };
}

/**
 * Makes the place of an attempt for a command that no engine sent. Its round is 0. Engines count rounds from 1, so it cannot be
 * confused with an attempt of an execution.
 */
export function foreignAttempt(task: number): ReportedAttempt {
  const place = { execution: "foreign", phase: "command", visit: 1, handler: "command", round: 0, epoch: 0 };
  return { ...place, task, attempt: 1, claim: 0 };
}

/** Whether no engine sent the command of this attempt. Ids of such commands are unique within one process only. */
export function isForeign({ round, epoch }: ReportedAttempt): boolean {
  return round === 0 && epoch === 0;
}

function isResume(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const { count: tasks, checksum } = value as { count?: unknown; checksum?: unknown };
  return isCount(tasks) && Number.isSafeInteger(checksum);
}
