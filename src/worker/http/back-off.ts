import type { Random } from "../../std/random.ts";

const MIN_MS = 100;
const MAX_MS = 10_000;

/** How long to wait before the next try: twice as long each time, with jitter; one success begins anew. */
export class BackOff {
  readonly #random: Random;
  readonly #maxMs: number;
  #failures = 0;

  constructor(random: Random, maxMs = MAX_MS) {
    this.#random = random;
    this.#maxMs = maxMs;
  }

  /** The wait after one more failure, from 100 ms to 10 s, or to `maxMs`. */
  next(): number {
    const most = Math.min(this.#maxMs, MIN_MS * 2 ** Math.min(this.#failures++, 10));
    return Math.max(MIN_MS, Math.round(most * (0.5 + this.#random.u32() / 8_589_934_592)));
  }

  reset(): void {
    this.#failures = 0;
  }
}
