/**
 * Limits: concurrency by project, by handler (project and use) and by key within it, and rates. Exact: a permit is taken
 * with a lease and given back when the lease ends; a start under a rate counts for as long as the rate looks back. Whoever
 * finds a limit full waits in its queue (wait-queue.ts), and is called in turn when there is room. In a cluster a node has
 * only its share of a limit (permit-desk.ts).
 */
import { decodeName } from "../../kernel/definition/names.ts";
import type { PermitGrant } from "../../protocol/permits.ts";
import { Heap } from "../../std/heap.ts";
import type { Settings } from "../settings.ts";
import { QuotaClient } from "./quota-client.ts";
import { type Rate, RateWindow } from "./rate-window.ts";
import { type Waiter, WaitQueue } from "./wait-queue.ts";

/** A lease's permits move on with its partition. */
export interface Moves {
  readonly partition: number;
  /** The tenure in which it was open here. */
  readonly epoch: number;
  /** From when the partition was taken until they count there. */
  readonly ms: number;
}

/** The name of the limit that counts the starts of a handler's rate. */
export function rateName(scope: string): string {
  return `rate ${scope}`;
}

/** The name of a project's limit. */
export function projectScope(project: string): string {
  return `project ${project}`;
}

/** A limit as a definition or a setting says it. */
export interface Declared {
  readonly max: number;
  /** When it was said: the newest counts. */
  readonly declaredAt: number;
  /** How long an attempt under it may go on after its node has fallen silent. */
  readonly silenceMs: number;
}

interface LimitState {
  max: number;
  held: number;
  /** Forgotten when nobody holds or wants it: keys come and go. */
  isTransient: boolean;
  /** It has room only when nothing is held. */
  isGate: boolean;
  /** The starts that count, if it is a rate. */
  window: RateWindow | null;
  readonly queue: WaitQueue;
  /** Who has found room here, and waits at another limit. */
  readonly reserved: Set<string>;
}

export class Limits {
  /** This node's share of what all nodes count; null: there is no other node. */
  readonly shares: QuotaClient | null;
  readonly #limits = new Map<string, LimitState>();
  /** Rates, by the names of their limits. */
  readonly #windows = new Map<string, RateWindow>();
  /** Limits at which somebody waits and there may be room. */
  readonly #callable = new Set<string>();
  readonly #reservations = new Heap<{ names: readonly string[]; who: string; until: number }>(
    (a, b) => a.until < b.until,
  );
  readonly #lingering = new Heap<{ name: string; until: number }>((a, b) => a.until < b.until);
  /** Permits of leases whose partitions nobody has taken yet. */
  #moving: ({ readonly name: string } & Moves)[] = [];
  /** Nothing is granted under these names before the time: permits of a former owner may still be held. */
  readonly #blocked = new Map<string, number>();

  /** `shared`: other nodes count under the same limits. */
  constructor(shared: Settings | null = null) {
    const usage = (name: string) => {
      const limit = this.#limits.get(name);
      const { held = 0, queue, reserved, window = null } = limit ?? {};
      const { size = 0, priority = 0 } = queue ?? {};
      let moved = 0;
      for (const one of this.leaving()) if (one === name) moved++;
      return { held, waiting: size, priority, reserved: reserved?.size ?? 0, moved, isRate: window !== null };
    };
    this.shares = shared === null ? null : new QuotaClient(shared.permitPatienceMs, usage);
  }

  /** Declares a limit; the newest value counts from the next grant on, be it more or less than before. */
  declare(name: string, limit: Declared): void {
    Object.assign(this.#at(name), { max: limit.max, isTransient: false });
    this.shares?.declare(name, limit, false);
    this.#callable.add(name);
  }

  /** Declares a rate; `usedUpAt`: starts of a former owner, not known here, may have used it up. */
  declareRate(
    scope: string,
    rate: Rate,
    at: { readonly declaredAt: number; readonly usedUpAt: number | null; readonly now: number },
  ): void {
    const name = rateName(scope);
    const limit = this.#at(name);
    if (limit.window === null) {
      limit.window = new RateWindow(rate);
      this.#windows.set(name, limit.window);
      if (this.shares === null && at.usedUpAt !== null) limit.window.add(at.usedUpAt, rate.limit);
    } else limit.window.declare(rate, at.now);
    limit.held = limit.window.used;
    this.declare(name, { max: rate.limit, declaredAt: at.declaredAt, silenceMs: rate.per });
  }

  /** Notes a start under a rate. */
  start(scope: string, who: Waiter, now: number): void {
    const name = rateName(scope);
    const limit = this.#limits.get(name);
    if (limit === undefined || limit.window === null) return;
    // @plant starts not counted under a rate
    limit.window.add(now);
    limit.held = limit.window.used;
    limit.queue.served(who.id, limit.max);
    this.shares?.used(name);
  }

  /**
   * A start that was noted then has begun now, and counts from now on. One that counts no more is counted again: in a
   * cluster that takes no permit from the others, since none was free for it, but this node has less room meanwhile.
   */
  began(scope: string, noted: number, now: number): void {
    const name = rateName(scope);
    const limit = this.#limits.get(name);
    if (limit === undefined || limit.window === null) return;
    if (noted >= now || limit.window.move(noted, now)) return;
    // @plant starts not counted under a rate 2
    limit.window.add(now);
    limit.held = limit.window.used;
    this.shares?.used(name);
  }

  /** Whether a start that was noted then may begin now: it counts still, or there is room for one more. */
  mayBegin(scope: string, noted: number, now: number): boolean {
    const name = rateName(scope);
    return this.#limits.get(name)?.window?.counts(noted) === true || this.hasRoom(name, now);
  }

  /** When the next start may be allowed, as far as it can be told; 0: there is nothing to wait for. */
  allowedAt(scope: string): number {
    const limit = this.#limits.get(rateName(scope));
    if (limit === undefined || limit.window === null || limit.held < limit.max) return 0;
    return limit.window.nextAt();
  }

  /** Declares the limit of one key: remembered only while it is in use. */
  declareKey(name: string, limit: Declared): void {
    const state = this.#at(name, true);
    if (limit.max > state.max) this.#callable.add(name);
    state.max = limit.max;
    this.shares?.declare(name, limit, true);
  }

  /** Declares a limit that has room only while nothing is held under it. */
  declareGate(name: string): void {
    this.#at(name, true).isGate = true;
  }

  /** Whether a permit is to be had. */
  hasRoom(name: string, now: number): boolean {
    return this.#room(name, now) > 0;
  }

  /** Whether this one may have a permit: there is room, and nobody who waits goes before. */
  mayTake(name: string, who: Waiter, now: number): boolean {
    // @plant permit returned to its giver
    return this.hasRoom(name, now) && this.#limits.get(name)?.queue.isBehind(who) !== true;
  }

  /** How many permits are to be had. */
  #room(name: string, now: number): number {
    const { max = Number.POSITIVE_INFINITY, held = 0, isGate = false } = this.#limits.get(name) ?? {};
    if (this.isBlocked(name, now) || (isGate && held > 0)) return 0;
    // @plant limit off by one
    return Math.min(max - held, this.shares?.room(name, held) ?? Number.POSITIVE_INFINITY);
  }

  /** Whether permits of a former owner may still be held. */
  isBlocked(name: string, now: number): boolean {
    return this.blockedUntil(name) > now;
  }

  /** Until when nothing is granted under this name; 0: it is not blocked. */
  blockedUntil(name: string): number {
    return this.#blocked.get(name) ?? 0;
  }

  /** Takes a permit; `who`: whoever has waited for it, or could have. */
  take(name: string, who?: Waiter): void {
    const limit = this.#at(name);
    limit.held++;
    if (who !== undefined) limit.queue.served(who.id, limit.max);
    this.shares?.used(name);
  }

  /** Gives a permit back. */
  give(name: string): void {
    const limit = this.#limits.get(name);
    if (limit === undefined) return;
    limit.held--;
    this.shares?.noteUse(name);
    if (limit.queue.size > 0)
      // @plant waiters not called when a permit returns
      this.#callable.add(name);
    else if (limit.isTransient && limit.held === 0 && limit.reserved.size === 0) this.#limits.delete(name);
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
      this.#lingering.push({ name, until: now + ms });
      return false;
    });
  }

  /** Calls `run` once when it is this one's turn and there may be room; `who` waits only once. */
  wait(name: string, who: Waiter, run: () => void): void {
    const { queue, max } = this.#at(name);
    queue.add(who, max, run);
    this.#callable.add(name);
    this.shares?.noteUse(name);
  }

  /** Whether somebody who waits may have to be called. */
  get isCallable(): boolean {
    return this.#callable.size > 0;
  }

  /** Calls the next one at each limit that has room; gives how many. */
  call(now: number): number {
    let called = 0;
    for (const name of [...this.#callable]) {
      const limit = this.#limits.get(name);
      if (limit === undefined || limit.queue.size === 0 || !this.hasRoom(name, now))
        this.#callable.delete(name);
      else {
        limit.queue.callNext(limit.max);
        called++;
      }
    }
    return called;
  }

  /**
   * Whoever waits at one limit keeps its room at those that come before it in the order of taking: so two nodes that need
   * the same two permits cannot pass them to and fro.
   */
  reserve(names: readonly string[], who: string, until: number): void {
    if (this.shares === null) return;
    // @plant room under one limit not kept
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
    for (const [name, { queue, reserved }] of this.#limits) {
      const before = queue.size + reserved.size;
      queue.forget(isOf);
      for (const who of reserved) if (isOf(who)) reserved.delete(who);
      if (queue.size + reserved.size < before) this.shares?.noteUse(name);
    }
  }

  /** A home has spoken: whoever waits may go on. */
  granted(grant: PermitGrant): void {
    if (this.shares?.granted(grant) === true) this.#callable.add(grant.name);
  }

  /** Homes may have become silent: true, if somebody may go on with what this node has. */
  useKept(): boolean {
    const kept = this.shares?.takeKept() ?? [];
    for (const name of kept) this.#callable.add(name);
    return kept.length > 0;
  }

  block(name: string, until: number): void {
    this.#blocked.set(name, Math.max(this.#blocked.get(name) ?? 0, until));
  }

  /** What has become free by time: blocks that have passed, starts that a rate looks back on no more. */
  unblock(now: number): void {
    for (const [name, window] of this.#windows) {
      if (window.expire(now) === 0) continue;
      this.#at(name).held = window.used;
      this.shares?.noteUse(name);
      this.#callable.add(name);
    }
    for (const { name } of this.#lingering.popWhile(({ until }) => until <= now)) {
      this.shares?.forfeit(name);
      this.give(name);
    }
    for (const { names, who } of this.#reservations.popWhile(({ until }) => until <= now))
      this.unreserve(names, who);
    for (const [name, until] of this.#blocked) {
      if (until > now) continue;
      this.#blocked.delete(name);
      this.#callable.add(name);
    }
  }

  /** When `unblock` is to be called next; Infinity: nobody waits for it. */
  nextUnblockAt(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const until of this.#blocked.values()) if (until < next) next = until;
    for (const [name, window] of this.#windows)
      if (this.shares !== null || this.#at(name).queue.size > 0) next = Math.min(next, window.nextAt());
    const lingers = this.#lingering.peek()?.until ?? Number.POSITIVE_INFINITY;
    const reserves = this.#reservations.peek()?.until ?? Number.POSITIVE_INFINITY;
    return Math.min(next, lingers, reserves);
  }

  /** Every limit, by name. */
  states(): Iterable<[string, Readonly<LimitState>]> {
    return this.#limits;
  }

  /** Permits of attempts that go on at other nodes, which may not count them yet; by the names of their limits. */
  *leaving(): Generator<string> {
    for (const { name } of this.#moving) yield name;
    for (const { name } of this.#lingering.items()) yield name;
  }

  /** Those who wait at a limit. */
  waiting(name: string): Iterable<Waiter> {
    return this.#limits.get(name)?.queue.all() ?? [];
  }

  look(name: string): { max: number; held: number } | null {
    return this.#limits.get(name) ?? null;
  }

  /** Every limit that is declared, with who waits; under a rate, starts that count now are held. */
  *all(now: number): Generator<{ name: string; max: number; held: number; waiting: number; perMs?: number }> {
    for (const [name, { max, held, queue, window }] of this.#limits) {
      if (max === Number.POSITIVE_INFINITY) continue;
      const rate = window === null ? {} : { held: window.usedAt(now), perMs: window.perMs };
      yield { name, max, held, waiting: queue.size, ...rate };
    }
  }

  #at(name: string, isTransient = false): LimitState {
    let limit = this.#limits.get(name);
    if (limit === undefined) {
      limit = {
        max: Number.POSITIVE_INFINITY,
        held: 0,
        isTransient,
        isGate: false,
        window: null,
        queue: new WaitQueue(),
        reserved: new Set(),
      };
      this.#limits.set(name, limit);
    }
    return limit;
  }
}
