/** Questions that wait for an answer, by number or name. */
export class Pending<K, T> {
  readonly #waiting = new Map<K, (answer: T) => void>();

  /** Resolves with the answer to this question. */
  ask(key: K): Promise<T> {
    return new Promise((resolve) => this.#waiting.set(key, resolve));
  }

  /** The answer has come; nobody may wait for it any more. */
  answer(key: K, answer: T): void {
    const resolve = this.#waiting.get(key);
    this.#waiting.delete(key);
    resolve?.(answer);
  }

  /** Nothing else will come: the same answer for all. */
  answerAll(answer: T): void {
    for (const key of [...this.#waiting.keys()]) this.answer(key, answer);
  }
}
