/**
 * Concurrency limits: by handler (project and use) and by key within it. Exact: a permit is taken with a lease and
 * given back when the lease ends. Whoever finds a limit full waits at it, and is told in order when there is room.
 */
import { Rates } from "./rates.ts";

export interface LimitState {
  max: number;
  held: number;
  /** Forgotten when nobody holds or wants it: keys come and go. */
  readonly isTransient: boolean;
  readonly waiting: Map<string, { readonly age: number; readonly run: () => void }>;
}

export class Limits {
  readonly rates = new Rates();
  readonly #limits = new Map<string, LimitState>();
  /** Nothing is granted under these names before the time: permits of a former owner may still be held. */
  readonly #blocked = new Map<string, number>();

  /** Declares a limit; the newest value counts. */
  declare(name: string, max: number): void {
    this.#at(name).max = max;
  }

  /** Declares the limit of one key: remembered only while it is in use. */
  declareKey(name: string, max: number): void {
    this.#at(name, true).max = max;
  }

  /** Whether a permit is to be had. */
  hasRoom(name: string, now: number): boolean {
    const limit = this.#limits.get(name);
    return (limit === undefined || limit.held < limit.max) && !this.isBlocked(name, now);
  }

  /** Whether permits of a former owner may still be held. */
  isBlocked(name: string, now: number): boolean {
    return this.blockedUntil(name) > now;
  }

  /** Until when nothing is granted under this name; 0: it is not blocked. */
  blockedUntil(name: string): number {
    return this.#blocked.get(name) ?? 0;
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
    if (limit.isTransient && limit.held === 0 && limit.waiting.size === 0) this.#limits.delete(name);
  }

  /** Calls `run` once when there may be room again; `who` waits only once. */
  wait(name: string, who: { readonly id: string; readonly age: number }, run: () => void): void {
    const { waiting } = this.#at(name);
    if (!waiting.has(who.id)) waiting.set(who.id, { age: who.age, run });
  }

  block(name: string, until: number): void {
    this.#blocked.set(name, Math.max(this.#blocked.get(name) ?? 0, until));
  }

  /** Wakes those who waited for a block to pass, or for a rate. */
  unblock(now: number): void {
    this.rates.wake(now);
    for (const [name, until] of this.#blocked) {
      if (until > now) continue;
      this.#blocked.delete(name);
      const limit = this.#limits.get(name);
      if (limit !== undefined) this.#wake(limit);
    }
  }

  /** When the next block passes; Infinity: none is there. */
  nextUnblockAt(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const until of this.#blocked.values()) if (until < next) next = until;
    return Math.min(next, this.rates.nextAt());
  }

  look(name: string): { max: number; held: number } | null {
    return this.#limits.get(name) ?? null;
  }

  /** Every limit that is declared, with who waits. */
  *all(): Generator<{ name: string; max: number; held: number; waiting: number }> {
    for (const [name, { max, held, waiting }] of this.#limits)
      if (max !== Number.POSITIVE_INFINITY) yield { name, max, held, waiting: waiting.size };
  }

  /** The oldest first: so they get what there is in the order of their age. */
  #wake(limit: LimitState): void {
    const waiting = [...limit.waiting.values()].sort((a, b) => a.age - b.age);
    limit.waiting.clear();
    for (const { run } of waiting) run();
  }

  #at(name: string, isTransient = false): LimitState {
    let limit = this.#limits.get(name);
    if (limit === undefined) {
      limit = { max: Number.POSITIVE_INFINITY, held: 0, isTransient, waiting: new Map() };
      this.#limits.set(name, limit);
    }
    return limit;
  }
}
