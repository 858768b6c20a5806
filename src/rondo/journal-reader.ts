/** Reads the results of handlers and the checkpoints of tasks from journals, for code in this process. */
import type { Place, Recorded } from "../kernel/event.ts";
import { decodeEntry } from "../kernel/journal/journal-entry.ts";
import { brandFatal } from "../protocol/error-brands.ts";
import { isRejection } from "../std/rejection.ts";
import { readMapItems } from "../store/map-items.ts";
import { readEvents } from "../store/read-events.ts";
import type { ExecutionStore, Store } from "../store/store.ts";
import type { ResultsSource, SettledAt } from "../worker/results-reader.ts";

/**
 * Reads the settled tasks of a handler in a visit, in journal order, and the checkpoints of tasks. If there were several rounds, the last
 * outcome of a task counts.
 */
export function resultsOf(store: Store): ResultsSource {
  const rows = new RowReader(store);
  const eventsIn = ({ execution, firstSeq, lastSeq }: SettledAt): AsyncGenerator<Recorded> =>
    readEvents(store, execution, firstSeq, lastSeq === 0 ? undefined : lastSeq);
  return {
    async items(execution, page) {
      const items = await readMapItems(store, execution, page);
      if (isRejection(items)) throw brandFatal(new Error(items.message));
      return items;
    },
    async checkpoint(execution, seq) {
      const event = (await rows.find(execution, seq))?.event;
      if (event?.kind === "task.run") return { result: event.state };
      if (event?.kind === "task.step.failed") return { error: event.error };
      if (event?.kind === "task.step")
        return event.error === null ? { result: event.result ?? "null" } : { error: event.error };
      throw new Error(`event ${seq} of execution ${execution} is not a step or a run`);
    },
    async *settled(place) {
      for await (const { event } of eventsIn(place)) {
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
      for await (const { event } of eventsIn(place)) {
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

/** The most rows that are cached for each execution. */
const ROWS_MAX = 4;

interface Reading {
  /** The number of calls that wait for a read. */
  waiting: number;
  /** The newest rows that were read, oldest first. */
  rows: (readonly Recorded[])[];
  /** A promise that resolves after the read that was requested last. Reads of one execution run one after the other. */
  last: Promise<unknown>;
}

class RowReader {
  readonly #store: ExecutionStore;
  readonly #readings = new Map<string, Reading>();

  constructor(store: ExecutionStore) {
    this.#store = store;
  }

  /** Reads the event with this sequence number. */
  async find(execution: string, seq: number): Promise<Recorded | undefined> {
    const reading = this.#readings.get(execution) ?? { waiting: 0, rows: [], last: Promise.resolve() };
    this.#readings.set(execution, reading);
    reading.waiting++;
    const found = reading.last.then(() => this.#find(reading, execution, seq));
    // If a read fails, the reads after it still run.
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
