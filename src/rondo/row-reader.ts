/**
 * Reads single events. Many tasks of an execution look for theirs at the same time, and one row holds those of many: a
 * row is read and decoded once for all who wait. Nothing is kept when nobody waits, since an execution that is gone may
 * begin anew under its id.
 */
import type { Recorded } from "../kernel/event.ts";
import { decodeEntry } from "../kernel/journal/journal-entry.ts";
import type { ExecutionStore } from "../store/store.ts";

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

export class RowReader {
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
