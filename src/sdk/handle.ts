/** What a program holds of Rondo and of an execution. Types only: a process's own engine and the HTTP client implement them. */
import type { Detail, PublicEvent } from "../kernel/journal/public-event.ts";
import type { ExecutionView } from "../kernel/view.ts";
import type { Duration } from "../std/duration.ts";
import type { AnyWorkflow, WorkflowInput, WorkflowOutput } from "./workflow.ts";

/** How an execution starts. */
export interface StartOptions {
  /** Its id; made up by default. Starting the same workflow, input and id again finds the same execution. */
  readonly id?: string;
  readonly project?: string;
  readonly tags?: Readonly<Record<string, string>>;
  /** Not before this time, as a date or in milliseconds since 1970. */
  readonly startAt?: Date | number;
  /** Cancelled with the reason `deadline` at this time. */
  readonly deadline?: Date | number;
}

/** How long to wait for a result. */
export interface ResultOptions {
  /** Stops the waiting, not the execution. */
  readonly signal?: AbortSignal;
  readonly timeout?: Duration;
}

/** Which events to read. */
export interface EventsOptions {
  /** The first sequence number; 1 by default. */
  readonly from?: number;
  /** Lists as counts and ranges (`summary`, the default) or as rows. */
  readonly detail?: Detail;
  /** Go on after `workflow.finished`. */
  readonly follow?: boolean;
}

/** Which lines of the logs to read. */
export interface LogsOptions {
  /** Only what was stored later: the `order` of a line that was read before. */
  readonly after?: number;
  /** Go on with new lines as they come, until the execution ends. */
  readonly follow?: boolean;
}

/** A line that an attempt logged, as it is stored. */
export interface LogEntry {
  /** Grows in the order of storing; lines that were stored together have the same. */
  readonly order: number;
  /** When it was written, in milliseconds since 1970. */
  readonly at: number;
  readonly phase: string;
  readonly visit: number;
  readonly handler: string;
  /** The number of the task; -1 is the enumeration. */
  readonly task: number;
  /** The number of the attempt. */
  readonly attempt: number;
  /** The id of the attempt, which no other attempt has. Servers of 0.2 do not say it. */
  readonly attemptId?: string;
  readonly worker: string;
  /** debug, info, warn or error; progress; run (the life of a script's runs). */
  readonly level: string;
  readonly text: string;
  /** The script's run that wrote it. */
  readonly run?: string;
}

/** Who asks for a change of an execution, and why. */
export interface ControlOptions {
  readonly reason?: string;
  readonly by?: string;
  /** Makes a repetition of the request change nothing. */
  readonly id?: string;
}

/** One execution, from outside; not thenable, and disposing it detaches from the execution without touching it. */
export interface ExecutionHandle<Output> extends AsyncDisposable {
  readonly id: string;
  /** Waits for the output; throws `ExecutionFailed`, `ExecutionCancelled`, or a `RondoError` with the code `timeout`. */
  result(options?: ResultOptions): Promise<Output>;
  /** The journal, from the beginning and as it grows; ends when the execution does. */
  events(options?: EventsOptions): AsyncIterable<PublicEvent>;
  /** What its tasks logged, in the order of storing: what is there, or with `follow` until it ends. */
  logs(options?: LogsOptions): AsyncIterable<LogEntry>;
  /** The execution now. */
  status(): Promise<ExecutionView>;
  /** Sends a signal; with an `id`, a repetition changes nothing. */
  signal(name: string, data?: unknown, options?: { readonly id?: string }): Promise<void>;
  /** Starts nothing new until it is resumed. */
  pause(options?: ControlOptions): Promise<void>;
  resume(options?: ControlOptions): Promise<void>;
  cancel(options?: ControlOptions): Promise<void>;
  /** Opens the next round of a failed or cancelled execution: all that is not done runs again. */
  retry(options?: ControlOptions): Promise<void>;
  /** Why it is not further, in one sentence. */
  why(): Promise<string>;
}

/** Which executions to list. */
export interface ListOptions {
  readonly project?: string;
  readonly workflow?: string;
  readonly status?: ExecutionView["status"];
  /**
   * Words that must all fit: the beginning of its id, of its definition's hash (from 8 digits), the whole name of its
   * workflow (case counts), a tag (`team=ops`, `team` or `ops`), or a word of its error. What was written within the last 2 s may
   * be missing.
   */
  readonly q?: string;
  /** Tags that it must have; null stands for any value. Found as by `q`. */
  readonly tags?: Readonly<Record<string, string | null>>;
  readonly limit?: number;
  /** The `next` of the page before. */
  readonly cursor?: string;
}

/** A page of executions, newest first; `next` is null on the last. */
export interface ExecutionPage {
  readonly data: readonly ExecutionView[];
  readonly next: string | null;
}

/** Rondo as a program uses it; workflows are named by their object, or by name with their type as type argument. */
export interface RondoClient {
  /** Starts an execution; resolved when that is durable. */
  start<W extends AnyWorkflow = AnyWorkflow>(
    workflow: W | string,
    input: WorkflowInput<NoInfer<W>>,
    options?: StartOptions,
  ): Promise<ExecutionHandle<WorkflowOutput<W>>>;
  /** Starts an execution and waits for its output. */
  run<W extends AnyWorkflow = AnyWorkflow>(
    workflow: W | string,
    input: WorkflowInput<NoInfer<W>>,
    options?: StartOptions & ResultOptions,
  ): Promise<WorkflowOutput<W>>;
  /** The handle of an execution that exists; nothing is asked before the handle is used. */
  execution<W extends AnyWorkflow = AnyWorkflow>(id: string): ExecutionHandle<WorkflowOutput<W>>;
  list(options?: ListOptions): Promise<ExecutionPage>;
}
