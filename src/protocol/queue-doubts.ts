/** Queues that could not be declared or consumed, by how often in a row: twice, and something is wrong with the queue. */
const TRIES_MAX = 2;
const NAMES_MAX = 1_000;

/** INTERNAL_ERROR ends the connection: so does consuming a queue that has a name and no process. */
export const INTERNAL_ERROR = 541;

/** What a broker answers if it is asked for a queue that it has and cannot find. */
export const NOT_FOUND = 404;

export class QueueDoubts {
  readonly #failures = new Map<string, number>();

  /** Whether it has failed so often that it should be made anew. */
  has(queue: string): boolean {
    return (this.#failures.get(queue) ?? 0) >= TRIES_MAX;
  }

  failed(queue: string): void {
    const failures = (this.#failures.get(queue) ?? 0) + 1;
    this.#failures.delete(queue);
    this.#failures.set(queue, failures);
    const [oldest] = this.#failures.keys();
    if (this.#failures.size > NAMES_MAX && oldest !== undefined) this.#failures.delete(oldest);
  }

  clear(queue: string): void {
    this.#failures.delete(queue);
  }
}
