/**
 * The worker protocol over HTTP, as JSON: requests of a worker and their answers. Attempts are named by their ids
 * (attempt-id.ts), and each request about an attempt has its token. Events are numbered per attempt from 1.
 */
import type { Afters } from "../kernel/definition/task-name.ts";
import type { ErrorCause } from "../kernel/event.ts";
import type { Verdict } from "../kernel/message.ts";
import type { PhaseCounts } from "./work.ts";

/** The body of `POST /v1/workers`; a worker sends it again with the same `worker` after a reconnect. */
export interface Registration {
  readonly name: string;
  readonly worker?: string;
  readonly handlers: readonly {
    readonly use: string;
    readonly version?: string;
    readonly enumerates?: boolean;
  }[];
  readonly topics?: readonly string[];
  /** The most attempts at a time, including those of open claims. */
  readonly capacity: number;
  /**
   * The URL of the worker's status API. Its host must be the address from which the worker connects, or a loopback address if
   * the worker runs on the server's machine.
   */
  readonly url?: string;
  /** The version of the worker's program, for display. */
  readonly version?: string;
}

export interface Registered {
  readonly worker: string;
  /**
   * How long a started attempt may be without a heartbeat before it is lost, by default. Workers send a heartbeat every third of this time.
   */
  readonly heartbeatMs: number;
  /** How long a claimed attempt may take to start. */
  readonly leaseMs: number;
  /** The URLs of the live nodes; a worker registers at each, under the same id. Missing if there is only this server. */
  readonly nodes?: readonly string[];
  /** Whether the server accepts `fields` of log lines. An older server refuses events with fields that it does not know. */
  readonly logFields?: boolean;
}

/** The body of `POST /v1/workers/:id/claim`. */
export interface ClaimRequest {
  /** The most attempts to claim; a claim with 0 gets no work, and only waits for cancellations. */
  readonly max: number;
  readonly waitMs: number;
}

export interface Claimed {
  readonly work: readonly WorkItem[];
  /** Only in a brief answer: tasks without a history, which `work` then leaves out. */
  readonly batches?: readonly TaskBatch[];
  /** The inputs of the executions in `work`, once each. */
  readonly inputs: Readonly<Record<string, unknown>>;
  /** The task counts of the phases so far, by execution. */
  readonly phases: Readonly<Record<string, PhaseCounts>>;
  /** Attempts to cancel. Each still ends with its receipt. */
  readonly cancel: readonly string[];
  /** Attempts whose leases are lost. */
  readonly lost: readonly string[];
  /** True if the worker must claim no more work, finish its attempts, and deregister. */
  readonly drain?: boolean;
  /** The URLs of the present nodes of the cluster, as at registration. */
  readonly nodes?: readonly string[];
}

/** The verdict if an earlier event, or earlier tasks of an enumeration, are missing. The event was not stored. */
export type Gap = "gap";

/** The verdict if another node owns the attempt. This node stored nothing, and the event must be sent to that node. */
export type NotOwner = "not_owner";

export interface WorkItem {
  readonly attempt: string;
  readonly token: string;
  /** The time at which the claim ends unless the attempt has started. */
  readonly leaseUntil: number;
  readonly do: "enumerate" | "process" | "next" | "returns" | "command" | "script";
  readonly execution: string;
  readonly workflow: string;
  readonly project: string;
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
  readonly use: string;
  readonly version: string | null;
  /** The number of the task; -1 for the enumeration. */
  readonly number: number;
  readonly task: unknown;
  readonly idempotencyKey: string;
  /** The attempt's number, from 1. */
  readonly n: number;
  readonly timeoutMs: number | null;
  readonly heartbeatMs: number;
  readonly batch: number;
  /** For an enumeration: the tasks that are journaled already. */
  readonly resume?: { readonly count: number; readonly last: unknown; readonly checksum: number };
  /** The checkpoints of earlier attempts of the task. */
  readonly steps?: readonly StepDone[];
  /** Steps with failed tries: the number of failed tries, and the time at which the next try may begin (0: at once). */
  readonly tries?: readonly { readonly name: string; readonly tries: number; readonly until: number }[];
  /** The names of children that have not ended. */
  readonly children?: readonly string[];
  /** Times that the code of earlier attempts has read, by name. */
  readonly times?: Readonly<Record<string, number>>;
  /** For a script: the runs to do, the number of finished runs before them, and the state before the first of them. */
  readonly runs?: readonly {
    readonly name: string;
    readonly expression: string;
    readonly timeoutMs: number | null;
  }[];
  readonly finished?: number;
  readonly state?: unknown;
  /** The counts of the phases so far, for `next` and `returns`. */
  readonly phases?: PhaseCounts;
  /** The W3C trace context of the execution's start. */
  readonly traceparent?: string;
  /** Only in a compensation: how the task that is compensated ended, and its result if it is done. */
  readonly outcome?: "done" | "unknown";
  readonly result?: unknown;
}

/** Tasks of one handler in a brief answer: the fields that all of them share, and the tasks. */
export interface TaskBatch
  extends Omit<WorkItem, "attempt" | "token" | "number" | "task" | "idempotencyKey" | "n" | "do"> {
  readonly do: "process";
  readonly round: number;
  readonly epoch: number;
  /** For each task its number, the attempt's number, the number of the claim, the attempt's token, and the task itself. */
  readonly tasks: readonly (readonly [
    number: number,
    n: number,
    claim: number,
    token: string,
    task: unknown,
  ])[];
}

/**
 * A finished step or wait with its result or error; or a sleep, which is over or lasts `until` a time. Items of a `map` are left
 * out: only the child of the map reads them.
 */
export type StepDone =
  | { readonly name: string; readonly map: string }
  | { readonly name: string; readonly result: unknown }
  | { readonly name: string; readonly error: unknown }
  | { readonly name: string; readonly until: number }
  | { readonly name: string };

/** The body of `POST /v1/workers/:id/events`. */
export interface EventsRequest {
  readonly tokens: Readonly<Record<string, string>>;
  /**
   * The last acknowledged event of each attempt. A server that did not grant an attempt continues after this number; if it is
   * left out, after the number before the attempt's first event in this request. So a worker that has several requests for one
   * attempt under way must send it.
   */
  readonly acknowledged?: Readonly<Record<string, number>>;
  readonly events: readonly WireEvent[];
}

/** `token`: the token of the attempt, instead of an entry in `tokens`. A server of version 0.2 refuses it. */
export type WireEvent = {
  readonly attempt: string;
  readonly token?: string;
  readonly n: number;
} & WireEventBody;

export type WireEventBody =
  | { readonly kind: "accepted" | "started" }
  | { readonly kind: "progress"; readonly done: number; readonly total?: number }
  | {
      readonly kind: "log";
      readonly text: string;
      readonly level?: string;
      readonly at?: number;
      readonly run?: string;
      readonly fields?: Readonly<Record<string, unknown>>;
    }
  | {
      readonly kind: "page";
      readonly from: number;
      readonly tasks: readonly unknown[];
      readonly keys?: readonly string[];
      readonly identities?: readonly string[];
      readonly afters?: Afters;
    }
  /**
   * A step is done. `map`: the result is a list of items for the map of this name. `answers`: the id of an update, whose answer is the
   * result, `{ value }` or `{ error }`.
   */
  | {
      readonly kind: "step";
      readonly name: string;
      readonly result?: unknown;
      readonly map?: string;
      readonly answers?: string;
    }
  /** A try at a step that has its own retry policy failed: the step is tried again after `forMs`, or has failed for good. */
  | {
      readonly kind: "step_retrying";
      readonly name: string;
      readonly tries: number;
      readonly forMs: number;
      readonly error?: WireError;
    }
  | {
      readonly kind: "step_failed";
      readonly name: string;
      readonly tries: number;
      readonly error?: WireError;
    }
  /** Times that the code has read since its last checkpoint, by name, and failures of steps after which the code continued. */
  | {
      readonly kind: "noted";
      readonly times?: Readonly<Record<string, number>>;
      readonly failures?: readonly string[];
    }
  /** Values that the code of a task publishes, by key; null removes a key. */
  | { readonly kind: "published"; readonly values: Readonly<Record<string, unknown>> }
  /**
   * Chunks of a stream. `index` is the number of the first chunk among those of its step, or of the code outside of steps. A
   * new run of the step or task begins again at 0.
   */
  | {
      readonly kind: "chunks";
      readonly stream: string;
      readonly chunks: readonly unknown[];
      readonly index: number;
      readonly step?: string;
      readonly end?: true;
      readonly at?: number;
    }
  /**
   * The code of a task starts an execution of another workflow, under a name. `detached`: the task does not wait for it. `mapped`:
   * its tasks are the items that were journaled for the map of this name, and the input is their number.
   */
  | {
      readonly kind: "child";
      readonly name: string;
      readonly workflow: string;
      readonly input?: unknown;
      readonly detached?: boolean;
      readonly mapped?: boolean;
    }
  | { readonly kind: "run_started"; readonly run: string }
  | {
      readonly kind: "run_finished";
      readonly run: string;
      readonly state: unknown;
      /** The index of the run among all runs of the script, from 0; by default that of the next run. */
      readonly index?: number;
      readonly oversized?: boolean;
      readonly stats?: RunStats;
    }
  | {
      readonly kind: "run_crashed";
      readonly run: string;
      readonly message: string;
      readonly stats?: RunStats;
    }
  | WireReceipt;

export interface RunStats {
  readonly durationMs: number;
  readonly memoryBytes?: number;
}

/** A wait for a time or for a signal. */
export interface WireWait {
  readonly name: string;
  readonly untilMs?: number;
  /** The length of the wait in milliseconds, independent of clocks. It replaces `untilMs`. */
  readonly forMs?: number;
  readonly signal?: string;
  readonly timeoutMs?: number;
}

/** The receipt of an attempt, which is its last event. */
export interface WireReceipt {
  readonly kind: "receipt";
  readonly status: (typeof RECEIPT_STATUSES)[number];
  readonly result?: unknown;
  /** For an enumeration: the number of tasks. */
  readonly total?: number;
  /** For a task that is done: the tasks that it adds to its handler. */
  readonly adds?: {
    readonly tasks: readonly unknown[];
    readonly keys?: readonly string[];
    readonly identities?: readonly string[];
    readonly afters?: Afters;
  };
  /** For a task that is done: the input with which the execution continues as another one. */
  readonly continueAs?: unknown;
  /** The wait for which the attempt is suspended. The outcome of the wait comes back in `steps`. */
  readonly wait?: WireWait;
  /** All waits of a suspended attempt, in place of `wait`. The first answer continues the task. */
  readonly waits?: readonly (WireWait & {
    /** Several signals in place of `signal`; the answer is `{ name, value }`. */
    readonly anyOf?: readonly string[];
    /** Values that the payload of the signal must have. */
    readonly match?: unknown;
    /** Whether the wait is the back-off of the step with the name of the wait. */
    readonly retry?: true;
    /** Whether the task waits for the end of the child with the name of the wait. */
    readonly child?: true;
  })[];
  readonly error?: WireError;
  readonly stats?: RunStats;
}

export const RECEIPT_STATUSES = [
  "done",
  "failed",
  "crashed",
  "killed",
  "cancelled",
  "suspended",
  "exception",
] as const;

export interface WireError {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly cause?: ErrorCause;
  readonly hint?: string;
  readonly path?: string;
  /** For a script: the failed run, and the line in it. */
  readonly run?: string;
  readonly line?: number;
  readonly fatal?: boolean;
  readonly retryAfterMs?: number;
}

export interface EventsAnswer {
  /** The work that a claim in the same request got (CLAIM_HEADER). */
  readonly claimed?: Claimed;
  /** Only in a brief answer: the verdict on all attempts that the answer does not name. All events of these attempts are stored. */
  readonly rest?: "accepted";
  /** The number of the last stored event of each attempt. A repeated event is acknowledged; an event after a gap is not. */
  readonly stored: Readonly<Record<string, number>>;
  /**
   * The verdict on the attempt's receipt; before the receipt, whether the attempt is still wanted. `stored` tells which events
   * are stored.
   */
  readonly verdicts: Readonly<Record<string, WireVerdict | NotOwner | Gap>>;
  /**
   * Refused events, by attempt. Nothing of them is journaled, and the attempt keeps its lease. Their verdict is `stale`, or
   * that of the receipt that arrived with them. The number of a refused event is used up: if it is sent again, it is refused
   * again. Missing if no event was refused.
   */
  readonly refused?: Readonly<Record<string, RefusedEvent>>;
}

export type WireVerdict = Exclude<Verdict, "elsewhere" | object>;

/** Why an event was refused. */
export interface RefusedEvent {
  /** The number of the event; null if it had none. */
  readonly n: number | null;
  readonly code: string;
  readonly message: string;
  readonly hint?: string;
  readonly path?: string;
}

/** The body of `POST /v1/workers/:id/heartbeat`. */
export interface HeartbeatRequest {
  readonly tokens: Readonly<Record<string, string>>;
}

export type HeartbeatAnswer = Readonly<Record<string, "continue" | "cancel" | "lost" | NotOwner>>;

/** The largest body of a request with events, in bytes. */
export const EVENTS_BYTES_MAX = 4 * 1_048_576;
/** The highest number of an event. */
export const EVENT_NUMBER_MAX = 2_147_483_647;
/** The header with the memory that the worker's process uses, in bytes. */
export const MEMORY_HEADER = "rondo-memory";
/** The header of a claim with the interval of keep-alive bytes (spaces before the JSON). Version 0.2 ignores it. */
export const KEEP_ALIVE_HEADER = "rondo-keep-alive";
/**
 * The header of a claim with an id that the worker has chosen. A claim without an answer is repeated under its id; the server then hands
 * back the work of the lost answer. Version 0.2 ignores it.
 */
export const CLAIM_ID_HEADER = "rondo-claim-id";
/**
 * The header of a claim or of events, with the value `1`, if the worker reads brief answers: tasks in `batches`, verdicts by `rest`.
 * Version 0.2 ignores it.
 */
export const BRIEF_HEADER = "rondo-brief";
/**
 * The header of events with the number of attempts that the worker claims in the same request. The answer has the work that is there
 * after the commit of the events; it does not wait for more. Servers that give brief answers know it.
 */
export const CLAIM_HEADER = "rondo-claim";
/** The longest wait of a claim. */
export const WAIT_MS_MAX = 60_000;
