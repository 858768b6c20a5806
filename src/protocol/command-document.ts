/** Command workflows as documents, as they are submitted and read back. The field names are those of the documents. */
import type { ProcStatus } from "../kernel/command/command-view.ts";
import type { RetryDefinition } from "../kernel/definition/definition.ts";
import type { Duration } from "../std/duration.ts";
import type { Json } from "../std/json.ts";

/** A command that is read back. `cmd_metadata` has its hash and the hash of its workflow. */
export interface CommandDocument {
  /** The type of the command. */
  readonly cmd_type: string;
  /** The data of the command, as submitted. */
  readonly cmd_data: Json;
  /** The metadata of the command, with its hash and that of its workflow. */
  readonly cmd_metadata: {
    /** The hash of the command. */
    readonly cmd_hash: string;
    /** The hash of the command's workflow. */
    readonly workflow_hash: string;
    readonly [key: string]: Json;
  };
  /** The result of the command's receipt, with the fields that Rondo adds; `{}` before there is a receipt. */
  readonly cmd_result: Json;
}

/** The topics and the progress of a command. */
export interface ProcDocument {
  /** The topic that the command is sent to. */
  readonly target_topic_name: string;
  /** The topic on which the command's receipt arrives. */
  readonly receipt_topic_name: string;
  /** The retry policy as it was submitted, with times in milliseconds. */
  readonly retry?: RetryDefinition;
  /** How long a receipt may take before the command is sent again, in milliseconds. */
  readonly timeout?: number;
  /** The status of the command. */
  readonly proc_status: ProcStatus;
  /** The error if the status is ERROR, else null. */
  readonly proc_err: Json;
  /** When the command was submitted. */
  readonly utc_created_timestamp: string;
  /** When the command could first be sent. */
  readonly utc_started_timestamp: string | null;
  /** When the command's last accepted receipt arrived. */
  readonly utc_receipted_timestamp: string | null;
  /** The post-operations of the command's result that are not done yet. */
  readonly post_ops?: readonly OwedDocument[];
  /** For a command that is sent for each of several tasks: the number of tasks by status. */
  readonly tasks?: Readonly<Record<string, number>>;
}

/** A post-operation that is not done yet. */
export interface OwedDocument {
  /** The kind of post-operation. */
  readonly op: "persistence" | "broadcast";
  /** The index of a broadcast; 0 for a persistence. */
  readonly index: number;
  /** The name of the state store, or the URL. */
  readonly target: string;
  /** The number of failed tries. */
  readonly attempts: number;
  /** When the post-operation is retried; null means now. */
  readonly utc_next_timestamp: string | null;
  /** Why the last try failed. */
  readonly error: string | null;
}

/** A step of a workflow: a command and its progress. */
export interface StepDocument {
  /** The command. */
  readonly cmd: CommandDocument;
  /** The topics of the command, and its progress. */
  readonly proc: ProcDocument;
}

/** A workflow of commands that is read back. */
export interface WorkflowDocument {
  /** The id of the workflow, which is the id of its execution. */
  readonly workflow_id: string;
  /** The hash over the workflow's commands. */
  readonly workflow_hash: string;
  /** The steps of the workflow, in their order. */
  readonly steps: readonly StepDocument[];
}

/** The workflows of a project. If they are listed in pages, the document also has the field `next`. */
export interface ProjectDocument {
  /** The workflows, by the name of the project. */
  readonly [project: string]: { readonly workflows: readonly WorkflowDocument[] } | string | null;
}

/** A step as it is submitted. Read-only fields are ignored, so that a document can be submitted as it was read. */
export interface StepSubmission {
  /** The command. */
  readonly cmd: {
    readonly cmd_type: string;
    readonly cmd_data?: Json;
    readonly cmd_metadata?: { readonly [key: string]: Json };
    readonly cmd_result?: unknown;
  };
  /** The topics and options of the command. */
  readonly proc: {
    readonly target_topic_name: string;
    /** The topic of the command's receipt; by default it is derived from the target topic. */
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

/** A workflow as it is submitted. */
export interface WorkflowSubmission {
  /**
   * The id. The same workflow under the same id is submitted once.
   *
   * @default a new id
   */
  readonly workflow_id?: string;
  /** Ignored in a submission: Rondo sets this field in the documents that it returns. */
  readonly workflow_hash?: unknown;
  /** Ignored in a submission: Rondo sets this field in the documents that it returns. */
  readonly dead_letters?: unknown;
  /** The steps, in their order. */
  readonly steps: readonly StepSubmission[];
}

/** A submitted project document. Its workflows are a list, or a map by id. */
export interface ProjectSubmission {
  /** The workflows, by the name of the project: a list, or an object by their ids. */
  readonly [project: string]: {
    readonly workflows: readonly WorkflowSubmission[] | { readonly [id: string]: WorkflowSubmission };
  };
}
