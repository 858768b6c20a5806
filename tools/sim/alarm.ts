/** The time at which a simulated process wakes by itself. A new time replaces the former one. */
export class Alarm {
  readonly #later: (ms: number, run: () => void) => void;
  #at = Number.POSITIVE_INFINITY;
  #number = 0;

  constructor(later: (ms: number, run: () => void) => void) {
    this.#later = later;
  }

  /** Wakes the process at `at`; `now` is the time on the same clock. */
  set({ at, now }: { at: number; now: number }, wake: () => void): void {
    if (at === this.#at) return;
    this.clear();
    if (at === Number.POSITIVE_INFINITY) return;
    this.#at = at;
    const number = this.#number;
    this.#later(Math.max(1, Math.ceil(at - now)), () => {
      if (this.#number !== number) return;
      this.#at = Number.POSITIVE_INFINITY;
      wake();
    });
  }

  clear(): void {
    this.#number++;
    this.#at = Number.POSITIVE_INFINITY;
  }
}
