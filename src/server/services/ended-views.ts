/**
 * Views of executions that have ended, kept while nothing more is in their journals: to look at one again then costs one
 * small read, where the engine would load all of it. What has ended can still change (a retry, an operation after the
 * end), and its id can be taken anew after it was forgotten: the last row of the journal tells.
 */
import type { EnginePort } from "../../engine/engine-port.ts";
import type { Inspection } from "../../engine/io.ts";
import { isRejection, type Rejection } from "../../std/rejection.ts";
import type { Store } from "../../store/store.ts";

interface Kept {
  readonly inspection: Inspection;
  /** When the last row was written. */
  readonly at: number;
  readonly chars: number;
}

/** For all of them together, and for one that is kept. */
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

  /** How an execution is, as the engine says or as it still is. */
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

  /** When the row was written that ends with this event; null: there is none, or there are more behind it. */
  async #lastAt(execution: string, seq: number): Promise<number | null> {
    const [last, more] = await this.#store.readJournal({ execution, from: seq, rowsMax: 2 });
    return last !== undefined && more === undefined && last.seq + last.count - 1 === seq ? last.at : null;
  }
}
