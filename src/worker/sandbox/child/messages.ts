/** The lines of JSON between the parent and a sandbox child: orders one way, reports the other. Types only. */

/** What the parent sends. */
export type Order = AttemptOrder | ProbeOrder;

export interface AttemptOrder {
  readonly kind: "attempt";
  /** Those that are still to be done. */
  readonly runs: readonly {
    readonly name: string;
    readonly expression: string;
    readonly timeoutMs: number;
  }[];
  readonly state: string;
  readonly input: string;
  readonly attempt: number;
  readonly limits: ChildLimits;
}

export interface ChildLimits {
  readonly memoryBytes: number;
  readonly stateBytesMax: number;
  readonly logLineBytes: number;
  readonly logLines: number;
  readonly logBytes: number;
  readonly errorChars: number;
}

/** Asks the child to try what the jail must prevent. */
export interface ProbeOrder {
  readonly kind: "probe";
  /** Someone listens there, outside the jail, on 127.0.0.1. */
  readonly port: number;
  /** A file that exists outside the jail, and a process that runs there. */
  readonly file: string;
  readonly pid: number;
}

/** What the child found that it can do. In a jail: nothing. */
export interface ProbeFindings {
  readonly environment: readonly string[];
  readonly connected: boolean;
  readonly readFile: boolean;
  readonly wroteFile: boolean;
  readonly sawProcess: boolean;
  readonly startedProcess: boolean;
}

/** A run as the child numbers it: an index into the order's `runs`. */
interface OfRun {
  readonly run: number;
}

/** What a child says. A parent believes none of it before it is checked (report-check.ts). */
export type ChildReport =
  | { readonly kind: "ready" }
  | ({ readonly kind: "run_started" } & OfRun)
  | ({ readonly kind: "log"; readonly level: string; readonly text: string } & OfRun)
  | ({
      readonly kind: "run_finished";
      readonly state: string;
      readonly durationMs: number;
      readonly memoryBytes: number;
    } & OfRun)
  | ({
      readonly kind: "run_failed";
      readonly name: string;
      readonly message: string;
      readonly line: number | null;
      readonly fatal: boolean;
    } & OfRun)
  | ({ readonly kind: "run_killed"; readonly limit: "time" | "memory" } & OfRun)
  | { readonly kind: "probed"; readonly findings: ProbeFindings };
