/**
 * A workflow definition in canonical form: durations are in milliseconds, defaults are left out, and its format is version 1. Stores
 * keep and hash this form. It has no code; the code of handlers is named by `use`.
 */
import type { Json } from "../../std/json.ts";

/**
 * The format versions in which definitions may be submitted. Both are stored as version 1. In version 2, a handler with `use` and no
 * other option about its tasks enumerates them. In version 1, such a handler has one task, the input.
 */
export type GivenVersion = 1 | 2;

export interface Definition {
  readonly rondo: 1;
  readonly name: string;
  /** The version of the workflow. It sets the ranges of versions in which the code of handlers, `next` and `returns` is wanted. */
  readonly version?: string;
  readonly input?: Json;
  readonly phases: readonly PhaseDefinition[];
  /**
   * The code that computes the output. With `last`, the output is the result of the only task of the phase in which the execution
   * ended. If `returns` is missing, the output is null.
   */
  readonly returns?: AnswerDefinition | typeof LAST;
  /** For each signal name, the phase that must read kept signals of this name before the execution can be done. */
  readonly unread?: { readonly [signal: string]: string };
  /** The names of all signals for which code of the workflow waits. If the list is missing, code may wait for any signal. */
  readonly signals?: readonly string[];
  /** The phase that runs after a cancel or a deadline. The next field is the phase that runs after a failure. */
  readonly onCancel?: string;
  readonly onFailure?: string;
  /** The phase that runs last, whether the execution is done, failed or cancelled. */
  readonly finally?: string;
  /** The longest time that the clean-up may take, in milliseconds. */
  readonly cleanupTimeout?: number;
  /** The events that start, signal or cancel executions of the workflow. */
  readonly on?: readonly TriggerDefinition[];
  /**
   * The input of an execution has the data and metadata of its commands (own-command.ts). The definition has only what
   * documents of the same shape share. Only submissions make such definitions.
   */
  readonly commands?: typeof FROM_INPUT;
}

/** An event that starts executions of a workflow, or signals one. Times are in milliseconds. */
export interface TriggerDefinition {
  /** The name of the event. */
  readonly event: string;
  /** Values that the data of the event must have to match. */
  readonly match?: Json;
  /**
   * A JSON Pointer into the event's data. The options below apply to each value at this pointer separately; without a key, to all
   * events together.
   */
  readonly key?: string;
  /** Events are held until no event has come for `quiet`, or the first event is `max` old. Then the last event starts an execution. */
  readonly debounce?: { readonly quiet: number; readonly max?: number };
  /** The most starts within any period of this length. Further executions start later. */
  readonly throttle?: { readonly limit: number; readonly per: number };
  /** Events are collected, and a list of their data starts one execution. */
  readonly batch?: { readonly max: number; readonly wait: number };
  /** What happens to an event while an execution of its key is open. */
  readonly singleton?: "skip" | "cancel" | "signal";
  /** The name of the signal that an open execution gets. */
  readonly signal?: string;
  /** A JSON Pointer to the id of the execution that gets the signal. No execution is started. */
  readonly execution?: string;
  /** Events that cancel the open executions of a key. */
  readonly cancelOn?: readonly CancelDefinition[];
}

/** An event that cancels the executions which a trigger started. */
export interface CancelDefinition {
  readonly event: string;
  readonly match?: Json;
  /** A JSON Pointer into the data of the cancelling event. By default, the key of the trigger is used. */
  readonly key?: string;
}

export interface PhaseDefinition {
  readonly name: string;
  readonly handlers: { readonly [name: string]: HandlerDefinition };
  readonly next?: string | (AnswerDefinition & { readonly among: readonly string[] });
  readonly onError?: string;
  readonly final?: true | "failed";
  readonly maxVisits?: number;
}

/** The code that computes `next` or `returns`, with its options. */
export interface AnswerDefinition {
  readonly use: string;
  readonly version?: string;
  readonly timeout?: number;
  readonly retry?: RetryDefinition;
}

/** The fields that name phases of the clean-up. */
export const CLEANUPS = ["onCancel", "onFailure", "finally"] as const;

/** The code that compensates a task of a handler when the execution is cancelled or fails, with its options. */
export interface CompensateDefinition {
  readonly use: string;
  readonly version?: string;
  readonly timeout?: number;
  readonly retry?: RetryDefinition;
  readonly concurrency?: number;
}

/** The name of the phase that computes the output, and of its handler. */
export const RETURNS = "returns";
/** The value of `commands` for definitions of submitted documents. */
export const FROM_INPUT = "input";
/** The value of `returns` that makes the last result the output, without code. */
export const LAST = "last";
/** The name of the handler that decides the next phase. */
export const NEXT = "next";
/** The suffix in the name of a phase that compensates another one. Names in definitions cannot contain its `~`. */
export const COMPENSATION = "~compensate";

/** The modes of a handler: its definition has exactly one of these fields. */
export const HANDLER_MODES = ["use", "sleep", "waitFor", "command", "script", "workflow"] as const;

/** When a failed task is tried again; times in milliseconds. */
export interface RetryDefinition {
  /** The most attempts, including the first one. */
  readonly attempts?: number;
  /** The most attempts that may end because their process died. */
  readonly crashes?: number;
  /** Whether the time between two attempts doubles or stays the same. */
  readonly backoff?: "exponential" | "constant";
  /** The time before the second attempt, in milliseconds. */
  readonly min?: number;
  /** The longest time between two attempts, in milliseconds. */
  readonly max?: number;
}

/** One run of a script: JavaScript that evaluates to a function `(state, ctx) => nextState`. */
export interface ScriptRunDefinition {
  readonly name: string;
  readonly expression: string;
  readonly timeout?: number;
}

/** A command in its submitted form. Hashes cover this form, and references in `cmd_data` are not resolved. */
export interface CommandDefinition {
  readonly cmd_type: string;
  readonly cmd_data?: Json;
  readonly cmd_metadata?: Readonly<Record<string, Json>>;
}

/** A rate: the most starts within a period. */
export interface RateDefinition {
  readonly limit: number;
  readonly per: number;
  /** Whether starts are spread evenly over the period `per`. */
  readonly spread?: true;
}

export interface HandlerDefinition {
  readonly use?: string;
  readonly sleep?: number;
  readonly waitFor?: string;
  readonly optional?: boolean;
  readonly schema?: Json;
  readonly command?: CommandDefinition;
  /** The topic of the command. The next field is the topic of its receipts, if that is not the default. */
  readonly topic?: string;
  readonly receiptTopic?: string;
  readonly script?: readonly ScriptRunDefinition[];
  readonly state?: Json;
  readonly resume?: boolean;
  readonly workflow?: string;
  /** The list of tasks, or else the code that enumerates them. If both are missing, the handler has one task, the input. */
  readonly tasks?: readonly Json[];
  readonly enumerate?: { readonly use: string };
  readonly version?: string;
  readonly timeout?: number;
  readonly heartbeat?: number;
  readonly retry?: RetryDefinition;
  readonly concurrency?: number;
  /** A JSON Pointer to the key of a task, or true if the code that enumerates tasks computes the key. */
  readonly key?: string | true;
  readonly identity?: string | true;
  /** Whether tasks of the handler may add tasks to it while they are processed. */
  readonly adds?: true;
  /**
   * The identities of the tasks for which a task waits: a JSON Pointer to a list of them, or true if the code that names tasks
   * computes the list.
   */
  readonly after?: string | true;
  readonly concurrencyPerKey?: number;
  readonly rate?: RateDefinition;
  /** The rate of starts of tasks with the same key. */
  readonly ratePerKey?: RateDefinition;
  readonly priority?: number;
  /** How many failures the handler tolerates: a number, or a percentage such as "1%". */
  readonly tolerate?: number | string;
  readonly batch?: number;
  readonly compensate?: CompensateDefinition;
}

/** The pattern of names that are written in code: of workflows, phases, handlers and projects. For other names see names.ts. */
export const NAME_PATTERN = /^[A-Za-z][A-Za-z0-9_-]{0,39}$/;
/** The pattern of phase names in journals and requests: names in definitions, and names of phases that compensate. */
export const PHASE_PATTERN = /^[A-Za-z][A-Za-z0-9_-]{0,39}(?:~compensate)?$/;
/** The pattern of handlers' names on the wire. They contain dots, because they are made of the names of workflow, phase and handler. */
export const USE_PATTERN = /^[A-Za-z][A-Za-z0-9_.-]{0,149}$/;
export const DEFAULT_PROJECT = "default";

export const LIMITS = {
  inputBytes: 1_048_576,
  taskBytes: 65_536,
  resultBytes: 262_144,
  pageTasks: 1_000,
  pageBytes: 1_048_576,
  rowItems: 1_000,
  rowBytes: 262_144,
  tasksPerVisit: 10_000_000,
  /** The most tasks that one attempt can add. The next field is the most characters of them. */
  addedTasks: 10_000,
  addedChars: 1_048_576,
  /** The most characters of the names of all the tasks for which one task waits. */
  afterChars: 65_536,
  phases: 1_000,
  /** The most kept signals of one name. The next field is the most of all names of an execution together. */
  signalsKept: 1_000,
  signalBytesKept: 1_048_576,
  signalsKeptInAll: 10_000,
  signalBytesKeptInAll: 8_388_608,
  errorChars: 8_192,
} as const;

export const DEFAULTS = {
  attempts: 3,
  crashes: 4,
  retryMinMs: 1_000,
  retryMaxMs: 60_000,
  heartbeatMs: 30_000,
  maxVisits: 1_000,
  cleanupTimeoutMs: 3_600_000,
  postOpAttempts: 10,
  postOpTimeoutMs: 30_000,
} as const;

/** Returns the signals for which phases wait, and those that the definition lists for its code. */
export function knownSignals({ phases, unread = {}, signals = [] }: Definition): ReadonlySet<string> {
  const waits = phases.flatMap(({ handlers }) =>
    Object.values(handlers).flatMap(({ waitFor }) => waitFor ?? []),
  );
  return new Set([...waits, ...Object.keys(unread), ...signals]);
}
