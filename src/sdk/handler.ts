/** The types of a handler in code: how it enumerates and processes tasks, and its options. */
import { HANDLER, isHandler } from "../protocol/handler-brand.ts";
import type { Duration } from "../std/duration.ts";
import { invalid } from "./check.ts";
import type {
  AddContext,
  BatchContext,
  CompensateContext,
  EnumerateContext,
  TaskContext,
} from "./context.ts";
import type { Stored } from "./stored.ts";

/** When a failed task is tried again. */
export interface RetryOptions {
  /**
   * The most attempts, including the first one.
   *
   * @default 3
   */
  readonly attempts?: number;
  /**
   * The most attempts that may be lost because their process died.
   *
   * @default 4
   */
  readonly crashes?: number;
  /**
   * Whether the time between two attempts doubles or stays the same.
   *
   * @default "exponential"
   */
  readonly backoff?: "exponential" | "constant";
  /**
   * The time before the second attempt.
   *
   * @default "1s"
   */
  readonly min?: Duration;
  /**
   * The longest time between two attempts.
   *
   * @default "60s"
   */
  readonly max?: Duration;
}

/** Options that all code of a workflow can have, also `next` and `returns`. */
export interface AnswerOptions {
  /**
   * When an attempt that failed is repeated.
   *
   * @default 3 attempts with exponential back-off
   */
  readonly retry?: RetryOptions;
  /**
   * The longest time that an attempt may take.
   *
   * @default no limit
   */
  readonly timeout?: Duration;
}

/** The most attempts that start within a time. */
export interface Rate {
  /** The number of attempts. */
  readonly limit: number;
  /** The length of the period, such as `"1s"`. */
  readonly per: Duration;
  /**
   * Whether the starts are spread evenly, at intervals of `per` / `limit`. Otherwise all of them may start at once.
   *
   * @default false
   */
  readonly spread?: boolean;
}

/** Options that every kind of handler can have. */
export interface HandlerOptions extends AnswerOptions {
  /**
   * The time without a heartbeat of the worker after which an attempt counts as lost.
   *
   * @default "30s"
   */
  readonly heartbeat?: Duration;
  /**
   * The most attempts at a time, over all executions of the project.
   *
   * @default no limit
   */
  readonly concurrency?: number;
  /**
   * The most attempts at a time for tasks with the same `key`.
   *
   * @default no limit
   */
  readonly concurrencyPerKey?: number;
  /**
   * The most attempts that start within a time, over all executions of the project.
   *
   * @default no limit
   */
  readonly rate?: Rate;
  /**
   * The most attempts that start within a time, for tasks with the same `key`.
   *
   * @default no limit
   */
  readonly ratePerKey?: Rate;
  /**
   * Handlers with a higher priority get workers first.
   *
   * @default 0
   */
  readonly priority?: number;
  /**
   * How many tasks may fail without failing the phase: a number, or a percentage such as `"1%"`.
   *
   * @default 0
   */
  readonly tolerate?: number | `${number}%`;
}

/** The type in place of items for a handler without `enumerate`, whose one task is the input. */
export interface NoItems {
  /** This member exists only in the type, never at run time. */
  readonly "~items": never;
}

/** The items that `enumerate` returns: a list, a generator or an async generator. */
export type Items<Item> = Iterable<Item> | AsyncIterable<Item>;

/** The type of the task in `process`: an item as stored, or the input. */
export type TaskOf<Item, Input> = [Item] extends [NoItems] ? Input : Stored<Item>;

/** The key or identity of a task: a JSON Pointer into the task, or a function of the task before it is stored. */
type Naming<Item, Input> = string | ((task: ItemOf<Item, Input>) => string | number);

/** A task before it is stored: an item, or the input. */
type ItemOf<Item, Input> = [Item] extends [NoItems] ? Input : Item;

/** The context of `process`. Its `add` takes items of the same type as `enumerate` gives. */
type ProcessContext<Item, Input, Phases> = TaskContext<TaskOf<Item, Input>, Input, Phases> &
  AddContext<[Item] extends [NoItems] ? never : Item>;

/** Options of a handler with many tasks. Write `enumerate` first: the types of the rest follow from it. */
export interface EnumerationSpec<Input, Phases, Item> extends HandlerOptions {
  /**
   * Returns the tasks. They are journaled in pages before they start.
   *
   * @default one task, the input
   */
  enumerate?(context: EnumerateContext<Input, Phases>): Items<Item> | Promise<Items<Item>>;
  /**
   * The tasks as a list, instead of `enumerate`.
   *
   * @default none
   */
  readonly tasks?: readonly Item[];
  /**
   * The key of a task, by which tasks are grouped for `concurrencyPerKey` and `ratePerKey`: a JSON Pointer into the task, or a
   * function of it.
   *
   * @default none
   */
  readonly key?: Naming<Item, Input>;
  /**
   * The identity of a task: a JSON Pointer into the task, or a function of it. A second task with the same identity is skipped.
   *
   * @default none
   */
  readonly identity?: Naming<Item, Input>;
  /**
   * The identities of the tasks that must be done before this task begins: a JSON Pointer to a list in the task, or a function
   * of it. It needs the option `identity`.
   *
   * @default no task waits for another one
   */
  readonly after?: string | ((task: ItemOf<Item, Input>) => Iterable<string | number>);
}

/** Undoes tasks of a handler when the execution is cancelled or fails. Write it after `process`: its types follow from there. */
export interface Compensation<Task, Result, Input, Phases> {
  /**
   * Undoes one task. It is called for every task that is done or may have begun, and may be called again after a failure.
   * `idempotencyKey` is the key that `process` had for this task.
   *
   * @default nothing is undone
   */
  compensate?(context: CompensateContext<Task, Result, Input, Phases>): unknown;
  /**
   * Options of `compensate`.
   *
   * @default the defaults of the workflow
   */
  readonly compensation?: Pick<HandlerOptions, "retry" | "timeout" | "concurrency">;
}

/** The code and options of one handler. */
export interface HandlerSpec<Input, Phases, Item, Result>
  extends EnumerationSpec<Input, Phases, Item>,
    Compensation<TaskOf<Item, Input>, Stored<Result>, Input, Phases> {
  /**
   * The wire name, under which workers serve the handler.
   *
   * @default `<workflow>.<phase>`, in a map `<workflow>.<phase>.<handler>`
   */
  readonly name?: string;
  /**
   * The version of the code, such as `"1.2.0"`. Workers with this or a later compatible version serve the handler.
   *
   * @default none: every worker serves it
   */
  readonly version?: string;
  /** Does one task and gives its result. It runs again after a failure or a crash. */
  process?(context: ProcessContext<Item, Input, Phases>): Result | Promise<Result>;
  /**
   * Whether `process` can `add` tasks to this handler. It needs `enumerate` or `tasks`, which give the first tasks.
   *
   * @default false
   */
  readonly adds?: boolean;
  /**
   * The most tasks of one `processBatch`.
   *
   * @default none
   */
  readonly batch?: number;
  /**
   * Does several tasks at a time, instead of `process`: gives a result or an Error for each task, in their order.
   */
  processBatch?(
    context: BatchContext<TaskOf<Item, Input>, Input, Phases>,
  ): readonly (Result | Error)[] | Promise<readonly (Result | Error)[]>;
}

/** Any handler. */
export type AnyHandler = Handler<never, never, unknown>;

/** A handler spec without its types. */
export type AnySpec = HandlerSpec<unknown, unknown, unknown, unknown>;

/** A handler for a map of handlers, for use in several workflows, or for `map`. */
export interface Handler<Input, Phases, Result, IsSingle extends boolean = boolean> {
  /** The code and options of the handler. */
  readonly [HANDLER]: unknown;
  /** The name of the handler. It is required for a handler that is given to `map`, or listed in the `children` of a workflow. */
  readonly name?: string | undefined;
  readonly "~types"?: {
    readonly given: (input: Input, phases: Phases) => void;
    readonly result: Result;
    readonly isSingle: IsSingle;
  };
}

/**
 * Makes a handler of its code and options, for a phase with several handlers or for several workflows.
 *
 * @throws RondoError if the spec is not an object
 * @example
 * const resize = handler({ process: ({ task }) => resizeImage(task), retry: { attempts: 5 } });
 * workflow({ name: "images" }).phase("work", { resize, index: handler({ process: writeIndex }) });
 */
export function handler<Input, Phases, Item = NoItems, Result = null>(
  spec: HandlerSpec<Input, Phases, Item, Result>,
): Handler<Input, Phases, Result, [Item] extends [NoItems] ? true : false> {
  if (typeof spec !== "object" || spec === null)
    throw invalid("handler", "must be an object", "give { process: ... }");
  return Object.freeze({ [HANDLER]: spec, ...(spec.name === undefined ? {} : { name: spec.name }) });
}

/**
 * Makes handlers for workflows of one type of input. The types of tasks and results are inferred, as they are in a workflow.
 *
 * @throws RondoError if the spec is not an object
 * @example const length = handlerFor<{ email: string }>()({ process: ({ task }) => task.email.length });
 */
export function handlerFor<Input, Phases = unknown>(): <Item = NoItems, Result = null>(
  spec: HandlerSpec<Input, Phases, Item, Result>,
) => Handler<Input, Phases, Result, [Item] extends [NoItems] ? true : false> {
  return (spec) => handler(spec);
}

/** Returns the spec that was given to `handler()`; undefined if the value was not made by `handler()`. */
export function specOf(value: unknown): AnySpec | undefined {
  return isHandler(value) ? (value as unknown as { readonly [HANDLER]: AnySpec })[HANDLER] : undefined;
}
