/**
 * Wall time that never goes back and never stands still. If the wall clock is set back, this time runs a little slower until
 * the wall clock has caught up. If the wall clock is set forward, this time jumps at once, and `stepped` tells by how much, for
 * code that counts elapsed time.
 */

/** How often the wall clock is compared with elapsed time. */
const CHECK_MS = 250;
/** A difference above this counts as a step of the wall clock. */
const STEP_MS = 500;
/** The speed of this clock, as a fraction of normal speed, while it waits for the wall clock to catch up. */
const SLOW = 0.9;

export class SteadyTime {
  readonly #wall: () => number;
  readonly #elapsed: () => number;
  #last: number;
  /** The wall time and the elapsed time at the last comparison. */
  #seen: { now: number; elapsed: number };
  /** The time of this clock and the elapsed time when the wall clock was set back; null while the wall clock is not behind. */
  #behind: { readonly from: number; readonly elapsed: number } | null = null;
  #stepped = 0;

  constructor(source: { wall: () => number; elapsed: () => number }) {
    this.#wall = source.wall;
    this.#elapsed = source.elapsed;
    this.#last = this.#wall();
    this.#seen = { now: this.#last, elapsed: this.#elapsed() };
  }

  /** Milliseconds since 1970. */
  now(): number {
    const wall = this.#wall();
    if (this.#behind !== null || wall < this.#last || wall - this.#seen.now >= CHECK_MS)
      return this.#measure(wall);
    this.#last = wall;
    return wall;
  }

  /** The total number of milliseconds of all forward jumps. */
  get stepped(): number {
    return this.#stepped;
  }

  #measure(wall: number): number {
    const elapsed = this.#elapsed();
    if (wall < this.#last) this.#behind ??= { from: this.#last, elapsed };
    let now = wall;
    if (this.#behind !== null) {
      const slowly = this.#behind.from + Math.floor((elapsed - this.#behind.elapsed) * SLOW);
      if (wall < slowly) now = slowly;
      else this.#behind = null;
    }
    now = Math.max(now, this.#last);
    const step = Math.round(now - this.#seen.now - (elapsed - this.#seen.elapsed));
    if (step >= STEP_MS) this.#stepped += step;
    this.#seen = { now, elapsed };
    this.#last = now;
    return now;
  }
}
