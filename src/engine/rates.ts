/**
 * Rates: at most so many starts of a handler's attempts in any stretch of a given length. Exact, by the times of the last
 * starts; whoever comes too early waits, and is told in the order of age when the time has come.
 */
interface Rate {
  limit: number;
  per: number;
  /** Times of the last starts, oldest at `next`; 0: none yet. */
  times: Float64Array;
  next: number;
  readonly waiting: Map<string, { readonly age: number; readonly run: () => void }>;
}

export class Rates {
  readonly #rates = new Map<string, Rate>();

  /** Declares a rate; the newest value counts. `usedUpAt`: starts of a former owner, not known here, may have used it up. */
  declare(name: string, { limit, per }: { limit: number; per: number }, usedUpAt: number | null): void {
    const known = this.#rates.get(name);
    if (known !== undefined && known.limit === limit) {
      known.per = per;
      return;
    }
    const times = new Float64Array(limit);
    if (known === undefined) {
      if (usedUpAt !== null) times.fill(usedUpAt);
      this.#rates.set(name, { limit, per, times, next: 0, waiting: new Map() });
      return;
    }
    const recent = inOrder(known).slice(-limit);
    times.set(recent, limit - recent.length);
    Object.assign(known, { limit, per, times, next: 0 });
  }

  /** When the next start is allowed; 0: there is no such rate, or at once. */
  allowedAt(name: string): number {
    const rate = this.#rates.get(name);
    const oldest = rate?.times[rate.next] ?? 0;
    return rate === undefined || oldest === 0 ? 0 : oldest + rate.per;
  }

  /** How long it looks back. */
  per(name: string): number {
    return this.#rates.get(name)?.per ?? 0;
  }

  /** Notes a start. */
  take(name: string, now: number): void {
    const rate = this.#rates.get(name);
    if (rate === undefined) return;
    rate.times[rate.next] = now;
    rate.next = (rate.next + 1) % rate.limit;
  }

  /** Calls `run` once when a start may be allowed again; `who` waits only once. */
  wait(name: string, who: { readonly id: string; readonly age: number }, run: () => void): void {
    const waiting = this.#rates.get(name)?.waiting;
    if (waiting !== undefined && !waiting.has(who.id)) waiting.set(who.id, { age: who.age, run });
  }

  /** Wakes those whose time has come, the oldest first. */
  wake(now: number): void {
    for (const [name, { waiting }] of this.#rates) {
      if (waiting.size === 0 || this.allowedAt(name) > now) continue;
      const woken = [...waiting.values()].sort((a, b) => a.age - b.age);
      waiting.clear();
      for (const { run } of woken) run();
    }
  }

  /** When to wake next; Infinity: nobody waits. */
  nextAt(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const [name, { waiting }] of this.#rates)
      if (waiting.size > 0) next = Math.min(next, this.allowedAt(name));
    return next;
  }
}

function inOrder({ times, next }: Rate): Float64Array {
  const ordered = new Float64Array(times.length);
  ordered.set(times.subarray(next));
  ordered.set(times.subarray(0, next), times.length - next);
  return ordered;
}
