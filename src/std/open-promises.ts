/** Promises that have not settled yet. A caller can wait for one of them or for all of them. */
import { TransientMap } from "./transient-map.ts";

export class OpenPromises {
  readonly #open = new TransientMap<number, Promise<unknown>>();
  #added = 0;

  get size(): number {
    return this.#open.size;
  }

  add(promise: Promise<unknown>): void {
    const n = ++this.#added;
    this.#open.set(
      n,
      promise.finally(() => this.#open.delete(n)),
    );
  }

  /** Settles as the first of the promises that are open now does. */
  next(): Promise<unknown> {
    return Promise.race(this.#open.values());
  }

  /** Resolves when all promises that are open now have resolved; rejects when one of them rejects. */
  all(): Promise<unknown> {
    return Promise.all(this.#open.values());
  }

  /** Resolves when all promises that are open now have settled. */
  settled(): Promise<unknown> {
    return Promise.allSettled(this.#open.values());
  }
}
