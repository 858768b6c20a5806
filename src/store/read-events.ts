/** Reads the journal of an execution from the store in bounded pieces. */
import type { Recorded } from "../kernel/event.ts";
import { decodeEntry } from "../kernel/journal/journal-entry.ts";
import type { ExecutionStore } from "./store.ts";

const ROWS = 64;
const CHARS = 1_048_576;

/** Reads events from `from` on, up to the end of the journal or up to `to`. */
export async function* readEvents(
  store: Pick<ExecutionStore, "readJournal">,
  execution: string,
  from: number,
  to?: number,
): AsyncGenerator<Recorded> {
  let next = from;
  for (;;) {
    const entries = await store.readJournal({
      execution,
      from: next,
      rowsMax: ROWS,
      charsMax: CHARS,
      ...(to === undefined ? {} : { to }),
    });
    if (entries.length === 0) return;
    for (const entry of entries) {
      for (const recorded of decodeEntry(entry)) {
        if (to !== undefined && recorded.seq > to) return;
        if (recorded.seq >= next) yield recorded;
      }
      next = entry.seq + entry.count;
    }
  }
}
