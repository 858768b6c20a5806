/**
 * The home of limits: for those that fall into a partition of this node, it says how many permits each node has. It
 * believes what nodes declare, gives out what is free, one by one to those who wait, and takes back what a silent node
 * had once nothing of that can still run. After a takeover it gives out nothing until all who may hold permits have
 * declared them, or have been silent for so long.
 */
import type { PermitAsk, PermitGrant } from "../protocol/permits.ts";

/** Beyond the silence of an attempt: until the node's own lease has lapsed, and its partitions have new owners. */
export const TAKEOVER_MS = 15_000;

interface Holder {
  quota: number;
  wants: number;
  n: number;
  heardAt: number;
  silenceMs: number;
  isContended: boolean;
}

interface HomeLimit {
  max: number;
  declaredAt: number;
  /** Nothing is given out before this time: permits that nobody has declared yet may be held. */
  blockedUntil: number;
  /** In the order in which they get the next permit. */
  readonly holders: Map<string, Holder>;
}

/** What a home leaves to the next. */
export interface HandedLimit {
  readonly name: string;
  readonly max: number;
  readonly declaredAt: number;
  readonly holders: readonly { readonly node: string; readonly quota: number; readonly silenceMs: number }[];
}

export class PermitHome {
  readonly #limits = new Map<string, HomeLimit>();
  /** Since when permits of a former home, which are not known here, may be held; null: there was none. */
  readonly #since: number | null;

  constructor(since: number | null, handed: readonly HandedLimit[] = [], now = 0) {
    this.#since = since;
    for (const { name, max, declaredAt, holders } of handed) {
      const limit: HomeLimit = { max, declaredAt, blockedUntil: 0, holders: new Map() };
      for (const { node, quota, silenceMs } of holders)
        limit.holders.set(node, { quota, wants: 0, n: 0, heardAt: now, silenceMs, isContended: false });
      this.#limits.set(name, limit);
    }
  }

  /** A node's word; gives what every node is to be told now, the one who asked in any case. */
  asked(node: string, ask: PermitAsk, now: number): Map<string, PermitGrant> {
    const limit = this.#at(ask);
    const known = limit.holders.get(node);
    const told = new Map<string, PermitGrant>();
    if (known !== undefined && known.n >= ask.n) return told;
    if (ask.declaredAt >= limit.declaredAt)
      Object.assign(limit, { max: ask.max, declaredAt: ask.declaredAt });
    const { quota, wants, n, silenceMs } = ask;
    limit.holders.set(node, {
      quota,
      wants,
      n,
      silenceMs,
      heardAt: now,
      isContended: known?.isContended ?? false,
    });
    if (quota === 0 && wants === 0) limit.holders.delete(node);
    this.#share(ask.name, limit, now, told);
    const holder = limit.holders.get(node);
    told.set(node, {
      name: ask.name,
      n,
      quota: holder?.quota ?? 0,
      isContended: holder?.isContended ?? false,
    });
    if (limit.holders.size === 0 && limit.blockedUntil <= now) this.#limits.delete(ask.name);
    return told;
  }

  /** What has become free by time; gives what nodes are to be told. */
  tick(now: number): { node: string; grant: PermitGrant }[] {
    const all: { node: string; grant: PermitGrant }[] = [];
    for (const [name, limit] of this.#limits) {
      const told = new Map<string, PermitGrant>();
      this.#share(name, limit, now, told);
      for (const [node, grant] of told) all.push({ node, grant });
    }
    return all;
  }

  /** When `tick` is needed again; Infinity: never. */
  nextAt(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const { holders, blockedUntil } of this.#limits.values()) {
      let waits = false;
      for (const { wants } of holders.values()) waits ||= wants > 0;
      if (!waits) continue;
      if (blockedUntil > 0) next = Math.min(next, blockedUntil);
      for (const holder of holders.values()) next = Math.min(next, endOf(holder));
    }
    return next;
  }

  /** What the next home begins with. */
  hand(): HandedLimit[] {
    return Array.from(this.#limits, ([name, { max, declaredAt, holders }]) => ({
      name,
      max,
      declaredAt,
      holders: Array.from(holders, ([node, { quota, silenceMs }]) => ({ node, quota, silenceMs })),
    }));
  }

  /** Every limit of this home, with what is out. */
  *all(): Generator<{ name: string; max: number; out: number; waiting: number }> {
    for (const [name, { max, holders }] of this.#limits) {
      let out = 0;
      let waiting = 0;
      for (const { quota, wants } of holders.values()) {
        out += quota;
        if (wants > 0) waiting++;
      }
      yield { name, max, out, waiting };
    }
  }

  #at({ name, max, declaredAt, silenceMs }: PermitAsk): HomeLimit {
    let limit = this.#limits.get(name);
    if (limit === undefined) {
      const blockedUntil = this.#since === null ? 0 : this.#since + TAKEOVER_MS + silenceMs;
      limit = { max, declaredAt, blockedUntil, holders: new Map() };
      this.#limits.set(name, limit);
    }
    return limit;
  }

  /** Gives what is free to those who wait, one permit at a time, in turn. */
  #share(name: string, limit: HomeLimit, now: number, told: Map<string, PermitGrant>): void {
    for (const [node, holder] of limit.holders) if (endOf(holder) <= now) limit.holders.delete(node);
    let out = 0;
    for (const { quota } of limit.holders.values()) out += quota;
    if (limit.blockedUntil > now) return;
    let isWaiting = true;
    while (isWaiting && out < limit.max) {
      isWaiting = false;
      for (const [node, holder] of [...limit.holders]) {
        if (holder.wants <= 0 || out >= limit.max) continue;
        isWaiting = true;
        holder.quota++;
        holder.wants--;
        out++;
        // Whoever got one is the last to get the next.
        limit.holders.delete(node);
        limit.holders.set(node, holder);
        told.set(node, grantOf(name, holder));
      }
    }
    const isContended = [...limit.holders.values()].some(({ wants }) => wants > 0);
    for (const [node, holder] of limit.holders) {
      if (holder.isContended === isContended) continue;
      holder.isContended = isContended;
      told.set(node, grantOf(name, holder));
    }
  }
}

function grantOf(name: string, { n, quota, isContended }: Holder): PermitGrant {
  return { name, n, quota, isContended };
}

function endOf({ heardAt, silenceMs }: Holder): number {
  return heardAt + TAKEOVER_MS + silenceMs;
}
