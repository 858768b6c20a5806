/**
 * The sliding window of a rate: how many starts count at a time. A start counts for `per` from its own time on, so no interval of
 * that length has more than `limit` starts. Up to `BUCKETS` starts are kept one by one. More starts are kept in buckets of equal
 * width, and count from the end of their bucket. So memory is bounded, and the window allows too few starts rather than too many, by
 * at most one part in `BUCKETS`. A spread rate uses the same window with a limit of one start. A timer wakes a little too late, and
 * each such delay would lower the rate. So a start that comes up to `lateMs` after the time at which it was allowed counts from that
 * time.
 */
import type { RateDefinition } from "../../kernel/definition/definition.ts";

const BUCKETS = 1_024;
/** The shortest window of a spread rate. A faster rate allows several starts in each window of this length. */
const SPREAD_MIN_MS = 10;
/** The longest delay of a start that is made up for: this part of the window, and the resolution of the clock. */
const LATE_PART = 0.1;
/** How late timers are on a busy machine. If a window has one start, a delay up to this, and up to half of the window, is made up for. */
const BUSY_MS = 100;
const CLOCK_MS = 1;

export interface Rate {
  readonly limit: number;
  /** The length of the window, in milliseconds; a fraction is allowed. */
  readonly per: number;
  /** How long after the end of a full window a start may come and still count from that end. */
  readonly lateMs?: number;
}

/**
 * Returns the window that enforces a rate. `isAlone` means that one node counts all starts. Otherwise no delay is made up for,
 * because a node does not know when starts at other nodes left the window.
 */
export function windowOf({ limit, per, spread }: RateDefinition, isAlone: boolean): Rate {
  // @plant spread rate not spread
  if (spread !== true) return { limit, per };
  const inOne = Math.max(1, Math.ceil((SPREAD_MIN_MS * limit) / per));
  const window = { limit: inOne, per: (inOne * per) / limit };
  if (!isAlone) return window;
  const busy = inOne === 1 ? Math.min(BUSY_MS, window.per / 2) : 0;
  return { ...window, lateMs: Math.max(window.per * LATE_PART, busy) + CLOCK_MS };
}

export class RateWindow {
  #rate: Rate;
  /** The times of starts in ascending order. The next array has the number of starts at each time. */
  #times: number[] = [];
  #counts: number[] = [];
  /** The index of the oldest time that counts. Older times are kept for a while, in case the window becomes longer. */
  #first = 0;
  #used = 0;
  readonly #kept: number;

  /** `kept` is the number of older times that are kept. */
  constructor(rate: Rate, kept = BUCKETS) {
    this.#rate = rate;
    this.#kept = kept;
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

  /** Sets a new limit or length of the window. Remembered starts count by the new length. */
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
    const at = this.#countedFrom(this.#bucket(time));
    const last = this.#times.length - 1;
    this.#used += n;
    if (last >= this.#first && (this.#times[last] as number) >= at)
      this.#counts[last] = (this.#counts[last] as number) + n;
    else {
      this.#times.push(at);
      this.#counts.push(n);
    }
  }

  /** Whether starts at this time still count. */
  counts(time: number): boolean {
    return this.#first < this.#times.length && this.#bucket(time) >= (this.#times[this.#first] as number);
  }

  /** Moves a start from the time `from` to `time`. Returns false if the start has left the window. */
  move(from: number, time: number): boolean {
    const i = this.#indexOf(this.#bucket(from));
    const n = this.#counts[i] ?? 0;
    if (i < this.#first || n === 0) return false;
    this.#counts[i] = n - 1;
    this.#used--;
    this.add(time);
    return true;
  }

  /** Removes starts that are older than the window. Returns how many were removed. */
  expire(now: number): number {
    const before = this.#used;
    while (this.#first < this.#times.length && this.nextAt() <= now) {
      this.#used -= this.#counts[this.#first] as number;
      this.#first++;
    }
    const kept = this.#kept;
    if (this.#first > 2 * kept) {
      this.#times = this.#times.slice(this.#first - kept);
      this.#counts = this.#counts.slice(this.#first - kept);
      this.#first = kept;
    }
    return before - this.#used;
  }

  /** The time from which the window can be dropped: it is empty then, and allows no start later than a new window would. */
  get forgottenAt(): number {
    const last = this.#times[this.#times.length - 1] ?? Number.NEGATIVE_INFINITY;
    return Math.ceil(last + this.#rate.per + (this.#rate.lateMs ?? 0));
  }

  /** When the oldest start leaves the window; Infinity if the window is empty. */
  nextAt(): number {
    return Math.ceil(this.#leavesAt());
  }

  #leavesAt(): number {
    // @plant rate window too short
    // @plant rate in fixed windows 2
    return (this.#times[this.#first] ?? Number.POSITIVE_INFINITY) + this.#rate.per;
  }

  /** Returns the time from which a start at `time` counts. A small delay after the last start left the window is made up for. */
  #countedFrom(time: number): number {
    const { lateMs = 0, per } = this.#rate;
    if (lateMs === 0) return time;
    const allowed = (this.#times[this.#first - 1] ?? Number.NEGATIVE_INFINITY) + per;
    return allowed >= time - lateMs && allowed <= time ? allowed : time;
  }

  /**
   * Returns the index of the entry that counts a start at `time`; -1 if there is none. The entry's own time may be up to `lateMs`
   * earlier.
   */
  #indexOf(time: number): number {
    const { lateMs = 0 } = this.#rate;
    if (lateMs === 0) return this.#times.lastIndexOf(time);
    for (let i = this.#times.length - 1; i >= this.#first; i--) {
      const at = this.#times[i] as number;
      if (at < time - lateMs) return -1;
      if (at <= time && (this.#counts[i] as number) > 0) return i;
    }
    return -1;
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
