/** What passes between an engine node and its workers: grants one way, reports and beats the other. */

import type { Place } from "../kernel/event.ts";
import type { EnumerationOutcome, Outcome } from "../kernel/message.ts";
import type { Checkpoint } from "../kernel/tasks/checkpoint.ts";

export type { Checkpoint } from "../kernel/tasks/checkpoint.ts";

/** Work for one worker out of one handler: what its items share, and the items. */
export interface Grant extends Place {
  readonly do: "enumerate" | "process" | "next" | "returns" | "command" | "script";
  readonly execution: string;
  readonly workflow: string;
  readonly project: string;
  readonly use: string;
  /** The version of the code that was chosen among those served; null: code without a version. */
  readonly version: string | null;
  readonly round: number;
  readonly epoch: number;
  /** The execution's input, as JSON text. */
  readonly input: string;
  readonly timeoutMs: number | null;
  readonly heartbeatMs: number;
  readonly items: readonly GrantItem[];
  /** Enumeration only: what is journaled already. */
  readonly resume: { readonly count: number; readonly last: string; readonly checksum: number } | null;
  /** Enumeration only: the definition says that identities name tasks; without it, those that a worker sends are ignored. */
  readonly byIdentity?: true;
  /** Counts of the phases so far, for code that reads earlier results. */
  readonly phases: PhaseCounts;
  /** Tasks that `processBatch` takes at a time; 1: no batches. */
  readonly batch: number;
  /** The runs of a script task, and the state before the first if it does not come from the task. */
  readonly script: ScriptWork | null;
  /** Commands only: which one it is, and its topics. Its items' tasks are the commands, with references resolved. */
  readonly command: CommandWork | null;
  /** W3C trace context of the start. */
  readonly trace: string | null;
  /** Its one task is the input, and only the definition says so: code that enumerates must not get it. */
  readonly single?: true;
}

export interface CommandWork {
  /** Which command of the workflow, counted from 0. */
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
  /** JSON text; null: the task is the state. */
  readonly state: string | null;
  /** False: every attempt begins with the first run. */
  readonly resume: boolean;
}

export { SCRIPT_USE } from "../kernel/definition/plan.ts";

/** A command that was sent, and the topics it was sent with. */
export interface SentAt {
  readonly attempt: ReportedAttempt;
  readonly topic: string;
  readonly receiptTopic: string;
  readonly project: string;
}

/** The name under which every engine knows the broker, among its workers. */
export const BROKER_WORKER = "broker";

/** Stands for a worker that is not known, where only an attempt's token speaks for it; nobody registers as this. */
export const UNKNOWN_WORKER = "unknown";

export interface GrantItem {
  readonly number: number;
  readonly attempt: number;
  /** Tells apart claims of the same attempt number within one epoch. */
  readonly claim: number;
  /** The task as JSON text; for an enumeration, a decision or `returns`: null. */
  readonly task: string | null;
  /** What earlier attempts journaled; null: nothing. */
  readonly checkpoints: readonly Checkpoint[] | null;
  /** It took a process down before: in a queue it is to have nobody beside it. */
  readonly alone?: true;
}

/** Every visit of every phase so far (visit 0: none yet), the newest last; per handler its counts, and where its rows are. */
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

/** Which attempts a report speaks of: those of one grant. */
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

/** What workers say about their attempts. */
export type Report =
  | (ReportPlace & {
      readonly kind: "started";
      readonly attempts: readonly { task: number; attempt: number; claim: number }[];
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
    })
  | (ReportPlace & {
      readonly kind: "enumeration";
      readonly attempt: number;
      readonly claim: number;
      readonly ms: number;
      readonly outcome: EnumerationOutcome;
    })
  /** A step of a task is done: its result is journaled before the code goes on. */
  | (ReportedAttempt & { readonly kind: "step"; readonly name: string; readonly result: string })
  /** A run of a script task is finished. */
  | (ReportedAttempt & {
      readonly kind: "run";
      readonly name: string;
      /** Its place among the runs, from 0; null: that of its name. */
      readonly index: number | null;
      readonly state: string;
      /** The state is over the limit: it is kept whole all the same. */
      readonly oversized: boolean;
      readonly stats: { readonly durationMs: number; readonly memoryBytes: number };
    })
  /** Lines that an attempt logged (`task` -1: the enumeration). */
  | (ReportedAttempt & { readonly kind: "logs"; readonly lines: readonly ReportedLine[] });

/** One attempt that a report speaks of. */
export interface ReportedAttempt extends ReportPlace {
  readonly task: number;
  readonly attempt: number;
  readonly claim: number;
}

export interface ReportedLine {
  /** The number of the event that brought it, within its attempt, from 1. */
  readonly n: number;
  readonly at: number;
  readonly level: string;
  readonly text: string;
  readonly run?: string;
}

/** A beat for attempts of one grant; `task` -1 is the enumeration. */
export interface Beat extends ReportPlace {
  readonly attempts: readonly { task: number; attempt: number; claim: number }[];
}

export interface Serves {
  readonly use: string;
  readonly version?: string;
  /**
   * Whether the code enumerates tasks. True: it never gets the input as the one task of a definition that names no
   * enumeration. False: it never gets an enumeration. Left out: it gets what the definition says, enumerations only
   * while no worker says true.
   */
  readonly enumerates?: boolean;
}
