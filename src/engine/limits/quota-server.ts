/**
 * The quota server of a partition. For each limit whose name falls into the partition, it decides how many permits each node has. It
 * believes what nodes declare, and grants free permits to waiting nodes one by one. The permits of a dead node become free when its
 * attempts cannot be adopted any more. A node that adopts an attempt reports it before that time, and gets the permit. Limits of
 * handlers and projects are lasting: their server stores a bound for each node before it grants more, so the next server knows the
 * permits of dead nodes even if this server dies. Limits of keys, and rates, change too fast for that. Their next server passes on
 * the permits that living nodes declare and return. It grants the other permits when every node has declared, and attempts of dead
 * nodes cannot run any more.
 */
import type { PermitAsk, PermitGrant } from "../../protocol/permits.ts";

interface Holder {
  quota: number;
  wants: number;
  /** The highest priority among the tasks that wait at the node. */
  priority: number;
  /**
   * The number of permits of attempts that the node reports as moved to other nodes. The next field is how many of them those nodes
   * have reported.
   */
  moved: number;
  claimed: number;
  /** The number of permits of attempts that the node adopted from dead nodes, as the node reports it. */
  adopted: number;
  n: number;
  silenceMs: number;
  isContended: boolean;
  /** The time at which the node's lease ended; null while the node is a member. */
  goneAt: number | null;
  toldAt: number;
  /** Whether the node has declared more permits than its stored bound. It gets an answer when a new bound is stored. */
  isUnanswered: boolean;
}

interface ServedLimit {
  max: number;
  declaredAt: number;
  silenceMs: number;
  /** The number of permits that living nodes have declared. Dead nodes cannot have these permits. */
  known: number;
  /** Whether the limit is lasting: the bounds of its nodes are stored. */
  isLasting: boolean;
  /** The number of the limit, in the order in which this server learned of its limits. */
  readonly order: number;
  /** The nodes that hold permits, in the order in which they get the next permit. */
  readonly holders: Map<string, Holder>;
}

/** The state of a quota server, handed over to the next one. It is part of the stored lease table. */
export interface HandedQuotas {
  readonly limits: readonly HandedLimit[];
  /** For how long there have been permits that no node has declared; undefined if there are none. */
  readonly undeclaredMs?: number;
  /** The time since a server of lasting limits ended without having stored their bounds; undefined if that never happened. */
  readonly unstoredMs?: number;
  /** The nodes that have not declared their permits. */
  readonly awaited?: readonly string[];
}

/** A limit in the form in which it is handed over. */
export interface HandedLimit {
  readonly name: string;
  readonly max: number;
  readonly declaredAt: number;
  readonly silenceMs: number;
  /** The number of permits that living nodes have declared; undefined if it is not known. */
  readonly known?: number;
  readonly isLasting?: true;
  readonly holders: readonly HandedHolder[];
}

interface HandedHolder {
  readonly node: string;
  readonly quota: number;
  readonly n: number;
  readonly wants?: number;
  readonly moved?: number;
  readonly claimed?: number;
  /** How long ago the lease of the node ended; undefined while the node is a member. */
  readonly goneMs?: number;
}

/** Lasting limits in the form in which a quota server stores them. */
export interface StoredQuotas {
  /** The epoch of the owner that stored the quotas. */
  readonly epoch: number;
  readonly limits: readonly StoredLimit[];
  /** The time at which a server that had stored no bounds ended, if its permits may still be in use. */
  readonly unstoredSince?: number;
}

interface StoredLimit {
  readonly name: string;
  readonly max: number;
  readonly declaredAt: number;
  readonly silenceMs: number;
  readonly holders: readonly StoredHolder[];
}

interface StoredHolder {
  readonly node: string;
  /** The stored bound: the most permits that the node has. */
  readonly bound: number;
  /** The time at which the node's lease ended; undefined if the node was a member when the quotas were stored. */
  readonly goneAt?: number;
}

interface QuotaServerOptions {
  readonly epoch: number;
  /** The time from the end of a node's lease until other nodes own its partitions and know which attempts run there. */
  readonly takeoverMs: number;
  /** How far the clocks of two nodes may differ. */
  readonly marginMs: number;
  /** How often holders of permits are reminded that other nodes wait. */
  readonly reminderMs: number;
  /** The time since which dead nodes may use permits that no node has declared; null if there are none. */
  readonly undeclaredSince: number | null;
  /** The time at which the last server ended without having stored the bounds of lasting limits; null if all bounds are known. */
  readonly unstoredSince: number | null;
  /** The nodes that must declare their permits before permits without a stored bound are granted. */
  readonly awaited: readonly string[];
  /** The living nodes. The next field has the times at which the leases of departed nodes ended. */
  readonly live: readonly string[];
  readonly ended: Readonly<Record<string, number>>;
  readonly now: number;
}

export class QuotaServer {
  readonly #limits = new Map<string, ServedLimit>();
  /** The limits that can change when time passes. Most limits of keys are not among them. */
  readonly #active = new Map<string, ServedLimit>();
  #served = 0;
  readonly #takeoverMs: number;
  readonly #reminderMs: number;
  readonly #epoch: number;
  readonly undeclaredNodes: Set<string>;
  readonly #marginMs: number;
  /** The times at which the leases of departed nodes ended. */
  #ended: Readonly<Record<string, number>> = {};
  #undeclaredSince: number | null;
  #unstoredSince: number | null;
  /** Whether the next `tick` must search for free permits. */
  #isFresh: boolean;
  /** The bounds that are stored, and the bounds that are being stored. */
  #bounds: Bounds = new Map();
  #storing: Bounds | null = null;
  #isUnstored = false;
  /** Whether nodes have returned permits since the last bounds were stored, so that lower bounds can be stored. */
  #isLoose = false;
  /** The time at which lower bounds may be stored next. */
  #tightenAt = 0;

  constructor(
    options: QuotaServerOptions,
    handed: readonly HandedLimit[] = [],
    stored: StoredQuotas | null = null,
  ) {
    const { takeoverMs, reminderMs, marginMs, undeclaredSince, unstoredSince, live, ended, now, epoch } =
      options;
    this.#takeoverMs = takeoverMs;
    this.#reminderMs = reminderMs;
    this.#epoch = epoch;
    this.#undeclaredSince = undeclaredSince;
    this.#unstoredSince = unstoredSince;
    this.#marginMs = marginMs;
    this.undeclaredNodes = new Set(options.awaited);
    this.#isFresh = handed.length > 0;
    for (const { holders, ...limit } of handed) {
      const known = { ...limit, known: limit.known ?? 0, isLasting: limit.isLasting === true };
      const at = new Map<string, Holder>();
      for (const { node, goneMs, ...had } of holders) {
        const goneAt = goneMs === undefined ? null : now - goneMs;
        const { wants = 0, moved = 0, claimed = 0 } = had;
        at.set(node, { ...newHolder({ ...limit, ...had }), wants, moved, claimed, goneAt });
      }
      this.#serve(limit.name, { ...known, order: ++this.#served, holders: at });
    }
    if (stored !== null) this.#begin(stored);
    if (live.length > 0) this.members(new Set(live), ended, now);
    if (unstoredSince !== null) this.#isUnstored = true;
  }

  /** Starts with the quotas that the last quota server of the partition stored. */
  #begin({ limits }: StoredQuotas): void {
    for (const { holders, ...limit } of limits) {
      const at = new Map<string, Holder>();
      const bounds = new Map<string, number>();
      for (const { node, bound, goneAt } of holders) {
        const had = { quota: bound, n: 0, silenceMs: limit.silenceMs };
        at.set(node, { ...newHolder(had), goneAt: goneAt ?? null });
        bounds.set(node, bound);
      }
      const order = ++this.#served;
      this.#serve(limit.name, { ...limit, known: 0, isLasting: true, order, holders: at });
      this.#bounds.set(limit.name, bounds);
    }
  }

  #serve(name: string, limit: ServedLimit): void {
    this.#limits.set(name, limit);
    this.#active.set(name, limit);
  }

  /** Removes a limit that is not in use. */
  #drop(name: string): void {
    this.#limits.delete(name);
    this.#active.delete(name);
  }

  /** Whether this server has nothing to do until a request arrives, members change, or quotas were stored. */
  get isIdle(): boolean {
    return (
      this.#limits.size === 0 &&
      this.undeclaredNodes.size === 0 &&
      !this.#isFresh &&
      !this.#isLoose &&
      !this.#isUnstored
    );
  }

  /** Whether there are changed quotas whose write has not begun. */
  get isUnstored(): boolean {
    return this.#isUnstored && this.#storing === null;
  }

  /** The quotas to store now; null if there are none, or if they are being stored. */
  drainUnstored(): StoredQuotas | null {
    if (!this.isUnstored) return null;
    this.#isUnstored = false;
    this.#isLoose = false;
    this.#storing = new Map();
    const limits: StoredLimit[] = [];
    for (const [name, limit] of this.#limits) {
      if (!limit.isLasting) continue;
      const { max, declaredAt, silenceMs } = limit;
      const bounds = this.#boundsFor(limit);
      const holders: StoredHolder[] = [];
      for (const [node, bound] of bounds) {
        const goneAt = limit.holders.get(node)?.goneAt ?? null;
        if (bound > 0) holders.push({ node, bound, ...(goneAt === null ? {} : { goneAt }) });
      }
      if (holders.length === 0) continue;
      this.#storing.set(name, bounds);
      limits.push({ name, max, declaredAt, silenceMs, holders });
    }
    const since = this.#unstoredSince;
    return { epoch: this.#epoch, limits, ...(since === null ? {} : { unstoredSince: since }) };
  }

  /** Called with the result of storing the quotas that `drainUnstored` returned. */
  stored(isStored: boolean): void {
    if (this.#storing === null) return;
    if (isStored) this.#bounds = this.#storing;
    else this.#isUnstored = true;
    this.#storing = null;
    this.#isFresh = true;
    for (const [name, limit] of this.#limits)
      for (const [node, { quota }] of limit.holders)
        if (!this.#isCovered(name, limit, node, quota)) this.#isUnstored = true;
  }

  /**
   * Returns the bounds to store: the permits of each node, free permits for waiting nodes, and some slack. Because of the slack, a
   * permit that rotates among the nodes of a large limit need not be stored each time. If this server dies, the slack cannot be used
   * for a while.
   */
  #boundsFor({ max, holders }: ServedLimit): Map<string, number> {
    const bounds = new Map(Array.from(holders, ([node, { quota }]) => [node, quota]));
    const living = [...holders].filter(([, { goneAt }]) => goneAt === null).map(([node]) => node);
    const priorityOf = (node: string) => holders.get(node)?.priority ?? 0;
    const waiting = living
      .filter((node) => (holders.get(node)?.wants ?? 0) > 0)
      .sort((a, b) => priorityOf(b) - priorityOf(a));
    const next = waiting.length > 0 ? waiting : living;
    let free = Math.floor(max / SLACK_OF);
    if (waiting.length > 0) {
      free += max;
      for (const { quota } of holders.values()) free -= quota;
    }
    for (let i = 0; free > 0 && next.length > 0; i++, free--) {
      const node = next[i % next.length] as string;
      const bound = bounds.get(node) ?? 0;
      if (bound < max) bounds.set(node, bound + 1);
    }
    return bounds;
  }

  /** Returns the stored bound of a node. While another bound is being stored, the lower of the two applies. */
  #boundOf(name: string, node: string): number {
    const bound = this.#bounds.get(name)?.get(node) ?? 0;
    return this.#storing === null ? bound : Math.min(bound, this.#storing.get(name)?.get(node) ?? 0);
  }

  /** Whether the stored bound of the node covers this quota. */
  #isCovered(name: string, { isLasting }: ServedLimit, node: string, quota: number): boolean {
    // @plant permits given out before their bound is stored
    return !isLasting || quota <= this.#boundOf(name, node);
  }

  /** Called when a node has declared all permits that it has. */
  declared(node: string): void {
    this.undeclaredNodes.delete(node);
  }

  /** Called when the clock was set forward by this time: all stored times of this server move forward too. */
  extend(ms: number): void {
    if (this.#undeclaredSince !== null) this.#undeclaredSince += ms;
    if (this.#unstoredSince !== null) this.#unstoredSince += ms;
    for (const { holders } of this.#limits.values())
      for (const holder of holders.values()) if (holder.goneAt !== null) holder.goneAt += ms;
  }

  /**
   * Applies the list of living nodes. A node that is not in the list any more left when its lease ended, or now if the store does not
   * know that time.
   */
  members(live: ReadonlySet<string>, ended: Readonly<Record<string, number>>, now: number): void {
    this.#ended = ended;
    for (const [name, limit] of this.#limits) {
      for (const [node, holder] of limit.holders) {
        if (live.has(node)) holder.goneAt = null;
        else if (holder.goneAt === null) {
          holder.goneAt = ended[node] ?? now;
          this.#active.set(name, limit);
          if (limit.isLasting) this.#isUnstored = true;
        }
      }
      for (const node of this.#bounds.get(name)?.keys() ?? [])
        if (!live.has(node) && !limit.holders.has(node)) this.#isUnstored = true;
    }
    for (const node of this.undeclaredNodes) {
      if (live.has(node)) continue;
      this.undeclaredNodes.delete(node);
      const endedAt = ended[node] ?? now;
      this.#undeclaredSince = Math.max(this.#undeclaredSince ?? 0, endedAt);
      if (this.#unstoredSince !== null) this.#unstoredSince = Math.max(this.#unstoredSince, endedAt);
    }
    this.#forgetUnstored(now);
  }

  /** Drops permits that an earlier server granted without storing a bound, once no attempt under them can run any more. */
  #forgetUnstored(now: number): void {
    const since = this.#unstoredSince;
    if (since === null || this.undeclaredNodes.size > 0) return;
    let silenceMs = UNSTORED_MS;
    for (const limit of this.#limits.values()) silenceMs = Math.max(silenceMs, limit.silenceMs);
    if (now < since + this.#takeoverMs + silenceMs) return;
    this.#unstoredSince = null;
    this.#isUnstored = true;
  }

  /**
   * Applies a request of a node. Returns the grants to send. The node that asked always gets one, unless it must wait until its bound
   * is stored.
   */
  asked(node: string, ask: PermitAsk, now: number): Map<string, PermitGrant> {
    const told = new Map<string, PermitGrant>();
    const { name, max, declaredAt, silenceMs, quota, wants, n } = ask;
    const isLasting = ask.isLasting ?? isNameOfLasting(name);
    const limit = this.#limits.get(name) ?? {
      max,
      declaredAt,
      silenceMs,
      known: 0,
      isLasting,
      order: this.#served + 1,
      holders: new Map(),
    };
    const known = limit.holders.get(node);
    if (known !== undefined && known.n >= n) return told;
    if (node in this.#ended) {
      // This is a late request of a dead node. It can only lower the node's quota, because adopted attempts count at other nodes.
      if (known !== undefined) known.quota = Math.min(known.quota, Math.max(0, quota - known.claimed));
      this.#isFresh = true;
      return told;
    }
    this.#served = Math.max(this.#served, limit.order);
    this.#serve(name, limit);
    // A server of an earlier version may have handed over the limit without `isLasting`.
    limit.isLasting ||= isLasting;
    if (declaredAt >= limit.declaredAt) Object.assign(limit, { max, declaredAt });
    limit.silenceMs = Math.max(limit.silenceMs, silenceMs);
    // Permits that this server did not grant were granted by a former server, or belong to adopted attempts.
    if (ask.moved !== undefined) limit.known += Math.max(0, quota - ask.moved - (known?.quota ?? 0));
    // A node that returns permits moves to the end of the order in which nodes get permits.
    if (known !== undefined && quota < known.quota + known.claimed) {
      limit.holders.delete(node);
      if (limit.isLasting) this.#isLoose = true;
    }
    const holder = known ?? newHolder(ask);
    const { priority = 0, moved = 0, adopted = 0 } = ask;
    // If the node reports fewer moved attempts than before, the difference counts as permits that other nodes have reported already.
    const claimed = Math.min(moved, Math.max(0, holder.claimed - Math.max(0, holder.moved - moved)));
    const excess = quota - moved - (known === undefined ? 0 : known.quota);
    const newlyAdopted = adopted - (known?.adopted ?? 0);
    Object.assign(holder, { quota: quota - claimed, wants, priority, moved, claimed, adopted, n });
    holder.silenceMs = Math.max(holder.silenceMs, silenceMs);
    if (excess > 0) {
      const left = claimMoved(limit.holders, holder, excess);
      claimFromDead(limit.holders, Math.min(left, newlyAdopted));
    }
    limit.holders.set(node, holder);
    this.#share(name, limit, { now, told });
    this.#answer(name, limit, { node, holder, told });
    if (holder.quota === 0 && holder.wants === 0) limit.holders.delete(node);
    if (limit.holders.size === 0) this.#drop(name);
    else if (!isActive(limit)) this.#active.delete(name);
    return told;
  }

  /** Adds the grant for a node, if a stored bound covers its quota. */
  #answer(
    name: string,
    limit: ServedLimit,
    { node, holder, told }: { node: string; holder: Holder; told: Map<string, PermitGrant> },
  ): void {
    holder.isUnanswered = !this.#isCovered(name, limit, node, holder.quota);
    if (!holder.isUnanswered) told.set(node, grantOf(name, holder));
    else {
      told.delete(node);
      this.#isUnstored = true;
    }
  }

  /** Grants permits that have become free because time has passed. Returns the grants to send. */
  tick(now: number): { node: string; grant: PermitGrant }[] {
    const all: { node: string; grant: PermitGrant }[] = [];
    this.#isFresh = false;
    if (this.#isLoose && this.#tightenAt <= now) {
      // Lower bounds are stored so that, if this server and the node that returned a permit die, the next server does not wait for
      // that permit.
      this.#isUnstored = true;
      this.#tightenAt = now + this.#marginMs;
    }
    const active = [...this.#active].sort(([, a], [, b]) => a.order - b.order);
    for (const [name, limit] of active) {
      const told = new Map<string, PermitGrant>();
      this.#share(name, limit, { now, told });
      for (const [node, holder] of limit.holders)
        if (holder.isUnanswered && holder.goneAt === null) this.#answer(name, limit, { node, holder, told });
      for (const [node, grant] of told) all.push({ node, grant });
      if (limit.holders.size === 0) this.#drop(name);
      else if (!isActive(limit)) this.#active.delete(name);
    }
    return all;
  }

  /** The time at which `tick` must be called next; Infinity if there is nothing to wait for. */
  nextAt(now: number): number {
    let next = Number.POSITIVE_INFINITY;
    if (this.#isFresh) return now;
    if (this.#isLoose) next = this.#tightenAt;
    for (const limit of this.#active.values()) {
      const { holders } = limit;
      if (!isAwaited(holders)) continue;
      if (this.#isBlocked(limit, now)) {
        // Nothing can be granted before this time. While nodes have not declared their permits, the passing of time alone changes
        // nothing.
        const until = this.#blockedUntil(limit);
        if (until > now) next = Math.min(next, until);
        continue;
      }
      for (const holder of holders.values()) {
        next = Math.min(next, this.#endOf(limit, holder));
        if (holder.quota > 0 && holder.goneAt === null)
          next = Math.min(next, holder.toldAt + this.#reminderMs);
      }
    }
    return next;
  }

  /** Returns the state of this quota server for the next one. */
  toHandover(now: number): HandedQuotas {
    const limits = Array.from(this.#limits, ([name, limit]) => ({
      name,
      max: limit.max,
      declaredAt: limit.declaredAt,
      silenceMs: limit.silenceMs,
      ...(limit.known === 0 ? {} : { known: limit.known }),
      ...(limit.isLasting ? { isLasting: true as const } : {}),
      holders: Array.from(limit.holders, ([node, { quota, n, wants, moved, claimed, goneAt }]) => ({
        node,
        quota,
        n,
        ...(wants === 0 ? {} : { wants }),
        ...(moved === 0 ? {} : { moved }),
        ...(claimed === 0 ? {} : { claimed }),
        ...(goneAt === null ? {} : { goneMs: Math.max(0, now - goneAt) }),
      })),
    }));
    const undeclared = this.#undeclaredSince;
    const unstored = this.#unstoredSince;
    return {
      limits,
      ...(undeclared === null ? {} : { undeclaredMs: Math.max(0, now - undeclared) }),
      ...(unstored === null ? {} : { unstoredMs: Math.max(0, now - unstored) }),
      ...(this.undeclaredNodes.size === 0 ? {} : { awaited: [...this.undeclaredNodes] }),
    };
  }

  #sinceOf({ isLasting }: ServedLimit): number | null {
    return isLasting ? this.#unstoredSince : this.#undeclaredSince;
  }

  #blockedUntil(limit: ServedLimit): number {
    const since = this.#sinceOf(limit);
    return since === null ? 0 : since + this.#takeoverMs + limit.silenceMs;
  }

  /** Whether some node may use permits that this server does not know of. */
  #isBlocked(limit: ServedLimit, now: number): boolean {
    const isKnown = limit.isLasting && this.#unstoredSince === null;
    // @plant home grants before all have declared
    return !isKnown && (this.undeclaredNodes.size > 0 || this.#blockedUntil(limit) > now);
  }

  /** The time from which no attempt of a dead node can be adopted; Infinity while the node lives. */
  #endOf({ isLasting }: ServedLimit, { goneAt, silenceMs }: Holder): number {
    if (goneAt === null) return Number.POSITIVE_INFINITY;
    return goneAt + silenceMs + (isLasting ? this.#marginMs : this.#takeoverMs);
  }

  /** Grants free permits to waiting nodes, one permit at a time, in turn. */
  #share(
    name: string,
    limit: ServedLimit,
    { now, told }: { now: number; told: Map<string, PermitGrant> },
  ): void {
    const { holders } = limit;
    for (const [node, holder] of holders) {
      if (this.#endOf(limit, holder) > now) continue;
      holders.delete(node);
      if (limit.isLasting) this.#isUnstored = true;
    }
    const most = this.#isBlocked(limit, now) ? Math.min(limit.known, limit.max) : limit.max;
    let out = 0;
    for (const { quota } of holders.values()) out += quota;
    while (out < most) {
      const next = nextOf(holders);
      if (next === undefined) break;
      const [node, holder] = next;
      if (!this.#isCovered(name, limit, node, holder.quota + 1)) {
        // The node gets the permit when its bound is stored. Until then no other node gets the permit instead.
        this.#isUnstored = true;
        break;
      }
      holder.quota++;
      holder.wants--;
      out++;
      // The node that has got a permit moves to the end of the order.
      holders.delete(node);
      holders.set(node, holder);
      told.set(node, grantOf(name, holder));
    }
    // A server that cannot grant permits now does not ask nodes to return theirs.
    const isContended = isAwaited(holders) && most > 0;
    for (const [node, holder] of holders) {
      const isThere = holder.goneAt === null && holder.quota > 0;
      const isReminded = isContended && isThere && holder.toldAt + this.#reminderMs <= now;
      if (holder.isContended !== isContended || isReminded) {
        holder.isContended = isContended;
        told.set(node, grantOf(name, holder));
      }
      // No grant is sent to a node before its bound is stored.
      if (told.has(node)) {
        holder.toldAt = now;
        this.#answer(name, limit, { node, holder, told });
      }
    }
  }
}

/** The sum of all bounds may exceed a limit by one part in this many. */
const SLACK_OF = 4;
/** The shortest time for which a server waits because an earlier server may have granted permits without storing bounds. */
const UNSTORED_MS = 600_000;

type Bounds = Map<string, Map<string, number>>;

function newHolder({ quota, n, silenceMs }: { quota: number; n: number; silenceMs: number }): Holder {
  return {
    quota,
    n,
    silenceMs,
    wants: 0,
    priority: 0,
    moved: 0,
    claimed: 0,
    adopted: 0,
    isContended: false,
    goneAt: null,
    toldAt: 0,
    isUnanswered: false,
  };
}

/**
 * Handles a node that has permits of moved attempts which this server did not grant to it. The same number of permits is taken from
 * nodes that report moved attempts, so that no permit counts twice. Returns how many are left.
 */
function claimMoved(holders: ReadonlyMap<string, Holder>, by: Holder, excess: number): number {
  let left = excess;
  for (const holder of holders.values()) {
    const claimed = holder === by ? 0 : Math.min(left, holder.moved - holder.claimed, holder.quota);
    holder.claimed += claimed;
    holder.quota -= claimed;
    left -= claimed;
  }
  return left;
}

/**
 * Handles a node that has adopted attempts of dead nodes: the permits of these attempts now count for this node, and no longer for
 * the dead ones. They are taken first from the node that died first, because its permits become free first.
 */
function claimFromDead(holders: ReadonlyMap<string, Holder>, adopted: number): void {
  let left = adopted;
  const dead = [...holders.values()].filter(({ goneAt }) => goneAt !== null);
  for (const holder of dead.sort((a, b) => (a.goneAt ?? 0) - (b.goneAt ?? 0))) {
    const claimed = Math.max(0, Math.min(left, holder.quota));
    holder.quota -= claimed;
    left -= claimed;
  }
}

/** Returns the node that gets the next permit: the first in the order among those with the highest priority. */
function nextOf(holders: ReadonlyMap<string, Holder>): [string, Holder] | undefined {
  let next: [string, Holder] | undefined;
  for (const [node, holder] of holders) {
    if (holder.wants === 0 || holder.goneAt !== null) continue;
    if (next === undefined || holder.priority > next[1].priority) next = [node, holder];
  }
  return next;
}

/**
 * Whether a limit with this name is lasting, for nodes of earlier versions, which do not report it. Names of keys contain a `#`, and
 * names of rates begin with `rate `.
 */
function isNameOfLasting(name: string): boolean {
  return !name.includes("#") && !name.startsWith("rate ");
}

/** Whether any node waits for a permit. */
function isAwaited(holders: ReadonlyMap<string, Holder>): boolean {
  for (const { wants } of holders.values()) if (wants > 0) return true;
  return false;
}

/** Whether the limit can change just because time passes: a node waits for a permit or an answer, or a dead node has permits. */
function isActive({ holders }: ServedLimit): boolean {
  for (const { wants, goneAt, isUnanswered } of holders.values())
    if (wants > 0 || goneAt !== null || isUnanswered) return true;
  return false;
}

function grantOf(name: string, { n, quota, isContended }: Holder): PermitGrant {
  return { name, n, quota, isContended };
}
