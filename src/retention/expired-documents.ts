/**
 * Deletes documents that have expired. The body of each document has the time of its expiry. Once an hour, all documents of the kinds
 * that can expire are read.
 */
import type { Clock } from "../std/clock.ts";
import { allDocuments, type DocumentForm } from "../store/document-form.ts";
import { type Store, StoreFault } from "../store/store.ts";

export interface ExpiredDocumentsOptions {
  readonly clock: Clock;
  readonly store: Pick<Store, "listDocuments" | "putDocument">;
  readonly forms: readonly DocumentForm<{ readonly until: number }>[];
  /** Called when the store failed. The next round tries again. */
  readonly onFault: (fault: Error) => void;
}

const ROUND_MS = 3_600_000;

export class ExpiredDocuments {
  readonly #options: ExpiredDocumentsOptions;
  #round: Promise<void> | null = null;
  #cancel: () => void;
  #isClosed = false;

  constructor(options: ExpiredDocumentsOptions) {
    this.#options = options;
    this.#cancel = this.#later();
  }

  /** Stops the rounds. Resolves when the running round has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancel();
    await this.#round;
  }

  #later(): () => void {
    return this.#options.clock.after(ROUND_MS, () => {
      this.#round = this.#runRound();
    });
  }

  async #runRound(): Promise<void> {
    try {
      for (const form of this.#options.forms) await this.#drop(form);
    } catch (thrown) {
      if (!(thrown instanceof StoreFault)) throw thrown;
      this.#options.onFault(thrown);
    } finally {
      if (!this.#isClosed) this.#cancel = this.#later();
    }
  }

  async #drop(form: ExpiredDocumentsOptions["forms"][number]): Promise<void> {
    const { store, clock } = this.#options;
    const now = clock.now();
    for await (const document of allDocuments(store, form)) {
      if (this.#isClosed) return;
      // The expiry of a damaged document cannot be read, so only `rondo audit --repair` deletes the document.
      if (document.damage !== undefined || document.value.until > now) continue;
      await store.putDocument(form.kind, document.id, null);
    }
  }
}
