/**
 * The typed contexts of user code: the worker's contexts, with the types of the workflow's input, the task and the earlier
 * phases. Members are properties, not methods, so that code can destructure them.
 */
import type { Duration } from "../std/duration.ts";
import type { Json } from "../std/json.ts";
import type * as untyped from "../worker/handler-code.ts";
import type { SignalType, UpdateType } from "./declared.ts";
import type { Handler } from "./handler.ts";
import type { HandlerReader } from "./reader.ts";
import type { SchemaOutput, StandardSchema } from "./standard-schema.ts";
import type { Stored } from "./stored.ts";
import type { AnyWorkflow, WorkflowInput, WorkflowOutput } from "./workflow.ts";

/**
 * Fields that middleware adds to the context of all code. A program declares them once, and passes them to `next`:
 * `declare module "rondo" { interface ContextExtensions { readonly tenant: string } }`.
 */
export interface ContextExtensions {
  /** This member exists only in the type, never at run time. */
  readonly "~extensions"?: never;
}

/** The context of all code of a workflow; `next` and `returns` get only this. */
export interface Context<Input, Phases>
  extends Omit<untyped.AnswerContext, "input" | "phases">,
    ContextExtensions {
  /** The output of the input's schema; without a schema, the input as it is stored. */
  readonly input: Input;
  /** The results of the phases that are declared before this phase; in `next`, also of this phase. */
  readonly phases: Phases;
}

/** The context of `enumerate`. */
export interface EnumerateContext<Input, Phases> extends Context<Input, Phases> {
  /**
   * The tasks that earlier attempts at this enumeration have journaled. The code can continue after them, or start from
   * the beginning: journaled tasks are then skipped.
   */
  readonly resume: untyped.EnumerateContext["resume"];
}

/** The context of `process`. */
export interface TaskContext<Task, Input, Phases> extends Context<Input, Phases> {
  /**
   * Returns the time in milliseconds since 1970. The time is journaled with the next step, sleep or wait. Later attempts then get the
   * same time for the same name; without a name, for the n-th call. Under `testRondo` it is the virtual time, unlike `Date.now()`.
   */
  readonly now: (name?: string) => number;
  /** The task: an item of `enumerate` as stored, or the input. */
  readonly task: Task;
  /** The task's number within its handler, from 0. */
  readonly number: number;
  /** A key that is the same for all attempts of the task. */
  readonly idempotencyKey: string;
  /** Reports the progress of the task. */
  readonly progress: (done: number, total?: number) => void;
  /**
   * Publishes values of the execution, such as `publish({ percent: 40 })`. Callers read them by `execution.published()`, and see
   * changes among the events. The last value of a key counts, null removes a key. All values together have at most 64 KiB; beyond
   * that, the keys that were published longest ago are dropped.
   */
  readonly publish: (values: Readonly<Record<string, unknown>>) => void;
  /**
   * Opens a stream of the execution, such as the tokens of a model: `const out = stream("answer"); out.write(token)`. Callers
   * follow it by `execution.stream("answer")`, while it is written and later from its beginning. Write it in a step if the task
   * has steps: if the step runs again, its new chunks replace the old ones.
   */
  readonly stream: (name: string) => untyped.StreamWriter;
  /**
   * Runs `run` once per task. Its result is journaled before the code goes on, and later attempts get it without running `run`
   * again. Names are unique within the task.
   * Code outside of steps runs again in each attempt: after a failure, after a crash, and after each `sleep` and `waitFor`. It
   * need not be deterministic, except that the names of finished steps stay the same.
   */
  readonly step: Step;
  /**
   * Ends the attempt; no worker is occupied while the time passes. Then the task runs again from its beginning, skips the
   * finished steps, and this call returns at once. While steps run in other branches, the attempt goes on, and the sleep may end
   * within it.
   */
  readonly sleep: (name: string, duration: Duration) => Promise<void>;
  /**
   * Ends the attempt until the execution gets a signal of this name, and returns its payload, parsed by the schema. If none
   * comes within `timeout`, it throws `WaitTimeout`, which fails the task unless it is caught. While steps run in other branches,
   * the attempt goes on. A list waits for the first of several signals.
   */
  readonly waitFor: WaitFor;
  /** Iterates over the signals of one name: `for await (const item of signals("item"))`. The loop ends if none comes within `timeout`. */
  readonly signals: Signals;
  /**
   * Ends the attempt until the execution gets an update of this name: a request of a caller, who waits for the answer. Answer it by
   * `request.answer(value)` or `request.refuse(reason)`. An update whose data does not fit the schema is refused, and the wait goes
   * on. If none comes within `timeout`, it throws `WaitTimeout`.
   */
  readonly waitForUpdate: WaitForUpdate;
  /**
   * Iterates over the updates of one name: `for await (const request of updates("add")) await request.answer(1)`. The loop ends
   * if none comes within `timeout`.
   */
  readonly updates: Updates;
  /** Runs a function in this attempt, or a handler at any worker, for each item. */
  readonly map: MapItems;
  /**
   * Runs an execution of another workflow and returns its output. This child is started once per task and name, and no worker
   * is occupied while it runs. If the child fails or is cancelled, the call throws `ChildFailed`, in this attempt and in later
   * ones. A cancel of this execution also cancels the child.
   */
  readonly run: <W extends AnyWorkflow = AnyWorkflow>(
    workflow: W | string,
    input: WorkflowInput<NoInfer<W>>,
    options?: untyped.ChildOptions,
  ) => Promise<WorkflowOutput<W>>;
  /**
   * Starts an execution of another workflow, once per task and name. The new execution is independent: this one does not wait
   * for it, and a cancel of this one does not cancel it.
   */
  readonly start: <W extends AnyWorkflow = AnyWorkflow>(
    workflow: W | string,
    input: WorkflowInput<NoInfer<W>>,
    options?: untyped.ChildOptions,
  ) => Promise<{ readonly id: string }>;
  /**
   * Ends this execution as done and starts its successor (`ID~2`, `ID~3`) with the given input, once. The successor takes over
   * unread signals, tags, project and deadline, and from then on the id means the successor. This keeps the journal of an
   * entity that lives for years short. The promise never settles, so no code runs after this call. Only a workflow whose last
   * phase has a single task can continue, such as a flow; a child or a clean-up cannot.
   */
  readonly continueAs: (input: unknown) => Promise<never>;
  /** Returns a random number from 0 up to 1. Each attempt gets the same number for the same name; without a name, for the n-th call. */
  readonly random: (name?: string) => number;
  /** Returns a random UUID. Each attempt gets the same UUID for the same name; without a name, for the n-th call. */
  readonly uuid: (name?: string) => string;
}

/** Runs a step of a task, with or without retries of its own. */
export interface Step {
  /** Runs the code once per task. If the code throws, the caller of the step gets the error, and the error is not journaled. */
  <T>(name: string, run: (context: untyped.StepContext) => T | Promise<T>): Promise<Stored<T>>;
  /**
   * Runs the code with its own number of attempts (`retry`). After the last failed attempt, the step throws `StepFailed`, in
   * this attempt of the task and in later ones.
   */
  <T>(
    name: string,
    options: untyped.StepOptions,
    run: (context: untyped.StepContext) => T | Promise<T>,
  ): Promise<Stored<T>>;
}

/** Runs a function or a handler for each item. */
export interface MapItems {
  /**
   * Runs `run` in this attempt for each item, `concurrency` at a time, and gives the results in the order of the items. Results
   * are journaled in batches: a later attempt calls `run` only for items without a result. If `run` throws, the caller of `map`
   * gets the error, and the error is not journaled. The items must be the same in each attempt: make the list in a step.
   */
  <Item, Result>(
    name: string,
    items: readonly Item[],
    run: (item: Item, context: untyped.MapContext) => Result | Promise<Result>,
    options?: MapOptions,
  ): Promise<Stored<Result>[]>;
  /**
   * Runs a handler for each item as a task of a child, at any worker, with the options of the handler. The items, up to 10 million, are
   * journaled once, in pages; no worker is occupied while the child runs. The results are read when they are needed. If more items fail
   * than the handler tolerates, the call throws `MapFailed`. The workflow must list the handler in `children`.
   */
  <Item, Result>(
    name: string,
    items: Iterable<Item> | AsyncIterable<Item>,
    handler: Handler<Stored<NoInfer<Item>>, Record<never, never>, Result, true>,
  ): Promise<MapResults<Stored<Result>, Stored<Item>>>;
}

/** The results of a map with a handler. `toArray` has them in the order of the items. */
export interface MapResults<Result, Item = unknown>
  extends Omit<HandlerReader<Result, Item>, "visit" | "visits"> {}

/** Options of `map` with a function. */
export interface MapOptions {
  /**
   * The most calls at a time.
   *
   * @default 10
   */
  readonly concurrency?: number;
}

/** Options of a wait inside a task. */
export interface WaitSignal<Schema extends StandardSchema> extends Omit<untyped.WaitOptions, "match"> {
  /**
   * Checks the payload, and gives it its type.
   *
   * @default any JSON
   */
  readonly schema?: Schema;
  /**
   * Values that the payload must have, such as `{ order: 17 }`. Signals with other values are kept for other waits.
   *
   * @default any payload
   */
  readonly match?: Json;
}

/** The signal that arrived first, of a wait for several signals. */
export interface FirstSignal<Value, Name extends string = string> {
  /** The name of the signal. */
  readonly name: Name;
  /** Its payload. */
  readonly value: Value;
}

/** Iterates over the signals of one name, inside a task. */
export interface Signals {
  /** Iterates over the signals that `defineSignal` has declared, with the type of their data. */
  <Taken>(
    signal: SignalType<unknown, Taken>,
    options?: Omit<WaitSignal<StandardSchema>, "signal" | "schema">,
  ): AsyncIterable<Taken>;
  /** Iterates over the signals of a name. */
  <Schema extends StandardSchema = StandardSchema<Json>>(
    name: string,
    options?: Omit<WaitSignal<Schema>, "signal">,
  ): AsyncIterable<SchemaOutput<Schema>>;
}

/** Options of a wait for updates. */
export type UpdateOptions<Schema extends StandardSchema> = Omit<WaitSignal<Schema>, "signal">;

/** An update that the code of a task has received, with the types of its data and its answer. */
export interface UpdateRequest<Data, Answer> extends Omit<untyped.UpdateRequest<Data>, "answer"> {
  /** Answers the update, once. The promise resolves when the answer is journaled; in later attempts the first answer counts. */
  answer(value: Answer): Promise<void>;
}

/** Waits for an update inside a task. */
export interface WaitForUpdate {
  /** Waits for an update that `defineUpdate` has declared. */
  <Answer, Taken>(
    update: UpdateType<unknown, Answer, Taken>,
    options?: Omit<UpdateOptions<StandardSchema>, "schema">,
  ): Promise<UpdateRequest<Taken, Answer>>;
  /** Waits for an update of this name. */
  <Schema extends StandardSchema = StandardSchema<Json>>(
    name: string,
    options?: UpdateOptions<Schema>,
  ): Promise<UpdateRequest<SchemaOutput<Schema>, unknown>>;
}

/** Iterates over the updates of one name, inside a task. */
export interface Updates {
  /** Iterates over the updates that `defineUpdate` has declared, with the types of their data and answers. */
  <Answer, Taken>(
    update: UpdateType<unknown, Answer, Taken>,
    options?: Omit<UpdateOptions<StandardSchema>, "schema">,
  ): AsyncIterable<UpdateRequest<Taken, Answer>>;
  /** Iterates over the updates of a name. */
  <Schema extends StandardSchema = StandardSchema<Json>>(
    name: string,
    options?: UpdateOptions<Schema>,
  ): AsyncIterable<UpdateRequest<SchemaOutput<Schema>, unknown>>;
}

/** Waits for a signal inside a task. */
export interface WaitFor {
  /** Waits for a signal that `defineSignal` has declared. */
  <Taken>(
    signal: SignalType<unknown, Taken>,
    options?: Omit<WaitSignal<StandardSchema>, "signal" | "schema">,
  ): Promise<Taken>;
  /** Waits for a signal that `defineSignal` has declared. The wait is journaled under the given name. */
  <Taken>(
    name: string,
    options: Omit<WaitSignal<StandardSchema>, "signal" | "schema"> & {
      readonly signal: SignalType<unknown, Taken>;
    },
  ): Promise<Taken>;
  /** Waits for the first of several signals. */
  <const Name extends string, Schema extends StandardSchema = StandardSchema<Json>>(
    names: readonly Name[],
    options?: Omit<WaitSignal<Schema>, "signal">,
  ): Promise<FirstSignal<SchemaOutput<Schema>, Name>>;
  /** Waits for the first of several signals. The wait is journaled under the given name. */
  <const Name extends string, Schema extends StandardSchema = StandardSchema<Json>>(
    name: string,
    options: WaitSignal<Schema> & { readonly signal: readonly Name[] },
  ): Promise<FirstSignal<SchemaOutput<Schema>, Name>>;
  /** Waits for one signal. */
  <Schema extends StandardSchema = StandardSchema<Json>>(
    name: string,
    options?: WaitSignal<Schema> & { readonly signal?: string },
  ): Promise<SchemaOutput<Schema>>;
}

/** The part of the context of `process` that adds tasks. */
export interface AddContext<Item> {
  /**
   * Adds tasks to the handler of this task, which must have `adds: true`. They are journaled together with the result of this
   * task: an attempt that fails or is lost adds nothing, and nothing is added twice. Items whose `identity` is known are
   * skipped. An attempt adds at most 10,000 tasks and 1 MiB.
   */
  readonly add: (...items: readonly Item[]) => void;
}

/** The context of `compensate`: the context of the task that is undone, and how that task ended. */
export type CompensateContext<Task, Result, Input, Phases> = TaskContext<Task, Input, Phases> &
  (
    | {
        /** How the task ended. `done`: it has a result. `unknown`: it may have begun, and nobody knows what it has done. */
        readonly outcome: "done";
        /** The result of the task, as stored. */
        readonly result: Result;
      }
    | { readonly outcome: "unknown"; readonly result: undefined }
  );

/** The context of `processBatch`. Its log lines belong to the first task. */
export interface BatchContext<Task, Input, Phases>
  extends Omit<Context<Input, Phases>, "attempt" | "attemptId"> {
  /** The tasks, as stored. */
  readonly tasks: readonly Task[];
  /** The attempts at these tasks, in the same order: number, attempt, attemptId and idempotencyKey of each. */
  readonly attempts: readonly untyped.BatchAttempt[];
}
