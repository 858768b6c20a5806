/** The results of earlier phases, for later code: `phases.<phase>`, or `phases.<phase>.<handler>` for a map of handlers. */
import type { ResultsReader, TaskError } from "../worker/handler-code.ts";
import type { Handler } from "./handler.ts";
import type { Stored } from "./stored.ts";

/** A task that failed for good. `Task` is the type of the task as stored. */
export interface FailedTask<Task = unknown> {
  /** The number of the task. */
  readonly task: number;
  /** The task as stored; undefined where it cannot be read: over RabbitMQ, and from a server of version 0.2. */
  readonly data: Task | undefined;
  /** Its error. */
  readonly error: TaskError;
}

/** The results of one handler in the latest visit of its phase. */
export interface HandlerReader<Result, Task = unknown>
  extends Omit<
    ResultsReader,
    "results" | "first" | "only" | "toArray" | "reduce" | "failures" | "visit" | "value"
  > {
  /** Iterates over the results of the done tasks, as stored, in the order of the journal. */
  results(): AsyncIterable<Result>;
  /** The first result in journal order; undefined if there is none. */
  first(): Promise<Result | undefined>;
  /**
   * The result of the only task that is done.
   *
   * @throws Error if there is no result, or more than one
   */
  only(): Promise<Result>;
  /**
   * All results as an array. `max` bounds its length: use `results()` for more.
   *
   * @default max: 10_000
   * @throws Error if there are more than `max` results
   */
  toArray(options?: { readonly max?: number }): Promise<Result[]>;
  /** Folds the results into one value. */
  reduce<Sum>(fold: (sum: Sum, result: Result) => Sum | Promise<Sum>, initial: Sum): Promise<Sum>;
  /** The failed tasks, in journal order. */
  failures(): AsyncIterable<FailedTask<Task>>;
  /** The results of the same handler in an earlier visit of its phase. */
  visit(n: number): HandlerReader<Result, Task>;
}

/** The results of a phase that waited for a signal. */
export interface WaitReader<Value> extends HandlerReader<Value> {
  /** The signal's payload as stored; null if the wait is optional and timed out. */
  readonly value: Value;
  visit(n: number): WaitReader<Value>;
}

/** The type of `phases.<Name>` in later code: a reader of the phase's results. */
export type PhaseReader<Name extends string, Reader> = { readonly [Key in Name]: Reader };

/**
 * The reader of a phase with a map of handlers: one reader for each handler name. A conditional type makes TypeScript resolve it.
 * Otherwise the handlers' types, each with all earlier phases inside, would stay in the workflow's type and in its declaration file.
 */
export type MapReader<Handlers> = Handlers extends object
  ? { readonly [Name in keyof Handlers]: HandlerReader<Stored<ResultOf<Handlers[Name]>>> }
  : never;

type ResultOf<Given> = Given extends Handler<never, never, infer Result> ? Result : never;
