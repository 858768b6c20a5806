/**
 * The status of each script run of the attempts that a worker holds, for the worker's status API. It is derived from the
 * worker's reports.
 */
import type { Report } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";

export interface RunStatus {
  readonly status: "running" | "finished" | "crashed";
  /** When the run got this status, in milliseconds since 1970. */
  readonly since: number;
}

/** The runs of one attempt that have begun, by the name of the run. */
export type RunStatuses = Map<string, RunStatus>;

const STATUS_OF = { "run.started": "running", run: "finished", "run.crashed": "crashed" } as const;

/** Applies a report about a run to the statuses of its attempt; other reports change nothing. Most attempts have no runs. */
export function noteRun(
  attempt: { runs: RunStatuses | null },
  report: Report,
  clock: Pick<Clock, "now">,
): void {
  if (report.kind !== "run" && report.kind !== "run.started" && report.kind !== "run.crashed") return;
  attempt.runs ??= new Map();
  attempt.runs.set(report.name, { status: STATUS_OF[report.kind], since: clock.now() });
}
