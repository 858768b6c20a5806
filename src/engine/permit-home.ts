/**
 * The home of limits: for those whose names fall into a partition of this node, it says how many permits each node has.
 * It believes what nodes declare, and gives out what is free, one by one to those who wait. What a node had comes back
 * when the node has gone, by the store's word, and nothing of it can still run. After a takeover living nodes keep what they
 * have, and the new home passes on what they give back. What nobody has declared is given out only when every node has
 * spoken, and what died with the last home cannot run any more.
 */
import type { PermitAsk, PermitGrant } from "../protocol/permits.ts";

interface Holder {
  quota: number;
  wants: number;
  n: number;
  silenceMs: number;
  isContended: boolean;
  /** When the node was seen to have gone; null: it is there. */
  goneAt: number | null;
  toldAt: number;
}

interface HomeLimit {
  max: number;
  declaredAt: number;
  silenceMs: number;
  /** Permits that living nodes had by their own word: no dead node can have those. */
  known: number;
  /** In the order in which they get the next permit. */
  readonly holders: Map<string, Holder>;
}

/** What a home knows, for the next one, which goes on where this one was. */
export interface HandedHome {
  readonly limits: readonly HandedLimit[];
  /** How long ago it was that permits were left which nobody declared; undefined: never. */
  readonly undeclaredMs?: number;
  /** Nodes that have not said what they have. */
  readonly awaited?: readonly string[];
}

/** A limit as it is handed over. */
export interface HandedLimit {
  readonly name: string;
  readonly max: number;
  readonly declaredAt: number;
  readonly silenceMs: number;
  /** Permits that living nodes had by their own word; undefined: not known. */
  readonly known?: number;
  readonly holders: readonly HandedHolder[];
}

interface HandedHolder {
  readonly node: string;
  readonly quota: number;
  readonly n: number;
  readonly wants?: number;
  /** How long ago the node was seen to have gone; undefined: it is there. */
  readonly goneMs?: number;
}

interface HomeOptions {
  /** From when a node is seen to have gone until others have its partitions and know what runs there. */
  readonly takeoverMs: number;
  /** How often those who have permits are told that others wait. */
  readonly reminderMs: number;
  /** Since when permits that nobody declares may be held by what goes on without its node; null: there are none. */
  readonly undeclaredSince: number | null;
  /** Nodes whose word is needed before anything is given out. */
  readonly awaited: readonly string[];
  readonly now: number;
}

export class PermitHome {
  readonly #limits = new Map<string, HomeLimit>();
  readonly #takeoverMs: number;
  readonly #reminderMs: number;
  readonly awaited: Set<string>;
  #undeclaredSince: number | null;
  /** It was handed what nobody has looked at since. */
  #isFresh: boolean;

  constructor(
    { takeoverMs, reminderMs, undeclaredSince, awaited, now }: HomeOptions,
    handed: readonly HandedLimit[],
  ) {
    this.#takeoverMs = takeoverMs;
    this.#reminderMs = reminderMs;
    this.#undeclaredSince = undeclaredSince;
    this.awaited = new Set(awaited);
    this.#isFresh = handed.length > 0;
    for (const { holders, ...limit } of handed) {
      const known: HomeLimit = { ...limit, known: limit.known ?? 0, holders: new Map() };
      for (const { node, goneMs, ...had } of holders) {
        const goneAt = goneMs === undefined ? null : now - goneMs;
        known.holders.set(node, { ...newHolder({ ...limit, ...had }), wants: had.wants ?? 0, goneAt });
      }
      this.#limits.set(limit.name, known);
    }
  }

  /** A node has said all that it has. */
  declared(node: string): void {
    this.awaited.delete(node);
  }

  /** Who is there now. */
  members(live: ReadonlySet<string>, now: number): void {
    for (const { holders } of this.#limits.values())
      for (const [node, holder] of holders) holder.goneAt = live.has(node) ? null : (holder.goneAt ?? now);
    for (const node of this.awaited) {
      if (live.has(node)) continue;
      this.awaited.delete(node);
      this.#undeclaredSince = now;
    }
  }

  /** A node's word; gives what nodes are to be told now, the one who asked in any case. */
  asked(node: string, ask: PermitAsk, now: number): Map<string, PermitGrant> {
    const told = new Map<string, PermitGrant>();
    const { name, max, declaredAt, silenceMs, quota, wants, n } = ask;
    const limit = this.#limits.get(name) ?? { max, declaredAt, silenceMs, known: 0, holders: new Map() };
    const known = limit.holders.get(node);
    if (known !== undefined && known.n >= n) return told;
    this.#limits.set(name, limit);
    if (declaredAt >= limit.declaredAt) Object.assign(limit, { max, declaredAt });
    limit.silenceMs = Math.max(limit.silenceMs, silenceMs);
    // What a node has beyond what it was given here, it had from a former home or has taken over.
    if (ask.moved !== undefined) limit.known += Math.max(0, quota - ask.moved - (known?.quota ?? 0));
    // Whoever gives something back has had its turn.
    if (known !== undefined && quota < known.quota) limit.holders.delete(node);
    const holder = known ?? newHolder(ask);
    Object.assign(holder, { quota, wants, n, silenceMs: Math.max(holder.silenceMs, silenceMs) });
    limit.holders.set(node, holder);
    this.#share(name, limit, { now, told });
    told.set(node, grantOf(name, holder));
    if (holder.quota === 0 && holder.wants === 0) limit.holders.delete(node);
    if (limit.holders.size === 0) this.#limits.delete(name);
    return told;
  }

  /** What has become free by time; gives what nodes are to be told. */
  tick(now: number): { node: string; grant: PermitGrant }[] {
    const all: { node: string; grant: PermitGrant }[] = [];
    this.#isFresh = false;
    for (const [name, limit] of this.#limits) {
      const told = new Map<string, PermitGrant>();
      this.#share(name, limit, { now, told });
      for (const [node, grant] of told) all.push({ node, grant });
    }
    return all;
  }

  /** When `tick` is needed again, if no word comes; Infinity: never. */
  nextAt(now: number): number {
    let next = Number.POSITIVE_INFINITY;
    if (this.awaited.size > 0) return next;
    if (this.#isFresh) return now;
    for (const limit of this.#limits.values()) {
      const { holders } = limit;
      if (!isAwaited(holders)) continue;
      const blockedUntil = this.#blockedUntil(limit);
      if (blockedUntil > now) {
        // Until then there is nothing to give and nobody to remind.
        next = Math.min(next, blockedUntil);
        continue;
      }
      for (const holder of holders.values()) {
        next = Math.min(next, this.#endOf(holder));
        if (holder.quota > 0 && holder.goneAt === null)
          next = Math.min(next, holder.toldAt + this.#reminderMs);
      }
    }
    return next;
  }

  /** What the next home begins with. */
  hand(now: number): HandedHome {
    const limits = Array.from(this.#limits, ([name, { max, declaredAt, silenceMs, known, holders }]) => ({
      name,
      max,
      declaredAt,
      silenceMs,
      ...(known === 0 ? {} : { known }),
      holders: Array.from(holders, ([node, { quota, n, wants, goneAt }]) => ({
        node,
        quota,
        n,
        ...(wants === 0 ? {} : { wants }),
        ...(goneAt === null ? {} : { goneMs: Math.max(0, now - goneAt) }),
      })),
    }));
    const since = this.#undeclaredSince;
    return {
      limits,
      ...(since === null ? {} : { undeclaredMs: Math.max(0, now - since) }),
      ...(this.awaited.size === 0 ? {} : { awaited: [...this.awaited] }),
    };
  }

  #blockedUntil({ silenceMs }: HomeLimit): number {
    return this.#undeclaredSince === null ? 0 : this.#undeclaredSince + this.#takeoverMs + silenceMs;
  }

  /** From when on nothing of what a node had can still run; Infinity: the node is there. */
  #endOf({ goneAt, silenceMs }: Holder): number {
    return goneAt === null ? Number.POSITIVE_INFINITY : goneAt + this.#takeoverMs + silenceMs;
  }

  /** Gives what is free to those who wait, one permit at a time, in turn. */
  #share(
    name: string,
    limit: HomeLimit,
    { now, told }: { now: number; told: Map<string, PermitGrant> },
  ): void {
    const { holders } = limit;
    for (const [node, holder] of holders) if (this.#endOf(holder) <= now) holders.delete(node);
    const isNew = this.awaited.size > 0 || this.#blockedUntil(limit) > now;
    const most = isNew ? Math.min(limit.known, limit.max) : limit.max;
    let out = 0;
    for (const { quota } of holders.values()) out += quota;
    while (out < most) {
      const next = [...holders].find(([, { wants, goneAt }]) => wants > 0 && goneAt === null);
      if (next === undefined) break;
      const [node, holder] = next;
      holder.quota++;
      holder.wants--;
      out++;
      // Whoever got one is the last to get the next.
      holders.delete(node);
      holders.set(node, holder);
      told.set(node, grantOf(name, holder));
    }
    // A new home asks for nothing that it could not pass on.
    const isContended = isAwaited(holders) && most > 0;
    for (const [node, holder] of holders) {
      const isThere = holder.goneAt === null && holder.quota > 0;
      const isReminded = isContended && isThere && holder.toldAt + this.#reminderMs <= now;
      if (holder.isContended !== isContended || isReminded) {
        holder.isContended = isContended;
        told.set(node, grantOf(name, holder));
      }
      if (told.has(node)) holder.toldAt = now;
    }
  }
}

function newHolder({ quota, n, silenceMs }: { quota: number; n: number; silenceMs: number }): Holder {
  return { quota, n, silenceMs, wants: 0, isContended: false, goneAt: null, toldAt: 0 };
}

/** Whether somebody waits. */
function isAwaited(holders: ReadonlyMap<string, Holder>): boolean {
  for (const { wants } of holders.values()) if (wants > 0) return true;
  return false;
}

function grantOf(name: string, { n, quota, isContended }: Holder): PermitGrant {
  return { name, n, quota, isContended };
}
