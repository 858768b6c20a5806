/** Something to wait for: it is rung when there is news, and stopped when there will be none. */
export class Bell {
  #isRung = true;
  #isStopped = false;
  #wake: () => void = () => {};

  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** There is news. */
  ring(): void {
    this.#isRung = true;
    this.#wake();
  }

  /** Nobody needs to wait any more. */
  stop(): void {
    this.#isStopped = true;
    this.#wake();
  }

  /** Resolves with true when it was rung since the last time (at first: at once), with false when it is stopped. */
  async heard(): Promise<boolean> {
    while (!this.#isRung && !this.#isStopped)
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    this.#isRung = false;
    return !this.#isStopped;
  }
}
