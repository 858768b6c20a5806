/** A condition variable for one waiting reader: `ring` wakes the reader, `stop` ends its waiting for good. */
export class Bell {
  #isRung = true;
  #isStopped = false;
  #wake: () => void = () => {};

  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Wakes the reader. A ring while the reader is busy is remembered until its next wait. */
  ring(): void {
    this.#isRung = true;
    this.#wake();
  }

  /** Ends the reader's waiting for good. */
  stop(): void {
    this.#isStopped = true;
    this.#wake();
  }

  /** Waits for the next `ring`; the first call does not wait. Resolves with true after a `ring`, with false after `stop`. */
  async next(): Promise<boolean> {
    while (!this.#isRung && !this.#isStopped)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    this.#isRung = false;
    return !this.#isStopped;
  }
}
