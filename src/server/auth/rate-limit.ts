/** A token bucket for each token or client address: a number of requests a second, and twice as many in a burst. */
import type { Clock } from "../../std/clock.ts";

interface Bucket {
  left: number;
  at: number;
}

/** The largest number of token buckets. Beyond it, the least recently used bucket is dropped; by then it is full again. */
const BUCKETS_MAX = 10_000;

export class RateLimit {
  readonly #clock: Clock;
  readonly #perSecond: number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(clock: Clock, perSecond: number) {
    this.#clock = clock;
    this.#perSecond = perSecond;
  }

  /** Takes `cost` requests out of a token bucket. Returns 0, or the seconds until the bucket has enough. */
  take(key: string, cost = 1): number {
    const now = this.#clock.now();
    const burst = this.#perSecond * 2;
    const bucket = this.#buckets.get(key) ?? { left: burst, at: now };
    bucket.left = Math.min(burst, bucket.left + (Math.max(0, now - bucket.at) * this.#perSecond) / 1_000);
    bucket.at = now;
    this.#keep(key, bucket);
    if (bucket.left < cost) return Math.max(1, Math.ceil((cost - bucket.left) / this.#perSecond));
    bucket.left -= cost;
    return 0;
  }

  /** Marks the token bucket as the most recently used. */
  #keep(key: string, bucket: Bucket): void {
    this.#buckets.delete(key);
    this.#buckets.set(key, bucket);
    if (this.#buckets.size <= BUCKETS_MAX) return;
    for (const oldest of this.#buckets.keys()) {
      this.#buckets.delete(oldest);
      return;
    }
  }
}
