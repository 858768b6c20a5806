/**
 * Updates: signals that get an answer. An update is sent, kept and applied once like a signal, under a special name that waits for
 * signals do not match. The wait that takes an update gets its id with its data. The answer is a step of the task that took the
 * update, so it is journaled once; callers find it in the journal.
 */
import type { Event } from "./event.ts";
import type { Execution } from "./execution.ts";

/** The prefix of the names of signals that are updates. Names of users' signals cannot begin with it. */
export const UPDATE = "~update:";

/** Returns the name of the signal under which an update is sent. */
export function updateSignal(update: string): string {
  return `${UPDATE}${update}`;
}

/** Whether a signal is an update. */
export function isUpdate(signal: string | null | undefined): boolean {
  return signal?.startsWith(UPDATE) === true;
}

/** Returns the name of a signal or update as users know it, and which of the two it is. */
export function shownSignal(signal: string): { readonly name: string; readonly what: "signal" | "update" } {
  return isUpdate(signal)
    ? { name: signal.slice(UPDATE.length), what: "update" }
    : { name: signal, what: "signal" };
}

/** Whether only nodes of versions that have updates can read the event. */
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

/** Returns, for each name, the number of updates that a wait has taken and no code has answered. */
export function unansweredUpdates({ unanswered }: Execution): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const name of unanswered.values()) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}
