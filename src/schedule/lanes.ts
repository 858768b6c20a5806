/** Serialises work by name: calls with the same name run one after the other, in their order. */
export class Lanes {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Runs `work` after all earlier work with the same name. */
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

  /** Resolves when no work is under way. */
  async idle(): Promise<void> {
    while (this.#last.size > 0) await Promise.all(this.#last.values());
  }
}
