/**
 * What user code is given, typed: the worker's contexts with the workflow's input, the task and the earlier phases
 * filled in. Members are properties rather than methods, since code takes them out of the context.
 */
import type { Duration } from "../std/duration.ts";
import type { Json } from "../std/json.ts";
import type * as untyped from "../worker/handler-code.ts";
import type { SchemaOutput, StandardSchema } from "./standard-schema.ts";
import type { Stored } from "./stored.ts";

/** What all code of a workflow is given; `next` and `returns` get just this. */
export interface Context<Input, Phases> extends Omit<untyped.BaseContext, "input" | "phases"> {
  /** The output of the input's schema; without one, the input as stored. */
  readonly input: Input;
  /** The phases declared before this one, and in `next` this one too. */
  readonly phases: Phases;
}

/** What `enumerate` is given. */
export interface EnumerateContext<Input, Phases> extends Context<Input, Phases> {
  /** What is journaled already, in a second attempt: go on from there, or start over and have it skipped. */
  readonly resume: untyped.EnumerateContext["resume"];
}

/** What `process` is given. */
export interface TaskContext<Task, Input, Phases> extends Context<Input, Phases> {
  readonly task: Task;
  /** The task's number within its handler, from 0. */
  readonly number: number;
  /** The number of this attempt, from 1. */
  readonly attempt: number;
  /** The same for all attempts of the task. */
  readonly idempotencyKey: string;
  /** Tells how far the task is. */
  readonly progress: (done: number, total?: number) => void;
  /** Runs `run` once: its result is journaled, and returned without running it in a later attempt. */
  readonly step: <T>(name: string, run: () => T | Promise<T>) => Promise<Stored<T>>;
  /** Ends the attempt; the task goes on in a new one when the time has passed. */
  readonly sleep: (name: string, duration: Duration) => Promise<void>;
  /** Ends the attempt; the task goes on in a new one with the signal's payload, parsed by the schema. */
  readonly waitFor: <Schema extends StandardSchema = StandardSchema<Json>>(
    name: string,
    options?: { readonly schema?: Schema; readonly timeout?: Duration },
  ) => Promise<SchemaOutput<Schema>>;
}

/** What `processBatch` is given. */
export interface BatchContext<Task, Input, Phases> extends Context<Input, Phases> {
  readonly tasks: readonly Task[];
}
