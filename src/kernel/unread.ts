/** Unread signals (kept signals that no wait has taken), unanswered updates, and the phase that reads signals before the end. */
import type { PhasePlan } from "./definition/plan.ts";
import type { Execution } from "./execution.ts";
import { shownSignal, unansweredUpdates } from "./updates.ts";

/** The number of signals of one name that no wait has taken. */
export interface UnreadSignals {
  /** The name of the signals. */
  readonly signal: string;
  /** The number of kept signals. */
  readonly count: number;
  /** Whether the signals are updates. Updates count until they are answered, whether or not a wait has taken them. */
  readonly update?: true;
}

/** The most names of unread signals that a view lists. */
const NAMES_MAX = 100;

/** Returns the kept signals by name, in the order in which the names first arrived. Updates count until they are answered. */
export function unreadSignals(execution: Execution): readonly UnreadSignals[] {
  const counts = new Map<string, number>();
  for (const [signal, kept] of execution.signals) counts.set(signal, kept.length);
  for (const [update, count] of unansweredUpdates(execution))
    counts.set(update, (counts.get(update) ?? 0) + count);
  const unread: UnreadSignals[] = [];
  for (const [signal, count] of counts) {
    if (unread.length === NAMES_MAX) break;
    const { name, what } = shownSignal(signal);
    unread.push({ signal: name, count, ...(what === "update" ? { update: true } : {}) });
  }
  return unread;
}

/** Returns the phase that must read a kept signal before the execution can be done; null if there is none. */
export function unreadPhase({ plan, signals }: Execution): PhasePlan | null {
  // @plant kept signal lost at the end
  for (const [signal, phase] of plan.unread) if (signals.has(signal)) return phase;
  return null;
}
