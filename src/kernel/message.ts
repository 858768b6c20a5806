/**
 * Messages: the only inputs of an execution. A message with an `id` is applied once, and a repeat gets the first answer. Receipts and
 * pages of tasks need no id: a repeat finds that its tasks are settled or journaled already.
 */
import type { Json } from "../std/json.ts";
import type { Rejection } from "../std/rejection.ts";
import { versionOfId } from "./definition/names.ts";
import type { Afters, Items } from "./definition/task-name.ts";
import {
  type Continuing,
  type Newest,
  type Parent,
  type Place,
  type PostOpRef,
  type RunStats,
  SUCCESSION_SINCE,
  type Succession,
} from "./event.ts";
import type { GateEntry } from "./relay/relay.ts";

export interface StartMessage {
  readonly kind: "start";
  readonly execution: string;
  readonly workflow: string;
  readonly hash: string;
  readonly project: string;
  readonly input: string;
  readonly tags: Readonly<Record<string, string>>;
  readonly parent?: Parent;
  /** Whether the parent already knows this child. Then the parent's next message, which is a retry, decides about the child. */
  readonly again?: true;
  readonly startAt?: number;
  readonly deadline?: number;
  /** The W3C trace context of the start request. */
  readonly trace?: string;
  /**
   * The signal that the execution gets with its start. If the execution exists already, it gets only the signal, whatever its input
   * is.
   */
  readonly signal?: SignalMessage;
  /**
   * Only for the start of an event's execution: the messages that the event sends, and its output as JSON text. A repeated event
   * changes nothing.
   */
  readonly relays?: { readonly messages: readonly Relayed[]; readonly output: string };
  /** Only for the start of a gate: the event that it takes. If the gate exists already, it takes the event too. */
  readonly gate?: GateEntry;
  /** The gate that is notified when the execution has ended. */
  readonly notifies?: string;
  /** The place of the execution among those that continue one another under its id; undefined for the first one. */
  readonly succession?: Succession;
  /** Only for an execution that continues another one: the signals that the other one has kept, in their order. */
  readonly kept?: readonly Omit<SignalMessage, "kind" | "from">[];
  /** Only for an execution that continues another one: the cancel that the other one got while it cleaned up. */
  readonly cancel?: Continuing["cancel"] & {};
}

/** A message that an event sends. */
export interface Relayed {
  readonly to: string;
  readonly message: StartMessage | SignalMessage | ControlMessage;
}

/** The first version of events in which a start can have a signal. Nodes of older versions would drop the signal. */
const SIGNAL_SINCE = 5;

/** The first version of events in which nodes know events and gates. */
const RELAYS_SINCE = 6;

/** Returns the version of events that a node must know to accept the start. */
export function versionOfStart({ execution, signal, relays, succession }: StartMessage): number {
  if (succession !== undefined) return SUCCESSION_SINCE;
  if (relays !== undefined) return RELAYS_SINCE;
  return Math.max(versionOfId(execution), signal === undefined ? 1 : SIGNAL_SINCE);
}

/** A page of tasks from the current enumeration attempt. `from` is the number of tasks that are journaled already. */
export interface PageMessage extends Place {
  readonly kind: "page";
  readonly attempt: number;
  readonly round: number;
  readonly from: number;
  readonly tasks: readonly string[];
  readonly keys: readonly string[] | null;
  readonly identities: readonly string[] | null;
  readonly afters?: Afters | null;
}

/** How an attempt ended. Attempts at handlers, commands and scripts all report this form. */
export interface Outcome {
  readonly status: "done" | "failed" | "crashed" | "killed" | "cancelled" | "exception" | "suspended";
  /** The result if the attempt is done, otherwise the error; as JSON text. */
  readonly payload: string;
  /** Whether the failure is fatal. Then the task is not retried. */
  readonly fatal?: boolean;
  readonly retryAfterMs?: number;
  /** Only for an enumeration: the number of tasks. */
  readonly total?: number;
  /** Only for a suspended attempt: what the task waits for. */
  readonly wait?: TaskWait;
  /** Only for a suspended attempt with several waits: all of them, instead of `wait`. The first answer continues the task. */
  readonly waits?: readonly TaskWait[];
  /** Only for a task that is done: the tasks that it adds to its handler. */
  readonly adds?: Items;
  /** Only for a task that is done: the input with which the execution continues as another one, as JSON text. */
  readonly continueAs?: string;
}

/** The outcome of an enumeration. If it is done, `total` is the number of tasks, so that a missing page is noticed. */
export type EnumerationOutcome = Outcome &
  (
    | { readonly status: "done"; readonly total: number }
    | { readonly status: Exclude<Outcome["status"], "done"> }
  );

/** Whether an outcome can end an enumeration: `done` needs a `total`. */
export function endsEnumeration(outcome: Outcome): outcome is EnumerationOutcome {
  return outcome.status !== "done" || outcome.total !== undefined;
}

/** A wait of a suspended task: for a time, or for a signal for at most `timeoutMs`. */
export interface TaskWait {
  readonly name: string;
  /** The time at which a sleep ends, in milliseconds since 1970. */
  readonly untilMs?: number;
  /** The length of the wait, measured from the receipt. It is used instead of `untilMs`, because the worker's clock may be wrong. */
  readonly forMs?: number;
  readonly signal?: string;
  readonly timeoutMs?: number;
  /** Several signals instead of `signal`. The first one that arrives is the answer, which contains its name. */
  readonly anyOf?: readonly string[];
  /** Values that the payload of the signal must have, as JSON text. Signals without them do not answer the wait and stay kept. */
  readonly match?: string;
  /** Whether the time is the back-off of the step with this name. */
  readonly retry?: true;
  /** Whether the task waits for the end of the child with this name. */
  readonly child?: true;
}

/** Returns the waits of a suspended attempt; none if the task continues at once. */
export function waitsOf({ wait, waits }: Pick<Outcome, "wait" | "waits">): readonly TaskWait[] {
  return waits ?? (wait === undefined ? [] : [wait]);
}

export interface Receipt {
  readonly task: number;
  readonly attempt: number;
  readonly round: number;
  /** Whether the attempt holds its lease or is adopted. If not, the attempt has lost its lease, and its receipt is late. */
  readonly live: boolean;
  readonly worker: string;
  readonly ms: number;
  readonly outcome: Outcome;
  /** Only for a command: the unique id of the attempt. */
  readonly attemptId?: string;
}

export interface ReceiptsMessage extends Place {
  readonly kind: "receipts";
  readonly receipts: readonly Receipt[];
}

export interface EnumerationMessage extends Place {
  readonly kind: "enumeration";
  readonly attempt: number;
  readonly round: number;
  readonly worker: string;
  readonly outcome: EnumerationOutcome;
}

export interface AttemptRef {
  readonly task: number;
  readonly attempt: number;
  readonly worker: string;
}

interface Attempts extends Place {
  readonly round: number;
  readonly attempts: readonly AttemptRef[];
}

/** A report that workers have accepted these attempts. */
export interface AcceptedMessage extends Attempts {
  readonly kind: "accepted";
}

/** A report that these attempts began. */
export interface StartedMessage extends Attempts {
  readonly kind: "started";
  /** The epoch of the owner that holds the leases of these attempts. */
  readonly epoch?: number;
}

/** A report that the workers of these attempts became silent or died. */
export interface LostMessage extends Attempts {
  readonly kind: "lost";
  /** Whether the attempts waited in a queue of a broker, as far as is known. Then they do not count as crashes. */
  readonly isUnbegun?: true;
}

/** A report that the worker of an enumeration attempt became silent or died. */
export interface EnumerationLostMessage extends Place {
  readonly kind: "enumeration.lost";
  readonly round: number;
  readonly attempt: number;
  readonly worker: string;
}

export interface ControlMessage {
  readonly kind: "pause" | "resume" | "cancel" | "retry";
  readonly id: string;
  readonly by: string;
  readonly reason: string | null;
  /** Whether the message comes from the execution's parent. */
  readonly fromParent?: boolean;
  /** Only for a cancel: whether the rest of a running clean-up is left out. */
  readonly force?: boolean;
  /** Only for a retry: the tasks that run again. If this is missing, all tasks that are not done run again. */
  readonly tasks?: ChosenTasks;
}

/** A choice of tasks of one handler that are not done. */
export interface ChosenTasks {
  readonly phase: string;
  /** The number of the visit of the phase; by default the last visit. */
  readonly visit?: number;
  readonly handler: string;
  /** The numbers of the tasks; by default all failed tasks. */
  readonly numbers?: readonly number[];
  /** Whether the tasks are only counted, and do not run again. */
  readonly dryRun?: boolean;
}

/** The answer to a retry of chosen tasks. */
export interface RetriedTasks {
  /** How many tasks run again. */
  readonly tasks: number;
  /** The phases after the phase of the chosen tasks. They do not run again. */
  readonly skipped: readonly string[];
}

/** A request to move the execution to another definition of its workflow. */
export interface MoveMessage {
  readonly kind: "move";
  readonly id: string;
  readonly by: string;
  readonly reason: string | null;
  /** The new definition in its stored form, as JSON text. */
  readonly definition: string;
  /** Whether the move is only checked, and not performed. */
  readonly dryRun?: boolean;
}

export interface SignalMessage {
  readonly kind: "signal";
  readonly id: string;
  readonly signal: string;
  readonly data: string;
  /** Only for a signal that an event sends: the project of the event. Executions of other projects refuse the signal. */
  readonly project?: string;
  /** The gate that gets the event back if the execution has ended, so that the signal cannot be delivered. */
  readonly from?: { readonly gate: string; readonly entry: GateEntry };
}

/** Notifies a gate that an execution that it started has ended. */
export interface GateEndedMessage {
  readonly kind: "gate.ended";
  readonly execution: string;
}

/** Tells the first execution of an id which execution of the id is the newest. */
export interface NewestMessage extends Newest {
  readonly kind: "newest";
}

/** Asks a gate to compact its journal. The owner of the gate sends it. */
export interface CarryMessage {
  readonly kind: "carry";
}

/** Brings an event to a gate that exists already. It is made from a start message. */
export interface GateMessage {
  readonly kind: "gate";
  readonly entry: GateEntry;
}

/** A report of an attempt that holds its lease: a step or a run is done, or a run began or crashed. */
export interface CheckpointMessage extends Place {
  readonly kind: "checkpoint";
  readonly round: number;
  readonly task: number;
  readonly attempt: number;
  readonly live: boolean;
  /** The last event before the attempt was granted, so that its code does not know later answers. Infinity if that is unknown. */
  readonly seen: number;
  readonly done:
    | StepResult
    | StepFailure
    | CodeNotes
    | PublishedValues
    | (ChildRequest & {
        /** The hash of the newest definition of the workflow; null if there is no such workflow. */
        readonly hash: string | null;
      })
    | {
        readonly kind: "run";
        readonly name: string;
        /** The index of the run among the runs of the script, from 0; null if the run is identified by its name only. */
        readonly index: number | null;
        readonly state: string;
        readonly oversized: boolean;
        readonly stats: RunStats;
      }
    | RunNotice;
}

/** The result of a step that is done. */
export interface StepResult {
  readonly kind: "step";
  readonly name: string;
  /** The result of the step, as JSON text. */
  readonly result: string;
  /** The name of the map to which this result belongs. The result is a list of items. */
  readonly map?: string;
  /** The id of the update that the step answers. The result of the step is the answer (protocol/update-answer.ts). */
  readonly answers?: string;
}

/** A failed try of a step that has its own number of tries. The step is tried again after `forMs`, or has failed for good. */
export type StepFailure = {
  readonly name: string;
  /** The number of tries so far, including this one. */
  readonly tries: number;
  /** The error of this try, as JSON text. */
  readonly error: string;
} & ({ readonly kind: "step.retrying"; readonly forMs: number } | { readonly kind: "step.failed" });

/** The times that the code of a task has read since its last checkpoint, and the failures after which the code has gone on. */
export interface CodeNotes {
  readonly kind: "noted";
  /** Times by name. */
  readonly times?: Readonly<Record<string, number>>;
  /** The names of steps and children after whose failure the code has gone on. */
  readonly failures?: readonly string[];
}

/** Values that the code of a task publishes, by key. A null value removes a key. */
export interface PublishedValues {
  readonly kind: "published";
  readonly values: Readonly<Record<string, Json>>;
}

/** The request of a task's code to start an execution of another workflow. */
export interface ChildRequest {
  readonly kind: "child";
  /** The name of the child within its task. */
  readonly name: string;
  readonly workflow: string;
  /** The input of the child, as JSON text. */
  readonly input: string;
  /** Whether the started execution is independent: the task gets its id, and does not wait for its end. */
  readonly detached?: true;
  /** Whether the tasks of the child are the journaled items of the map with this name. The input is then the number of items. */
  readonly mapped?: true;
}

/** A notice that a run of a script began or crashed. */
export type RunNotice = {
  readonly name: string;
  /** The index of the run among the runs of the script, from 0; null if the run is identified by its name only. */
  readonly index: number | null;
} & (
  | { readonly kind: "run.started" }
  | { readonly kind: "run.crashed"; readonly message: string; readonly stats: RunStats | null }
);

/** Asks an execution to start children for these tasks of a handler, each as an execution of another workflow. The owner sends it. */
export interface ChildrenMessage extends Place {
  readonly kind: "children";
  readonly round: number;
  readonly workflow: string;
  readonly hash: string;
  readonly tasks: readonly { readonly task: number; readonly input: string }[];
}

/** Tells a parent that its child has ended. */
export interface ChildMessage extends Place {
  readonly kind: "child";
  readonly task: number;
  /** The name under which the task's code runs the child; undefined if the task itself is the child. */
  readonly name?: string;
  readonly child: string;
  readonly status: "done" | "failed" | "cancelled";
  /** The output or the error of the child, as JSON text. */
  readonly payload: string;
}

/** How an attempt at a post-operation ended. */
export type PostOpOutcome =
  | { readonly kind: "done" }
  | {
      readonly kind: "failed";
      readonly error: { readonly name: string; readonly message: string; readonly code?: string };
      /** Whether a retry of the post-operation would fail in the same way. */
      readonly fatal?: true;
      /** The time before a retry for which the target asked, in milliseconds. */
      readonly retryAfterMs?: number;
    };

/** Reports how an attempt at a post-operation ended. The post-operation runner sends it. */
export interface PostOpMessage {
  readonly kind: "postop";
  /** The id of the post-operation. */
  readonly op: string;
  readonly attempt: number;
  readonly outcome: PostOpOutcome;
}

/** A user's request to retry a post-operation that failed for good. */
export interface PostOpRetryMessage {
  readonly kind: "postop.retry";
  readonly id: string;
  readonly by: string;
  readonly op: PostOpRef;
}

/** Reports that a timer is due. It is ignored unless that timer is set. */
export interface TimerDueMessage {
  readonly kind: "timer";
  readonly timer: string;
}

/** Reports that no attempt of the draining visit is open any more. The owner of the execution sends it. */
export interface DrainedMessage {
  readonly kind: "drained";
  readonly phase: string;
  readonly visit: number;
  readonly round: number;
}

export type Message =
  | StartMessage
  | PageMessage
  | ReceiptsMessage
  | EnumerationMessage
  | AcceptedMessage
  | StartedMessage
  | LostMessage
  | EnumerationLostMessage
  | ControlMessage
  | MoveMessage
  | SignalMessage
  | CheckpointMessage
  | ChildrenMessage
  | ChildMessage
  | PostOpMessage
  | PostOpRetryMessage
  | TimerDueMessage
  | DrainedMessage
  | GateMessage
  | CarryMessage
  | GateEndedMessage
  | NewestMessage;

/** A message that an execution sends to another one. */
export interface Sent {
  readonly id: string;
  readonly to: string;
  readonly message:
    | StartMessage
    | ControlMessage
    | ChildMessage
    | SignalMessage
    | GateEndedMessage
    | NewestMessage;
}

/** The verdict on a report. A rejection means that the report is invalid: nothing is journaled, and the attempt keeps its lease. */
export type Verdict = "accepted" | "duplicate" | "stale" | "late" | "gone" | "elsewhere" | Rejection;

/** The answer to a message. It is sent only after the commit. */
export type Answer =
  | {
      readonly kind: "applied";
      readonly seq: number;
      readonly verdicts?: readonly Verdict[];
      /** Only for a signal: whether a wait has taken it, or it is kept for a later wait. */
      readonly signal?: "delivered" | "kept";
      /** Only for a retry of chosen tasks: how many tasks run again. */
      readonly retried?: RetriedTasks;
    }
  | {
      readonly kind: "ignored";
      readonly why: string;
      readonly verdicts?: readonly Verdict[];
      readonly retried?: RetriedTasks;
    }
  | Rejection;
