/** What the API answers with, as far as pages look at it. */

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

export const EXECUTION_STATUSES = ["running", "paused", "cancelling", "done", "failed", "cancelled"] as const;

export type ExecutionStatus = (typeof EXECUTION_STATUSES)[number];

/** States of tasks, in the order of the bytes of `tasks/states`. */
export const TASK_STATES = [
  "pending",
  "running",
  "retrying",
  "waiting",
  "done",
  "failed",
  "cancelled",
] as const;

export type TaskState = (typeof TASK_STATES)[number];

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

/** A handler of a visit, with how many of its tasks are how. */
export interface HandlerView extends Readonly<Record<TaskState, number>> {
  readonly name: string;
  readonly total: number;
  readonly sealed: boolean;
}

export interface PhaseView {
  readonly name: string;
  readonly visit: number;
  readonly status: "pending" | "running" | "done" | "failed" | "cancelled" | "skipped";
  readonly handlers: readonly HandlerView[];
}

export interface ExecutionError {
  readonly code: string;
  readonly message: string;
  readonly phase?: string;
  readonly handler?: string;
  readonly task?: number;
  readonly attempt?: number;
}

/** A whole execution. */
export interface Execution extends Omit<Summary, "error"> {
  readonly input: unknown;
  readonly output: unknown;
  readonly error: ExecutionError | null;
  readonly phases: readonly PhaseView[];
  readonly parent: {
    readonly execution: string;
    readonly phase: string;
    readonly handler: string;
    readonly task: number;
  } | null;
  readonly revision: number;
}

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

/** The last seconds, the oldest first. */
export interface Pulse {
  readonly until: number;
  readonly started: readonly number[];
  readonly done: readonly number[];
  readonly failed: readonly number[];
  readonly cancelled: readonly number[];
  readonly tasksDone: readonly number[];
  readonly tasksFailed: readonly number[];
  readonly waitMs: readonly number[];
  readonly waits: readonly number[];
  readonly runMs: readonly number[];
  readonly runs: readonly number[];
}

export interface Overview {
  readonly at: number;
  readonly version: string;
  readonly counts: StatusCounts;
  readonly pulse: Pulse | null;
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

/** Tasks that failed for good in the same way. */
export interface LetterGroup {
  readonly id: string;
  readonly project: string;
  readonly workflow: string;
  readonly phase: string | null;
  readonly handler: string | null;
  readonly name: string;
  readonly message: string;
  readonly tasks: number;
  readonly executions: number;
  readonly firstAt: number | null;
  readonly lastAt: number | null;
  readonly sample: { readonly execution: string; readonly task: number };
}

/** How far an execution is. */
export interface Progress {
  readonly id: string;
  readonly status: ExecutionStatus;
  readonly phases: readonly PhaseView[];
  readonly revision: number;
}

/** A handler of a visit over time. */
export interface Lane {
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
  readonly startedAt: number;
  readonly endedAt: number | null;
  readonly total: number;
  readonly ran: readonly number[];
  readonly done: readonly number[];
  readonly failed: readonly number[];
  readonly bars: readonly Bar[] | null;
}

/** A task over time. */
export interface Bar {
  readonly task: number;
  readonly state: TaskState;
  readonly from: number;
  readonly to: number;
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

export interface TaskRow {
  readonly n: number;
  readonly status: TaskState;
  readonly attempts: number;
  readonly reason: string | null;
  readonly worker: string | null;
  readonly ms: number | null;
  readonly result?: unknown;
  readonly error?: unknown;
  readonly key?: string;
  readonly identity?: string;
  readonly task?: unknown;
}

export interface LogLine {
  readonly id: string;
  readonly at: number;
  readonly level: string;
  readonly text: string;
  readonly run?: string;
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
  readonly task: number;
  readonly attempt: number;
  readonly worker: string;
}

/** An attempt that a worker holds now. */
export interface OpenAttempt {
  readonly attempt: string;
  readonly execution: string;
  readonly phase: string;
  readonly handler: string;
  readonly task: number;
  readonly n: number;
  readonly worker: string;
  readonly status: "claimed" | "running";
  readonly startedAt: number | null;
  readonly leaseUntil: number | null;
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

export interface RingNode {
  readonly url: string;
  readonly incarnation: string;
  readonly partitions: number;
  readonly hash: string | null;
  readonly agrees: boolean;
  readonly suspect: boolean;
  readonly clockworkers: readonly string[];
}

export interface Ring {
  readonly url: string;
  readonly hash: string;
  readonly nodes: readonly RingNode[];
  readonly token: {
    readonly epoch: number;
    readonly number: number;
    readonly maker: string;
    readonly at: string;
    readonly seenAt: number;
  } | null;
  readonly cycle: {
    readonly count: number;
    readonly lastMs: number | null;
    readonly averageMs: number | null;
  };
  readonly made: number;
  readonly dropped: number;
  readonly queued: { readonly hints: number; readonly timers: number };
  readonly carried: { readonly hints: number; readonly timers: number };
  readonly watch: {
    readonly executors: readonly string[];
    readonly partitions: number;
    readonly timers: number;
    readonly lateness: { readonly count: number; readonly lastMs: number; readonly maxMs: number };
  };
  readonly deaths: readonly { readonly at: number; readonly url?: string }[];
  readonly ownership: {
    readonly status: string;
    readonly owners: readonly (string | null)[];
    readonly yielding: readonly number[];
  };
}

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

export interface AuditEntry {
  readonly at: number;
  readonly who: string;
  readonly role: string;
  readonly action: string;
  readonly target: string;
  readonly project: string | null;
}
