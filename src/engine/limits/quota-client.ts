/**
 * The quotas of a node under the limits of its cluster: how many attempts the node may have open under each limit. The node asks the
 * limit's quota server for more permits when a handler waits, and returns permits that it does not need.
 */
import type { PermitAsk, PermitGrant } from "../../protocol/permits.ts";

/** The number of permits that a node requests at a time for each waiting handler. */
const BATCH = 16;

/** A request that got no permit is repeated after this multiple of the time for which an answer is awaited. */
export const WAITS = 5;

interface Share {
  /** The number of the limit in the order of declaration. */
  readonly order: number;
  max: number;
  declaredAt: number;
  silenceMs: number;
  isTransient: boolean;
  quota: number;
  isContended: boolean;
  /** The number of the last request to the quota server. */
  n: number;
  askedAt: number;
  isAnswered: boolean;
  /** Whether the quota server did not answer in time. Until it answers, this node keeps its quota and uses it again. */
  isSilent: boolean;
  wants: number;
  /** The highest priority of a waiting handler that was reported to the quota server. */
  priority: number;
  /** The number of granted permits that have not been used yet. While other nodes wait, each permit is used only once. */
  fresh: number;
}

/** How this node uses a limit. */
export interface Usage {
  readonly held: number;
  /** The number of handlers that wait for a permit, and the highest priority among them. */
  readonly waiting: number;
  readonly priority: number;
  /** The number of handlers that have reserved a permit while they wait at another limit. */
  readonly reserved: number;
  /** The number of permits of attempts that have moved to other nodes. */
  readonly moved: number;
  /** The number of permits of attempts that were adopted from dead nodes. */
  readonly adopted: number;
  /** Whether the limit is a rate. Starts hold no permits, so they never raise the quota. */
  readonly isRate: boolean;
}

export class QuotaClient {
  readonly #shares = new Map<string, Share>();
  /** Limits with a request to the quota server that may have to be repeated. Most limits of keys have none. */
  readonly #pending = new Map<string, Share>();
  /** Limits whose use has changed since the last request. */
  readonly #changed = new Set<string>();
  /** Limits that this node has dropped while a quota server still counts a quota of this node. */
  readonly #disclaimed = new Set<string>();
  /** Limits whose quota servers have become silent; this node uses their quotas again. */
  readonly #kept = new Set<string>();
  /** The time after which an unanswered request is repeated. */
  readonly #patienceMs: number;
  readonly #usage: (name: string) => Usage;
  #declarations = 0;
  /** The number of the last request for any limit. A limit that is dropped and declared again continues with higher numbers. */
  #n = 0;

  constructor(patienceMs: number, usage: (name: string) => Usage) {
    this.#patienceMs = patienceMs;
    this.#usage = usage;
  }

  /** Declares a limit. Limits of keys are declared each time they are used. */
  declare(name: string, limit: Pick<Share, "max" | "declaredAt" | "silenceMs">, isTransient: boolean): void {
    const share = this.#shares.get(name);
    if (share !== undefined) {
      // The new value must be sent to the quota server.
      if (share.max !== limit.max) this.#changed.add(name);
      Object.assign(share, limit, { isTransient: share.isTransient && isTransient });
      return;
    }
    // The limit may already have leases that a former owner handed over.
    this.#changed.add(name);
    this.#shares.set(name, {
      order: ++this.#declarations,
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

  /** Returns the limit as this node has declared it; undefined if it has not. */
  declared(name: string): Pick<Share, "max" | "declaredAt" | "silenceMs"> | undefined {
    return this.#shares.get(name);
  }

  /**
   * Returns the number of further attempts that may be open. A limit that is not declared is infinite. While other nodes wait, a
   * permit returns to the quota server after one use, so that permits rotate among nodes.
   */
  room(name: string, held: number): number {
    const share = this.#shares.get(name);
    if (share === undefined) return Number.POSITIVE_INFINITY;
    const { quota, isContended, isSilent, fresh } = share;
    // @plant node does not ask for permits
    return isContended && !isSilent ? Math.min(quota - held, fresh) : quota - held;
  }

  /** Called when a permit was acquired. */
  used(name: string): void {
    const share = this.#shares.get(name);
    if (share !== undefined) share.fresh = Math.max(0, share.fresh - 1);
    this.noteUse(name);
  }

  /** Called when the use of a limit has changed: a permit was acquired or released, or a handler started to wait. */
  noteUse(name: string): void {
    if (this.#shares.has(name)) this.#changed.add(name);
  }

  /** Gives up the permit of an attempt that has moved to another node. */
  forfeit(name: string): void {
    const share = this.#shares.get(name);
    if (share === undefined || share.quota === 0) return;
    share.quota--;
    // The lower number of permits is reported to the quota server at once. Its answers to earlier requests are ignored, because they
    // still count the dropped permit.
    share.n = ++this.#n;
    share.isAnswered = false;
    share.askedAt = Number.NEGATIVE_INFINITY;
    this.#pending.set(name, share);
  }

  /** Called when this node has got a new incarnation name: it loses the quotas of its old name, except for permits in use. */
  rename(): void {
    for (const [name, share] of this.#shares) {
      share.quota = 0;
      share.wants = 0;
      share.fresh = 0;
      share.isAnswered = true;
      this.noteUse(name);
    }
  }

  /** Whether the quota server of the limit knows every permit that this node uses. */
  isConfirmed(name: string): boolean {
    const share = this.#shares.get(name);
    return share === undefined || (share.isAnswered && this.#usage(name).held <= share.quota);
  }

  /** Returns all permits that this node has under these limits, as a declaration for a new quota server. */
  declarations(isOf: (name: string) => boolean, now: number): PermitAsk[] {
    const asks: PermitAsk[] = [];
    for (const [name, share] of this.#shares) {
      if (!isOf(name)) continue;
      const { held, waiting } = this.#usage(name);
      if (share.quota > 0 || held > 0 || waiting > 0) asks.push(this.#ask(name, share, now));
    }
    return asks;
  }

  /** Returns the requests to send to quota servers now. */
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
    for (const [name, share] of this.#due(now)) {
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

  /** The limits whose requests are repeated now, in the order in which they were declared. */
  #due(now: number): [string, Share][] {
    const due: [string, Share][] = [];
    for (const [name, share] of this.#pending) {
      const at = this.#askAgainAt(share);
      if (this.#shares.get(name) !== share || at === Number.POSITIVE_INFINITY) this.#pending.delete(name);
      else if (at <= now) due.push([name, share]);
    }
    return due.sort(([, a], [, b]) => a.order - b.order);
  }

  /** Returns the limits whose quota servers have become silent since the last call. */
  drainKept(): string[] {
    const kept = [...this.#kept];
    this.#kept.clear();
    return kept;
  }

  /** The time at which a request is repeated, because its answer or a later grant may have been lost. */
  #askAgainAt({ isAnswered, wants, askedAt }: Share): number {
    if (!isAnswered)
      // @plant lost quota requests never repeated
      return askedAt + this.#patienceMs;
    return wants > 0 ? askedAt + WAITS * this.#patienceMs : Number.POSITIVE_INFINITY;
  }

  /** The time at which `asks` must be called next; Infinity if there is nothing to wait for. */
  nextAt(): number {
    let next = this.#disclaimed.size > 0 ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
    for (const share of this.#pending.values()) next = Math.min(next, this.#askAgainAt(share));
    return next;
  }

  /**
   * Applies a grant of a quota server. Returns true if there may be room now. If the grant does not answer the last request, the
   * quota server may have got requests in another order, so the request is repeated. Grants for one request never decrease, so a late
   * grant is harmless.
   */
  granted({ name, n, quota: given, isContended }: PermitGrant): boolean {
    const share = this.#shares.get(name);
    if (share === undefined) {
      if (given > 0) this.#disclaimed.add(name);
      return false;
    }
    if (n !== share.n) {
      if (share.isAnswered) {
        Object.assign(share, { isAnswered: false, askedAt: Number.NEGATIVE_INFINITY });
        this.#pending.set(name, share);
      }
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

  /**
   * Returns the number of permits that are in use or reserved. While other nodes wait, only those reservations count that could be
   * used.
   */
  #needed(name: string, { isContended, isSilent, fresh }: Share): number {
    const { held, reserved } = this.#usage(name);
    return held + (isContended && !isSilent ? Math.min(reserved, fresh) : reserved);
  }

  #isIdle(name: string, { isTransient, quota, wants }: Share): boolean {
    const { held, waiting } = this.#usage(name);
    return isTransient && quota === 0 && wants === 0 && held === 0 && waiting === 0;
  }

  #ask(name: string, share: Share, now: number): PermitAsk {
    const { held, waiting, moved, adopted, isRate, priority } = this.#usage(name);
    const { max, declaredAt, silenceMs, isContended, isSilent } = share;
    // Attempts that were adopted hold permits at this node beyond its quota.
    const had = isRate ? share.quota : Math.max(held, share.quota);
    // Unused permits are returned if other nodes wait, or if no handler of this node waits. While the quota server is silent, nothing
    // is returned, because the server may not exist.
    const isGivenBack = !isSilent && (waiting === 0 || isContended);
    const quota = isGivenBack ? Math.min(had, this.#needed(name, share)) : had;
    // @plant quota kept after it was given back
    share.quota = quota;
    share.wants = waiting === 0 ? 0 : Math.max(0, Math.min(max, held + waiting * BATCH) - quota);
    share.priority = priority;
    share.n = ++this.#n;
    share.askedAt = now;
    share.isAnswered = false;
    this.#pending.set(name, share);
    const isLasting = !share.isTransient && !isRate;
    const { n, wants } = share;
    const more = { ...(adopted === 0 ? {} : { adopted }), ...(waiting === 0 ? {} : { priority }) };
    return { name, max, declaredAt, n, quota, wants, silenceMs, moved, isLasting, ...more };
  }
}
