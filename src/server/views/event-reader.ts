/** Reads events of one execution by sequence number, with a cache of the rows that were read last. */
import type { Event } from "../../kernel/event.ts";
import { decodeEntry } from "../../kernel/journal/journal-entry.ts";
import type { Json } from "../../std/json.ts";
import type { Store } from "../../store/store.ts";

const EVENTS_KEPT = 16;

export class EventReader {
  readonly #store: Pick<Store, "readJournal">;
  readonly #execution: string;
  readonly #kept = new Map<number, Event>();
  /** The total characters of the payloads read so far. */
  chars = 0;

  constructor(store: Pick<Store, "readJournal">, execution: string) {
    this.#store = store;
    this.#execution = execution;
  }

  async at(seq: number): Promise<Event | null> {
    const kept = this.#kept.get(seq);
    if (kept !== undefined) return kept;
    const [entry] = await this.#store.readJournal({
      execution: this.#execution,
      from: seq,
      to: seq,
      rowsMax: 1,
    });
    if (entry === undefined) return null;
    for (const recorded of decodeEntry(entry)) {
      if (recorded.seq !== seq) continue;
      this.#kept.set(seq, recorded.event);
      if (this.#kept.size > EVENTS_KEPT)
        for (const oldest of [...this.#kept.keys()].slice(0, 1)) this.#kept.delete(oldest);
      return recorded.event;
    }
    return null;
  }

  value(text: string | null | undefined): Json {
    this.chars += text?.length ?? 0;
    return text === undefined || text === null ? null : (JSON.parse(text) as Json);
  }
}
