/**
 * Concurrency limits: by handler (project and use) and by key within it. Exact: a permit is taken with a lease and
 * given back when the lease ends. Whoever finds a limit full waits at it, and is told in order when there is room.
 */
export interface LimitState {
  max: number;
  held: number;
  /** Nothing is granted before this time: permits of a former owner may still be held. */
  blockedUntil: number;
  readonly waiting: Map<string, () => void>;
}

export class Limits {
  readonly #limits = new Map<string, LimitState>();

  /** Declares a limit; the newest value counts. */
  declare(name: string, max: number): void {
    this.#at(name).max = max;
  }

  /** Whether a permit is to be had. */
  hasRoom(name: string, now: number): boolean {
    const limit = this.#limits.get(name);
    return limit === undefined || (limit.held < limit.max && limit.blockedUntil <= now);
  }

  /** Whether permits of a former owner may still be held. */
  isBlocked(name: string, now: number): boolean {
    return (this.#limits.get(name)?.blockedUntil ?? 0) > now;
  }

  take(name: string): void {
    this.#at(name).held++;
  }

  /** Gives a permit back and wakes whoever waits. */
  give(name: string): void {
    const limit = this.#limits.get(name);
    if (limit === undefined) return;
    limit.held--;
    if (limit.waiting.size > 0) this.#wake(limit);
    else if (limit.held === 0 && limit.max === Number.POSITIVE_INFINITY) this.#limits.delete(name);
  }

  /** Calls `run` once when there may be room again; `who` waits only once. */
  wait(name: string, who: string, run: () => void): void {
    const { waiting } = this.#at(name);
    if (!waiting.has(who)) waiting.set(who, run);
  }

  block(name: string, until: number): void {
    const limit = this.#at(name);
    limit.blockedUntil = Math.max(limit.blockedUntil, until);
  }

  /** Wakes those who waited for a block to pass. */
  unblock(now: number): void {
    for (const limit of this.#limits.values()) {
      if (limit.blockedUntil > 0 && limit.blockedUntil <= now) {
        limit.blockedUntil = 0;
        this.#wake(limit);
      }
    }
  }

  /** When the next block passes; Infinity: none is there. */
  nextUnblockAt(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const { blockedUntil } of this.#limits.values())
      if (blockedUntil > 0 && blockedUntil < next) next = blockedUntil;
    return next;
  }

  look(name: string): { max: number; held: number } | null {
    return this.#limits.get(name) ?? null;
  }

  #wake(limit: LimitState): void {
    const waiting = [...limit.waiting.values()];
    limit.waiting.clear();
    for (const run of waiting) run();
  }

  #at(name: string): LimitState {
    let limit = this.#limits.get(name);
    if (limit === undefined) {
      limit = { max: Number.POSITIVE_INFINITY, held: 0, blockedUntil: 0, waiting: new Map() };
      this.#limits.set(name, limit);
    }
    return limit;
  }
}
