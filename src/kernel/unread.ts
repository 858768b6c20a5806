/** Signals that an execution keeps and no wait has taken: their counts, and the phase that reads them before the end. */
import type { PhasePlan } from "./definition/plan.ts";
import type { Execution } from "./execution.ts";

/** The number of signals of one name that no wait has taken. */
export interface UnreadSignals {
  /** The name of the signals. */
  readonly signal: string;
  /** The number of kept signals. */
  readonly count: number;
}

/** The most names of signals that are listed. */
const NAMES_MAX = 100;

/** The kept signals by name, in the order in which the names first arrived. */
export function unreadSignals({ signals }: Execution): readonly UnreadSignals[] {
  const unread: UnreadSignals[] = [];
  for (const [signal, kept] of signals) {
    if (unread.length === NAMES_MAX) break;
    unread.push({ signal, count: kept.length });
  }
  return unread;
}

/** The phase that must read a kept signal before the execution can be done; null if there is none. */
export function unreadPhase({ plan, signals }: Execution): PhasePlan | null {
  // @plant kept signal lost at the end
  for (const [signal, phase] of plan.unread) if (signals.has(signal)) return phase;
  return null;
}
