/** The messages between an engine node and its workers: grants to workers, reports and beats from them. */
import type { Afters } from "../kernel/definition/task-name.ts";
import type { Place, RunStats } from "../kernel/event.ts";
import type {
  ChildRequest,
  CodeNotes,
  EnumerationOutcome,
  Outcome,
  PublishedValues,
  RunNotice,
  StepFailure,
  StepResult,
} from "../kernel/message.ts";
import type { Checkpoint } from "../kernel/tasks/checkpoint.ts";

export type { Checkpoint } from "../kernel/tasks/checkpoint.ts";

/** Work of one handler for one worker: the shared parts, and the items. */
export interface Grant extends Place {
  readonly do: "enumerate" | "process" | "next" | "returns" | "command" | "script";
  readonly execution: string;
  readonly workflow: string;
  readonly project: string;
  readonly use: string;
  /** The version of the code, chosen among the versions that workers serve; null for code without a version. */
  readonly version: string | null;
  readonly round: number;
  readonly epoch: number;
  /** The execution's input, as JSON text. */
  readonly input: string;
  readonly timeoutMs: number | null;
  readonly heartbeatMs: number;
  readonly items: readonly GrantItem[];
  /** For an enumeration: the tasks that are journaled already. */
  readonly resume: { readonly count: number; readonly last: string; readonly checksum: number } | null;
  /**
   * For an enumeration: whether the definition identifies tasks by identities. If not, identities from a worker are ignored.
   */
  readonly byIdentity?: true;
  /** The counts of the phases so far, for code that reads earlier results. */
  readonly phases: PhaseCounts;
  /** The most tasks in one call of `processBatch`; 1 means no batches. */
  readonly batch: number;
  /** The runs of a script task, and the state before the first run; null as the state means that the task itself is the state. */
  readonly script: ScriptWork | null;
  /** For commands: the command and its topics. The items' tasks are the commands, with references resolved. */
  readonly command: CommandWork | null;
  /** The W3C trace context of the execution's start. */
  readonly trace: string | null;
  /** Whether the definition makes the input the single task. Code that enumerates must not get this task. */
  readonly single?: true;
}

export interface CommandWork {
  /** The number of the command within the workflow, from 0. */
  readonly step: number;
  readonly topic: string;
  readonly receiptTopic: string;
}

export interface ScriptWork {
  readonly runs: readonly {
    readonly name: string;
    readonly expression: string;
    readonly timeoutMs: number | null;
  }[];
  /** The state before the first run, as JSON text; null if the task is the state. */
  readonly state: string | null;
  /** Whether a new attempt continues after the last finished run; if not, it begins with the first run. */
  readonly resume: boolean;
}

export { SCRIPT_USE } from "../kernel/definition/plan.ts";

/** A command that was sent, with its topics. */
export interface SentAt {
  readonly attempt: ReportedAttempt;
  readonly topic: string;
  readonly receiptTopic: string;
  readonly project: string;
}

/** The worker name of the broker, which is the same in every engine. */
export const BROKER_WORKER = "broker";

/** The worker name of an attempt of which only the token is known. No worker can register under this name. */
export const UNKNOWN_WORKER = "unknown";

/** Facts for a task that compensates another task. */
export interface Compensation {
  /** How the compensated task ended; `unknown` means that it may have begun and is not done. */
  readonly outcome: "done" | "unknown";
  /** The result of the compensated task as JSON text; null if it is not done. */
  readonly result: string | null;
}

/** Returns the JSON fields about the compensated task, with a leading comma; an empty text for a task that compensates none. */
export function compensationJson({ compensates }: GrantItem): string {
  if (compensates === undefined) return "";
  const { outcome, result } = compensates;
  return result === null ? `,"outcome":"${outcome}"` : `,"outcome":"${outcome}","result":${result}`;
}

/** Decodes the fields about a compensated task; undefined for other tasks. */
export function readCompensation({ outcome, result }: CompensationFields): Compensation | undefined {
  if (outcome === undefined) return undefined;
  return { outcome, result: outcome === "done" ? JSON.stringify(result ?? null) : null };
}

interface CompensationFields {
  readonly outcome?: Compensation["outcome"];
  readonly result?: unknown;
}

export interface GrantItem {
  readonly number: number;
  readonly attempt: number;
  /** The number of the claim, which distinguishes claims of the same attempt number within one epoch. */
  readonly claim: number;
  /** The task as JSON text; null for an enumeration, a decision or `returns`. */
  readonly task: string | null;
  /** The checkpoints of earlier attempts; null if there are none. */
  readonly checkpoints: readonly Checkpoint[] | null;
  /** Whether the task crashed a process before, so that it must run alone. */
  readonly alone?: true;
  /** Facts about the compensated task, in a compensation only. */
  readonly compensates?: Compensation;
}

/** Every visit of every phase so far (visit 0 if there is none yet), the newest last, with counts and ranges of rows. */
export type PhaseCounts = readonly {
  readonly phase: string;
  readonly visit: number;
  readonly firstSeq: number;
  readonly lastSeq: number;
  readonly handlers: readonly {
    readonly name: string;
    readonly total: number;
    readonly done: number;
    readonly failed: number;
    readonly value: string | null;
  }[];
}[];

/** The execution, phase, visit and handler of the attempts in a report. All of them belong to one grant. */
export interface ReportPlace extends Place {
  readonly execution: string;
  readonly round: number;
  readonly epoch: number;
}

export interface ReportedReceipt {
  readonly task: number;
  readonly attempt: number;
  readonly claim: number;
  readonly ms: number;
  readonly outcome: Outcome;
}

/** The reports of workers about their attempts. */
export type Report =
  /** A worker has accepted the attempts and will begin them. */
  | (Beat & { readonly kind: "accepted" })
  /** Attempts have begun. */
  | (ReportPlace & {
      readonly kind: "started";
      readonly attempts: readonly StartedAttempt[];
    })
  | (ReportPlace & { readonly kind: "receipts"; readonly receipts: readonly ReportedReceipt[] })
  | (ReportPlace & {
      readonly kind: "page";
      readonly attempt: number;
      readonly claim: number;
      readonly from: number;
      readonly tasks: readonly string[];
      readonly keys: readonly string[] | null;
      readonly identities: readonly string[] | null;
      /** For each task, the identities of the tasks that it waits for; missing if the code does not say it. */
      readonly afters?: Afters | null;
    })
  | (ReportPlace & {
      readonly kind: "enumeration";
      readonly attempt: number;
      readonly claim: number;
      readonly ms: number;
      readonly outcome: EnumerationOutcome;
    })
  /** A step of a task is done. Its result is journaled before the code continues. */
  | (ReportedAttempt & StepResult)
  /** A try at a step that has its own retry policy failed. */
  | (ReportedAttempt & StepFailure)
  /**
   * Times that the code of a task has read, and failures of steps after which the code continued. Reported before the next checkpoint.
   */
  | (ReportedAttempt & CodeNotes)
  /** Values that the code of a task publishes. */
  | (ReportedAttempt & PublishedValues)
  /** The code of a task asks for a child. Its start is journaled before the code continues. */
  | (ReportedAttempt & ChildRequest)
  /** A run of a script task is finished. */
  | (ReportedAttempt & {
      readonly kind: "run";
      readonly name: string;
      /** The index of the run among the runs of the script, from 0; null if the name identifies the run. */
      readonly index: number | null;
      readonly state: string;
      /** Whether the state is larger than the limit above which states are marked. It is stored whole. */
      readonly oversized: boolean;
      readonly stats: RunStats;
    })
  /** A run of a script task began or crashed. */
  | (ReportedAttempt & RunNotice)
  /** Lines that an attempt logged (`task` -1: the enumeration). */
  | (ReportedAttempt & { readonly kind: "logs"; readonly lines: readonly ReportedLine[] });

/** An attempt that has begun; `ms`: how long ago. */
export interface StartedAttempt {
  readonly task: number;
  readonly attempt: number;
  readonly claim: number;
  readonly ms?: number;
}

/** One attempt in a report. */
export interface ReportedAttempt extends ReportPlace {
  readonly task: number;
  readonly attempt: number;
  readonly claim: number;
}

export interface ReportedLine {
  /** The number of the event that contained the log line, among the events of its attempt; from 1. */
  readonly n: number;
  readonly at: number;
  readonly level: string;
  readonly text: string;
  readonly run?: string;
  /** The fields of the line as JSON text; of a piece of a stream, its head (stream-piece.ts). */
  readonly fields?: string;
}

/** A heartbeat for attempts of one grant; `task` -1 is the enumeration. */
export interface Beat extends ReportPlace {
  readonly attempts: readonly { task: number; attempt: number; claim: number }[];
}

export interface Serves {
  readonly use: string;
  readonly version?: string;
  /**
   * Whether the code enumerates tasks. If true, the code never gets the input as the single task of a definition without an
   * enumeration. If false, it never gets an enumeration. If missing, the definition decides; such code gets enumerations only
   * while no worker has true here.
   */
  readonly enumerates?: boolean;
}
