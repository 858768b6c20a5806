/** Exponential back-off: the wait doubles with each failure, up to a cap. */
import type { Random } from "./random.ts";

export interface BackOffOptions {
  /** The wait after the first failure. */
  readonly minMs: number;
  /** The cap. */
  readonly maxMs: number;
  /** Draws the jitter, which takes up to half off each wait. Left out: no jitter. */
  readonly random?: Random;
}

/** The wait after `failures` earlier failures in a row, without jitter. */
export function doubledMs(failures: number, { minMs, maxMs }: BackOffOptions): number {
  return Math.min(maxMs, minMs * 2 ** Math.min(failures, 40));
}

/** The wait after `failures` earlier failures in a row, with jitter. */
export function backOffMs(failures: number, options: BackOffOptions): number {
  const ms = doubledMs(failures, options);
  return options.random === undefined ? ms : Math.round(ms * (0.5 + options.random.u32() / 2 ** 33));
}

/** Counts failures in a row and gives the wait before the next try. */
export class BackOff {
  readonly #options: BackOffOptions;
  #failures = 0;

  constructor(options: BackOffOptions) {
    this.#options = options;
  }

  /** Failures since the last success. */
  get failures(): number {
    return this.#failures;
  }

  /** Counts one more failure and returns the wait after it. */
  next(): number {
    return backOffMs(this.#failures++, this.#options);
  }

  /** Something succeeded: the next wait is the shortest again. */
  reset(): void {
    this.#failures = 0;
  }
}
