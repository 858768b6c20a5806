/**
 * The interfaces that a program uses: Rondo, and an execution. The engine in this process and the HTTP client implement them.
 * All exports are public: `rondo` and `rondo/client` export this file as a whole.
 */
import type { Detail, PublicEvent } from "../kernel/journal/public-event.ts";
import type { RetriedTasks } from "../kernel/message.ts";
import type { ExecutionView, ShownStatus } from "../kernel/view.ts";
import type { SentEvent } from "../protocol/sent-event.ts";
import type { Duration } from "../std/duration.ts";
import type { Json } from "../std/json.ts";
import type { RondoError } from "../std/rejection.ts";
import type { SignalType, UpdateType } from "./declared.ts";
import type { EventToSend } from "./event.ts";
import type { ExecutionFilter, Operations, PageOptions } from "./operations.ts";
import type { AnyWorkflow, WorkflowInput, WorkflowOutput } from "./workflow.ts";

/** Options of `start` and `run`. */
export interface StartOptions {
  /**
   * The id of the execution. A start with the same workflow, input and id finds the execution that exists.
   *
   * @default a new id
   */
  readonly id?: string;
  /**
   * The project that the execution belongs to.
   *
   * @default "default"
   */
  readonly project?: string;
  /**
   * Tags by which the execution can be found.
   *
   * @default {}
   */
  readonly tags?: Readonly<Record<string, string>>;
  /**
   * The execution starts no work before this time: a date, or milliseconds since 1970.
   *
   * @default now
   */
  readonly startAt?: Date | number;
  /**
   * The execution is cancelled at this time, with the code `deadline`: a date, or milliseconds since 1970.
   *
   * @default none
   */
  readonly deadline?: Date | number;
  /**
   * What happens if an execution with the id exists. `return` gives the execution of an equal start; another start under the id is
   * refused with the code `conflict`. `fail` refuses every second start. `startNewWhenDone` starts a new execution if the last one
   * of the id has ended, and is `return` otherwise: the second execution of an id has the id `ID~2`, the third one `ID~3`.
   *
   * @default "return"
   */
  readonly ifExists?: "return" | "fail" | "startNewWhenDone";
}

/** One start of `startMany`: the input, and the options of `start`. */
export interface StartItem<Input> extends StartOptions {
  /** The input of the execution. */
  readonly input: Input;
}

/** The answer to one start of `startMany`. */
export type StartOutcome<Output> =
  | {
      /** The execution. Its start is durable. */
      readonly execution: ExecutionHandle<Output>;
      /** Whether the execution existed before, from an equal start with the same id. */
      readonly existed: boolean;
      /** Always null: the start was not refused. */
      readonly error: null;
    }
  | {
      /** Always null: the refused start has no execution. */
      readonly execution: null;
      /** Always false: the start was refused. */
      readonly existed: false;
      /** Why the start was refused. */
      readonly error: RondoError;
    };

/** Options of `result` and `run`: how long to wait. When the wait ends early, the execution goes on. */
export interface ResultOptions {
  /**
   * Ends the waiting when this signal is aborted.
   *
   * @default none
   */
  readonly signal?: AbortSignal;
  /**
   * The longest time to wait.
   *
   * @default no limit
   */
  readonly timeout?: Duration;
}

/** Options of `events`. */
export interface EventsOptions {
  /**
   * The sequence number of the first event to read.
   *
   * @default 1
   */
  readonly from?: number;
  /**
   * How lists of tasks are shown: as counts and ranges (`summary`), or with a row for each task (`full`).
   *
   * @default "summary"
   */
  readonly detail?: Detail;
  /**
   * Goes on waiting for events after `workflow.finished`, because a retry of the execution adds more events.
   *
   * @default false
   */
  readonly follow?: boolean;
}

/** Options of `watch`. */
export interface WatchOptions {
  /**
   * Called with true when there is a connection to the server, and with false when it is lost.
   *
   * @default none
   */
  readonly onConnection?: (isConnected: boolean) => void;
}

/** Options of `logs`. */
export interface LogsOptions {
  /**
   * Reads only the lines that were stored after the line with this `order`.
   *
   * @default 0
   */
  readonly after?: number;
  /**
   * Waits for new lines until the execution ends.
   *
   * @default false
   */
  readonly follow?: boolean;
}

/** A stored log line of an attempt. */
export interface LogEntry {
  /** The number of the line, which grows in the order of storing. Lines that were stored together have the same number. */
  readonly order: number;
  /** When the line was written, in milliseconds since 1970. */
  readonly at: number;
  /** The name of the phase. */
  readonly phase: string;
  /** The number of the visit of the phase, from 1. */
  readonly visit: number;
  /** The name of the handler. */
  readonly handler: string;
  /** The number of the task; -1 is the enumeration. */
  readonly task: number;
  /** The number of the attempt. */
  readonly attempt: number;
  /** The unique id of the attempt. Servers of version 0.2 leave it out. */
  readonly attemptId?: string;
  /** The name of the worker. */
  readonly worker: string;
  /** `debug`, `info`, `warn` or `error`; `progress`; `run` for the start and end of a script's runs. */
  readonly level: string;
  /** The text of the line. */
  readonly text: string;
  /** The fields of the first value, if that was a plain object, as in `log.info({ order: 7 }, "paid")`. */
  readonly fields?: Readonly<Record<string, Json>>;
  /** The run of the script that wrote the line. */
  readonly run?: string;
}

/** Options of `stream`. */
export interface StreamOptions {
  /**
   * Reads only the pieces after the piece with this `id`.
   *
   * @default from the beginning
   */
  readonly after?: string;
  /**
   * Waits for new pieces until the writer ends the stream or the execution ends.
   *
   * @default true
   */
  readonly follow?: boolean;
  /**
   * Reads only the pieces that the task with this number wrote.
   *
   * @default all tasks
   */
  readonly task?: number;
}

/** A piece of a stream: chunks of one writer that were stored together. A writer is a step of a task, or its code outside of steps. */
export interface StreamPiece<Chunk = Json> {
  /** The position of the piece in its stream. */
  readonly id: string;
  /** When the first chunk was written, in milliseconds since 1970. */
  readonly at: number;
  /** The name of the stream. */
  readonly stream: string;
  /**
   * The number of the first chunk among those of its writer, from 0. If a writer begins again at 0, because its step or its attempt
   * runs again, its earlier chunks do not count any more.
   */
  readonly index: number;
  /** The chunks, in their order. */
  readonly chunks: readonly Chunk[];
  /** The step that wrote the chunks; missing outside of steps. */
  readonly step?: string;
  /** Whether this piece marks the end of the stream. It then has no chunks. */
  readonly end?: true;
  /** The name of the phase. */
  readonly phase: string;
  /** The number of the visit of the phase, from 1. */
  readonly visit: number;
  /** The name of the handler. */
  readonly handler: string;
  /** The number of the task. */
  readonly task: number;
  /** The number of the attempt. */
  readonly attempt: number;
  /** The unique id of the attempt. */
  readonly attemptId: string;
}

/** A stream of an execution: its pieces in the order of storing, while they are written and later. */
export interface ExecutionStream<Chunk = Json> extends AsyncIterable<StreamPiece<Chunk>> {
  /**
   * Reads the current chunks of the stream in their order. If a writer has begun again, only its new chunks are read. With
   * `follow: true` the call waits for the end of the stream.
   *
   * @default follow: false
   * @example
   * const answer = (await execution.stream<string>("answer").chunks({ follow: true })).join("");
   */
  chunks(options?: { readonly follow?: boolean }): Promise<readonly Chunk[]>;
}

/** Options of `pause`, `resume`, `cancel` and `retry`. */
export interface ControlOptions {
  /**
   * Why the change is made; shown in the journal.
   *
   * @default none
   */
  readonly reason?: string;
  /**
   * Who makes the change; shown in the journal.
   *
   * @default "api"
   */
  readonly by?: string;
  /**
   * The id of the request. A second request with the same id changes nothing.
   *
   * @default a new id
   */
  readonly id?: string;
}

/** Options of `cancel`. */
export interface CancelOptions extends ControlOptions {
  /**
   * Stops a clean-up that is under way, without its remaining work. A `retry` can do that work later.
   *
   * @default false
   */
  readonly force?: boolean;
}

/** The definition that an execution is moved to: a version of its workflow, or the hash of a definition. */
export type MoveTarget = { readonly version: string } | { readonly hash: string };

/** Options of `move`. */
export interface MoveOptions extends ControlOptions {
  /**
   * Only checks whether the execution can be moved.
   *
   * @default false
   */
  readonly dryRun?: boolean;
}

/** Tasks of a handler that are not done, for `retryTasks`. */
export interface TaskChoice {
  /** The name of the phase. It can be left out if `error` is given. */
  readonly phase?: string;
  /**
   * The number of the visit of the phase.
   *
   * @default the last one
   */
  readonly visit?: number;
  /**
   * The name of the handler.
   *
   * @default the name of the phase
   */
  readonly handler?: string;
  /**
   * The numbers of the tasks. Tasks that have not failed are left out. Once the execution has ended, cancelled tasks can be given, too.
   *
   * @default all failed ones of the handler
   */
  readonly numbers?: readonly number[];
  /**
   * Chooses only tasks that failed with this error: the name of the error, or the id of a group of dead letters. It replaces `numbers`.
   *
   * @default any error
   */
  readonly error?: string;
}

/** Options of `retryTasks`. */
export interface RetryTasksOptions extends Omit<ControlOptions, "reason"> {
  /**
   * Only counts the tasks, without running them again.
   *
   * @default false
   */
  readonly dryRun?: boolean;
}

/**
 * What happened to a signal when it was accepted: a wait has taken it (`delivered`), or it is kept for a later wait (`kept`).
 * Nodes before version 0.3 do not report this; then the state is `kept`.
 */
export type SignalState = "delivered" | "kept";

/** Options of `signal`. */
export interface SignalOptions {
  /**
   * The id of the signal. A second signal with the same id changes nothing.
   *
   * @default a new id
   */
  readonly id?: string;
}

/** Options of `update`: those of a signal, and how long to wait for the answer. */
export interface SendUpdateOptions extends SignalOptions, ResultOptions {}

/** The signal of `signalWithStart`. */
export interface StartSignal<Data = unknown> {
  /** The name of the signal, or a signal that `defineSignal` has declared. */
  readonly name: string | SignalType<Data, unknown>;
  /**
   * The data of the signal: any JSON. That of a declared signal is checked by its schema.
   *
   * @default null
   */
  readonly data?: NoInfer<Data>;
  /**
   * The id of the signal. A second signal with the same id changes nothing.
   *
   * @default a new id
   */
  readonly id?: string;
}

/** Options of `signalWithStart`. The options of a start apply only if the call starts an execution. */
export interface SignalWithStartOptions extends Omit<StartOptions, "ifExists"> {
  /** The id of the execution. */
  readonly id: string;
  /**
   * The behaviour after the execution has ended: `signal` refuses the signal with the code `gone`, `startNewWhenDone` starts a new
   * execution. The second execution of an id has the id `ID~2`, the third one `ID~3`. `new` is the former name of
   * `startNewWhenDone`.
   *
   * @default "signal"
   */
  readonly ifExists?: "signal" | "startNewWhenDone" | "new";
}

/** The answer of `signalWithStart`. */
export interface SignalledExecution<Output> {
  /** The execution that got the signal. */
  readonly execution: ExecutionHandle<Output>;
  /** Whether the call started the execution. */
  readonly started: boolean;
  /** Whether a wait has taken the signal, or it is kept for a later wait. */
  readonly signal: SignalState;
}

/**
 * One execution. A handle is not a promise: await `result()`. Disposing a handle ends its waiting and its iterations; the
 * execution goes on.
 */
export interface ExecutionHandle<Output> extends AsyncDisposable {
  /** The id of the execution. */
  readonly id: string;
  /**
   * Waits for the output of the execution.
   *
   * @throws ExecutionFailed if it failed or its stored data is damaged
   * @throws ExecutionCancelled if it was cancelled
   * @throws RondoError with the code `timeout` if it has not ended in time
   * @example const output = await execution.result({ timeout: "1m" });
   */
  result(options?: ResultOptions): Promise<Output>;
  /**
   * Iterates over the journal: the events so far, then new ones as they come, until the execution ends.
   *
   * @throws ExecutionFailed after the readable events if the stored data is damaged
   * @example for await (const event of execution.events()) console.log(event.seq, event.kind);
   */
  events(options?: EventsOptions): AsyncIterable<PublicEvent>;
  /**
   * Iterates over the stored log lines of the execution's attempts, in the order of storing.
   *
   * @example for await (const { level, text } of execution.logs({ follow: true })) console.log(level, text);
   */
  logs(options?: LogsOptions): AsyncIterable<LogEntry>;
  /**
   * Follows a stream that the code of the execution writes: the pieces so far, then new ones as they come, until the writer ends
   * the stream or the execution ends.
   *
   * @example for await (const { chunks } of execution.stream<string>("answer")) process.stdout.write(chunks.join(""));
   */
  stream<Chunk = Json>(name: string, options?: StreamOptions): ExecutionStream<Chunk>;
  /**
   * Reads the values that the code of the execution has published, by key.
   *
   * @throws RondoError with the code `not_found` if there is no such execution
   * @example const { percent } = await execution.published<{ percent: number }>();
   */
  published<Values extends object = Readonly<Record<string, Json>>>(): Promise<Partial<Values>>;
  /**
   * Iterates over views of the execution: as it is now, then after changes, until it has ended. If changes come fast, views in between
   * are left out. Disposing the handle ends the iteration. An execution that continues as another one has ended, and its last view
   * has `continuedAs`.
   *
   * @throws RondoError with the code `not_found` if there is no such execution
   * @example for await (const { status, phase } of execution.watch()) console.log(status, phase);
   */
  watch(options?: WatchOptions): AsyncIterable<ExecutionView>;
  /**
   * Reads the status of the execution, such as `running` or `done`.
   *
   * @throws RondoError with the code `not_found` if there is no such execution
   */
  status(): Promise<ShownStatus>;
  /**
   * Reads the execution as it is now: status, phases with their counts, output, error.
   *
   * @throws RondoError with the code `not_found` if there is no such execution
   * @example const { status, phase, phases } = await execution.describe();
   */
  describe(): Promise<ExecutionView>;
  /**
   * Sends a signal. The next `waitFor` of this name gets the data, also if it begins later. Returns whether a wait has taken the signal.
   *
   * @throws RondoError if the data does not fit the schema of the wait; with the code `gone` if the execution has ended
   * @example const state = await execution.signal("approved", { by: "ada" });
   */
  signal<Data>(
    signal: SignalType<Data, unknown>,
    data: NoInfer<Data>,
    options?: SignalOptions,
  ): Promise<SignalState>;
  /** Sends a signal by its name. */
  signal(name: string, data?: unknown, options?: SignalOptions): Promise<SignalState>;
  /**
   * Sends an update, and waits for the answer of the code that takes it (`waitForUpdate`, `updates`). A repeat with the same `id` gets
   * the same answer.
   *
   * @throws UpdateRefused if the code refuses it
   * @throws RondoError with the code `gone` if the execution has ended, or ends without an answer; `timeout` if there is none in time
   * @example const total = await execution.update(add, { sku: "tea" }, { timeout: "10s" });
   */
  update<Data, Answer>(
    update: UpdateType<Data, Answer, unknown>,
    data: NoInfer<Data>,
    options?: SendUpdateOptions,
  ): Promise<Answer>;
  /** Sends an update by its name, and waits for its answer. */
  update<Answer = Json>(name: string, data?: unknown, options?: SendUpdateOptions): Promise<Answer>;
  /**
   * Pauses the execution: attempts that run are finished, and no new attempt starts until `resume`.
   *
   * @throws RondoError with the code `wrong_status` if it has ended
   */
  pause(options?: ControlOptions): Promise<void>;
  /**
   * Resumes a paused execution.
   *
   * @throws RondoError with the code `wrong_status` if it has ended
   */
  resume(options?: ControlOptions): Promise<void>;
  /**
   * Cancels the execution: attempts that run are aborted.
   *
   * @throws RondoError with the code `wrong_status` if it has ended
   */
  cancel(options?: CancelOptions): Promise<void>;
  /**
   * Opens the next round of a failed or cancelled execution: every task that is not done runs again.
   *
   * @throws RondoError with the code `wrong_status` if it neither failed nor was cancelled
   */
  retry(options?: ControlOptions): Promise<void>;
  /**
   * Runs chosen tasks again: failed tasks of the phase that is running, or tasks of an execution that has ended. In an ended execution
   * only the chosen tasks run, and later phases do not run again. If the execution was done, `returns` runs again, and its output
   * replaces the old one. If it failed or was cancelled in the phase of these tasks, it goes on once that phase is done.
   *
   * @throws RondoError with the code `wrong_status` if none of the tasks has failed, or a clean-up has begun
   * @example const { tasks } = await execution.retryTasks({ phase: "charge", numbers: [3, 17] });
   */
  retryTasks(choice: TaskChoice, options?: RetryTasksOptions): Promise<RetriedTasks>;
  /**
   * Moves the execution to another definition of its workflow. The visited phases must be the same there, with the
   * same handlers and the same kinds of tasks. Later phases, `next`, `returns`, options and versions are those of the new
   * definition. Attempts that run go on.
   *
   * @throws RondoError with the code `conflict` if a visited phase differs, `not_found` if there is no such version, or
   * `wrong_status` if the execution has ended or cleans up
   * @example await execution.move({ version: "2.0.0" }, { reason: "version 1 is retired" });
   */
  move(to: MoveTarget, options?: MoveOptions): Promise<void>;
  /** Explains in one sentence what the execution waits for. */
  why(): Promise<string>;
  /**
   * The names of the signals that the execution waits for now, each once; none if it has ended. Waits of its children and for
   * updates are left out.
   *
   * @example const needsApproval = (await execution.awaits()).includes("approval");
   */
  awaits(): Promise<readonly string[]>;
}

/** Options of `list`: which executions, and which page of them. */
export interface ListOptions extends ExecutionFilter, PageOptions {
  /**
   * The former name of `search`.
   *
   * @default ""
   * @deprecated Use `search`.
   */
  readonly q?: string;
}

/** A page of executions, newest first. */
export interface ExecutionPage {
  /** The executions. A page of a search can have fewer than `limit` and still not be the last. */
  readonly data: readonly ExecutionView[];
  /** The `cursor` of the next page; null on the last page. */
  readonly next: string | null;
}

/**
 * Rondo, in this process (`openRondo`), under test (`testRondo`) or at a server (`connect`). A workflow is given as its
 * object, or by its name with its type as type argument.
 */
export interface RondoClient extends AsyncDisposable, Operations {
  /**
   * Starts an execution. The promise resolves when the start is durable.
   *
   * @throws RondoError with the code `invalid_input` if the input does not fit the schema, `not_found` if there is no such
   * workflow, `conflict` if the id belongs to another start
   * @example const execution = await rondo.start(nightly, { bucket: "b" }, { id: "nightly-1" });
   */
  start<W extends AnyWorkflow = AnyWorkflow>(
    workflow: W | string,
    input: WorkflowInput<NoInfer<W>>,
    options?: StartOptions,
  ): Promise<ExecutionHandle<WorkflowOutput<W>>>;
  /**
   * Starts many executions of one workflow, in few commits. Each start has its own outcome, in the order of the starts: a
   * refused start does not prevent the others.
   *
   * @throws RondoError with the code `not_found` if there is no such workflow; of a client also if the server does not answer:
   * then some of the starts may be durable, and can be repeated under their ids
   * @example
   * const outcomes = await rondo.startMany(nightly, buckets.map((bucket) => ({ input: { bucket }, id: `nightly-${bucket}` })));
   * const refused = outcomes.filter(({ error }) => error !== null);
   */
  startMany<W extends AnyWorkflow = AnyWorkflow>(
    workflow: W | string,
    starts: readonly StartItem<WorkflowInput<NoInfer<W>>>[],
  ): Promise<readonly StartOutcome<WorkflowOutput<W>>[]>;
  /**
   * Starts an execution and waits for its output: `start` and `result` in one call.
   *
   * @throws ExecutionFailed, ExecutionCancelled or RondoError, as `start` and `result` do
   * @example const output = await rondo.run(nightly, { bucket: "b" });
   */
  run<W extends AnyWorkflow = AnyWorkflow>(
    workflow: W | string,
    input: WorkflowInput<NoInfer<W>>,
    options?: StartOptions & ResultOptions,
  ): Promise<WorkflowOutput<W>>;
  /**
   * Signals the execution of an id, or starts it with the signal if there is none. Both are one commit: the signal is never
   * lost between the end of one execution and the start of the next.
   *
   * @throws RondoError with the code `gone` if it has ended and `ifExists` is `signal`, or as `start` and `signal` do
   * @example await rondo.signalWithStart(digest, { user: 7 }, { name: "item", data: mail }, { id: "user-7", ifExists: "startNewWhenDone" });
   */
  signalWithStart<W extends AnyWorkflow = AnyWorkflow, Data = unknown>(
    workflow: W | string,
    input: WorkflowInput<NoInfer<W>>,
    signal: StartSignal<Data>,
    options: SignalWithStartOptions,
  ): Promise<SignalledExecution<WorkflowOutput<W>>>;
  /**
   * Sends an event: it starts, signals or cancels executions of the workflows that have a trigger for it (`on`). The promise
   * resolves when the event is durable. Its effects follow, even if processes crash.
   *
   * @throws RondoError with the code `invalid_input` if the event is wrong, `too_large` if it has more than 1,000 targets
   * @example await rondo.send({ name: "order/paid", data: { order: "A-17" }, id: "payment-9" });
   */
  send(event: EventToSend): Promise<SentEvent>;
  /**
   * Gives the handle of an execution. Its existence is checked when the handle is used.
   *
   * @example const output = await rondo.execution<typeof nightly>("nightly-1").result();
   */
  execution<W extends AnyWorkflow = AnyWorkflow>(id: string): ExecutionHandle<WorkflowOutput<W>>;
  /**
   * Reads a page of executions, newest first.
   *
   * @throws RondoError with the code `invalid_input` if an option is wrong
   * @example const { data, next } = await rondo.list({ workflow: "nightly", status: "failed" });
   */
  list(options?: ListOptions): Promise<ExecutionPage>;
  /**
   * Iterates over all executions that fit, newest first, and reads one page after the other. `limit` is the size of a page.
   *
   * @throws RondoError with the code `invalid_input` if an option is wrong
   * @example for await (const { id } of rondo.listAll({ workflow: "nightly", status: "failed" })) console.log(id);
   */
  listAll(options?: Omit<ListOptions, "cursor">): AsyncIterable<ExecutionView>;
  /** Iterates over the log lines of an execution: the same as `execution(id).logs(options)`. */
  logs(id: string, options?: LogsOptions): AsyncIterable<LogEntry>;
  /**
   * Reads an execution as it was after the event with this sequence number.
   *
   * @throws RondoError with the code `invalid_input` if there is no such event
   */
  stateAt(id: string, seq: number): Promise<ExecutionView>;
  /**
   * Ends the use of Rondo. In process: takes no new work, lets running handlers end within `graceMs`, then releases the
   * store; a handler that runs longer is aborted by its `signal`, and its task runs again when the store is opened next.
   * Of a client: ends the waiting and the iterations of its handles. `await using` does the same.
   *
   * @example await rondo.close({ graceMs: 60_000 });
   */
  close(options?: CloseOptions): Promise<void>;
}

/** Options of `close`. */
export interface CloseOptions {
  /**
   * How long running handlers may take to end, in milliseconds. Then their `signal` is aborted; their tasks run again later.
   *
   * @default 10_000
   */
  readonly graceMs?: number;
}
