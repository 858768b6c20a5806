/** Reads journals from the store in bounded pieces: events as they come, results of a handler, a past state. */

import type { Place, Recorded } from "../kernel/event.ts";
import { decodeEntry } from "../kernel/journal/journal-entry.ts";
import type { ExecutionStore, Store } from "../store/store.ts";
import type { ResultsSource } from "../worker/results-reader.ts";

const ROWS = 64;
const CHARS = 1_048_576;

/** Events from `from` on, up to the end of the journal or to `to`. */
export async function* readEvents(
  store: Store,
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

/** Settled tasks of one handler in one visit, in journal order (of several rounds, each task's last word); checkpoints. */
export function resultsOf(store: Store): ResultsSource {
  const rows = new RowReader(store);
  return {
    async checkpoint(execution, seq) {
      const event = (await rows.find(execution, seq))?.event;
      if (event?.kind === "task.run") return { result: event.state };
      if (event?.kind === "task.step")
        return event.error === null ? { result: event.result ?? "null" } : { error: event.error };
      throw new Error(`execution ${execution} has no step or run at ${seq} of its journal`);
    },
    async *settled(place) {
      for await (const { event } of readEvents(store, place.execution, place.firstSeq, place.lastSeq)) {
        if (event.kind === "tasks.settled" && isAt(event, place)) {
          for (let i = 0; i < event.tasks.length; i++) {
            yield {
              task: event.tasks[i] as number,
              status: event.statuses[i] as string,
              payload: event.payloads[i] as string,
            };
          }
        }
      }
    },
    async *tasks(place, numbers) {
      let left = numbers.size;
      for await (const { event } of readEvents(store, place.execution, place.firstSeq, place.lastSeq)) {
        if (event.kind !== "tasks.enumerated" || !isAt(event, place)) continue;
        for (let i = 0; i < event.count; i++) {
          const task = event.from + i;
          if (!numbers.has(task)) continue;
          yield { task, text: event.tasks[i] as string };
          if (--left === 0) return;
        }
      }
    },
  };
}

function isAt(event: Place, place: { phase: string; visit: number; handler: string }): boolean {
  return event.phase === place.phase && event.visit === place.visit && event.handler === place.handler;
}

/** Rows kept per execution. */
const ROWS_MAX = 4;

interface Reading {
  /** Those who wait. */
  waiting: number;
  /** The newest rows that were read, oldest first. */
  rows: (readonly Recorded[])[];
  /** Ends with the last read that was asked for: one follows the other. */
  last: Promise<unknown>;
}

class RowReader {
  readonly #store: ExecutionStore;
  readonly #readings = new Map<string, Reading>();

  constructor(store: ExecutionStore) {
    this.#store = store;
  }

  /** The event with this sequence number. */
  async find(execution: string, seq: number): Promise<Recorded | undefined> {
    const reading = this.#readings.get(execution) ?? { waiting: 0, rows: [], last: Promise.resolve() };
    this.#readings.set(execution, reading);
    reading.waiting++;
    const found = reading.last.then(() => this.#find(reading, execution, seq));
    // Whoever waits behind it reads for itself.
    reading.last = found.then(
      () => {},
      () => {},
    );
    try {
      return await found;
    } finally {
      if (--reading.waiting === 0) this.#readings.delete(execution);
    }
  }

  async #find(reading: Reading, execution: string, seq: number): Promise<Recorded | undefined> {
    for (const row of reading.rows) {
      const found = row[seq - (row[0]?.seq ?? 0)];
      if (found?.seq === seq) return found;
    }
    const [entry] = await this.#store.readJournal({ execution, from: seq, to: seq, rowsMax: 1 });
    if (entry === undefined) return undefined;
    const row = decodeEntry(entry);
    reading.rows = [...reading.rows, row].slice(-ROWS_MAX);
    return row[seq - entry.seq];
  }
}
