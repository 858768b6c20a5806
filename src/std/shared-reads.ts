/**
 * Reads that callers share. A caller gets the result of a read that began after its call, so it sees all that was stored before.
 * While a read of a name is under way, all who ask for that name share the next one.
 */
import { TransientMap } from "./transient-map.ts";
export class SharedReads<T> {
  readonly #read: (name: string) => Promise<T>;
  /** The read of each name that is under way, and the read that follows it. */
  readonly #running = new TransientMap<string, Running<T>>();

  constructor(read: (name: string) => Promise<T>) {
    this.#read = read;
  }

  read(name: string): Promise<T> {
    const running = this.#running.get(name);
    if (running === undefined) return this.#begin(name);
    const again = (): Promise<T> => this.#begin(name);
    running.next ??= running.now.then(again, again);
    return running.next;
  }

  #begin(name: string): Promise<T> {
    const running: Running<T> = { now: this.#read(name), next: null };
    this.#running.set(name, running);
    const end = (): void => {
      if (running.next === null) this.#running.delete(name);
    };
    running.now.then(end, end);
    return running.now;
  }
}

interface Running<T> {
  readonly now: Promise<T>;
  next: Promise<T> | null;
}
