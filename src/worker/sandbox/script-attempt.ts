/**
 * What a caller of the sandbox sees: an attempt goes in, events come out while it runs, and it ends in one way.
 * States and inputs are JSON text throughout; nothing here knows how or where the runs are done.
 */
import { LIMITS } from "../../kernel/definition/definition.ts";

/** One ordered step: JavaScript that evaluates to a function `(state, ctx) => nextState`. */
export interface ScriptRun {
  readonly name: string;
  readonly expression: string;
  /** Without it the pool's default holds. */
  readonly timeoutMs?: number | null;
}

/** The runs of one script task, done in order by one child. */
export interface ScriptAttempt {
  /** Children are never shared by two projects. */
  readonly project: string;
  readonly runs: readonly ScriptRun[];
  /** How many of `runs` are finished already; the first to do is `runs[finished]`. */
  readonly finished?: number;
  /** The state before the first run that is to be done, as JSON text. */
  readonly state: string;
  /** The execution's input, as JSON text: `ctx.input`. */
  readonly input: string;
  /** The number of this attempt: `ctx.attempt`. */
  readonly attempt: number;
}

export type LogLevel = "debug" | "info" | "warn" | "error";

/** What a finished run took. */
export interface RunStats {
  readonly durationMs: number;
  /** Held by the run's JavaScript heap when it ended. */
  readonly memoryBytes: number;
}

/** What happens while an attempt runs, in order. A crashed run is followed by the end `crashed`. */
export type ScriptEvent =
  | { readonly kind: "run_started"; readonly run: string }
  | { readonly kind: "log"; readonly run: string; readonly level: LogLevel; readonly text: string }
  | {
      readonly kind: "run_finished";
      readonly run: string;
      /** The whole state, also if it is oversized. */
      readonly state: string;
      /** The state is over `stateBytesMarked`. The next run got it whole all the same. */
      readonly oversized: boolean;
      readonly stats: RunStats;
    }
  | { readonly kind: "run_crashed"; readonly run: string; readonly message: string };

/** What a script threw, or why its state was refused. */
export interface ScriptError {
  readonly name: string;
  readonly message: string;
  readonly line?: number;
  readonly hint?: string;
}

/** How an attempt ended; `run` is the run it ended in, null if it was between runs or had not begun. */
export type ScriptEnd =
  | { readonly kind: "done"; readonly state: string; readonly oversized: boolean }
  /** `fatal`: it would fail the same way again, so it is not retried. */
  | { readonly kind: "failed"; readonly run: string; readonly error: ScriptError; readonly fatal: boolean }
  | {
      readonly kind: "killed";
      readonly run: string;
      readonly limit: "time" | "memory" | "security";
      readonly message: string;
    }
  | { readonly kind: "crashed"; readonly run: string | null; readonly message: string }
  | { readonly kind: "cancelled"; readonly run: string | null; readonly reason: string };

/** What one attempt may use. */
export interface ScriptLimits {
  /** Per run, where the run says nothing. */
  readonly timeoutMs: number;
  /** Of a run's JavaScript heap and the engine with it; at least 16 MiB. */
  readonly memoryBytes: number;
  /** A state over this is marked. */
  readonly stateBytesMarked: number;
  /** A state over this is refused. */
  readonly stateBytesMax: number;
  /** A line over this is cut with a notice. */
  readonly logLineBytes: number;
  /** Lines and bytes per attempt; what comes after is dropped with a notice. */
  readonly logLines: number;
  readonly logBytes: number;
}

export const SCRIPT_LIMITS: ScriptLimits = {
  timeoutMs: 30_000,
  memoryBytes: 64 * 1_048_576,
  stateBytesMarked: LIMITS.resultBytes,
  stateBytesMax: 8 * 1_048_576,
  logLineBytes: 8_192,
  logLines: 10_000,
  logBytes: 1_048_576,
};
