/** One handler in code: how it enumerates and processes tasks, and its options. */
import type { Duration } from "../std/duration.ts";
import { invalid } from "./check.ts";
import type { BatchContext, EnumerateContext, TaskContext } from "./context.ts";
import type { Stored } from "./stored.ts";

/** Options that every kind of handler can have. */
export interface HandlerOptions {
  /** `attempts` counts the first; `crashes` counts starts whose process died. */
  readonly retry?: {
    readonly attempts?: number;
    readonly crashes?: number;
    readonly backoff?: "exponential" | "constant";
    readonly min?: Duration;
    readonly max?: Duration;
  };
  /** The longest an attempt may take. */
  readonly timeout?: Duration;
  /** The silence after which an attempt counts as lost. */
  readonly heartbeat?: Duration;
  /** Attempts at a time, over all executions of the project. */
  readonly concurrency?: number;
  /** Attempts at a time for tasks with the same key. */
  readonly concurrencyPerKey?: number;
  /** Attempts started in a stretch of time. */
  readonly rate?: { readonly limit: number; readonly per: Duration };
  /** Higher goes first; 0 by default. */
  readonly priority?: number;
  /** Failed tasks that do not fail the phase: a number, or a percentage such as "1%". */
  readonly tolerate?: number | `${number}%`;
}

/** Stands for the items of a handler that enumerates nothing: its one task is the input. */
export interface NoItems {
  readonly "~items": never;
}

/** What `enumerate` may give. */
export type Items<Item> = Iterable<Item> | AsyncIterable<Item>;

/** The task that `process` sees: an item as stored, or the input. */
export type TaskOf<Item, Input> = [Item] extends [NoItems] ? Input : Stored<Item>;

/** Names a task or its group: a JSON Pointer into it, or a function of it before it is stored. */
type Naming<Item, Input> = string | ((task: [Item] extends [NoItems] ? Input : Item) => string | number);

/** Options of a handler whose tasks can be enumerated; write `enumerate` first, the types of the rest follow from it. */
export interface EnumerationSpec<Input, Phases, Item> extends HandlerOptions {
  enumerate?(context: EnumerateContext<Input, Phases>): Items<Item> | Promise<Items<Item>>;
  /** Tasks known beforehand, instead of `enumerate`. */
  readonly tasks?: readonly Item[];
  /** Groups tasks for `concurrencyPerKey`. */
  readonly key?: Naming<Item, Input>;
  /** Names a task: a second one of the same name is skipped. */
  readonly identity?: Naming<Item, Input>;
}

/** The code and options of one handler. */
export interface HandlerSpec<Input, Phases, Item, Result> extends EnumerationSpec<Input, Phases, Item> {
  /** Replaces the wire name `<workflow>.<phase>[.<handler>]`. */
  readonly name?: string;
  /** The version of the code, such as "1.2.0"; executions are served by it and by later ones that are compatible. */
  readonly version?: string;
  process?(context: TaskContext<TaskOf<Item, Input>, Input, Phases>): Result | Promise<Result>;
  /** Tasks given to `processBatch` at a time. */
  readonly batch?: number;
  /** Instead of `process`, with `batch`: a result or an Error for each task, in their order. */
  processBatch?(
    context: BatchContext<TaskOf<Item, Input>, Input, Phases>,
  ): readonly (Result | Error)[] | Promise<readonly (Result | Error)[]>;
}

/** A spec whose types do not matter any more. */
export type AnySpec = HandlerSpec<unknown, unknown, unknown, unknown>;

const SPEC: unique symbol = Symbol.for("rondo.handler") as never;

/** A handler for a map of handlers, or for use in several workflows. */
export interface Handler<Input, Phases, Result> {
  readonly [SPEC]: unknown;
  readonly "~types"?: { readonly given: (input: Input, phases: Phases) => void; readonly result: Result };
}

/** Makes a handler of its code and options. */
export function handler<Input, Phases, Item = NoItems, Result = null>(
  spec: HandlerSpec<Input, Phases, Item, Result>,
): Handler<Input, Phases, Result> {
  if (typeof spec !== "object" || spec === null)
    throw invalid("handler", "must be an object", "give { process: ... }");
  return Object.freeze({ [SPEC]: spec });
}

/** The spec that `handler()` was given; undefined for anything else. */
export function specOf(value: unknown): AnySpec | undefined {
  return typeof value === "object" && value !== null ? (value as { [SPEC]?: AnySpec })[SPEC] : undefined;
}
