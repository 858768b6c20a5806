/**
 * A node's share of the limits of its cluster. Under each limit it may have as many attempts open as its quota says. It
 * asks the limit's home for more when somebody waits, and gives back what nobody here needs.
 */
import type { PermitAsk, PermitGrant } from "../../protocol/permits.ts";

/** Permits that are asked for at a time, for each handler that waits. */
const BATCH = 16;

/** How many times longer than for an answer one waits to hear of a permit. */
export const WAITS = 5;

interface Share {
  max: number;
  declaredAt: number;
  silenceMs: number;
  isTransient: boolean;
  quota: number;
  isContended: boolean;
  /** The last word to the home. */
  n: number;
  askedAt: number;
  isAnswered: boolean;
  /** The home has not answered in time: until it does, this node keeps what it has and uses it again. */
  isSilent: boolean;
  wants: number;
  /** The highest priority that the home has been told of. */
  priority: number;
  /** Permits that were granted and have not been used yet. Where others wait, each is used once. */
  fresh: number;
}

/** How a limit is used here. */
export interface Usage {
  readonly held: number;
  /** Handlers that wait for a permit, and the highest priority among them. */
  readonly waiting: number;
  readonly priority: number;
  /** Those that have found room, and wait at another limit. */
  readonly reserved: number;
  /** Permits of attempts that have moved on to other nodes. */
  readonly moved: number;
  /** It counts starts, and those have no permits of their own: what the home has not given is not had. */
  readonly isRate: boolean;
}

export class QuotaClient {
  readonly #shares = new Map<string, Share>();
  /** Limits whose use has changed since they were last asked about. */
  readonly #changed = new Set<string>();
  /** Limits that a home thinks this node has something of, though it has forgotten them. */
  readonly #disclaimed = new Set<string>();
  /** Limits whose homes have become silent: what is had of them is used again. */
  readonly #kept = new Set<string>();
  /** When to say a word again that was not answered. */
  readonly #patienceMs: number;
  readonly #usage: (name: string) => Usage;
  /** Grows with each word, of whatever limit: one that was forgotten goes on where it was. */
  #n = 0;

  constructor(patienceMs: number, usage: (name: string) => Usage) {
    this.#patienceMs = patienceMs;
    this.#usage = usage;
  }

  /** Those of keys come and go: they are declared whenever they are wanted. */
  declare(name: string, limit: Pick<Share, "max" | "declaredAt" | "silenceMs">, isTransient: boolean): void {
    const share = this.#shares.get(name);
    if (share !== undefined) {
      // Its home hears of another value.
      if (share.max !== limit.max) this.#changed.add(name);
      Object.assign(share, limit, { isTransient: share.isTransient && isTransient });
      return;
    }
    // What was handed over may count under it already.
    this.#changed.add(name);
    this.#shares.set(name, {
      ...limit,
      isTransient,
      quota: 0,
      isContended: false,
      n: 0,
      askedAt: Number.NEGATIVE_INFINITY,
      isAnswered: true,
      isSilent: false,
      wants: 0,
      priority: 0,
      fresh: 0,
    });
  }

  /** The limit as it is declared here; undefined: it is not. */
  declared(name: string): Pick<Share, "max" | "declaredAt" | "silenceMs"> | undefined {
    return this.#shares.get(name);
  }

  /**
   * How many more attempts may be open. What is not declared has no limit. Where others wait, what was used goes back to
   * the home, so that permits go round the nodes too.
   */
  room(name: string, held: number): number {
    const share = this.#shares.get(name);
    if (share === undefined) return Number.POSITIVE_INFINITY;
    const { quota, isContended, isSilent, fresh } = share;
    // @plant node does not ask for permits
    return isContended && !isSilent ? Math.min(quota - held, fresh) : quota - held;
  }

  /** A permit was taken. */
  used(name: string): void {
    const share = this.#shares.get(name);
    if (share !== undefined) share.fresh = Math.max(0, share.fresh - 1);
    this.noteUse(name);
  }

  /** A permit was taken or given back, or somebody began to wait. */
  noteUse(name: string): void {
    if (this.#shares.has(name)) this.#changed.add(name);
  }

  /** An attempt that was open here is another node's by now, and has its permit there. */
  forfeit(name: string): void {
    const share = this.#shares.get(name);
    if (share === undefined || share.quota === 0) return;
    share.quota--;
    // Said at once: the home thinks that there is more, and what it says of an earlier word does not hold.
    share.n = ++this.#n;
    share.isAnswered = false;
    share.askedAt = Number.NEGATIVE_INFINITY;
  }

  /** This node has another name by now: what it had under the old one it has no more, but for what is in use. */
  rename(): void {
    for (const [name, share] of this.#shares) {
      share.quota = 0;
      share.wants = 0;
      share.fresh = 0;
      share.isAnswered = true;
      this.noteUse(name);
    }
  }

  /** Whether the home of the limit knows of all that this node has. */
  isConfirmed(name: string): boolean {
    const share = this.#shares.get(name);
    return share === undefined || (share.isAnswered && this.#usage(name).held <= share.quota);
  }

  /** All that is had of these limits, for a home that has to know. */
  declarations(isOf: (name: string) => boolean, now: number): PermitAsk[] {
    const asks: PermitAsk[] = [];
    for (const [name, share] of this.#shares) {
      if (!isOf(name)) continue;
      const { held, waiting } = this.#usage(name);
      if (share.quota > 0 || held > 0 || waiting > 0) asks.push(this.#ask(name, share, now));
    }
    return asks;
  }

  /** What homes are to be told now. */
  asks(now: number): PermitAsk[] {
    const asks: PermitAsk[] = [];
    for (const name of this.#changed) {
      const share = this.#shares.get(name);
      if (share === undefined) this.#changed.delete(name);
      else if (share.isAnswered) {
        this.#changed.delete(name);
        if (this.#hasNews(name, share)) asks.push(this.#ask(name, share, now));
        else if (this.#isIdle(name, share)) this.#shares.delete(name);
      }
    }
    for (const [name, share] of this.#shares)
      if (this.#askAgainAt(share) <= now) {
        if (!share.isAnswered && !share.isSilent) this.#kept.add(name);
        share.isSilent = !share.isAnswered;
        asks.push(this.#ask(name, share, now));
      }
    for (const name of this.#disclaimed)
      if (!this.#shares.has(name))
        asks.push({ name, max: 1, declaredAt: 0, n: ++this.#n, quota: 0, wants: 0, silenceMs: 0 });
    this.#disclaimed.clear();
    return asks;
  }

  /** Limits whose homes have become silent since this was last asked. */
  takeKept(): string[] {
    const kept = [...this.#kept];
    this.#kept.clear();
    return kept;
  }

  /** An answer may be lost, and so may what a home says later to those who wait. */
  #askAgainAt({ isAnswered, wants, askedAt }: Share): number {
    if (!isAnswered)
      // @plant lost quota requests never repeated
      return askedAt + this.#patienceMs;
    return wants > 0 ? askedAt + WAITS * this.#patienceMs : Number.POSITIVE_INFINITY;
  }

  /** When `asks` is to be looked at if nothing else happens; Infinity: never. */
  nextAt(): number {
    let next = this.#disclaimed.size > 0 ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
    for (const share of this.#shares.values()) next = Math.min(next, this.#askAgainAt(share));
    return next;
  }

  /**
   * A home's word; true: there may be room now. If it is about a word that is not the last one, the home may have heard
   * them in another order: it is told again. Of what it says about one word, each has at least as much as those before:
   * one that comes late takes nothing back.
   */
  granted({ name, n, quota: given, isContended }: PermitGrant): boolean {
    const share = this.#shares.get(name);
    if (share === undefined) {
      if (given > 0) this.#disclaimed.add(name);
      return false;
    }
    if (n !== share.n) {
      if (share.isAnswered) Object.assign(share, { isAnswered: false, askedAt: Number.NEGATIVE_INFINITY });
      return false;
    }
    share.isAnswered = true;
    share.isSilent = false;
    const more = Math.max(0, given - share.quota);
    share.quota += more;
    share.fresh = Math.min(share.quota, share.fresh + more);
    share.wants = Math.max(0, share.wants - more);
    share.isContended = isContended;
    this.noteUse(name);
    return this.room(name, this.#usage(name).held) > 0;
  }

  #hasNews(name: string, share: Share): boolean {
    const { held, waiting, isRate, priority } = this.#usage(name);
    const { quota, wants, isContended, max } = share;
    const isOtherPriority = wants > 0 && priority !== share.priority;
    const lacks = waiting > 0 && held >= quota && (wants === 0 || isOtherPriority) && quota < max;
    const isSpare = quota > this.#needed(name, share) && (isContended || waiting === 0 || quota > max);
    return lacks || isSpare || (held > quota && !isRate);
  }

  /** What is in use, or kept for those who wait at another limit: where others wait, only what they could use. */
  #needed(name: string, { isContended, isSilent, fresh }: Share): number {
    const { held, reserved } = this.#usage(name);
    return held + (isContended && !isSilent ? Math.min(reserved, fresh) : reserved);
  }

  #isIdle(name: string, { isTransient, quota, wants }: Share): boolean {
    const { held, waiting } = this.#usage(name);
    return isTransient && quota === 0 && wants === 0 && held === 0 && waiting === 0;
  }

  #ask(name: string, share: Share, now: number): PermitAsk {
    const { held, waiting, moved, isRate, priority } = this.#usage(name);
    const { max, declaredAt, silenceMs, isContended, isSilent } = share;
    // Attempts that were taken over have their permits here.
    const had = isRate ? share.quota : Math.max(held, share.quota);
    // What is not in use is given back where others wait or nobody here does. While the home is silent nothing is given
    // back: there may be nobody to give it to.
    const isGivenBack = !isSilent && (waiting === 0 || isContended);
    const quota = isGivenBack ? Math.min(had, this.#needed(name, share)) : had;
    // @plant quota kept after it was given back
    share.quota = quota;
    share.wants = waiting === 0 ? 0 : Math.max(0, Math.min(max, held + waiting * BATCH) - quota);
    share.priority = priority;
    share.n = ++this.#n;
    share.askedAt = now;
    share.isAnswered = false;
    const isLasting = !share.isTransient && !isRate;
    const { n, wants } = share;
    const waits = waiting === 0 ? {} : { priority };
    return { name, max, declaredAt, n, quota, wants, silenceMs, moved, isLasting, ...waits };
  }
}
