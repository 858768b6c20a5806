/**
 * Handler code as a worker runs it: plain functions by wire name, without the SDK's types. The SDK's builder makes
 * these; anything else that hosts code can too.
 */
import type { Duration } from "../std/duration.ts";
import type { Rejection } from "../std/rejection.ts";

/** Results of earlier phases, read as a stream. */
export interface ResultsReader {
  /** Tasks done. */
  readonly count: number;
  readonly failed: number;
  readonly total: number;
  /** Results of done tasks, in journal order. */
  results(): AsyncIterable<unknown>;
  /**
   * Failed tasks: `task` is the number, `data` the task as it is stored, `error` what went wrong. `data` is undefined where it
   * cannot be read: over RabbitMQ, and from a server of 0.2.
   */
  failures(): AsyncIterable<{ task: number; data: unknown; error: TaskError }>;
  /** Folds the results. */
  reduce<T>(fold: (sum: T, result: unknown) => T | Promise<T>, initial: T): Promise<T>;
  /** The same handler in an earlier visit of its phase. */
  visit(n: number): ResultsReader;
  /** What a wait was given; null for anything else. */
  readonly value: unknown;
}

/** What went wrong with a task, as it is stored. */
export interface TaskError {
  readonly name: string;
  readonly message: string;
  /** A code of Rondo's own (`timeout`, `crashes`, `not_storable`), or the error's own `code`. */
  readonly code?: string;
  readonly stack?: string;
  readonly hint?: string;
  /** Where in the result, if that could not be stored. */
  readonly path?: string;
  /** Of a script: the run, and the line in it. */
  readonly run?: string;
  readonly line?: number;
}

/** Phases by name: a reader for a phase with one unnamed handler, else readers by handler name. */
export type PhasesReader = Readonly<Record<string, ResultsReader & Readonly<Record<string, ResultsReader>>>>;

/** What code gets that is called for one attempt. */
export interface AnswerContext extends BaseContext {
  /**
   * The number of this attempt, from 1. It counts attempts that are recorded: where no start of an attempt was recorded, the
   * next one has the same number.
   */
  readonly attempt: number;
  /** The id of this attempt. No other attempt gets it, also where the number is the same. */
  readonly attemptId: string;
}

export interface BaseContext {
  readonly execution: string;
  /** The time in milliseconds since 1970. Under `testRondo` it is the virtual time, which `Date.now()` is not. */
  readonly now: () => number;
  readonly input: unknown;
  readonly phases: PhasesReader;
  /** Aborted when the attempt is cancelled, out of time, or its lease is lost. */
  readonly signal: AbortSignal;
  /** Lines that are stored with the attempt, in the order in which they are written. */
  readonly log: Log;
  /** Makes this worker write `[redacted]` wherever the value would be logged or told in an error; returns the value. */
  readonly secret: (value: string) => string;
}

/** Writes values as lines, like `console`; without a level it is `info`. */
export interface Log {
  (...parts: unknown[]): void;
  debug(...parts: unknown[]): void;
  info(...parts: unknown[]): void;
  warn(...parts: unknown[]): void;
  error(...parts: unknown[]): void;
}

export interface EnumerateContext extends AnswerContext {
  /** What is journaled already, in a second attempt. Code that reads it goes on from there; code that does not starts over, and what is known is skipped. */
  readonly resume: { readonly count: number; readonly last: unknown } | undefined;
}

export interface ProcessContext extends AnswerContext {
  readonly task: unknown;
  readonly number: number;
  /** The same for all attempts of the task. */
  readonly idempotencyKey: string;
  progress(done: number, total?: number): void;
  /**
   * Runs `run` once per task: its result is journaled, and given back without running it in a later attempt. What is
   * outside of steps runs again in each attempt.
   */
  step<T>(name: string, run: () => T | Promise<T>): Promise<T>;
  /**
   * Ends the attempt, without holding a worker, until the time has passed; then the task runs from its beginning, past
   * what is journaled. The promise settles in that attempt only.
   */
  sleep(name: string, duration: Duration): Promise<void>;
  /** The same until a signal of this name comes, whose payload it gives; past `timeout` it throws a `WaitTimeout`. */
  waitFor(name: string, options?: { schema?: unknown; timeout?: Duration }): Promise<unknown>;
}

/** What is logged belongs to the first of the tasks. */
export interface BatchContext extends BaseContext {
  readonly tasks: readonly unknown[];
  /** The attempts at these tasks, in the same order. */
  readonly attempts: readonly BatchAttempt[];
}

/** The attempt at one task of a batch. */
export interface BatchAttempt {
  /** The task's number within its handler, from 0. */
  readonly number: number;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** The id of the attempt, which no other attempt gets. */
  readonly attemptId: string;
  /** The same for all attempts of the task. */
  readonly idempotencyKey: string;
}

type Items = Iterable<unknown> | AsyncIterable<unknown>;

/** One handler's code. `parseInput` gives handlers the schema's output of the stored input. */
export interface HandlerCode {
  readonly use: string;
  readonly version?: string;
  readonly enumerate?: (context: EnumerateContext) => Items | Promise<Items>;
  readonly process?: (context: ProcessContext) => unknown;
  readonly processBatch?: (context: BatchContext) => unknown;
  /** A decision or the output of the workflow. */
  readonly answer?: (context: AnswerContext) => unknown;
  readonly key?: (task: unknown) => string;
  readonly identity?: (task: unknown) => string;
  readonly parseInput?: (input: unknown) => unknown;
  /** The one task is the input, as `parseInput` gives it. */
  readonly taskIsInput?: boolean;
  /** Makes `waitFor` heed the schema that user code gives it. */
  readonly parsingWait?: (wait: ProcessContext["waitFor"]) => ProcessContext["waitFor"];
  /** A wait: the signal, and a check of its payload. */
  readonly signal?: {
    readonly name: string;
    readonly check: (data: unknown) => Rejection | null | Promise<Rejection | null>;
  };
}

/** Code that a worker hosts together: that of a workflow, or of a topic. */
export interface HostedPart {
  readonly name: string;
  readonly handlers: readonly HandlerCode[];
  readonly children?: readonly HostedPart[];
}

/** Code that does the commands of a topic, whatever workflow they are of. */
export interface HostedTopic extends HostedPart {
  readonly topic: string;
}

/** Everything a workflow hosts in a worker. */
export interface HostedWorkflow extends HostedPart {
  /** The definition as data, not yet parsed. */
  readonly definition: unknown;
  /** Workflows that it starts as children, where it has them as objects. */
  readonly children?: readonly HostedWorkflow[];
}

/** The workflows and all that they start as children, each once; children come before those that start them. */
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
