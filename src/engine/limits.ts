/**
 * Concurrency limits: by handler (project and use) and by key within it. Exact: a permit is taken with a lease and
 * given back when the lease ends. Whoever finds a limit full waits at it, and is told in order when there is room.
 * In a cluster a node has only its share of a limit (permit-desk.ts).
 */
import { decodeName } from "../kernel/names.ts";
import type { PermitGrant } from "../protocol/permits.ts";
import { Heap } from "../std/heap.ts";
import { PermitDesk } from "./permit-desk.ts";
import { Rates } from "./rates.ts";
import type { Settings } from "./settings.ts";

/** A lease's permits move on with its partition. */
export interface Moves {
  readonly partition: number;
  /** The tenure in which it was open here. */
  readonly epoch: number;
  /** From when the partition was taken until they count there. */
  readonly ms: number;
}

/** Where the starts of a rate are counted that all nodes share. */
function rateName(name: string): string {
  return `rate ${name}`;
}

/** A limit as a definition or a setting says it. */
export interface Declared {
  readonly max: number;
  /** When it was said: the newest counts. */
  readonly declaredAt: number;
  /** How long an attempt under it may go on after its node has fallen silent. */
  readonly silenceMs: number;
}

export interface LimitState {
  max: number;
  held: number;
  /** Forgotten when nobody holds or wants it: keys come and go. */
  isTransient: boolean;
  readonly waiting: Map<string, { readonly age: number; readonly run: () => void }>;
  /** Who has found room here, and waits at another limit. */
  readonly reserved: Set<string>;
}

export class Limits {
  readonly #rates = new Rates();
  /** This node's share of what all nodes count; null: there is no other node. */
  readonly shares: PermitDesk | null;
  readonly #limits = new Map<string, LimitState>();
  readonly #reservations = new Heap<{ names: readonly string[]; who: string; until: number }>(
    (a, b) => a.until < b.until,
  );
  readonly #lingering = new Heap<{ name: string; until: number; isMoved: boolean; since?: number }>(
    (a, b) => a.until < b.until,
  );
  /** Starts under a rate that went out later than they were noted, by name and time: when they did. */
  readonly #postponed = new Map<string, number[]>();
  /** Permits of leases whose partitions nobody has taken yet. */
  #moving: ({ readonly name: string } & Moves)[] = [];
  /** Nothing is granted under these names before the time: permits of a former owner may still be held. */
  readonly #blocked = new Map<string, number>();

  /** `shared`: other nodes count under the same limits. */
  constructor(shared: Settings | null = null) {
    const usage = (name: string) => {
      const limit = this.#limits.get(name);
      const { held = 0, waiting, reserved } = limit ?? {};
      return { held, waiting: waiting?.size ?? 0, reserved: reserved?.size ?? 0 };
    };
    this.shares = shared === null ? null : new PermitDesk(shared.permitPatienceMs, usage);
  }

  /** Declares a limit; the newest value counts. If it leaves more room than before, whoever waits goes on. */
  declare(name: string, limit: Declared): void {
    const state = this.#at(name);
    const isMore = limit.max > state.max;
    Object.assign(state, { max: limit.max, isTransient: false });
    this.shares?.declare(name, limit, false);
    if (isMore && state.waiting.size > 0) this.#wake(state);
  }

  /** Declares a rate; `usedUpAt`: starts of a former owner, not known here, may have used it up. */
  declareRate(
    name: string,
    rate: { readonly limit: number; readonly per: number },
    at: { readonly declaredAt: number; readonly usedUpAt: number | null },
  ): void {
    this.#rates.declare(name, rate, at.usedUpAt);
    if (this.shares === null) return;
    const { declaredAt } = at;
    this.declare(rateName(name), { max: rate.limit, declaredAt, silenceMs: rate.per });
  }

  /** The name under which starts of this rate are counted by all nodes; null: only this one counts. */
  sharedRate(name: string): string | null {
    return this.shares === null ? null : rateName(name);
  }

  /** Whether a start is allowed by the rate of this name; if there is none, it is. */
  allows(name: string, now: number): boolean {
    return this.shares === null ? this.#rates.allowedAt(name) <= now : this.hasRoom(rateName(name), now);
  }

  /** When a start may be allowed, as far as it can be told; 0: there is nothing to wait for. */
  allowedAt(name: string): number {
    return this.#rates.allowedAt(name);
  }

  /** Notes a start. In a cluster it has a permit of the rate for as long as the rate looks back. */
  start(name: string, now: number): void {
    this.#rates.take(name, now);
    if (this.shares === null) return;
    this.take(rateName(name));
    const until = now + this.#rates.per(name);
    this.#lingering.push({ name: rateName(name), until, isMoved: false, since: now });
  }

  /** A start that was noted before goes out now, and counts from now on; false: it is too late, and it must not. */
  startLater(name: string, noted: number, now: number): boolean {
    if (this.shares === null) this.#rates.take(name, now);
    else if (noted + this.#rates.per(name) <= now) return false;
    else {
      const key = `${rateName(name)} ${noted}`;
      this.#postponed.set(key, [...(this.#postponed.get(key) ?? []), now]);
    }
    return true;
  }

  /** Calls `run` once when a start may be allowed again; `who` waits only once. */
  waitForRate(name: string, who: { readonly id: string; readonly age: number }, run: () => void): void {
    if (this.shares === null) this.#rates.wait(name, who, run);
    else this.wait(rateName(name), who, run);
  }

  /** Declares the limit of one key: remembered only while it is in use. */
  declareKey(name: string, limit: Declared): void {
    this.#at(name, true).max = limit.max;
    this.shares?.declare(name, limit, true);
  }

  /** Whether a permit is to be had. */
  hasRoom(name: string, now: number): boolean {
    const limit = this.#limits.get(name);
    if (limit !== undefined && limit.held >= limit.max) return false;
    if (this.shares?.hasRoom(name, limit?.held ?? 0) === false) return false;
    return !this.isBlocked(name, now);
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
    this.shares?.noteUse(name);
  }

  /** Gives a permit back and wakes whoever waits. */
  give(name: string): void {
    const limit = this.#limits.get(name);
    if (limit === undefined) return;
    limit.held--;
    this.shares?.noteUse(name);
    if (limit.waiting.size > 0) this.#wake(limit);
    if (limit.isTransient && limit.held === 0 && limit.waiting.size + limit.reserved.size === 0)
      this.#limits.delete(name);
  }

  /**
   * A permit still counts, though its lease is over here: its attempt goes on, and the next owner of its partition will
   * have a permit for it. Until somebody has taken the partition, and for a while after that, it is counted here.
   */
  linger(name: string, moves: Moves): void {
    this.#moving.push({ name, ...moves });
  }

  /** How often each partition has been taken, by the store's word. */
  moved(epochs: ReadonlyMap<number, number>, now: number): void {
    if (this.#moving.length === 0) return;
    this.#moving = this.#moving.filter(({ name, partition, epoch, ms }) => {
      if ((epochs.get(partition) ?? 0) <= epoch) return true;
      this.#lingering.push({ name, until: now + ms, isMoved: true });
      return false;
    });
  }

  /** Calls `run` once when there may be room again; `who` waits only once. */
  wait(name: string, who: { readonly id: string; readonly age: number }, run: () => void): void {
    const { waiting } = this.#at(name);
    if (waiting.has(who.id)) return;
    waiting.set(who.id, { age: who.age, run });
    this.shares?.noteUse(name);
  }

  /**
   * Whoever waits at one limit keeps its room at those that come before it in the order of taking: so two nodes that need
   * the same two permits cannot pass them to and fro.
   */
  reserve(names: readonly string[], who: string, until: number): void {
    if (this.shares === null) return;
    for (const name of names) this.#at(name).reserved.add(who);
    if (names.length > 0) this.#reservations.push({ names: [...names], who, until });
  }

  /** It is looked at anew. */
  unreserve(names: readonly (string | null)[], who: string): void {
    if (this.shares === null) return;
    for (const name of names) {
      if (name === null || this.#limits.get(name)?.reserved.delete(who) !== true) continue;
      this.shares.noteUse(name);
    }
  }

  /** Executions are not this node's any more: nobody waits for them. */
  forget(isOver: (execution: string) => boolean): void {
    const isOf = (who: string) => isOver(decodeName(who.slice(0, who.indexOf("/"))) ?? "");
    for (const [name, { waiting, reserved }] of this.#limits) {
      const before = waiting.size + reserved.size;
      for (const who of waiting.keys()) if (isOf(who)) waiting.delete(who);
      for (const who of reserved) if (isOf(who)) reserved.delete(who);
      if (waiting.size + reserved.size < before) this.shares?.noteUse(name);
    }
  }

  /** A home has spoken: whoever waits may go on. */
  granted(grant: PermitGrant): void {
    if (this.shares?.granted(grant) !== true) return;
    const limit = this.#limits.get(grant.name);
    if (limit !== undefined) this.#wake(limit);
  }

  block(name: string, until: number): void {
    this.#blocked.set(name, Math.max(this.#blocked.get(name) ?? 0, until));
  }

  /** Wakes those who waited for a block to pass, or for a rate. */
  unblock(now: number): void {
    if (this.shares === null) this.#rates.wake(now);
    for (const { name, isMoved, since, until } of this.#lingering.popWhile((one) => one.until <= now)) {
      const began = since === undefined ? null : this.#beganAt(name, since);
      if (began !== null && since !== undefined) {
        this.#lingering.push({ name, isMoved, until: until + began - since });
        continue;
      }
      if (isMoved) this.shares?.forfeit(name);
      this.give(name);
    }
    for (const { names, who } of this.#reservations.popWhile(({ until }) => until <= now))
      this.unreserve(names, who);
    for (const [name, until] of this.#blocked) {
      if (until > now) continue;
      this.#blocked.delete(name);
      const limit = this.#limits.get(name);
      if (limit !== undefined) this.#wake(limit);
    }
  }

  /** When a start that was noted at this time went out; null: then. */
  #beganAt(name: string, noted: number): number | null {
    if (this.#postponed.size === 0) return null;
    const key = `${name} ${noted}`;
    const [began, ...others] = this.#postponed.get(key) ?? [];
    if (others.length === 0) this.#postponed.delete(key);
    else this.#postponed.set(key, others);
    return began ?? null;
  }

  /** When the next block passes; Infinity: none is there. */
  nextUnblockAt(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const until of this.#blocked.values()) if (until < next) next = until;
    const lingers = this.#lingering.peek()?.until ?? Number.POSITIVE_INFINITY;
    const reserves = this.#reservations.peek()?.until ?? Number.POSITIVE_INFINITY;
    return Math.min(next, this.#rates.nextAt(), lingers, reserves);
  }

  look(name: string): { max: number; held: number } | null {
    return this.#limits.get(name) ?? null;
  }

  /** Every limit of concurrency that is declared, with who waits. */
  *all(): Generator<{ name: string; max: number; held: number; waiting: number }> {
    for (const [name, { max, held, waiting }] of this.#limits)
      if (max !== Number.POSITIVE_INFINITY && !name.startsWith(rateName("")))
        yield { name, max, held, waiting: waiting.size };
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
      limit = {
        max: Number.POSITIVE_INFINITY,
        held: 0,
        isTransient,
        waiting: new Map(),
        reserved: new Set(),
      };
      this.#limits.set(name, limit);
    }
    return limit;
  }
}
