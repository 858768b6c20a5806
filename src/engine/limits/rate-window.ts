/**
 * The sliding window of a rate: how many starts count at a time. A start counts for `per` from its own time on, so no
 * interval of that length has more than `limit` starts. Up to `BUCKETS` starts are kept one by one. Above that, starts are
 * kept in buckets of equal width and count from the end of their bucket: memory stays bounded, and the window errs on the
 * side of fewer starts, by one part in `BUCKETS` at most.
 */
const BUCKETS = 1_024;

export interface Rate {
  readonly limit: number;
  /** The length of the window, in milliseconds. */
  readonly per: number;
}

export class RateWindow {
  #rate: Rate;
  /** Times of starts in ascending order, and how many there were at each. */
  #times: number[] = [];
  #counts: number[] = [];
  /** The index of the oldest time that counts. Older ones are kept for a while, in case the window gets longer. */
  #first = 0;
  #used = 0;

  constructor(rate: Rate) {
    this.#rate = rate;
  }

  /** The number of starts that count now. */
  get used(): number {
    return this.#used;
  }

  /** The number of starts that count at this time, even if `expire` was not called for a while. */
  usedAt(now: number): number {
    let used = this.#used;
    for (let i = this.#first; i < this.#times.length && (this.#times[i] as number) + this.perMs <= now; i++)
      used -= this.#counts[i] as number;
    return used;
  }

  /** How long a start counts. */
  get perMs(): number {
    return this.#rate.per;
  }

  /** The number of remembered times. */
  get size(): number {
    return this.#times.length;
  }

  /** Sets a new limit or length; starts that are remembered count by the new length. */
  declare(rate: Rate, now: number): void {
    const isSame = rate.per === this.#rate.per;
    this.#rate = rate;
    if (isSame) return;
    this.#first = 0;
    this.#used = this.#counts.reduce((sum, n) => sum + n, 0);
    this.expire(now);
  }

  /** Counts starts that happen at this time. */
  add(time: number, n = 1): void {
    const at = this.#bucket(time);
    const last = this.#times.length - 1;
    this.#used += n;
    if (last >= this.#first && (this.#times[last] as number) >= at)
      this.#counts[last] = (this.#counts[last] as number) + n;
    else {
      this.#times.push(at);
      this.#counts.push(n);
    }
  }

  /** Whether starts of this time still count. */
  counts(time: number): boolean {
    return this.#first < this.#times.length && this.#bucket(time) >= (this.#times[this.#first] as number);
  }

  /** Moves a start from `from` to `time`; false if it has left the window. */
  move(from: number, time: number): boolean {
    const i = this.#times.lastIndexOf(this.#bucket(from));
    const n = this.#counts[i] ?? 0;
    if (i < this.#first || n === 0) return false;
    this.#counts[i] = n - 1;
    this.#used--;
    this.add(time);
    return true;
  }

  /** Removes starts that are older than the window; returns how many. */
  expire(now: number): number {
    const before = this.#used;
    while (this.#first < this.#times.length && this.nextAt() <= now) {
      this.#used -= this.#counts[this.#first] as number;
      this.#first++;
    }
    if (this.#first > 2 * BUCKETS) {
      this.#times = this.#times.slice(this.#first - BUCKETS);
      this.#counts = this.#counts.slice(this.#first - BUCKETS);
      this.#first = BUCKETS;
    }
    return before - this.#used;
  }

  /** When the oldest start leaves the window; Infinity if the window is empty. */
  nextAt(): number {
    // @plant rate window too short
    // @plant rate in fixed windows 2
    return (this.#times[this.#first] ?? Number.POSITIVE_INFINITY) + this.#rate.per;
  }

  #bucket(time: number): number {
    const { limit, per } = this.#rate;
    if (limit <= BUCKETS)
      // @plant rate in fixed windows
      return time;
    const width = Math.ceil(per / BUCKETS);
    return Math.ceil(time / width) * width;
  }
}
