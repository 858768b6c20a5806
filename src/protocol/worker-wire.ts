/**
 * The worker protocol over HTTP, as JSON: what a worker sends and gets back. Attempts are named by their ids
 * (attempt-id.ts); whatever is said about one carries its token. Events are numbered per attempt from 1.
 */
import type { Verdict } from "../kernel/message.ts";
import type { PhaseCounts } from "./work.ts";

/** `POST /v1/workers`; again with the same `worker` after a reconnect. */
export interface Registration {
  readonly name: string;
  readonly worker?: string;
  readonly handlers: readonly {
    readonly use: string;
    readonly version?: string;
    readonly enumerates?: boolean;
  }[];
  readonly topics?: readonly string[];
  /** Attempts it takes at a time, claims under way included. */
  readonly capacity: number;
  /** The worker's own status API, at the address it connects from; on the server's machine also on loopback. */
  readonly url?: string;
  /** Of the worker's program, to be shown. */
  readonly version?: string;
}

export interface Registered {
  readonly worker: string;
  /** Silence after which a started attempt is lost, unless its work says otherwise; a beat goes out every third of it. */
  readonly heartbeatMs: number;
  /** How long a claim lives that does not start. */
  readonly leaseMs: number;
  /**
   * The URLs of the nodes of the cluster that are alive: a worker registers at each of them, under the same id. Left
   * out: there is only this server.
   */
  readonly nodes?: readonly string[];
}

/** `POST /v1/workers/:id/claim`. */
export interface ClaimRequest {
  /** 0: only waits to be told what to cancel. */
  readonly max: number;
  readonly waitMs: number;
}

export interface Claimed {
  readonly work: readonly WorkItem[];
  /** The inputs of the executions that the work is of, once each. */
  readonly inputs: Readonly<Record<string, unknown>>;
  /** What their phases came to so far. */
  readonly phases: Readonly<Record<string, PhaseCounts>>;
  /** Attempts to be cancelled: each still ends by its receipt. */
  readonly cancel: readonly string[];
  /** Attempts whose leases are lost. */
  readonly lost: readonly string[];
  /** True: take no more work, end what is under way, leave. */
  readonly drain?: boolean;
  /** As at registration, as it is now. */
  readonly nodes?: readonly string[];
}

/**
 * Something before this is missing: an earlier event, or earlier tasks of an enumeration. It was not stored, and the attempt is
 * still wanted.
 */
export type Gap = "gap";

/** What is said about an attempt that another node has: nothing of it is taken here, and it is to be said there. */
export type NotOwner = "not_owner";

/** One attempt to do. */
export interface WorkItem {
  readonly attempt: string;
  readonly token: string;
  /** Unless it has started by then, the claim is over. */
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
  /** The task's number; -1: the enumeration. */
  readonly number: number;
  readonly task: unknown;
  readonly idempotencyKey: string;
  /** The attempt's number, from 1. */
  readonly n: number;
  readonly timeoutMs: number | null;
  readonly heartbeatMs: number;
  readonly batch: number;
  /** Enumeration: what is journaled already. */
  readonly resume?: { readonly count: number; readonly last: unknown; readonly checksum: number };
  /** What earlier attempts of the task got done. */
  readonly steps?: readonly StepDone[];
  /** Script: the runs to do, how many before them are finished, and the state before the first of them. */
  readonly runs?: readonly {
    readonly name: string;
    readonly expression: string;
    readonly timeoutMs: number | null;
  }[];
  readonly finished?: number;
  readonly state?: unknown;
  /** What the phases came to so far, for `next` and `returns`. */
  readonly phases?: PhaseCounts;
  /** W3C trace context of the start. */
  readonly traceparent?: string;
}

/** A step or a wait with its result or error; a sleep: over, or `until` then. */
export type StepDone =
  | { readonly name: string; readonly result: unknown }
  | { readonly name: string; readonly error: unknown }
  | { readonly name: string; readonly until: number }
  | { readonly name: string };

/** `POST /v1/workers/:id/events`. */
export interface EventsRequest {
  readonly tokens: Readonly<Record<string, string>>;
  /**
   * The last event of an attempt that was acknowledged. A server that did not give the attempt out goes on after it; by
   * default, after what comes before the attempt's first event here. So whoever has several requests under way for one
   * attempt has to say it.
   */
  readonly acknowledged?: Readonly<Record<string, number>>;
  readonly events: readonly WireEvent[];
}

export type WireEvent = { readonly attempt: string; readonly n: number } & WireEventBody;

export type WireEventBody =
  | { readonly kind: "accepted" | "started" }
  | { readonly kind: "progress"; readonly done: number; readonly total?: number }
  | {
      readonly kind: "log";
      readonly text: string;
      readonly level?: string;
      readonly at?: number;
      readonly run?: string;
    }
  | {
      readonly kind: "page";
      readonly from: number;
      readonly tasks: readonly unknown[];
      readonly keys?: readonly string[];
      readonly identities?: readonly string[];
    }
  | { readonly kind: "step"; readonly name: string; readonly result?: unknown }
  | { readonly kind: "run_started"; readonly run: string }
  | {
      readonly kind: "run_finished";
      readonly run: string;
      readonly state: unknown;
      /** Its place among all runs of the script, from 0; left out: the next one. */
      readonly index?: number;
      readonly oversized?: boolean;
      readonly stats?: RunStats;
    }
  | { readonly kind: "run_crashed"; readonly run: string; readonly message: string }
  | WireReceipt;

export interface RunStats {
  readonly durationMs: number;
  readonly memoryBytes?: number;
}

/** A worker's final word on an attempt: its last event. */
export interface WireReceipt {
  readonly kind: "receipt";
  readonly status: (typeof RECEIPT_STATUSES)[number];
  readonly result?: unknown;
  /** Enumeration: how many tasks there are. */
  readonly total?: number;
  /** Suspended: what for. Its outcome comes back in `steps`. */
  readonly wait?: {
    readonly name: string;
    readonly untilMs?: number;
    /** How long, by whatever clock: counts instead of `untilMs`. */
    readonly forMs?: number;
    readonly signal?: string;
    readonly timeoutMs?: number;
  };
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
  readonly hint?: string;
  readonly path?: string;
  /** Of a script: the run, and the line in it. */
  readonly run?: string;
  readonly line?: number;
  readonly fatal?: boolean;
  readonly retryAfterMs?: number;
}

export interface EventsAnswer {
  /** The last event of each attempt that is stored; a repeat is acknowledged, what comes after a gap is not. */
  readonly stored: Readonly<Record<string, number>>;
  /** What became of the receipt; before it, whether the attempt is still wanted. `stored` says what is stored. */
  readonly verdicts: Readonly<Record<string, WireVerdict | NotOwner | Gap>>;
  /**
   * Events that were refused, by attempt: nothing of them is journaled, and the attempt keeps its lease. Their verdict is
   * `stale`, or that of the receipt that came with them. The number of a refused event is used up: sent again, it gets the
   * same refusal. Left out: none was refused.
   */
  readonly refused?: Readonly<Record<string, RefusedEvent>>;
}

export type WireVerdict = Exclude<Verdict, "elsewhere" | object>;

/** Why an event was refused. */
export interface RefusedEvent {
  /** The number of the event; null: it came without one. */
  readonly n: number | null;
  readonly code: string;
  readonly message: string;
  readonly hint?: string;
  readonly path?: string;
}

/** `POST /v1/workers/:id/heartbeat`. */
export interface HeartbeatRequest {
  readonly tokens: Readonly<Record<string, string>>;
}

export type HeartbeatAnswer = Readonly<Record<string, "continue" | "cancel" | "lost" | NotOwner>>;

/** Bodies of events stay under this. */
export const EVENTS_BYTES_MAX = 4 * 1_048_576;
/** Numbers of events go up to this. */
export const EVENT_NUMBER_MAX = 2_147_483_647;
/** The header by which a worker says how much memory its process takes, in bytes. */
export const MEMORY_HEADER = "rondo-memory";
/**
 * The header by which a claim asks for a sign of life every so many milliseconds while it waits: a space before the JSON. Servers
 * of 0.2 do not know it.
 */
export const KEEP_ALIVE_HEADER = "rondo-keep-alive";
/** Longest wait of a claim. */
export const WAIT_MS_MAX = 60_000;
