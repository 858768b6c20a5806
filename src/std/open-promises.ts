/** Promises that have not settled yet, so that somebody can wait for all of them. */
import { TransientMap } from "./transient-map.ts";

export class OpenPromises {
  readonly #open = new TransientMap<number, Promise<unknown>>();
  #added = 0;

  get size(): number {
    return this.#open.size;
  }

  add(promise: Promise<unknown>): void {
    const n = ++this.#added;
    const remove = (): void => void this.#open.delete(n);
    // A rejection is for whoever made the promise.
    this.#open.set(n, promise.then(remove, remove));
  }

  /** Resolves when one of the promises that are open now has settled. */
  next(): Promise<unknown> {
    return Promise.race(this.#open.values());
  }

  /** Resolves when the promises that are open now have settled. */
  settled(): Promise<unknown> {
    return Promise.all(this.#open.values());
  }
}
