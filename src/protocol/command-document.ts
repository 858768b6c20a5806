/**
 * Command workflows as documents: what is handed in and what is read back. Field names are those of the documents
 * themselves, not of this code.
 */
import type { ProcStatus } from "../kernel/command/command-view.ts";
import type { RetryDefinition } from "../kernel/definition/definition.ts";
import type { Duration } from "../std/duration.ts";
import type { Json } from "../std/json.ts";

/** A command as it is read: `cmd_metadata` has its hash and that of its workflow. */
export interface CommandDocument {
  readonly cmd_type: string;
  readonly cmd_data: Json;
  readonly cmd_metadata: { readonly [key: string]: Json };
  /** What its receipt said, enriched; `{}` before there is one. */
  readonly cmd_result: Json;
}

/** Where a command goes and how far it is. */
export interface ProcDocument {
  readonly target_topic_name: string;
  readonly receipt_topic_name: string;
  /** As it was given, with times in milliseconds. */
  readonly retry?: RetryDefinition;
  readonly timeout?: number;
  readonly proc_status: ProcStatus;
  /** Why it is ERROR; null otherwise. */
  readonly proc_err: Json;
  readonly utc_created_timestamp: string;
  /** When it could be sent first. */
  readonly utc_started_timestamp: string | null;
  /** When its last receipt was counted. */
  readonly utc_receipted_timestamp: string | null;
  /** What is still to be done with its result. */
  readonly post_ops?: readonly OwedDocument[];
  /** For a command that is sent once for each of several tasks: how many there are, and how far they are. */
  readonly tasks?: Readonly<Record<string, number>>;
}

/** A post-operation that is owed. */
export interface OwedDocument {
  readonly op: "persistence" | "broadcast";
  /** Which of the broadcasts; 0 for a persistence. */
  readonly index: number;
  /** The state store or the address. */
  readonly target: string;
  /** Tries that have ended. */
  readonly attempts: number;
  /** When it is tried again; null: now. */
  readonly utc_next_timestamp: string | null;
  /** Why the last try failed. */
  readonly error: string | null;
}

export interface StepDocument {
  readonly cmd: CommandDocument;
  readonly proc: ProcDocument;
}

/** A workflow of commands as it is read back. */
export interface WorkflowDocument {
  readonly workflow_id: string;
  readonly workflow_hash: string;
  readonly steps: readonly StepDocument[];
}

/** Workflows of a project; `next` is beside the project on a page. */
export interface ProjectDocument {
  readonly [project: string]: { readonly workflows: readonly WorkflowDocument[] } | string | null;
}

/** A step as it is handed in; what is only read is taken and ignored. */
export interface StepSubmission {
  readonly cmd: {
    readonly cmd_type: string;
    readonly cmd_data?: Json;
    readonly cmd_metadata?: { readonly [key: string]: Json };
    readonly cmd_result?: unknown;
  };
  readonly proc: {
    readonly target_topic_name: string;
    /** Where its receipt comes back; derived from the target by default. */
    readonly receipt_topic_name?: string | null;
    readonly retry?: {
      readonly attempts?: number;
      readonly crashes?: number;
      readonly backoff?: "exponential" | "constant";
      readonly min?: Duration;
      readonly max?: Duration;
    };
    /** How long a receipt may take before the command is sent again. */
    readonly timeout?: Duration;
    readonly proc_status?: unknown;
    readonly proc_err?: unknown;
    readonly post_ops?: unknown;
    readonly tasks?: unknown;
    readonly utc_created_timestamp?: unknown;
    readonly utc_started_timestamp?: unknown;
    readonly utc_receipted_timestamp?: unknown;
  };
}

/** A workflow as it is handed in. */
export interface WorkflowSubmission {
  /** Its id; made up by default. Handing in the same workflow under the same id again finds it. */
  readonly workflow_id?: string;
  readonly workflow_hash?: unknown;
  readonly dead_letters?: unknown;
  readonly steps: readonly StepSubmission[];
}

/** A whole project document as it is handed in: workflows as a list, or by their ids. */
export interface ProjectSubmission {
  readonly [project: string]: {
    readonly workflows: readonly WorkflowSubmission[] | { readonly [id: string]: WorkflowSubmission };
  };
}
