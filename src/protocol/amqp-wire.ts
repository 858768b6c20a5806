/**
 * The protocol between engine nodes and workers over an AMQP broker: names, arguments of shared queues and exchanges (which
 * both sides declare), and the JSON bodies of messages. docs/protocol.md describes it.
 */
import type { ErrorCause } from "../kernel/event.ts";
import { sha256 } from "../std/hash.ts";
import type { PhaseCounts } from "./work.ts";

/**
 * Names of queues and exchanges under a prefix. The names of a visit's queues are not here: only the engine makes them, and
 * sends them in messages.
 */
export function amqpNames(prefix: string): {
  enumerate(use: string): string;
  process(use: string): string;
  workflowFinished(execution: string): string;
  readonly enumerated: string;
  /** The queues of requests: starts, and changes of executions. */
  readonly created: string;
  readonly control: string;
  readonly cancelConsumer: string;
  readonly events: string;
  /** The name of the dead-letter exchange and its queue. */
  readonly dead: string;
} {
  return {
    enumerate: (use) => `${prefix}.workflow.handler.${use}.enumerate`,
    process: (use) => `${prefix}.workflow.handler.${use}.process`,
    workflowFinished: (execution) => `${prefix}.workflow.${execution}.finished`,
    enumerated: `${prefix}.workflow.handler.enumerated`,
    created: `${prefix}.workflow.created`,
    control: `${prefix}.workflow.control`,
    cancelConsumer: `${prefix}.cancel.consumer`,
    events: `${prefix}.events`,
    dead: `${prefix}.dead`,
  };
}

/** The longest property of an AMQP message, in bytes. */
const PROPERTY_BYTES_MAX = 255;
const HASHED = "sha256:";

/** An id (ASCII) in the form in which a message property holds it: if the id is too long, its hash replaces it. */
export function messageIdOf(id: string): string {
  return id.length <= PROPERTY_BYTES_MAX ? id : `${HASHED}${sha256(id)}`;
}

/**
 * Whether a text can be sent as a routing key or a property of a message. A property that was received can be too long to be
 * sent back: bytes that are not UTF-8 are decoded to U+FFFD, which has three bytes.
 */
export function fitsProperty(text: string): boolean {
  return Buffer.byteLength(text) <= PROPERTY_BYTES_MAX;
}

/** Whether a message property holds the hash of an id. */
export function isHashedId(messageId: string): boolean {
  return messageId.startsWith(HASHED);
}

/** Arguments of the enumerate queues and of `enumerated`: classic, durable. */
export const SHARED_QUEUE = { durable: true } as const;

/** Arguments of the fanouts `process` and `cancel.consumer`. */
export const FANOUT = { durable: true } as const;

/** Arguments of command topics and receipt topics: quorum queues with a limit of deliveries. */
export const TOPIC_QUEUE = {
  durable: true,
  arguments: { "x-queue-type": "quorum", "x-delivery-limit": 4 },
} as const;

/** The handler of an execution that a message is about. */
interface OfHandler {
  readonly workflow_id: string;
  readonly phase: string;
  readonly handler: string;
}

/** A message about one attempt. */
interface OfAttempt extends OfHandler {
  /** The attempt's id. It is opaque to workers, which repeat it in their answers. */
  readonly attempt: string;
  readonly token: string;
}

/** The queues of one handler of a visit. */
interface OfVisit extends OfHandler {
  /** The workflow's name. */
  readonly workflow: string;
  readonly visit: number;
  readonly task_queue: string;
  readonly finished_queue: string;
  readonly cancel_consumer_queue: string;
}

/** `enumerate`: asks one worker to enumerate. The worker publishes the tasks that it finds to `task_queue`. */
export interface EnumerateMessage extends OfVisit, OfAttempt {
  readonly input: unknown;
  /** The tasks that earlier attempts have journaled. */
  readonly resume?: { readonly count: number; readonly last: unknown; readonly checksum: number };
  readonly timeout_ms?: number;
}

/** A task that an enumeration found, or that a task adds. */
export interface IntakeItem {
  readonly data: unknown;
  readonly key?: string;
  readonly identity?: string;
  /** The identities of the tasks that must end before this task starts. */
  readonly after?: readonly string[];
}

/** The place of tasks in an enumeration; `position` counts from 0 (from `resume.count` for code that resumes). */
interface IntakePlace extends OfHandler, Partial<Pick<OfAttempt, "attempt" | "token">> {
  readonly position: number;
}

/** A message with tasks that an enumeration found: one task, or several tasks with the position of the first. */
export type IntakeMessage = IntakePlace & (IntakeItem | { readonly items: readonly IntakeItem[] });

/** The end of an enumeration: with `total` it is done, with `error` it failed. */
export interface EnumeratedMessage extends OfAttempt, Pick<OfVisit, "task_queue" | "finished_queue"> {
  readonly total?: number;
  /** The status of the enumeration; `done` if it is missing. */
  readonly status?: "done" | "failed" | "cancelled" | "crashed" | "killed";
  readonly error?: WireError;
}

/** `process`: announces a task queue to every worker, repeatedly while the visit is open. */
export interface ProcessMessage extends OfVisit {
  /** The execution's input, which handlers get in addition to the task. */
  readonly input?: unknown;
  /** The most tasks of this queue that a worker may have at a time, if limited. */
  readonly prefetch?: number;
  /** The number of tasks in one batch, if the handler processes batches. */
  readonly batch?: number;
  readonly timeout_ms?: number;
  /** The number of a roll call. Workers answer it, with its token, in the receipt queue (`RollCallMessage`). */
  readonly roll_call?: number;
  readonly token?: string;
}

/** The answer to a roll call: the attempts of a task queue that a worker has. */
export interface RollCallMessage {
  readonly roll_call: number;
  readonly task_queue: string;
  readonly token: string;
  /** The name of the worker, unique to its process. */
  readonly worker: string;
  /** Whether the worker consumes the queue; a worker that stops does not. */
  readonly consumes: boolean;
  /** The attempts that the worker has not acknowledged. */
  readonly held: readonly string[];
}

/** The most attempts in one answer to a roll call. A worker with more does not answer. */
export const ROLL_CALL_HELD_MAX = 10_000;

/** The text that the token of a roll call signs. */
export function rollCallId(taskQueue: string, rollCall: number): string {
  return `roll-call ${rollCall} ${taskQueue}`;
}

/** The message of a task. */
export interface TaskMessage extends OfAttempt, Pick<OfVisit, "visit" | "finished_queue"> {
  /** The task's number. */
  readonly task: number;
  readonly data: unknown;
  readonly idempotency_key: string;
  /**
   * What the code does instead of running a task. `next` and `returns` read the counts of the phases so far. `script`: the
   * worker gets the runs from the server with the attempt's token (`GET /v1/attempts/:id/runs`).
   */
  readonly do?: "next" | "returns" | "script";
  readonly phases?: PhaseCounts;
  /** Only in a compensation: how the task that is compensated ended, and its result if it is done. */
  readonly outcome?: "done" | "unknown";
  readonly result?: unknown;
}

/** The receipt of a task. */
export interface FinishedMessage extends OfAttempt {
  readonly task: number;
  readonly status: "done" | "failed" | "crashed" | "killed" | "cancelled";
  readonly result?: unknown;
  readonly error?: WireError;
  /** The tasks that a done task adds to its handler. */
  readonly adds?: readonly IntakeItem[];
  /** How long the attempt took. */
  readonly ms?: number;
}

export interface WireError {
  readonly name?: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly cause?: ErrorCause;
  /** Whether the failure is final, so that the task is not retried. */
  readonly fatal?: boolean;
  readonly retryAfterMs?: number;
}

/** `cancel.consumer`: every worker stops consuming the queue and returns tasks that have not begun. */
export interface CancelConsumerMessage {
  readonly task_queue: string;
  /** `paused`: running tasks may end; otherwise they must stop. */
  readonly reason?: "paused" | "cancelled" | "finished";
  /** The ids of cancelled attempts of commands. */
  readonly commands?: readonly string[];
}
