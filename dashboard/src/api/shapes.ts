/** What the API answers with, as far as pages look at it: the node's own types where it has them. Types only, so nothing of it is loaded. */

import type { OwnershipView } from "../../../src/cluster/ownership/ownership-io.ts";
import type { RingView } from "../../../src/cluster/ring/io.ts";
import type { ShownStatus as ExecutionStatus, ExecutionView, PhaseView } from "../../../src/kernel/view.ts";
import type { Lane } from "../../../src/server/views/lanes.ts";
import type { PulseShown } from "../../../src/server/views/pulse.ts";
import type { TASK_STATES as NodeStates } from "../../../src/server/views/task-index.ts";

export type { OpenAttempt } from "../../../src/engine/io.ts";
export type { HandlerView } from "../../../src/kernel/view.ts";
export type { AuditEntry } from "../../../src/server/services/audit-log.ts";
export type { DeadLetterGroup as LetterGroup } from "../../../src/server/services/dead-letter-groups.ts";
export type { ShownLine as LogLine } from "../../../src/server/streams/log-source.ts";
export type { TaskState } from "../../../src/server/views/task-index.ts";
export type { TaskRow } from "../../../src/server/views/task-rows.ts";
export type { ExecutionStatus, Lane, PhaseView, PulseShown as Pulse };

/** Who is asking. */
export interface Session {
  readonly name: string;
  readonly role: "viewer" | "operator" | "admin" | "worker";
  readonly project: string | null;
  readonly expiresAt: number | null;
}

/** A page of a list. */
export interface Page<T> {
  readonly data: readonly T[];
  readonly next: string | null;
}

export const EXECUTION_STATUSES: readonly ExecutionStatus[] = [
  "running",
  "paused",
  "cancelling",
  "done",
  "failed",
  "cancelled",
  "damaged",
];

/** States of tasks, in the order of the bytes of `tasks/states`. */
export const TASK_STATES: typeof NodeStates = [
  "pending",
  "running",
  "retrying",
  "waiting",
  "done",
  "failed",
  "cancelled",
];

/** An execution in a list. */
export interface Summary {
  readonly id: string;
  readonly workflow: string;
  readonly workflowHash: string;
  readonly project: string;
  readonly status: ExecutionStatus;
  readonly phase: string | null;
  readonly error: string | null;
  readonly tags: Readonly<Record<string, string>>;
  readonly createdAt: number;
  readonly finishedAt: number | null;
}

/** A whole execution. */
export type Execution = ExecutionView;

export interface Worker {
  readonly id: string;
  readonly name: string;
  readonly kind: "local" | "remote";
  readonly capacity: number;
  readonly held: number;
  readonly handlers: readonly { readonly use: string; readonly version?: string }[];
  readonly topics: readonly string[];
  readonly version: string | null;
  readonly url: string | null;
  readonly lastSeenAt: number | null;
  readonly draining: boolean;
  readonly memoryBytes?: number | null;
}

/** Executions by status. */
export type StatusCounts = Readonly<Partial<Record<ExecutionStatus, number>>>;

export interface Light {
  readonly state: "ok" | "warn" | "bad" | "off";
  readonly text: string;
}

export interface Overview {
  readonly at: number;
  readonly version: string;
  readonly counts: StatusCounts;
  readonly pulse: PulseShown | null;
  readonly held: number;
  readonly capacity: number;
  readonly workers: number;
  readonly ready: readonly { readonly use: string; readonly tasks: number }[];
  readonly oldest: {
    readonly id: string;
    readonly workflow: string;
    readonly phase: string | null;
    readonly createdAt: number;
    readonly why: string;
  } | null;
  readonly lights: Readonly<Record<"store" | "broker" | "ring", Light>>;
}

/** How far an execution is. */
export interface Progress {
  readonly id: string;
  readonly status: ExecutionStatus;
  readonly phases: readonly PhaseView[];
  readonly revision: number;
}

export interface Lanes {
  readonly from: number;
  readonly to: number;
  readonly revision: number;
  readonly lanes: readonly Lane[];
}

/** An event of a journal. */
export interface JournalEvent {
  readonly seq: number;
  readonly at: number;
  readonly kind: string;
  readonly [field: string]: unknown;
}

export interface Limit {
  readonly name: string;
  readonly max: number;
  readonly held: number;
  readonly waiting: number;
}

export interface Timer {
  readonly execution: string;
  readonly timer: string;
  readonly due: number;
}

/** A ring, and who has what of the partitions. */
export interface Ring extends RingView {
  readonly ownership: Pick<OwnershipView, "status" | "owners" | "yielding">;
}

export type RingNode = RingView["nodes"][number];

export interface Schedule {
  readonly id: string;
  readonly workflow: string;
  readonly input: unknown;
  readonly cron: string;
  readonly timeZone: string;
  readonly misfire: string;
  readonly overlap: string;
  readonly project: string;
  readonly next: readonly number[];
  readonly state: {
    readonly paused: boolean;
    readonly lastDue: number | null;
    readonly lastExecution: string | null;
    readonly queued: number | null;
    readonly skipped: number;
    readonly dropped: number;
    readonly misfires: { readonly last: number; readonly missed: number } | null;
    readonly lastError: { readonly message?: string } | null;
  };
}

export interface WorkflowVersion {
  readonly hash: string;
  readonly at: number | null;
}

export interface Workflow {
  readonly name: string;
  readonly hash: string;
  readonly definition: { readonly input?: unknown; readonly phases: readonly unknown[] };
}

export interface Token {
  readonly id: string;
  readonly name: string;
  readonly role: string;
  readonly project: string | null;
  readonly createdAt: number;
  readonly createdBy: string;
  readonly expiresAt: number | null;
}

export interface Setting {
  readonly name: string;
  readonly value: unknown;
  readonly origin: string;
}
