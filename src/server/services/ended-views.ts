/**
 * An LRU cache of views of ended executions. The time of the last journal row shows whether an execution has changed since. Views
 * are kept as texts: as objects they would take several times the memory.
 */
import type { EnginePort } from "../../engine/engine-port.ts";
import type { Inspection } from "../../engine/io.ts";
import { isRejection, type Rejection } from "../../std/rejection.ts";
import type { Store } from "../../store/store.ts";

interface Kept {
  /** The inspection, as JSON text. */
  readonly text: string;
  readonly revision: number;
  /** The time of the last row in the journal. */
  readonly at: number;
}

/** The size of the cache, and of its largest entry, in characters. */
const CHARS_MAX = 4_194_304;
const CHARS_EACH_MAX = 1_048_576;

export class EndedViews {
  readonly #engine: Pick<EnginePort, "inspect">;
  readonly #store: Pick<Store, "readJournal">;
  readonly #kept = new Map<string, Kept>();
  #chars = 0;

  constructor(engine: Pick<EnginePort, "inspect">, store: Pick<Store, "readJournal">) {
    this.#engine = engine;
    this.#store = store;
  }

  /** The view of an execution, from the engine or from the cache. */
  async inspect(execution: string): Promise<Inspection | Rejection> {
    const kept = this.#kept.get(execution);
    if (kept !== undefined) {
      if ((await this.#lastAt(execution, kept.revision)) === kept.at) {
        if (this.#kept.delete(execution)) this.#kept.set(execution, kept);
        return JSON.parse(kept.text) as Inspection;
      }
      this.#forget(execution);
    }
    const found = await this.#engine.inspect(execution);
    if (!isRejection(found) && found.view.finishedAt !== null) await this.#keep(execution, found);
    return found;
  }

  async #keep(execution: string, inspection: Inspection): Promise<void> {
    const text = JSON.stringify(inspection);
    if (text.length > CHARS_EACH_MAX) return;
    const { revision } = inspection.view;
    const at = await this.#lastAt(execution, revision);
    if (at === null) return;
    this.#forget(execution);
    this.#kept.set(execution, { text, revision, at });
    this.#chars += text.length;
    for (const id of this.#kept.keys()) {
      if (this.#chars <= CHARS_MAX) return;
      this.#forget(id);
    }
  }

  #forget(execution: string): void {
    this.#chars -= this.#kept.get(execution)?.text.length ?? 0;
    this.#kept.delete(execution);
  }

  /** The time of the journal row that ends with this event; null if there is no such row, or if later rows follow. */
  async #lastAt(execution: string, seq: number): Promise<number | null> {
    const [last, more] = await this.#store.readJournal({ execution, from: seq, rowsMax: 2 });
    return last !== undefined && more === undefined && last.seq + last.count - 1 === seq ? last.at : null;
  }
}
