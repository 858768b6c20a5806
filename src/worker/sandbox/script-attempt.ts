/** The types of the sandbox: an attempt goes in, events come out, and the attempt has one end. States and inputs are JSON texts. */
import { LIMITS } from "../../kernel/definition/definition.ts";

/** One run of a script: JavaScript that evaluates to a function `(state, ctx) => nextState`. */
export interface ScriptRun {
  readonly name: string;
  readonly expression: string;
  /** The time limit of the run; by default the time limit of the pool. */
  readonly timeoutMs?: number | null;
}

/** The runs of one script task. One sandbox process does them in order. */
export interface ScriptAttempt {
  /** The project of the attempt. Two projects never share a sandbox process. */
  readonly project: string;
  readonly runs: readonly ScriptRun[];
  /** The number of finished runs. The next run is `runs[finished]`. */
  readonly finished?: number;
  /** The state before the next run, as JSON text. */
  readonly state: string;
  /** The execution's input as JSON text, which the script sees as `ctx.input`. */
  readonly input: string;
  /** The number of this attempt, which the script sees as `ctx.attempt`. */
  readonly attempt: number;
}

export type LogLevel = "debug" | "info" | "warn" | "error";

export interface RunStats {
  readonly durationMs: number;
  /**
   * The size of the run's JavaScript heap when it ended. For a run that crashed: the last known memory of its process; 0 if it
   * was never measured.
   */
  readonly memoryBytes: number;
}

/** The events of a running attempt, in order. The event of a crashed run is the last one before the end of the attempt. */
export type ScriptEvent =
  | { readonly kind: "run_started"; readonly run: string }
  | { readonly kind: "log"; readonly run: string; readonly level: LogLevel; readonly text: string }
  | {
      readonly kind: "run_finished";
      readonly run: string;
      /** The whole state after the run, even if it is oversized. */
      readonly state: string;
      /** Whether the state is larger than `stateBytesMarked`. The next run still gets the whole state. */
      readonly oversized: boolean;
      readonly stats: RunStats;
    }
  | {
      readonly kind: "run_crashed";
      readonly run: string;
      readonly message: string;
      readonly stats: RunStats;
    };

export interface ScriptError {
  readonly name: string;
  readonly message: string;
  readonly line?: number;
  readonly hint?: string;
}

/** The end of an attempt. `run` is the run in which it ended; null if it ended between runs or before the first one. */
export type ScriptEnd =
  | { readonly kind: "done"; readonly state: string; readonly oversized: boolean }
  /** `fatal` means that a retry would fail in the same way, so the task is not retried. */
  | { readonly kind: "failed"; readonly run: string; readonly error: ScriptError; readonly fatal: boolean }
  | {
      readonly kind: "killed";
      readonly run: string;
      readonly limit: "time" | "memory" | "security";
      readonly message: string;
    }
  | { readonly kind: "crashed"; readonly run: string | null; readonly message: string }
  | { readonly kind: "cancelled"; readonly run: string | null; readonly reason: string };

export interface RunningScript {
  /** Resolves with the end of the attempt. It never rejects, because a failure is an end too. */
  readonly done: Promise<ScriptEnd>;
  /** Ends the attempt now as cancelled, unless it has ended. */
  cancel(reason: string): void;
}

export interface ScriptLimits {
  /** The default time limit of a run. */
  readonly timeoutMs: number;
  /** The limit of a run's JavaScript heap, including the engine's own memory; at least 16 MiB. */
  readonly memoryBytes: number;
  /** The size above which a state is marked as oversized. */
  readonly stateBytesMarked: number;
  /** The size above which a state is refused. */
  readonly stateBytesMax: number;
  /** The longest log line in bytes; a longer line is cut with a notice. */
  readonly logLineBytes: number;
  /** The most log lines of an attempt. `logBytes` is the most bytes. Further lines are dropped with a notice. */
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
