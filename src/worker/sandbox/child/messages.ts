/** The JSON lines between the worker and a sandbox process: orders to the sandbox process, reports from it. Types only. */

export type Order = AttemptOrder | ProbeOrder;

export interface AttemptOrder {
  readonly kind: "attempt";
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

/** Asks the sandbox process to try the operations that the jail must prevent. */
export interface ProbeOrder {
  readonly kind: "probe";
  /** A port on 127.0.0.1 with a listener outside the jail. */
  readonly port: number;
  /** A file that exists outside the jail. `pid` is a process that runs outside. */
  readonly file: string;
  readonly pid: number;
}

/** The forbidden operations that worked in the sandbox process. In a jail that works there are none. */
export interface ProbeFindings {
  readonly environment: readonly string[];
  readonly connected: boolean;
  readonly readFile: boolean;
  readonly wroteFile: boolean;
  readonly sawProcess: boolean;
  readonly startedProcess: boolean;
}

/** The index of a run in the `runs` of an order. */
interface OfRun {
  readonly run: number;
}

/** A report of a sandbox process. The worker checks each report before it uses it (report-check.ts). */
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
