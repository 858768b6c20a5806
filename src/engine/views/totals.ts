/** Totals of a node since it was opened, counted at commits, for metrics. */
import type { FinalStatus, Recorded, SettledStatus } from "../../kernel/event.ts";

export interface Totals {
  started: number;
  readonly ended: Record<FinalStatus, number>;
  readonly settled: Record<SettledStatus, number>;
}

export function noTotals(): Totals {
  return {
    started: 0,
    ended: { done: 0, failed: 0, cancelled: 0 },
    settled: { done: 0, failed: 0, cancelled: 0 },
  };
}

export function addTotals(totals: Totals, more: Totals): void {
  totals.started += more.started;
  addCounts(totals.ended, more.ended);
  addCounts(totals.settled, more.settled);
}

export function countEvent(totals: Totals, { event }: Recorded): void {
  if (event.kind === "created") totals.started++;
  else if (event.kind === "finished") totals.ended[event.status]++;
  else if (event.kind === "tasks.settled") for (const status of event.statuses) totals.settled[status]++;
}

function addCounts(counts: Record<FinalStatus, number>, more: Record<FinalStatus, number>): void {
  counts.done += more.done;
  counts.failed += more.failed;
  counts.cancelled += more.cancelled;
}
