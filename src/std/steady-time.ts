/**
 * Wall time that never goes back and never stands still. Where the wall clock is set back, time goes on a little slower
 * than it passes until the wall clock has caught up; where it is set forward, that counts at once, and how far is told,
 * for what is counted in time that passes.
 */

/** How often the wall clock is compared with time that passes. */
const LOOK_MS = 250;
/** A difference that is taken for a step of the wall clock. */
const STEP_MS = 500;
/** How fast time goes while the wall clock is behind. */
const SLOW = 0.9;

export class SteadyTime {
  readonly #wall: () => number;
  readonly #elapsed: () => number;
  #last: number;
  /** When both were compared last. */
  #seen: { now: number; elapsed: number };
  /** Since when the wall clock is behind; null: it is not. */
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
    if (this.#behind !== null || wall < this.#last || wall - this.#seen.now >= LOOK_MS)
      return this.#look(wall);
    this.#last = wall;
    return wall;
  }

  /** By how many milliseconds time has leapt forward, all in all. */
  get stepped(): number {
    return this.#stepped;
  }

  #look(wall: number): number {
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
