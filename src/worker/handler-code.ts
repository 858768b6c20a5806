/**
 * Handler code as a worker runs it: plain functions by wire name, without the SDK's types. The SDK's builder makes them, and so
 * can other programs that host code.
 */
import type { ErrorCause } from "../kernel/event.ts";
import type { Duration } from "../std/duration.ts";
import type { Rejection } from "../std/rejection.ts";

/** The results of an earlier phase, read as a stream. */
export interface ResultsReader {
  /** The number of tasks that are done. */
  readonly count: number;
  /** The number of tasks that failed. */
  readonly failed: number;
  /** The number of all tasks. */
  readonly total: number;
  /** How many times the phase has been visited so far. */
  readonly visits: number;
  /** Iterates over the results of the done tasks, in the order of the journal. */
  results(): AsyncIterable<unknown>;
  /** The first result in journal order; undefined if there is none. */
  first(): Promise<unknown>;
  /** The result of the only task that is done. Throws if there is no result, or more than one. */
  only(): Promise<unknown>;
  /** All results as an array. Throws if there are more than `max`. */
  toArray(options?: { readonly max?: number }): Promise<unknown[]>;
  /**
   * The failed tasks: `task` is the number, `data` the stored task, `error` its error. `data` is undefined where it cannot be
   * read: over RabbitMQ, and from a server of version 0.2.
   */
  failures(): AsyncIterable<{ task: number; data: unknown; error: TaskError }>;
  /** Folds the results into one value. */
  reduce<T>(fold: (sum: T, result: unknown) => T | Promise<T>, initial: T): Promise<T>;
  /** The results of the same handler in an earlier visit of its phase. */
  visit(n: number): ResultsReader;
  /** The payload of the signal, if the phase waited for one; null otherwise. */
  readonly value: unknown;
}

/** The error of a task, as it is stored. */
export interface TaskError {
  /** The name of the error's class. */
  readonly name: string;
  /** The message of the error. */
  readonly message: string;
  /** A code of Rondo (`timeout`, `crashes`, `not_storable`), or the `code` of the error. */
  readonly code?: string;
  /** The stack of the error. */
  readonly stack?: string;
  /** The error that caused this one. */
  readonly cause?: ErrorCause;
  /** A hint what to do about the error. */
  readonly hint?: string;
  /** The path of the part of a result that could not be stored. */
  readonly path?: string;
  /** The run of the script that failed. */
  readonly run?: string;
  /** The line of the script's code at which the run failed. */
  readonly line?: number;
}

/** The earlier phases by name. A phase with one unnamed handler has one reader; other phases have readers by handler name. */
export type PhasesReader = Readonly<Record<string, ResultsReader & Readonly<Record<string, ResultsReader>>>>;

/** The context of code that is called for one attempt. */
export interface AnswerContext extends BaseContext {
  /**
   * The number of this attempt, from 1. Only recorded attempts count: if the start of an attempt was not recorded, the next
   * attempt has the same number.
   */
  readonly attempt: number;
  /** The id of this attempt. It is unique, even if another attempt has the same number. */
  readonly attemptId: string;
}

export interface BaseContext {
  readonly execution: string;
  /** The time in milliseconds since 1970. Under `testRondo` it is the virtual time, unlike `Date.now()`. */
  readonly now: () => number;
  readonly input: unknown;
  readonly phases: PhasesReader;
  /** Aborted when the attempt is cancelled, exceeds its time limit, or loses its lease. */
  readonly signal: AbortSignal;
  /** Writes lines that are stored with the attempt, in order. */
  readonly log: Log;
  /** Redacts this value in all logs and errors of this worker; returns the value. */
  readonly secret: (value: string) => string;
}

/** Writes values as lines, like `console`. The default level is `info`. */
export interface Log {
  (...parts: unknown[]): void;
  /** Writes a line with the level `debug`. */
  debug(...parts: unknown[]): void;
  /** Writes a line with the level `info`. */
  info(...parts: unknown[]): void;
  /** Writes a line with the level `warn`. */
  warn(...parts: unknown[]): void;
  /** Writes a line with the level `error`. */
  error(...parts: unknown[]): void;
}

export interface EnumerateContext extends AnswerContext {
  /**
   * The items that earlier attempts have journaled; undefined in the first attempt. Code that reads this goes on after these
   * items. Other code starts from the beginning, and the known items are skipped.
   */
  readonly resume: { readonly count: number; readonly last: unknown } | undefined;
  /** Iterates over the items of the `map` that has started this execution. */
  readonly mapItems: () => AsyncIterable<unknown>;
}

export interface ProcessContext extends AnswerContext {
  /**
   * Returns the time in milliseconds since 1970. The time is journaled with the next checkpoint. Later attempts then get the
   * same time for the same name; without a name, for the n-th call.
   */
  readonly now: (name?: string) => number;
  readonly task: unknown;
  readonly number: number;
  /** A key that is the same for all attempts of the task. In a compensation, the key of the task that is compensated. */
  readonly idempotencyKey: string;
  /** Only in a compensation: how the task that is compensated ended. `unknown`: it may have begun, and is not done. */
  readonly outcome: "done" | "unknown" | undefined;
  /** Only in a compensation: the result of the task that is compensated, if it is done. */
  readonly result: unknown;
  progress(done: number, total?: number): void;
  /**
   * Publishes values of the execution by key, which callers can read while it runs. The last value of a key counts; null
   * removes the key. The values are journaled with the next report of the attempt, or a little later.
   */
  readonly publish: (values: Readonly<Record<string, unknown>>) => void;
  /**
   * Opens a stream of the execution by name. Callers follow its chunks while they are written, and read them later. Chunks that
   * a step has written count once the step is done; a new run of the writer replaces its earlier chunks.
   */
  readonly stream: (name: string) => StreamWriter;
  /**
   * Adds tasks to the handler of this task. They are journaled with the result of the task: if the attempt does not end as
   * done, nothing is added. Tasks with a known identity are skipped.
   */
  readonly add: (...items: readonly unknown[]) => void;
  /**
   * Runs `run` once per task. Its result is journaled, and later attempts get that result instead of running it again. Code outside of
   * steps runs again in each attempt. With `retry`, a step has its own number of tries, and its final failure is journaled, too.
   */
  step<T>(name: string, run: StepCode<T>): Promise<T>;
  step<T>(name: string, options: StepOptions, run: StepCode<T>): Promise<T>;
  /**
   * Ends the attempt, so that no worker is occupied until the time has passed. Then the task runs again from its beginning,
   * with its journaled steps. The promise settles only in that later attempt.
   */
  sleep(name: string, duration: Duration): Promise<void>;
  /**
   * Ends the attempt until a signal with this name arrives, and returns the signal's payload. After `timeout` it throws a
   * `WaitTimeout`. A list waits for the first of several signals, and returns `{ name, value }`.
   */
  waitFor(
    name: string | readonly string[] | Declared,
    options?: Omit<WaitOptions, "signal"> & {
      readonly signal?: string | readonly string[] | Declared;
      schema?: unknown;
    },
  ): Promise<unknown>;
  /** Iterates over the signals of one name. The loop ends if none arrives within `timeout`. */
  signals(
    name: string | Declared,
    options?: Omit<WaitOptions, "signal"> & { schema?: unknown },
  ): AsyncIterable<unknown>;
  /**
   * Ends the attempt until the execution gets an update of this name. The code answers it by `answer` or `refuse`. An update whose
   * data does not fit the schema is refused, and the wait goes on. After `timeout` it throws a `WaitTimeout`.
   */
  waitForUpdate(name: string | Declared, options?: UpdateWaitOptions): Promise<UpdateRequest<unknown>>;
  /** Iterates over the updates of one name. The loop ends if none arrives within `timeout`. */
  updates(name: string | Declared, options?: UpdateWaitOptions): AsyncIterable<UpdateRequest<unknown>>;
  /**
   * Runs `run` for each item, several at a time, and journals the results in batches. A later attempt calls `run` only for
   * items without a journaled result.
   */
  map<Item, Result>(
    name: string,
    items: readonly Item[],
    run: (item: Item, context: MapContext) => Result | Promise<Result>,
    options?: { readonly concurrency?: number },
  ): Promise<readonly unknown[]>;
  /**
   * Runs a handler for each item as a task of a child, at any worker. The items are journaled once, in pages. The attempt ends while
   * the child runs.
   */
  map(name: string, items: Items, handler: MapHandler): Promise<ResultsReader>;
  /**
   * Runs an execution of another workflow, once per task and name, and returns its output. The attempt ends while the child
   * runs. If the child fails or is cancelled, this call throws `ChildFailed`.
   */
  run(workflow: ChildWorkflow, input?: unknown, options?: ChildOptions): Promise<unknown>;
  /** Starts an execution of another workflow, once per task and name, and returns its id. The task does not wait for its end. */
  start(workflow: ChildWorkflow, input?: unknown, options?: ChildOptions): Promise<{ readonly id: string }>;
  /**
   * Ends this execution as done and starts its successor with the given input, under the same id. The promise never settles.
   * The task fails for good if it is not the only task of the last phase, or if the execution is a child.
   */
  continueAs(input: unknown): Promise<never>;
  /** Returns a random number from 0 up to 1 that is the same in each attempt of the task. */
  random(name?: string): number;
  /** Returns a random UUID that is the same in each attempt of the task. */
  uuid(name?: string): string;
}

/** Waits for a signal of a name, or for the first of several signals. */
export type WaitFor = (
  name: string | readonly string[],
  options?: WaitOptions & { schema?: unknown },
) => Promise<unknown>;

/** A signal or an update that a program has declared, with the schema of its data. */
export interface Declared {
  /** The name. */
  readonly name: string;
  /** The schema of the data. */
  readonly schema?: unknown;
}

/** The options of a wait for updates. */
export type UpdateWaitOptions = Omit<WaitOptions, "signal"> & { readonly schema?: unknown };

/** An update that code has taken. The caller waits for its answer. */
export interface UpdateRequest<Data> {
  /** The id of the update. */
  readonly id: string;
  /** The data of the update, as the schema has parsed it. */
  readonly data: Data;
  /**
   * Answers the update with a value, once. It resolves when the answer is journaled. In later attempts the first answer counts.
   */
  answer(value?: unknown): Promise<void>;
  /** Refuses the update: the caller gets an error with this message. */
  refuse(reason: string | Error): Promise<void>;
}

/** Writes the chunks of a stream. */
export interface StreamWriter {
  /**
   * Adds a chunk: a text or any other JSON, of at most 64 KiB. All streams of an attempt have at most 8 MiB. Await it where much
   * is written: it resolves when few enough chunks wait to be stored.
   *
   * @throws Error if the chunk cannot be stored, or is too much
   */
  write(chunk: unknown): Promise<void>;
  /** Ends the stream for readers that follow it. The end of the task ends it too. */
  end(): void;
}

/** A handler that `map` runs for each item. Workers serve it as a workflow of this name. */
export interface MapHandler {
  /** The name of the handler. */
  readonly name?: string | undefined;
}

/** A workflow that code starts, by its name or as an object. */
export type ChildWorkflow = string | { readonly name: string };

/** The options of an execution that code starts. */
export interface ChildOptions {
  /**
   * The name of the execution within its task. A task that starts a workflow twice needs two names.
   *
   * @default the name of the workflow
   */
  readonly name?: string;
}

/** The code of a step. */
export type StepCode<T> = (context: StepContext) => T | Promise<T>;

/** The argument of the code of a step. */
export interface StepContext {
  /**
   * Aborted when the step exceeds its time limit, and when its attempt is cancelled, exceeds the attempt's time limit, or loses
   * its lease.
   */
  readonly signal: AbortSignal;
  /** The number of this try, from 1. Without `retry` it is always 1. */
  readonly attempt: number;
  /** A key that is the same for all tries of this step. */
  readonly idempotencyKey: string;
}

/** The second argument of the function of a map, after the item. */
export interface MapContext {
  /** The index of the item. */
  readonly index: number;
  /** Aborted when the attempt is cancelled, exceeds its time limit, or loses its lease. */
  readonly signal: AbortSignal;
  /** A key that is the same for all calls with this item. */
  readonly idempotencyKey: string;
}

/** The options of a step. */
export interface StepOptions {
  /**
   * How often a failed step is tried again. Failed tries are journaled. After the last try, the failure is the outcome of the
   * step: it throws `StepFailed`, also in later attempts.
   *
   * @default none: an error goes to the code, and is not journaled
   */
  readonly retry?: {
    /**
     * The most tries, including the first one.
     *
     * @default 3
     */
    readonly attempts?: number;
    /**
     * Whether the time between two tries doubles or stays the same.
     *
     * @default "exponential"
     */
    readonly backoff?: "exponential" | "constant";
    /**
     * The time before the second try.
     *
     * @default "1s"
     */
    readonly min?: Duration;
    /**
     * The longest time between two tries.
     *
     * @default "60s"
     */
    readonly max?: Duration;
  };
  /**
   * The longest time of one try.
   *
   * @default no limit
   */
  readonly timeout?: Duration;
}

/** The options of a wait inside a task. */
export interface WaitOptions {
  /**
   * The longest time to wait.
   *
   * @default no limit
   */
  readonly timeout?: Duration;
  /**
   * The name of the signal, if it differs from the name of the wait. A list waits for the first of several signals.
   *
   * @default the name of the wait
   */
  readonly signal?: string | readonly string[];
  /**
   * Values that the payload must have. Signals with other values are kept for other waits.
   *
   * @default any payload
   */
  readonly match?: unknown;
}

/** The context of `processBatch`. Its logs belong to the first of the tasks. */
export interface BatchContext extends BaseContext {
  readonly tasks: readonly unknown[];
  /** The attempts of these tasks, in the same order. */
  readonly attempts: readonly BatchAttempt[];
}

/** The attempt of one task of a batch. */
export interface BatchAttempt {
  /** The task's number within its handler, from 0. */
  readonly number: number;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** The unique id of the attempt. */
  readonly attemptId: string;
  /** A key that is the same for all attempts of the task. */
  readonly idempotencyKey: string;
}

/** Facts about the code that a middleware runs around. */
export interface MiddlewareContext {
  /**
   * The kind of code: `enumerate`, `process` (also of batches and commands), `compensate`, `next`, `returns`, or one try of a
   * `step`.
   */
  readonly kind: "enumerate" | "process" | "compensate" | "next" | "returns" | "step";
  /** The name of the workflow. */
  readonly workflow: string;
  /** The project of the execution. */
  readonly project: string;
  /** The name of the phase. */
  readonly phase: string;
  /** The name of the handler. */
  readonly handler: string;
  /** The id of the execution. */
  readonly execution: string;
  /** The number of the task; for a batch, that of its first task; null if the code does not belong to a task. */
  readonly task: number | null;
  /** The name of the step; only around a step. */
  readonly step?: string;
  /** The number of the attempt; around a step the number of its try. */
  readonly attempt: number;
  /** The unique id of the attempt. */
  readonly attemptId: string;
  /** The input of the execution. */
  readonly input: unknown;
  /** The time in milliseconds since 1970; under `testRondo` the virtual time. */
  readonly now: () => number;
  /** Aborted when the attempt is cancelled, exceeds its time limit, or loses its lease. */
  readonly signal: AbortSignal;
  /** Writes lines that are stored with the attempt. */
  readonly log: Log;
}

/**
 * Middleware: a function that runs around the code of handlers. It calls `next` once, perhaps with fields that are added to the handler's
 * context, and returns the result of `next` or another result. If it returns undefined, the result of `next` is used. If an attempt ends
 * before its code, because the task waits or the attempt is lost, `next` rejects, and the return value of the middleware is ignored.
 */
export type Middleware<Extension extends object = object> = (
  context: MiddlewareContext,
  next: (extension?: Extension) => Promise<unknown>,
) => unknown;

type Items = Iterable<unknown> | AsyncIterable<unknown>;

/** The code of one handler. `parseInput` converts the stored input to the output of the schema. */
export interface HandlerCode {
  readonly use: string;
  readonly version?: string;
  readonly enumerate?: (context: EnumerateContext) => Items | Promise<Items>;
  readonly process?: (context: ProcessContext) => unknown;
  readonly processBatch?: (context: BatchContext) => unknown;
  /** The code that decides about the next phase, or computes the output of the workflow. */
  readonly answer?: (context: AnswerContext) => unknown;
  readonly key?: (task: unknown) => string;
  readonly identity?: (task: unknown) => string;
  /** Returns the identities of the tasks that a task waits for. */
  readonly after?: (task: unknown) => readonly string[];
  /** Whether `process` can add tasks to its handler. */
  readonly adds?: true;
  readonly parseInput?: (input: unknown) => unknown;
  /** The phases of the workflow that the code belongs to, each with the names of its handlers. */
  readonly phases?: Readonly<Record<string, readonly string[]>>;
  /** The middleware of the workflow, the outermost first. */
  readonly middleware?: readonly Middleware[];
  /** Whether the handler has a single task that is the input, as `parseInput` returns it. */
  readonly taskIsInput?: boolean;
  /** Checks the input of a workflow that user code starts. Returns the input as JSON text, or a rejection. */
  readonly checkingInput?: (workflow: ChildWorkflow, input: unknown) => Promise<string | Rejection>;
  /** Checks an input by the schema of the handler's own workflow. Returns the input as JSON text, or a rejection. */
  readonly checkingOwnInput?: (input: unknown) => Promise<string | Rejection>;
  /** Wraps `waitFor` so that it checks payloads by the schema that user code passes. */
  readonly parsingWait?: (wait: WaitFor) => WaitFor;
  /** The signal that the phase waits for, and a check of its payload. */
  readonly signal?: {
    readonly name: string;
    readonly check: (data: unknown) => Rejection | null | Promise<Rejection | null>;
  };
}

/** Handler code that a worker hosts as one unit: the code of a workflow, or of a topic. */
export interface HostedPart {
  /** The name of the workflow, or the wire name of the topic. */
  readonly name: string;
  /** @internal */
  readonly handlers: readonly HandlerCode[];
  /** The workflows that this one starts as children, if they are given as objects. */
  readonly children?: readonly HostedPart[];
}

/** Code that runs the commands of a topic, for any workflow. */
export interface HostedTopic extends HostedPart {
  /** The name of the topic. */
  readonly topic: string;
}

/** The code of a workflow for a worker. */
export interface HostedWorkflow extends HostedPart {
  /** The definition of the workflow as data, not yet parsed. */
  readonly definition: unknown;
  /** The workflows that this one starts as children, if they are given as objects. */
  readonly children?: readonly HostedWorkflow[];
}

/** Lists the workflows and their children, each once. Children come before their parents. */
export function withChildren<T extends { readonly children?: readonly T[] }>(
  workflows: readonly T[],
): readonly T[] {
  const all = new Set<T>();
  const add = (workflow: T): void => {
    if (all.has(workflow)) return;
    for (const child of workflow.children ?? []) add(child);
    all.add(workflow);
  };
  for (const workflow of workflows) add(workflow);
  return [...all];
}
