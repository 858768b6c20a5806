/**
 * What crosses an AMQP broker between engine nodes and workers: names, how queues and exchanges are declared (both sides
 * declare what they share, so the arguments are here), and the JSON bodies. docs/protocol.md says it in words.
 */
import { sha256 } from "../std/hash.ts";
import type { PhaseCounts } from "./work.ts";

/** Names under a prefix; those of one visit's queues are told in messages, so nobody but the engine makes them. */
export function amqpNames(prefix: string): {
  enumerate(use: string): string;
  process(use: string): string;
  workflowFinished(execution: string): string;
  readonly enumerated: string;
  readonly cancelConsumer: string;
  readonly events: string;
  /** The exchange for messages that nobody can read, and its queue. */
  readonly dead: string;
} {
  return {
    enumerate: (use) => `${prefix}.workflow.handler.${use}.enumerate`,
    process: (use) => `${prefix}.workflow.handler.${use}.process`,
    workflowFinished: (execution) => `${prefix}.workflow.${execution}.finished`,
    enumerated: `${prefix}.workflow.handler.enumerated`,
    cancelConsumer: `${prefix}.cancel.consumer`,
    events: `${prefix}.events`,
    dead: `${prefix}.dead`,
  };
}

/** Longest property of a message, in bytes. */
const PROPERTY_BYTES_MAX = 255;
const HASHED = "sha256:";

/** An id (ASCII) as the property of a message: one that is too long for it is replaced by its hash. */
export function messageIdOf(id: string): string {
  return id.length <= PROPERTY_BYTES_MAX ? id : `${HASHED}${sha256(id)}`;
}

/** Whether a property holds the hash of an id. */
export function isHashedId(messageId: string): boolean {
  return messageId.startsWith(HASHED);
}

/** The enumerate queues and `enumerated`: classic, durable. */
export const SHARED_QUEUE = { durable: true } as const;

/** The fanouts `process` and `cancel.consumer`. */
export const FANOUT = { durable: true } as const;

/** A command topic and a receipt topic: quorum, with a limit of deliveries. */
export const TOPIC_QUEUE = {
  durable: true,
  arguments: { "x-queue-type": "quorum", "x-delivery-limit": 4 },
} as const;

/** `enumerate`: one worker gets it. */
export interface EnumerateMessage {
  readonly workflow_id: string;
  /** The workflow's name. */
  readonly workflow: string;
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
  readonly input: unknown;
  /** The intake of this attempt. */
  readonly task_queue: string;
  readonly finished_queue: string;
  readonly cancel_consumer_queue: string;
  /** The attempt's id, opaque to workers; it is repeated in what they answer. */
  readonly attempt: string;
  readonly token: string;
  /** What is journaled already. */
  readonly resume?: { readonly count: number; readonly last: unknown; readonly checksum: number };
  readonly timeout_ms?: number;
}

/** A task that an enumeration found. */
export interface IntakeItem {
  readonly data: unknown;
  readonly key?: string;
  readonly identity?: string;
}

/** Where tasks in an intake are from; `position` counts from 0 (from `resume.count` for code that goes on there). */
interface IntakePlace {
  readonly workflow_id: string;
  readonly phase: string;
  readonly handler: string;
  readonly position: number;
  readonly attempt?: string;
  readonly token?: string;
}

/** One task, or several of which the first has the position. */
export type IntakeMessage = IntakePlace & (IntakeItem | { readonly items: readonly IntakeItem[] });

/** The enumeration has ended: with `total` well, with `error` not. */
export interface EnumeratedMessage {
  readonly workflow_id: string;
  readonly phase: string;
  readonly handler: string;
  readonly task_queue: string;
  readonly finished_queue: string;
  readonly attempt: string;
  readonly token: string;
  readonly total?: number;
  /** `done` if absent. */
  readonly status?: "done" | "failed" | "cancelled" | "crashed" | "killed";
  readonly error?: WireError;
}

/** `process`: every worker gets it, again and again while the visit is open. */
export interface ProcessMessage {
  readonly workflow_id: string;
  readonly workflow: string;
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
  readonly task_queue: string;
  readonly finished_queue: string;
  readonly cancel_consumer_queue: string;
  /** The execution's input, which handlers see beside the task. */
  readonly input?: unknown;
  /** How many of this queue a worker may have at a time, if that is limited. */
  readonly prefetch?: number;
  /** How many tasks the handler takes together, if it takes several. */
  readonly batch?: number;
  readonly timeout_ms?: number;
  /** Workers that know roll calls answer this one, with the token, into the finished queue (`RollCallMessage`). */
  readonly roll_call?: number;
  readonly token?: string;
}

/** The answer to a roll call: which attempts out of a task queue a worker has. */
export interface RollCallMessage {
  readonly roll_call: number;
  readonly task_queue: string;
  readonly token: string;
  /** Tells the process of the worker apart from others. */
  readonly worker: string;
  /** Whether it consumes the queue; one that is stopping only ends what it has. */
  readonly consumes: boolean;
  /** The attempts that it has not acknowledged. */
  readonly held: readonly string[];
}

/** Attempts in one answer to a roll call; a worker that has more does not answer. */
export const ROLL_CALL_HELD_MAX = 10_000;

/** What the token of a roll call signs. */
export function rollCallId(taskQueue: string, rollCall: number): string {
  return `roll-call ${rollCall} ${taskQueue}`;
}

/** One task. */
export interface TaskMessage {
  readonly workflow_id: string;
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
  /** Its number. */
  readonly task: number;
  readonly attempt: string;
  readonly token: string;
  readonly data: unknown;
  readonly finished_queue: string;
  readonly idempotency_key: string;
  /** Code that decides or returns instead of doing a task, and what it reads: counts of the phases so far. */
  readonly do?: "next" | "returns";
  readonly phases?: PhaseCounts;
}

/** The last word on an attempt at a task. */
export interface FinishedMessage {
  readonly workflow_id: string;
  readonly phase: string;
  readonly handler: string;
  readonly task: number;
  readonly attempt: string;
  readonly token: string;
  readonly status: "done" | "failed" | "crashed" | "killed" | "cancelled";
  readonly result?: unknown;
  readonly error?: WireError;
  /** How long it took. */
  readonly ms?: number;
}

export interface WireError {
  readonly name?: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  /** Never tried again. */
  readonly fatal?: boolean;
  readonly retryAfterMs?: number;
}

/** `cancel.consumer`: every worker stops consuming that queue and gives back what it has not begun. */
export interface CancelConsumerMessage {
  readonly task_queue: string;
  /** `paused`: what runs may end; else it is told to stop. */
  readonly reason?: "paused" | "cancelled" | "finished";
  /** Ids of attempts at commands that nobody waits for any more. */
  readonly commands?: readonly string[];
}
