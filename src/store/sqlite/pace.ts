/**
 * How much one call does of a work that goes on between commits: as much as takes about a goal of milliseconds, by what the
 * calls before took. A commit that comes meanwhile waits for one call at most.
 */
import { monotonicMs } from "../../std/monotonic.ts";

interface PaceOptions {
  readonly goalMs: number;
  readonly first: number;
  readonly min: number;
  readonly max: number;
  /** Milliseconds of a clock that does not jump. */
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

  /** How much the next call should do. */
  get size(): number {
    return this.#size;
  }

  /**
   * Does one call's part of the work. If it took longer than the goal, the next one is smaller by as much; if it took less than
   * half of the goal, the next one is twice as large.
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
