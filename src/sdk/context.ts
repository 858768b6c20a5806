/**
 * What user code is given, typed: the worker's contexts with the workflow's input, the task and the earlier phases
 * filled in. Members are properties rather than methods, since code takes them out of the context.
 */
import type { Duration } from "../std/duration.ts";
import type { Json } from "../std/json.ts";
import type * as untyped from "../worker/handler-code.ts";
import type { SchemaOutput, StandardSchema } from "./standard-schema.ts";
import type { Stored } from "./stored.ts";

/** What all code of a workflow gets; `next` and `returns` get just this. */
export interface Context<Input, Phases> extends Omit<untyped.AnswerContext, "input" | "phases"> {
  /** The output of the input's schema; without one, the input as stored. */
  readonly input: Input;
  /** The phases declared before this one, and in `next` this one too. */
  readonly phases: Phases;
}

/** What `enumerate` gets. */
export interface EnumerateContext<Input, Phases> extends Context<Input, Phases> {
  /** What is journaled already, in a second attempt: go on from there, or start over and have it skipped. */
  readonly resume: untyped.EnumerateContext["resume"];
}

/** What `process` gets. */
export interface TaskContext<Task, Input, Phases> extends Context<Input, Phases> {
  /** The task: an item of `enumerate` as stored, or the input. */
  readonly task: Task;
  /** The task's number within its handler, from 0. */
  readonly number: number;
  /** The same for all attempts of the task. */
  readonly idempotencyKey: string;
  /** Reports how far the task is. */
  readonly progress: (done: number, total?: number) => void;
  /**
   * Runs `run` once per task: its result is journaled before the code goes on, and given back without running it in a
   * later attempt. Names are unique within the task.
   *
   * What is outside of steps runs again in each attempt: after a failure, after a crash, and after each `sleep` and
   * `waitFor`. Nothing there needs to be deterministic, except that the names of what is done already stay the same.
   */
  readonly step: <T>(name: string, run: () => T | Promise<T>) => Promise<Stored<T>>;
  /**
   * Ends the attempt; no worker is held while the time passes. Then the task runs again from its beginning, past the
   * steps that are done, and this gives back at once. The promise settles in that attempt only: do not race it. Of
   * several side by side, the first ends the attempt.
   */
  readonly sleep: (name: string, duration: Duration) => Promise<void>;
  /**
   * The same until the execution gets a signal of this name, whose payload it gives, parsed by the schema. If none came
   * within `timeout`, it throws an error named `WaitTimeout` with the code `wait_timeout`, which ends the task unless it
   * is caught.
   */
  readonly waitFor: <Schema extends StandardSchema = StandardSchema<Json>>(
    name: string,
    options?: { readonly schema?: Schema; readonly timeout?: Duration },
  ) => Promise<SchemaOutput<Schema>>;
}

/** What `processBatch` gets. Lines that it logs belong to the first of the tasks. */
export interface BatchContext<Task, Input, Phases>
  extends Omit<Context<Input, Phases>, "attempt" | "attemptId"> {
  /** The tasks, as stored. */
  readonly tasks: readonly Task[];
  /** The attempts at these tasks, in the same order: number, attempt, attemptId and idempotencyKey of each. */
  readonly attempts: readonly untyped.BatchAttempt[];
}
