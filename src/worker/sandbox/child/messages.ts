/** The JSON lines between the parent and a sandbox child: orders to the child, reports to the parent. Types only. */

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

/** Asks the child to try the operations that the jail must prevent. */
export interface ProbeOrder {
  readonly kind: "probe";
  /** A port on 127.0.0.1 with a listener outside the jail. */
  readonly port: number;
  /** A file that exists outside the jail, and a process that runs there. */
  readonly file: string;
  readonly pid: number;
}

/** The operations that worked in the child. In a jail, none of them works. */
export interface ProbeFindings {
  readonly environment: readonly string[];
  readonly connected: boolean;
  readonly readFile: boolean;
  readonly wroteFile: boolean;
  readonly sawProcess: boolean;
  readonly startedProcess: boolean;
}

/** The index of a run in the order's `runs`. */
interface OfRun {
  readonly run: number;
}

/** A report of a child. The parent checks each one before it uses it (report-check.ts). */
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
