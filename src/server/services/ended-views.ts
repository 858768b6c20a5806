/** A cache of views of ended executions. The time of the last journal row shows whether an execution has changed since. */
import type { EnginePort } from "../../engine/engine-port.ts";
import type { Inspection } from "../../engine/io.ts";
import { isRejection, type Rejection } from "../../std/rejection.ts";
import type { Store } from "../../store/store.ts";

interface Kept {
  readonly inspection: Inspection;
  /** The time of the last row in the journal. */
  readonly at: number;
  readonly chars: number;
}

/** The size of the cache, and of its largest entry, in characters. */
const CHARS_MAX = 16_777_216;
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
      if ((await this.#lastAt(execution, kept.inspection.view.revision)) === kept.at) return kept.inspection;
      this.#forget(execution);
    }
    const found = await this.#engine.inspect(execution);
    if (!isRejection(found) && found.view.finishedAt !== null) await this.#keep(execution, found);
    return found;
  }

  async #keep(execution: string, inspection: Inspection): Promise<void> {
    const chars = JSON.stringify(inspection.view).length;
    if (chars > CHARS_EACH_MAX) return;
    const at = await this.#lastAt(execution, inspection.view.revision);
    if (at === null) return;
    this.#forget(execution);
    this.#kept.set(execution, { inspection, at, chars });
    this.#chars += chars;
    for (const id of this.#kept.keys()) {
      if (this.#chars <= CHARS_MAX) return;
      this.#forget(id);
    }
  }

  #forget(execution: string): void {
    this.#chars -= this.#kept.get(execution)?.chars ?? 0;
    this.#kept.delete(execution);
  }

  /** The time of the journal row that ends with this event; null if there is no such row, or if later rows follow. */
  async #lastAt(execution: string, seq: number): Promise<number | null> {
    const [last, more] = await this.#store.readJournal({ execution, from: seq, rowsMax: 2 });
    return last !== undefined && more === undefined && last.seq + last.count - 1 === seq ? last.at : null;
  }
}
