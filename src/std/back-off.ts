/** Exponential back-off: the wait doubles with each failure, from `minMs` to `maxMs`. */
import type { Random } from "./random.ts";

export interface BackOffOptions {
  /** The wait after the first failure; 100 ms by default. */
  readonly minMs?: number;
  /** The longest wait; 10 s by default. */
  readonly maxMs?: number;
  /** The source of jitter. Jitter shortens a wait above `minMs` by up to half. Without a source, there is no jitter. */
  readonly random?: Random;
}

/** Returns the wait after a failure that follows `failures` earlier failures in a row. */
export function backOffMs(failures: number, options: BackOffOptions): number {
  const { minMs = 100, maxMs = 10_000, random } = options;
  const ms = Math.min(maxMs, minMs * 2 ** Math.min(failures, 40));
  return random === undefined ? ms : Math.max(minMs, Math.round(ms * (0.5 + random.u32() / 2 ** 33)));
}

/** Counts failures in a row and returns the wait before the next try. */
export class BackOff {
  readonly #options: BackOffOptions;
  #failures = 0;

  constructor(options: BackOffOptions) {
    this.#options = options;
  }

  /** The number of failures since the last success. */
  get failures(): number {
    return this.#failures;
  }

  /** Counts one more failure and returns the wait after that failure. */
  next(): number {
    return backOffMs(this.#failures++, this.#options);
  }

  /** Resets the wait after a success. */
  reset(): void {
    this.#failures = 0;
  }
}
