/**
 * A node's share of the limits of its cluster. Under each limit it may have as many attempts open as its quota says. It
 * asks the limit's home for more when somebody waits, gives back what nobody here needs, and says what it has every so
 * often: a quota that could not be confirmed for so long counts as none.
 */
import type { PermitAsk, PermitGrant } from "../protocol/permits.ts";

/** How long a quota holds without a word of its home. */
const LIFE_MS = 30_000;
/** How often it is confirmed. */
const RENEW_MS = 10_000;
/** When to ask again if no answer came. */
const PATIENCE_MS = 1_000;
/** Permits that are asked for at a time, for each handler that waits. */
const BATCH = 16;

interface Share {
  max: number;
  declaredAt: number;
  silenceMs: number;
  quota: number;
  validUntil: number;
  isContended: boolean;
  n: number;
  askedAt: number;
  isAnswered: boolean;
  wants: number;
}

/** How a limit is used here. */
export interface Usage {
  readonly held: number;
  /** Handlers that wait for a permit. */
  readonly waiting: number;
}

export class PermitDesk {
  readonly #shares = new Map<string, Share>();
  /** Limits whose use has changed since they were last asked about. */
  readonly #changed = new Set<string>();
  readonly #usage: (name: string) => Usage;
  /** Grows with each word, of whatever limit: also one that was forgotten goes on where it was. */
  #n = 0;

  constructor(usage: (name: string) => Usage) {
    this.#usage = usage;
  }

  declare(name: string, limit: { max: number; declaredAt: number; silenceMs: number }): void {
    const share = this.#shares.get(name);
    if (share !== undefined) {
      Object.assign(share, limit);
      return;
    }
    this.#shares.set(name, {
      ...limit,
      quota: 0,
      validUntil: 0,
      isContended: false,
      n: 0,
      askedAt: Number.NEGATIVE_INFINITY,
      isAnswered: true,
      wants: 0,
    });
  }

  /** Whether one more attempt may be open. What is not declared has no limit. */
  hasRoom(name: string, held: number, now: number): boolean {
    const share = this.#shares.get(name);
    return share === undefined || (held < share.quota && now < share.validUntil);
  }

  /** A permit was taken or given back, or somebody began to wait. */
  noteUse(name: string): void {
    if (this.#shares.has(name)) this.#changed.add(name);
  }

  /** Homes may have moved: what is had is said to the new ones at once. */
  refresh(): void {
    for (const share of this.#shares.values()) share.askedAt = Number.NEGATIVE_INFINITY;
  }

  /** What homes are to be told now. */
  asks(now: number): PermitAsk[] {
    const asks: PermitAsk[] = [];
    for (const name of this.#changed) {
      const share = this.#shares.get(name);
      if (share === undefined) this.#changed.delete(name);
      else this.#askIf(name, share, { now, asks });
    }
    for (const [name, share] of this.#shares) {
      const due = share.askedAt + (share.isAnswered ? RENEW_MS : PATIENCE_MS);
      if ((share.quota > 0 || share.wants > 0) && due <= now) this.#ask(name, share, { now, asks });
    }
    return asks;
  }

  /** When `asks` is to be looked at if nothing else happens; Infinity: never. */
  nextAt(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const { quota, wants, askedAt, isAnswered } of this.#shares.values())
      if (quota > 0 || wants > 0) next = Math.min(next, askedAt + (isAnswered ? RENEW_MS : PATIENCE_MS));
    return next;
  }

  /** A home's word; true: there may be room now. */
  granted({ name, n, quota, isContended }: PermitGrant, now: number): boolean {
    const share = this.#shares.get(name);
    if (share === undefined || n !== share.n) return false;
    if (!share.isAnswered) share.validUntil = share.askedAt + LIFE_MS;
    share.isAnswered = true;
    share.wants = Math.max(0, share.wants - Math.max(0, quota - share.quota));
    share.quota = quota;
    share.isContended = isContended;
    this.noteUse(name);
    return this.hasRoom(name, this.#usage(name).held, now);
  }

  /** Asks if there is something new to say, unless an answer is awaited. */
  #askIf(name: string, share: Share, into: { now: number; asks: PermitAsk[] }): void {
    if (!share.isAnswered && into.now < share.askedAt + PATIENCE_MS) return;
    this.#changed.delete(name);
    const { held, waiting } = this.#usage(name);
    const lacks = waiting > 0 && held >= share.quota && share.wants === 0;
    const isSpare = share.quota > held && (share.isContended || share.quota > share.max);
    if (lacks || isSpare || held > share.quota) this.#ask(name, share, into);
    else if (share.quota === 0 && held === 0 && waiting === 0 && share.wants === 0) this.#shares.delete(name);
  }

  #ask(name: string, share: Share, { now, asks }: { now: number; asks: PermitAsk[] }): void {
    const { held, waiting } = this.#usage(name);
    const { max, declaredAt, silenceMs, isContended } = share;
    // What is not in use is given back where others wait or nobody here does; attempts that were taken over count.
    const keeps = waiting === 0 || isContended ? held : Math.max(held, share.quota);
    share.quota = keeps;
    share.wants = waiting === 0 ? 0 : Math.max(0, Math.min(max, held + waiting * BATCH) - keeps);
    share.n = ++this.#n;
    share.askedAt = now;
    share.isAnswered = false;
    asks.push({ name, max, declaredAt, n: share.n, quota: keeps, wants: share.wants, silenceMs });
  }
}
