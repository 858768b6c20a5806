/** Ends a pause early. A ring while nothing waits is remembered until the next pause. */
export class Bell {
  #end: (() => void) | null = null;
  #isRung = false;

  ring(): void {
    if (this.#end === null) this.#isRung = true;
    else this.#end();
  }

  /** Waits for a time, for a ring, or until the signal is aborted. */
  wait(ms: number, signal: AbortSignal): Promise<void> {
    if (this.#isRung || signal.aborted) {
      this.#isRung = false;
      return Promise.resolve();
    }
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", end);
        this.#end = null;
        resolve();
      };
      const timer = Number.isFinite(ms) ? setTimeout(end, ms) : undefined;
      this.#end = end;
      signal.addEventListener("abort", end);
    });
  }
}
