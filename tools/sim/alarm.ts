/** The one time at which a simulated process wakes by itself: a new one takes the place of the one before. */
export class Alarm {
  readonly #later: (ms: number, run: () => void) => void;
  #at = Number.POSITIVE_INFINITY;
  #number = 0;

  constructor(later: (ms: number, run: () => void) => void) {
    this.#later = later;
  }

  /** Wakes at that time, which is `now` on the same clock. */
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
