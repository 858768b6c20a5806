/** Totals of a node since it was opened, for metrics. They are counted at each commit. */
import type { FinalStatus, Recorded, SettledStatus } from "../../kernel/event.ts";

export interface Totals {
  started: number;
  readonly ended: Record<FinalStatus, number>;
  readonly settled: Record<SettledStatus, number>;
  /** Settled tasks and their running times, by `<workflow>.<phase>.<handler>`. The number of names is bounded. */
  readonly handlers: Map<string, HandlerTotals>;
}

export interface HandlerTotals extends Record<SettledStatus, number> {
  /** The total time that the attempts which settled tasks ran, in milliseconds. */
  runMs: number;
}

/** The most handlers with totals of their own. All others are counted together. */
const HANDLERS_MAX = 500;
const OTHERS = "(others)";

export function noTotals(): Totals {
  return {
    started: 0,
    ended: { done: 0, failed: 0, cancelled: 0 },
    settled: { done: 0, failed: 0, cancelled: 0 },
    handlers: new Map(),
  };
}

export function addTotals(totals: Totals, more: Totals): void {
  totals.started += more.started;
  addCounts(totals.ended, more.ended);
  addCounts(totals.settled, more.settled);
  for (const [name, counts] of more.handlers) {
    const sum = handlerOf(totals, name);
    addCounts(sum, counts);
    sum.runMs += counts.runMs;
  }
}

function handlerOf({ handlers }: Totals, name: string): HandlerTotals {
  const key = handlers.has(name) || handlers.size < HANDLERS_MAX ? name : OTHERS;
  let found = handlers.get(key);
  if (found === undefined) {
    found = { done: 0, failed: 0, cancelled: 0, runMs: 0 };
    handlers.set(key, found);
  }
  return found;
}

/** Adds one event of an execution of this workflow to the totals. */
export function countEvent(totals: Totals, { event }: Recorded, workflow: string): void {
  if (event.kind === "created") totals.started++;
  else if (event.kind === "finished") totals.ended[event.status]++;
  else if (event.kind === "tasks.settled") {
    const handler = handlerOf(totals, `${workflow}.${event.phase}.${event.handler}`);
    event.statuses.forEach((status, i) => {
      totals.settled[status]++;
      handler[status]++;
      handler.runMs += event.ms[i] ?? 0;
    });
  }
}

function addCounts(counts: Record<FinalStatus, number>, more: Record<FinalStatus, number>): void {
  counts.done += more.done;
  counts.failed += more.failed;
  counts.cancelled += more.cancelled;
}
