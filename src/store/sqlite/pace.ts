/** Adapts the size of background work between commits, so that each call takes about `goalMs`. */
import { monotonicMs } from "../../std/monotonic.ts";

interface PaceOptions {
  readonly goalMs: number;
  readonly first: number;
  readonly min: number;
  readonly max: number;
  /** A monotonic clock, in milliseconds. */
  readonly monotonic?: () => number;
}

export class Pace {
  readonly #options: PaceOptions;
  readonly #monotonic: () => number;
  #size: number;

  constructor(options: PaceOptions) {
    this.#options = options;
    this.#monotonic = options.monotonic ?? monotonicMs;
    this.#size = options.first;
  }

  get size(): number {
    return this.#size;
  }

  /**
   * Runs one call of background work. The next call is smaller in proportion if this one took too long, and twice as large if
   * it was quick.
   */
  run<T>(work: (size: number) => T): T {
    const { goalMs, min, max } = this.#options;
    const began = this.#monotonic();
    const done = work(this.#size);
    const ms = this.#monotonic() - began;
    if (ms > goalMs) this.#size = Math.max(min, Math.floor((this.#size * goalMs) / ms));
    else if (ms < goalMs / 2) this.#size = Math.min(max, this.#size * 2);
    return done;
  }
}
