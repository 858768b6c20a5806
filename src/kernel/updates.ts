/**
 * Updates: signals that get an answer. An update travels, waits and is applied once as a signal with a name of its own, so that
 * waits for signals do not take it. The wait that takes it gets its id with its data. The answer is a step of the task that took
 * it, so it is journaled once; callers find it in the journal.
 */
import type { Event } from "./event.ts";
import type { Execution } from "./execution.ts";

/** The beginning of the signals that are updates. Signals of users cannot begin with it. */
export const UPDATE = "~update:";

/** The name of the signal that an update is. */
export function updateSignal(update: string): string {
  return `${UPDATE}${update}`;
}

/** Whether a signal is an update. */
export function isUpdate(signal: string | null | undefined): boolean {
  return signal?.startsWith(UPDATE) === true;
}

/** The name of a signal or update, and its kind, as users know them. */
export function shownSignal(signal: string): { readonly name: string; readonly what: "signal" | "update" } {
  return isUpdate(signal)
    ? { name: signal.slice(UPDATE.length), what: "update" }
    : { name: signal, what: "signal" };
}

/** Whether only nodes that know updates can read the event. */
export function isAboutUpdates(event: Event): boolean {
  switch (event.kind) {
    case "signalled":
      return isUpdate(event.signal);
    case "task.step":
      return event.answers !== undefined || isUpdate(event.takes?.signal);
    case "tasks.waiting":
      return event.signals.some(isUpdate);
    case "task.waiting":
      return event.waits.some(({ signals }) => signals?.some(isUpdate) === true);
    default:
      return false;
  }
}

/** The numbers of updates by name that a wait has taken and no code has answered. */
export function unansweredUpdates({ unanswered }: Execution): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const name of unanswered.values()) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}
