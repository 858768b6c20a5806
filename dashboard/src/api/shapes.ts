/** Shapes of the API's answers, inferred from its schemas. Types only: the page loads no code of the server. */

import type { ExecutionStatus, Lane } from "../../../src/server/schemas/execution.ts";
import type { Ring } from "../../../src/server/schemas/node.ts";
import type { TASK_STATES as NodeStates } from "../../../src/server/views/task-index.ts";

export type { HandlerView, PhaseView } from "../../../src/kernel/view.ts";
export type { StreamPiece } from "../../../src/sdk/handle.ts";
export type { AuditEntry, Session, Setting, Token } from "../../../src/server/schemas/admin.ts";
export type { Alert, AlertRule, Alerts } from "../../../src/server/schemas/alert.ts";
export type { DeadLetter, DeadLetterGroup as LetterGroup } from "../../../src/server/schemas/dead-letter.ts";
export type {
  BulkAnswer,
  Dropped,
  Event as JournalEvent,
  Execution,
  ExecutionAudit,
  ExecutionStatus,
  Lane,
  Lanes,
  LogLine,
  Progress,
  RetriedTasks,
  Signalled,
  Summary,
  TaskHistory,
  TaskRow,
  Waits,
  Why,
} from "../../../src/server/schemas/execution.ts";
export type {
  Attention,
  Limit,
  OpenAttempt,
  Overview,
  PausedQueue,
  PulseSeconds as Pulse,
  Ring,
  StatusCounts,
  Timer,
} from "../../../src/server/schemas/node.ts";
export type { Schedule } from "../../../src/server/schemas/schedule.ts";
export type { StreamMark } from "../../../src/server/schemas/stream.ts";
export type { Worker } from "../../../src/server/schemas/worker.ts";
export type {
  Workflow,
  WorkflowFigures,
  WorkflowName,
  WorkflowStats,
  WorkflowVersion,
} from "../../../src/server/schemas/workflow.ts";
export type { TaskState } from "../../../src/server/views/task-index.ts";

/** A bar of the timeline: an attempt, a wait, a step or a child. */
export type TimeBar = NonNullable<Lane["bars"]>[number];

export type RingNode = Ring["nodes"][number];

/** A page of a list. */
export interface Page<T> {
  readonly data: readonly T[];
  readonly next: string | null;
}

export const EXECUTION_STATUSES: readonly ExecutionStatus[] = [
  "running",
  "paused",
  "cancelling",
  "cleaning",
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
