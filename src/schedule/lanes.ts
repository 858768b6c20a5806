/** Work by name: what is done under one name is done one after the other, in the order in which it was asked for. */
export class Lanes {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Does `work` once all that was asked for under the name before has ended. */
  run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(name);
    const running = before === undefined ? work() : before.then(work, work);
    const done = running
      .then(
        () => undefined,
        () => undefined,
      )
      .then(() => {
        if (this.#last.get(name) === done) this.#last.delete(name);
      });
    this.#last.set(name, done);
    return running;
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    while (this.#last.size > 0) await Promise.all(this.#last.values());
  }
}
