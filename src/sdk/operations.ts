/**
 * The operations of a program other than starts: schedules, dead letters, workers, and changes of many executions. They are the same in
 * process, under test and from `connect`. All exports are public: `rondo` and `rondo/client` export this file as a whole.
 */
import type { ShownStatus } from "../kernel/view.ts";
import type { Duration } from "../std/duration.ts";
import type { Json } from "../std/json.ts";
import type { AnyWorkflow, WorkflowInput } from "./workflow.ts";

/** A page of a list. */
export interface Page<T> {
  /** The items of the page. */
  readonly data: readonly T[];
  /** The `cursor` of the next page; null on the last page. */
  readonly next: string | null;
}

/** Which page of a list to read. */
export interface PageOptions {
  /**
   * The most items of one page, from 1 to 1,000.
   *
   * @default 50
   */
  readonly limit?: number;
  /**
   * The `next` of the page before.
   *
   * @default the first page
   */
  readonly cursor?: string;
}

/** A schedule as it is given to `schedules.put`. */
export interface ScheduleSpec<W extends AnyWorkflow = AnyWorkflow> {
  /** The id of the schedule. A second `put` with the same id changes the schedule. */
  readonly id: string;
  /** The workflow that is started: its object, or its name. */
  readonly workflow: W | string;
  /**
   * The input of each execution.
   *
   * @default null
   */
  readonly input?: WorkflowInput<NoInfer<W>>;
  /** The due times: five fields (minute, hour, day, month, weekday), six with seconds first, or a word such as `@daily`. */
  readonly cron: string;
  /**
   * The time zone of the due times, such as `Europe/Berlin`.
   *
   * @default "UTC"
   */
  readonly timeZone?: string;
  /**
   * What happens to due times that were missed while no program ran: `fireOnce` starts one execution for the latest, `skip`
   * starts none, `all` starts one for each.
   *
   * @default "fireOnce"
   */
  readonly misfire?: "fireOnce" | "skip" | "all";
  /**
   * What happens at a due time while the last execution is still open: `allow` starts another one, `skip` starts none, `queue`
   * starts one when the last has ended.
   *
   * @default "allow"
   */
  readonly overlap?: "allow" | "skip" | "queue";
  /**
   * The project of the executions.
   *
   * @default "default"
   */
  readonly project?: string;
  /**
   * Tags of the executions.
   *
   * @default {}
   */
  readonly tags?: Readonly<Record<string, string>>;
}

/** Why a start was or would be refused. */
export interface StartRefusal {
  /** The code of the refusal, such as `invalid_input`. */
  readonly code: string;
  /** The reason in a sentence. */
  readonly message: string;
}

/** A schedule with its state. */
export interface ScheduleView {
  /** The id of the schedule. */
  readonly id: string;
  /** The name of the workflow that is started. */
  readonly workflow: string;
  /** The input of each execution. */
  readonly input: Json;
  /** The cron expression of the due times. */
  readonly cron: string;
  /** The time zone of the due times. */
  readonly timeZone: string;
  /** The policy for missed due times. */
  readonly misfire: string;
  /** The policy for a due time at which the last execution is open. */
  readonly overlap: string;
  /** The project of the executions. */
  readonly project: string;
  /** The next due times, in milliseconds since 1970. */
  readonly next: readonly number[];
  /** Why a start by this schedule would be refused now; null if it would be accepted. Only `get` and `list` check this. */
  readonly problem?: StartRefusal | null | undefined;
  /** The state of the schedule. */
  readonly state: ScheduleState;
}

/** The state of a schedule: whether it is paused, and its starts so far. */
export interface ScheduleState {
  /** Whether the schedule is paused. */
  readonly paused: boolean;
  /** The last due time that started an execution. */
  readonly lastDue: number | null;
  /** The id of the last execution. */
  readonly lastExecution: string | null;
  /** The due time that waits for the end of the last execution. */
  readonly queued: number | null;
  /** The number of due times that passed while the last execution was open. */
  readonly skipped: number;
  /** The number of missed due times that started nothing. */
  readonly dropped: number;
  /** Why the last due time started no execution; null if it started one. */
  readonly lastError: (StartRefusal & { readonly due: number; readonly at: number }) | null;
}

/** Options of `schedules.list`. */
export interface ScheduleListOptions extends PageOptions {
  /**
   * Lists only schedules of this project.
   *
   * @default any
   */
  readonly project?: string;
  /**
   * Lists only schedules that start the workflow of this name.
   *
   * @default any
   */
  readonly workflow?: string;
}

/** Options of `schedules.run`. */
export interface ScheduleRunOptions {
  /**
   * The id of the request. A second request with the same id starts nothing.
   *
   * @default a new id
   */
  readonly id?: string;
}

/** Schedules: they start executions at given times. */
export interface ScheduleOperations {
  /**
   * Creates a schedule, or changes the one with its id.
   *
   * @throws RondoError with the code `not_found` if there is no such workflow, `invalid_input` if the input does not fit it
   * @example await rondo.schedules.put({ id: "nightly", workflow: nightly, input: { bucket: "b" }, cron: "0 2 * * *" });
   */
  put<W extends AnyWorkflow = AnyWorkflow>(spec: ScheduleSpec<W>): Promise<ScheduleView>;
  /**
   * Reads a schedule, with its next due times.
   *
   * @throws RondoError with the code `not_found` if there is no such schedule
   */
  get(id: string): Promise<ScheduleView>;
  /** Reads a page of schedules, in the order of their ids. */
  list(options?: ScheduleListOptions): Promise<Page<ScheduleView>>;
  /** Pauses a schedule: it starts nothing until `resume`. */
  pause(id: string): Promise<ScheduleView>;
  /** Resumes a schedule. Due times that passed meanwhile start nothing. */
  resume(id: string): Promise<ScheduleView>;
  /** Starts an execution of the schedule now. Returns the id of the execution. */
  run(id: string, options?: ScheduleRunOptions): Promise<string>;
  /** Deletes a schedule. Executions that it started go on. */
  delete(id: string): Promise<void>;
}

/** A failed task of a dead letter. */
export interface DeadTask {
  /** The number of the task. */
  readonly n: number;
  /** The number of its last attempt. */
  readonly attempt: number;
  /** Why the task was given up, if the reason is not the error of its last attempt. */
  readonly reason: string | null;
  /** The worker of the last attempt. */
  readonly worker: string;
  /** The error of the last attempt. */
  readonly error: Json;
}

/** A dead letter: the tasks that failed for good in one event, or a broadcast of a command that was given up. */
export interface DeadLetter {
  /** The id of the dead letter. */
  readonly id: number;
  /** The id of the execution. */
  readonly execution: string;
  /** The name of the workflow. */
  readonly workflow: string;
  /** The project of the execution. */
  readonly project: string;
  /** The sequence number of the event that settled the tasks. */
  readonly seq: number;
  /** When the tasks or the broadcast were given up, in milliseconds since 1970. */
  readonly at: number | null;
  /** The name of the phase. */
  readonly phase: string | null;
  /** The number of the visit of the phase. */
  readonly visit: number;
  /** The name of the handler. */
  readonly handler: string | null;
  /** The number of tasks in this dead letter. */
  readonly count: number;
  /** The tasks of this dead letter, at most 100 of them. */
  readonly tasks: readonly DeadTask[];
  /** The broadcast that was given up; null if tasks failed. */
  readonly postOp: { readonly step: number; readonly op: string; readonly target: string } | null;
}

/** A group of dead letters with the same error. */
export interface DeadLetterGroup {
  /** The id of the group. */
  readonly id: string;
  /** The project of the executions. */
  readonly project: string;
  /** The name of the workflow. */
  readonly workflow: string;
  /** The name of the phase. */
  readonly phase: string | null;
  /** The name of the handler. */
  readonly handler: string | null;
  /** The name of the error. */
  readonly name: string;
  /** The message of the error. */
  readonly message: string;
  /** The number of failed tasks in the group. */
  readonly tasks: number;
  /** The number of executions in the group. */
  readonly executions: number;
  /** When the first task of the group failed, in milliseconds since 1970. */
  readonly firstAt: number | null;
  /** When the last task of the group failed. */
  readonly lastAt: number | null;
  /** One of the failed tasks, as an example. */
  readonly sample: { readonly execution: string; readonly task: number };
}

/** Which dead letters. */
export interface DeadLetterFilter {
  /**
   * Lists only dead letters of this project.
   *
   * @default any
   */
  readonly project?: string;
  /**
   * Lists only dead letters of the workflow of this name.
   *
   * @default any
   */
  readonly workflow?: string;
  /**
   * Lists only dead letters of this execution.
   *
   * @default any
   */
  readonly execution?: string;
}

/** Options of `deadLetters.list`. */
export interface DeadLetterListOptions extends DeadLetterFilter, PageOptions {
  /**
   * Lists only dead letters of the group with this id.
   *
   * @default any
   */
  readonly group?: string;
}

/** The answer to a change of a group of dead letters. */
export interface DeadLettersChanged {
  /** The number of executions that were retried, or of tasks that were dropped. */
  readonly changed: number;
  /** For a retry: the number of tasks that run again. */
  readonly tasks?: number | undefined;
  /** The executions that could not be changed. */
  readonly refused: readonly RefusedChange[];
}

/** An execution that a bulk change has left out. */
export interface RefusedChange {
  /** The id of the execution. */
  readonly id: string;
  /** The code of the refusal, such as `wrong_status`. */
  readonly code: string;
  /** The reason in a sentence. */
  readonly message: string;
}

/** Dead letters: tasks that failed for good. */
export interface DeadLetterOperations {
  /**
   * Reads a page of dead letters, the newest first.
   *
   * @example const { data } = await rondo.deadLetters.list({ workflow: "nightly" });
   */
  list(options?: DeadLetterListOptions): Promise<Page<DeadLetter>>;
  /** Reads the groups of the newest 500 dead letters with the same error, the largest first. */
  groups(filter?: DeadLetterFilter): Promise<readonly DeadLetterGroup[]>;
  /**
   * Runs the tasks of a dead letter again. If the execution has failed or was cancelled, all its unfinished tasks run again.
   *
   * @throws RondoError with the code `not_found` if there is no such dead letter, `wrong_status` if it cannot be retried now
   */
  retry(id: number): Promise<void>;
  /** Runs the tasks of a group again, of at most 1,000 executions. With `dryRun` it only counts the tasks. */
  retryGroup(id: string, options?: { readonly dryRun?: boolean }): Promise<DeadLettersChanged>;
  /** Removes a dead letter, or some of its tasks, from the list. The execution stays as it is. */
  drop(id: number, options?: { readonly tasks?: readonly number[] }): Promise<void>;
  /** Removes a group from the list. The executions stay as they are. */
  dropGroup(id: string): Promise<DeadLettersChanged>;
}

/** A worker that is connected. */
export interface WorkerView {
  /** The id of the worker. */
  readonly id: string;
  /** The name of the worker. */
  readonly name: string;
  /** Whether the worker runs inside the process of a node. */
  readonly kind: "local" | "remote";
  /** The only project whose tasks the worker gets; null for any. */
  readonly project: string | null;
  /** The most tasks that the worker holds at a time. */
  readonly capacity: number;
  /** The number of tasks that the worker holds. */
  readonly held: number;
  /** The handlers that the worker serves. */
  readonly handlers: readonly { readonly use: string; readonly version?: string | undefined }[];
  /** The topics that the worker serves. */
  readonly topics: readonly string[];
  /** The version of Rondo that the worker runs. */
  readonly version: string | null;
  /** When the worker was last heard of, in milliseconds since 1970; null for a worker in the process of a node. */
  readonly lastSeenAt: number | null;
  /** Whether the worker is leaving (draining): it finishes its tasks and claims no others. */
  readonly draining: boolean;
}

/** Workers that are connected now. */
export interface WorkerOperations {
  /** Lists the workers. */
  list(): Promise<readonly WorkerView[]>;
  /**
   * Tells a remote worker to leave: it finishes its tasks and claims no others.
   *
   * @throws RondoError with the code `not_found` if there is no such worker
   */
  drain(id: string): Promise<void>;
}

/** A definition of a workflow, with the executions that need it and the workers that serve it. */
export interface VersionView {
  /** The version of the definition; null if it has none. */
  readonly version: string | null;
  /** The hash of the definition. */
  readonly hash: string;
  /** When this definition became the newest one, in milliseconds since 1970; null if it never was, or if that time is not known. */
  readonly at: number | null;
  /** How many open executions have this definition. */
  readonly open: number;
  /** The oldest open execution of this definition; null if there is none. */
  readonly oldest: { readonly id: string; readonly createdAt: number } | null;
  /** The ids of connected workers that serve some code of this definition, 20 at most. */
  readonly workers: readonly string[];
  /** The code of this definition that no connected worker serves: its wire name, and the range of versions. */
  readonly unserved: readonly string[];
  /** Whether a start that names the workflow without a version uses this definition. */
  readonly isNewest: boolean;
  /** Whether the code of this definition can be retired: no open execution needs it, and no start without a version uses it. */
  readonly canRetire: boolean;
}

/** A filter for executions. Without any field, it matches all of them. */
export interface ExecutionFilter {
  /**
   * Matches only executions of this project.
   *
   * @default any
   */
  readonly project?: string;
  /**
   * Matches only executions of the workflow of this name.
   *
   * @default any
   */
  readonly workflow?: string;
  /**
   * Matches only executions with this status, or with one of several.
   *
   * @default any
   */
  readonly status?: ShownStatus | readonly ShownStatus[];
  /**
   * Words that must all match. A word matches the beginning of the id, the beginning of the definition's hash (from 8
   * digits), the whole name of the workflow (case counts), a tag (`team=ops`, `team` or `ops`), or a word of the error.
   * Changes of the last 2 s may be missing.
   *
   * @default ""
   */
  readonly search?: string;
  /**
   * Tags that the executions must have; null matches any value. As with `search`, changes of the last 2 s may be missing.
   *
   * @default {}
   */
  readonly tags?: Readonly<Record<string, string | null>>;
  /**
   * Matches only executions that were created at or after this time: a date, or milliseconds since 1970.
   *
   * @default any
   */
  readonly since?: Date | number;
  /**
   * Matches only executions that were created at or before this time.
   *
   * @default any
   */
  readonly until?: Date | number;
  /**
   * Leaves out children of other executions.
   *
   * @default false
   */
  readonly top?: boolean;
  /**
   * Matches only running executions that have no work for workers now, because they wait for a time or a signal.
   *
   * @default false
   */
  readonly waiting?: boolean;
}

/** A change of many executions. */
export type BulkAction = "cancel" | "pause" | "resume" | "retry" | "move";

/** Options of `bulk`. */
export interface BulkOptions {
  /**
   * For `move`: the version of the workflow that the executions are moved to.
   *
   * @default none
   */
  readonly version?: string;
  /**
   * For `move`, instead of `version`: the hash of a definition.
   *
   * @default none
   */
  readonly hash?: string;
  /**
   * Finds the executions without changing them. For a move, it also checks each execution, and lists those that cannot be moved
   * as refused.
   *
   * @default false
   */
  readonly dryRun?: boolean;
  /**
   * Why the change is made; shown in the journals.
   *
   * @default none
   */
  readonly reason?: string;
  /**
   * The most executions to change, the newest first.
   *
   * @default all of them
   */
  readonly limit?: number;
}

/** The answer of `bulk`. */
export interface BulkChanged {
  /** The number of executions that match. */
  readonly matched: number;
  /** The number of executions that were changed; 0 with `dryRun`. */
  readonly changed: number;
  /** The ids of the executions that were changed; with `dryRun` of those that match. */
  readonly ids: readonly string[];
  /** The executions whose status does not allow the change. */
  readonly refused: readonly RefusedChange[];
}

/**
 * A right of a token for one execution. `read`: its view, result, published state and streams, and what it waits for. `history`: its
 * events, logs and tasks. `signal`: send it signals. `update`: send it updates. `cancel`: cancel it.
 */
export type TokenScope = "read" | "history" | "signal" | "update" | "cancel";

/** Options of `tokenFor`. */
export interface TokenOptions {
  /**
   * The rights of the token.
   *
   * @default ["read"]
   */
  readonly scopes?: readonly TokenScope[];
  /**
   * How long the token is valid, at most 7 days.
   *
   * @default "1h"
   */
  readonly expires?: Duration;
}

/** A token for one execution. */
export interface ExecutionToken {
  /** The text of the token. The server does not store it. */
  readonly token: string;
  /** The id of the execution. */
  readonly execution: string;
  /** The rights of the token. */
  readonly scopes: readonly TokenScope[];
  /** When the token expires, in milliseconds since 1970. */
  readonly expiresAt: number;
}

/** The operations of a program, other than starts. */
export interface Operations {
  /** Schedules: they start executions at given times. In process they start executions only while the program runs. */
  readonly schedules: ScheduleOperations;
  /** Dead letters: tasks that failed for good. */
  readonly deadLetters: DeadLetterOperations;
  /** Workers that are connected now. */
  readonly workers: WorkerOperations;
  /**
   * Makes a token that gives access to one execution only, for a page in a browser. It is also valid for executions that
   * continue this one (`ID~2`), but not for its children. The token is not stored. It becomes invalid at its expiry, or with
   * the token of the caller who made it.
   *
   * @throws RondoError with the code `not_found` if there is no such execution, `forbidden` if the caller is no operator
   * @example const { token } = await rondo.tokenFor("order-7", { scopes: ["read", "signal"], expires: "2h" });
   */
  tokenFor(id: string, options?: TokenOptions): Promise<ExecutionToken>;
  /**
   * Lists the definitions of a workflow, each once: the newest first, then the others. Each has the number of open executions
   * that need it, and the workers that serve it.
   *
   * @throws RondoError with the code `not_found` if there is no such workflow
   * @example const old = (await rondo.versions("order")).filter(({ canRetire }) => canRetire);
   */
  versions(workflow: string | AnyWorkflow): Promise<readonly VersionView[]>;
  /**
   * Cancels, pauses, resumes, retries or moves all executions that match a filter, the newest first.
   *
   * @throws RondoError with the code `invalid_input` if the filter or an option is wrong
   * @example await rondo.bulk("cancel", { workflow: "nightly", tags: { team: "ops" } }, { reason: "wrong bucket" });
   */
  bulk(action: BulkAction, filter: ExecutionFilter, options?: BulkOptions): Promise<BulkChanged>;
}
