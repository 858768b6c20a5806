/**
 * Events: the immutable facts in an execution's journal. Applying them in order gives the state (apply.ts). Events about many tasks
 * hold them as columns (parallel arrays). Payloads are JSON texts, which the kernel never parses.
 */
import type { Json } from "../std/json.ts";
import type { Afters } from "./definition/task-name.ts";
import type { GatePolicy, GateState } from "./relay/relay.ts";
import type { UnreadSignals } from "./unread.ts";
import { isAboutUpdates } from "./updates.ts";

export const EVENT_VERSION = 8;

/** The kinds of events that version 2 added. A row has the highest version of its events; older versions of Rondo skip the row. */
const SINCE_2: readonly string[] = [
  "tasks.waiting",
  "task.step",
  "task.run",
  "child.started",
  "child.finished",
];

const SINCE_3: readonly string[] = ["command.receipted", "postop.done", "postop.failed", "postop.retried"];

/**
 * The kinds of events that version 5 added. `ending` begins a clean-up, whose phases and timers older versions do not know, and
 * `tasks.retried` opens a round. The others are facts about runs: they change no outcome, but an older version cannot read a row that
 * contains them.
 */
const SINCE_5: readonly string[] = [
  "ending",
  "tasks.retried",
  "tasks.accepted",
  "task.run.started",
  "task.run.crashed",
];

/**
 * The kinds of events that version 6 added: failed tries of steps, steps that failed for good, tasks with several waits, records of
 * what code has read between its checkpoints, and events of gates. An older version does not know them, so it must not continue such
 * an execution.
 */
const SINCE_6: readonly string[] = [
  "task.step.retrying",
  "task.step.failed",
  "task.waiting",
  "task.noted",
  "gate.taken",
  "gate.passed",
  "gate.dropped",
  "gate.freed",
];

/** Kinds of events that version 7 added: values that code publishes, and moves to another definition. */
const SINCE_7: readonly string[] = ["published", "moved"];

/** The first version of events that has updates. */
const UPDATES_SINCE = 7;

/**
 * The kinds of events that version 8 added: an execution continues as another one, the first execution of an id learns of the newest
 * one, and gates compact their journals or cancel page by page. For an older version, an id would end with its first execution.
 */
const SINCE_8: readonly string[] = ["continuing", "newest", "gate.carried", "gate.cancelled"];

/** The first version of events that has tasks which add tasks or wait for tasks, children that the code of a task runs, and gates. */
const GROWTH_SINCE = 6;

/** The first version of events that has executions which continue one another under an id. */
export const SUCCESSION_SINCE = 8;

/** Returns the first version of events that has this event with all of its fields. */
export function versionOfEvent(event: Event): number {
  if (event.kind === "created" && event.succession !== undefined) return SUCCESSION_SINCE;
  if (event.kind === "finished" && event.continuedAs !== undefined) return SUCCESSION_SINCE;
  if (isAboutUpdates(event)) return UPDATES_SINCE;
  return hasNewFields(event) ? GROWTH_SINCE : versionOf(event.kind);
}

/** Whether an event of an older kind has fields of version 6. */
function hasNewFields(event: Event): boolean {
  switch (event.kind) {
    case "tasks.enumerated":
      return event.afters !== undefined || event.addedBy !== undefined;
    case "created":
      return event.parent?.name !== undefined || event.notifies !== undefined;
    case "child.started":
    case "child.finished":
      return event.name !== undefined;
    case "task.step":
      return event.reason === "child" || event.map !== undefined;
    default:
      return false;
  }
}

/** Returns the first version of events that has this kind of event. */
export function versionOf(kind: string): number {
  if (SINCE_8.includes(kind)) return 8;
  if (SINCE_7.includes(kind)) return 7;
  if (SINCE_6.includes(kind)) return 6;
  if (SINCE_5.includes(kind)) return 5;
  if (SINCE_3.includes(kind)) return 3;
  return SINCE_2.includes(kind) ? 2 : 1;
}

/** The place of an event: the handler, the phase and the number of the visit. */
export interface Place {
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
}

export type SettledStatus = "done" | "failed" | "cancelled";
export type AttemptStatus =
  | "done"
  | "failed"
  | "crashed"
  | "killed"
  | "cancelled"
  | "exception"
  | "lost"
  | "suspended";
/** How a visit or an execution ended. */
export type FinalStatus = "done" | "failed" | "cancelled";

/** Why an execution failed. */
export interface ExecutionError {
  /** A code, such as `task_failed` or `deadline`. */
  readonly code: string;
  /** The reason in words. */
  readonly message: string;
  /** The phase that failed. */
  readonly phase?: string;
  /** The handler that failed. */
  readonly handler?: string;
  /** The number of the task that failed. */
  readonly task?: number;
  /** The number of the attempt that failed. */
  readonly attempt?: number;
  /** Set if a retry would fail in the same way. Then a parent need not retry the child. */
  readonly fatal?: true;
  /** The error of the task or enumeration that made the execution fail, with its stack and its causes. */
  readonly cause?: ErrorCause;
}

/** An error of user code as it is stored. */
export interface ErrorCause {
  /** The name of the error's class. */
  readonly name: string;
  /** The message of the error. */
  readonly message: string;
  /** The `code` of the error, or a code of Rondo. */
  readonly code?: string;
  /** The stack of the error. */
  readonly stack?: string;
  /** The cause of this error. */
  readonly cause?: ErrorCause;
}

/** The task of a parent execution that started a child. */
export interface Parent {
  /** The id of the parent. */
  readonly execution: string;
  /** The phase of the parent that has the task. */
  readonly phase: string;
  /** The number of the visit of the parent's phase. */
  readonly visit: number;
  /** The handler of the parent's phase. */
  readonly handler: string;
  /** The number of the task in the parent's handler. */
  readonly task: number;
  /** The name under which the task's code runs the child; undefined if the task itself is the child. */
  readonly name?: string;
  /** The number of ancestors of the child: its parent, the parent of its parent, and so on. */
  readonly depth: number;
  /** When the parent was created. A parent that was purged and started again with the same id is a different execution. */
  readonly since?: number;
}

export interface Created {
  readonly kind: "created";
  readonly workflow: string;
  readonly hash: string;
  readonly project: string;
  readonly input: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly parent?: Parent;
  readonly startAt?: number;
  readonly deadline?: number;
  /** The W3C trace context with which the execution was started. */
  readonly trace?: string;
  /** The gate that is notified when the execution has ended. */
  readonly notifies?: string;
  /** The place of the execution among those that continue one another under its id; undefined for the first one. */
  readonly succession?: Succession;
}

/** The place of an execution among those that continue one another under an id. */
export interface Succession {
  /** The id of the first execution, which is the id that users know. */
  readonly first: string;
  /** The number of the execution under its id, from 2. */
  readonly number: number;
  /** The execution that continued as this one; undefined if a user started this execution after the end of the one before. */
  readonly after?: string;
  /** The ids of messages that earlier executions of this id have applied, the latest last. A repeat of such a message changes nothing. */
  readonly seen?: readonly string[];
}

/** An event: the code of the execution's only task asks to continue. The execution ends, and another one begins with this input. */
export interface Continuing {
  readonly kind: "continuing";
  /** The input of the successor, as JSON text. */
  readonly input: string;
  /** Set if the execution was cancelled while it cleaned up: the successor begins cancelled. */
  readonly cancel?: { readonly id: string; readonly by: string; readonly reason: string | null };
}

/** An event of the first execution of an id: the newest execution of that id has begun, ended, or opened again. */
export interface NewestEvent extends Newest {
  readonly kind: "newest";
}

/** The newest execution of an id, as the first one knows it. */
export interface Newest {
  readonly execution: string;
  readonly number: number;
  /** Whether the newest execution is open, which means that it has not ended. */
  readonly isOpen: boolean;
}

export interface TasksEnumerated extends Place {
  readonly kind: "tasks.enumerated";
  readonly from: number;
  readonly count: number;
  /** A running checksum over the texts of all tasks that the enumeration gave, up to the end of this page. */
  readonly checksum: number;
  readonly tasks: readonly string[];
  readonly keys: readonly string[] | null;
  readonly identities: readonly string[] | null;
  /** For each task, the identities of the tasks for which it waits; missing if the definition has no `after`. */
  readonly afters?: Afters;
  /** For each task, the number of the task that added it; missing if the enumeration or the definition gave these tasks. */
  readonly addedBy?: readonly number[];
}

export interface TasksStarted extends Place {
  readonly kind: "tasks.started";
  readonly tasks: readonly number[];
  readonly attempts: readonly number[];
  readonly workers: readonly string[];
  /** The epoch of the owner that holds the leases; undefined if it is not known. An owner that adopts attempts records them again. */
  readonly epoch?: number;
}

/** An event: workers have accepted these attempts, which may not have begun yet. */
export interface TasksAccepted extends Place {
  readonly kind: "tasks.accepted";
  readonly tasks: readonly number[];
  readonly attempts: readonly number[];
  readonly workers: readonly string[];
}

export interface TasksRetrying extends Place {
  readonly kind: "tasks.retrying";
  readonly tasks: readonly number[];
  readonly attempts: readonly number[];
  readonly reasons: readonly RetryReason[];
  readonly untils: readonly number[];
  readonly errors: readonly string[];
}

/** How the attempt before a retry ended. `released` counts neither as an attempt nor as a crash. */
export type RetryReason = "failed" | "exception" | "killed" | "crashed" | "released";

export interface TasksSettled extends Place {
  readonly kind: "tasks.settled";
  readonly tasks: readonly number[];
  readonly attempts: readonly number[];
  readonly statuses: readonly SettledStatus[];
  readonly reasons: readonly (string | null)[];
  readonly workers: readonly string[];
  readonly ms: readonly number[];
  /** The payloads as JSON texts: the result of a task that is done, or the error of one that is not. */
  readonly payloads: readonly string[];
}

export interface TasksLost extends Place {
  readonly kind: "tasks.lost";
  readonly tasks: readonly number[];
  readonly attempts: readonly number[];
  readonly workers: readonly string[];
}

/** An event: a user retries tasks that are not done. If the execution has ended, this opens a new round of their visit. */
export interface TasksRetried extends Place {
  readonly kind: "tasks.retried";
  readonly tasks: readonly number[];
  /** The sequence numbers of the events in which these tasks failed; 0 for a task that was cancelled. */
  readonly failures: readonly number[];
  readonly round: number;
  readonly by: string;
  readonly id: string;
}

export interface TasksLate extends Place {
  readonly kind: "tasks.late";
  readonly tasks: readonly number[];
  readonly attempts: readonly number[];
  readonly statuses: readonly AttemptStatus[];
  readonly accepted: readonly boolean[];
}

/** An event: these attempts ended as suspended. Each task waits for a time or for a signal. */
export interface TasksWaiting extends Place {
  readonly kind: "tasks.waiting";
  readonly tasks: readonly number[];
  readonly attempts: readonly number[];
  readonly names: readonly string[];
  /** The times at which sleeps end; 0 if the task waits for a signal. */
  readonly dues: readonly number[];
  readonly signals: readonly (string | null)[];
}

/** One of the waits of a suspended task. It has a time, signals, or both. */
export interface OpenWait {
  readonly name: string;
  /** When a sleep or a back-off ends. */
  readonly due?: number;
  /** Whether `due` is the end of a step's back-off; otherwise it is the end of a sleep. */
  readonly retry?: true;
  /** The names of the signals that answer the wait. The first signal that arrives is the answer. */
  readonly signals?: readonly string[];
  /** Values that the payload of the signal must have, as JSON text. */
  readonly match?: string;
  /** Whether the answer contains the name of its signal. */
  readonly any?: true;
  /** Whether the end of the child with this name answers the wait. */
  readonly child?: true;
}

/**
 * An event: an attempt ended as suspended, and its task has several waits, or a wait of a form that version 6 added. The first answer
 * continues the task.
 */
export interface TaskWaiting extends Place {
  readonly kind: "task.waiting";
  readonly task: number;
  readonly attempt: number;
  readonly waits: readonly OpenWait[];
}

/** An event: a try at a step that has its own number of tries failed, and the step is tried again. */
export interface TaskStepRetrying extends Place {
  readonly kind: "task.step.retrying";
  readonly task: number;
  readonly attempt: number;
  readonly name: string;
  /** The number of tries at the step so far. */
  readonly tries: number;
  /** The time at which the step is tried again. */
  readonly until: number;
  /** The error of the step's last try, as JSON text. */
  readonly error: string;
}

/** An event: a step failed for good, because its tries are used up or its error is fatal. Later attempts get the same error. */
export interface TaskStepFailed extends Place {
  readonly kind: "task.step.failed";
  readonly task: number;
  readonly attempt: number;
  readonly name: string;
  /** The number of tries at the step. */
  readonly tries: number;
  /** The error of the step's last try, as JSON text. */
  readonly error: string;
  /** As in `TaskStep`. */
  readonly unseen?: readonly string[];
}

/** An event: a step of a task is done, or its wait was answered. A wait that timed out, or a child that failed, has an error. */
export interface TaskStep extends Place {
  readonly kind: "task.step";
  readonly task: number;
  readonly attempt: number;
  readonly name: string;
  readonly result: string | null;
  readonly error: string | null;
  readonly reason: "done" | "signalled" | "timer" | "child";
  /** The signal that answered the wait. Missing if it is the oldest kept signal of the only name for which the step waited. */
  readonly takes?: { readonly signal: string; readonly id: string };
  /** The name of the map to which this result belongs. The result is a list of items. */
  readonly map?: string;
  /** The id of the update that this step answers. */
  readonly answers?: string;
  /**
   * The names of waits and children that were answered while the attempt ran, so that its code did not know the answers. For later
   * attempts the answers come after this step.
   */
  readonly unseen?: readonly string[];
}

/** An event: the times that the code of a task has read since its last checkpoint, and the failures after which the code has gone on. */
export interface TaskNoted extends Place {
  readonly kind: "task.noted";
  readonly task: number;
  readonly attempt: number;
  /** The times that the code has read, by name. Later attempts get the same times. */
  readonly times?: Readonly<Record<string, number>>;
  /** The names of steps and children after whose failure the code has gone on. */
  readonly failures?: readonly string[];
}

/** An event: the code of a task has published values, by key. A null value removes a key. */
export interface Published extends Place {
  readonly kind: "published";
  readonly task: number;
  readonly attempt: number;
  readonly values: Readonly<Record<string, Json>>;
}

/** An event: a run of a script task is finished. */
export interface TaskRun extends Place {
  readonly kind: "task.run";
  readonly task: number;
  readonly attempt: number;
  readonly name: string;
  readonly index: number;
  readonly state: string;
  readonly oversized: boolean;
  readonly stats: RunStats;
}

export interface RunStats {
  readonly durationMs: number;
  readonly memoryBytes: number;
}

/** An event: a run of a script task began. */
export interface TaskRunStarted extends Place {
  readonly kind: "task.run.started";
  readonly task: number;
  readonly attempt: number;
  readonly name: string;
  readonly index: number;
}

/**
 * An event: a run of a script ended without a new state. `crashed`: its worker reported a crash. `lost`: its attempt was lost.
 * `ended`: its attempt ended in another way, without a report about the run.
 */
export interface TaskRunCrashed extends Place {
  readonly kind: "task.run.crashed";
  readonly task: number;
  readonly attempt: number;
  readonly name: string;
  readonly index: number;
  readonly reason: "crashed" | "lost" | "ended";
  readonly message: string | null;
  /** The cost of the run; null if its worker has not reported it. */
  readonly stats: RunStats | null;
}

/** An event: a task requests a child execution, or the child has ended. */
export interface ChildEvent extends Place {
  readonly kind: "child.started" | "child.finished";
  readonly task: number;
  readonly attempt: number;
  readonly child: string;
  /** The name under which the task's code runs the child; undefined if the task itself is the child. */
  readonly name?: string;
  readonly status?: FinalStatus;
}

/** An event: the receipt of a command, with its enriched result or its error. */
export interface CommandReceipted extends Place {
  readonly kind: "command.receipted";
  readonly task: number;
  readonly attempt: number;
  /** The unique id of the attempt. Rondo 0.2 neither writes nor reads this field. */
  readonly attemptId?: string;
  /** The number of the command in the workflow, from 0. */
  readonly step: number;
  readonly procStatus: "COMPLETE" | "ERROR";
  /** The result of the command, as JSON text; null if there is an error. */
  readonly result: string | null;
  /** The error of the command, as JSON text; null if there is a result. */
  readonly error: string | null;
  readonly worker: string;
  readonly ms: number;
}

/** The kinds of post-operations on the result of a command. Enrichment is not one of them. */
export type PostOpKind = "persistence" | "broadcast";

/** Identifies a post-operation of a receipt. */
export interface PostOpRef extends Place {
  readonly task: number;
  readonly step: number;
  readonly op: PostOpKind;
  /** The index of the broadcast; 0 for a persistence. */
  readonly index: number;
  /** The sequence number of the `command.receipted` event that has the result. */
  readonly receipt: number;
}

/** An event: a try at a post-operation has ended. */
export interface PostOpEvent extends PostOpRef {
  readonly kind: "postop.done" | "postop.failed";
  readonly attempt: number;
  /** The state store or the URL of the post-operation. */
  readonly target: string;
  /** The error of the post-operation, as JSON text; null if the post-operation is done. */
  readonly error: string | null;
  /** The time at which the post-operation is retried; null if it is not retried. */
  readonly until: number | null;
}

/** An event: a user retries a post-operation that had failed for good. */
export interface PostOpRetried extends PostOpRef {
  readonly kind: "postop.retried";
  readonly target: string;
  readonly by: string;
  readonly id: string;
}

export type TimerPurpose = "sleep" | "wait" | "start" | "deadline" | "task" | "cleanup" | "gate";

export interface TimerEvent {
  readonly kind: "timer.set" | "timer.fired" | "timer.cleared";
  readonly timer: string;
  readonly purpose: TimerPurpose;
  readonly due: number;
}

/**
 * The events of a gate (relay/relay.ts): the gate took an event, passed events on, dropped them, or cancels its executions; one of
 * its executions ended; or its journal was compacted.
 */
export type GateEvent =
  | {
      readonly kind: "gate.taken";
      readonly event: string;
      /** The data of the event, as JSON text. */
      readonly data: string;
      readonly policy: GatePolicy;
    }
  | {
      readonly kind: "gate.passed";
      readonly events: readonly string[];
      readonly execution: string;
      readonly as: "start" | "signal";
      readonly startAt?: number;
    }
  | {
      readonly kind: "gate.dropped";
      readonly events: readonly string[];
      readonly reason: "singleton" | "cancelled";
    }
  | { readonly kind: "gate.freed"; readonly execution: string }
  | {
      readonly kind: "gate.cancelled";
      /** The name of the event that cancels executions. */
      readonly event: string;
      /**
       * How many of the gate's open executions, oldest first, have been sent a cancel so far. The next field is how many are to get
       * one.
       */
      readonly sent: number;
      readonly to: number;
    }
  | GateCarried;

/** An event with the whole state of a gate. The rows before this event are deleted, so the journal can begin with it. */
export interface GateCarried {
  readonly kind: "gate.carried";
  readonly project: string;
  readonly input: string;
  readonly createdAt: number;
  readonly state: GateState;
  readonly timers: readonly { readonly timer: string; readonly due: number }[];
}

/** An event: the execution was moved to another definition of its workflow (move.ts). */
export interface Moved {
  readonly kind: "moved";
  /** The hash of the new definition. */
  readonly hash: string;
  /** The version in the new definition; null if it has none. */
  readonly version: string | null;
  /** The new definition, as JSON text. */
  readonly definition: string;
  readonly by: string;
  readonly reason: string | null;
  readonly id: string;
}

/** An event: the work of the execution has ended, and its clean-up begins. After the clean-up, the execution ends with this status. */
export interface EndingEvent {
  readonly kind: "ending";
  readonly status: FinalStatus;
  /** The output of the execution, as JSON text; null if it has none. */
  readonly output: string | null;
  readonly error: ExecutionError | null;
}

export interface Finished {
  readonly kind: "finished";
  readonly status: FinalStatus;
  readonly output: string | null;
  readonly error: ExecutionError | null;
  readonly round: number;
  /** The signals that no wait has taken; undefined if there are none, or if Rondo 0.2 wrote the event. */
  readonly unread?: readonly UnreadSignals[];
  /** The execution that continues this one and gets its unread signals; missing if there is none. */
  readonly continuedAs?: string;
}

export type Event =
  | Created
  | { readonly kind: "phase.started"; readonly phase: string; readonly visit: number }
  | {
      readonly kind: "phase.finished";
      readonly phase: string;
      readonly visit: number;
      readonly status: FinalStatus;
      readonly next: string | null;
    }
  | (Place & { readonly kind: "handler.started" })
  | (Place & { readonly kind: "handler.enumerated"; readonly total: number })
  | (Place & {
      readonly kind: "handler.finished";
      readonly done: number;
      readonly failed: number;
      readonly cancelled: number;
    })
  | (Place & {
      readonly kind: "handler.retrying";
      readonly attempt: number;
      readonly reason: RetryReason;
      readonly until: number | null;
      readonly error: string | null;
      readonly fatal?: true;
    })
  | (Place & { readonly kind: "handler.lost"; readonly attempt: number; readonly worker: string })
  | TasksEnumerated
  | TasksAccepted
  | TasksStarted
  | TasksRetrying
  | TasksSettled
  | TasksLost
  | TasksLate
  | TasksRetried
  | TasksWaiting
  | TaskWaiting
  | TaskStep
  | TaskStepRetrying
  | TaskStepFailed
  | TaskNoted
  | Published
  | TaskRun
  | TaskRunStarted
  | TaskRunCrashed
  | ChildEvent
  | CommandReceipted
  | PostOpEvent
  | PostOpRetried
  | TimerEvent
  | GateEvent
  | { readonly kind: "signalled"; readonly signal: string; readonly id: string; readonly data: string }
  | {
      readonly kind: "paused" | "resumed" | "cancelling";
      readonly by: string;
      readonly reason: string | null;
      readonly id: string;
      /** For `cancelling`, while attempts of the work still run: the clean-up is left out. An older version runs it nevertheless. */
      readonly force?: true;
    }
  | {
      readonly kind: "retried";
      readonly phase: string;
      readonly visit: number;
      readonly round: number;
      readonly by: string;
      readonly id: string;
    }
  | Moved
  | EndingEvent
  | Continuing
  | NewestEvent
  | Finished;

export type EventKind = Event["kind"];

/** An event with its position in the journal. */
export interface Recorded {
  readonly seq: number;
  readonly at: number;
  readonly event: Event;
}
