/**
 * Limits: concurrency by project, by handler (project and use) and by key within a handler, and rates. Limits are exact: a lease
 * acquires a permit and releases it when it ends. Under a rate, a start counts for the length of the rate's window. A handler that
 * finds a limit full waits in the limit's queue (wait-queue.ts), and is called in turn when there is room. In a cluster, a node has
 * only a quota of each limit (quota-client.ts).
 */

import type { RateDefinition } from "../../kernel/definition/definition.ts";
import { decodeName } from "../../kernel/definition/names.ts";
import type { PermitGrant } from "../../protocol/permits.ts";
import { Heap } from "../../std/heap.ts";
import type { Settings } from "../settings.ts";
import { QuotaClient } from "./quota-client.ts";
import { RateWindow, windowOf } from "./rate-window.ts";
import { type Waiter, WaitQueue } from "./wait-queue.ts";

/** How the permit of a lease moves to another node together with the partition. */
export interface Moves {
  readonly partition: number;
  /** The epoch of the tenure in which the lease was open at this node. */
  readonly epoch: number;
  /** The time from the takeover of the partition until its new owner counts the permit. */
  readonly ms: number;
}

/** Returns the name of the limit that counts starts under the rate of a handler or of a key. */
export function rateName(scope: string): string {
  return `rate ${scope}`;
}

/** The name of a project's limit. */
export function projectScope(project: string): string {
  return `project ${project}`;
}

/** A limit as a definition or a setting declares it. */
export interface Declared {
  readonly max: number;
  /** The time at which the limit was declared. The value that was declared last applies. */
  readonly declaredAt: number;
  /** How long an attempt under the limit may go on after its node has become silent. */
  readonly silenceMs: number;
}

/** A rate as a definition declares it. */
export interface DeclaredRate {
  readonly rate: RateDefinition;
  readonly declaredAt: number;
  /** The time at which unknown starts under a former owner may have used up the rate; null if there are none. */
  readonly usedUpAt: number | null;
  readonly now: number;
}

interface LimitState {
  max: number;
  held: number;
  /** The number of held permits that belong to attempts adopted from dead nodes. */
  adopted: number;
  /** Whether the limit is dropped when it is not used any more. Limits of keys are. */
  isTransient: boolean;
  /** Whether the limit is a barrier: its waiters go on when no permit of it is held any more. */
  isBarrier: boolean;
  /** For the rate of a key: the time of its next check; Infinity if none is scheduled. */
  watchedAt: number;
  /** The window of starts, if the limit is a rate. */
  window: RateWindow | null;
  /** The queue of the waiting handlers; null if no handler has waited yet. */
  queue: WaitQueue | null;
  /** The ids of waiters that have reserved a permit of this limit while they wait at another limit. */
  readonly reserved: Set<string>;
}

/** After this time the rate of a key without starts is dropped if it is not in use. */
const UNUSED_MS = 1_000;
/** The number of older starts that the rate of a key remembers, in case its window gets longer. */
const KEY_TIMES_KEPT = 8;
/** The most limits of keys in a list of all limits. */
const LISTED_KEYS_MAX = 1_000;

export class Limits {
  /** The quotas of this node in a cluster; null if this node is the only one. */
  readonly shares: QuotaClient | null;
  readonly #limits = new Map<string, LimitState>();
  /** Rates of handlers, by the names of their limits. */
  readonly #windows = new Map<string, RateWindow>();
  /** The rates of keys, each with the time of its next check. At a check, starts leave the window, or the rate is dropped. */
  readonly #keyWindows = new Heap<{ name: string; at: number }>((a, b) => a.at < b.at);
  /** Names of limits that have waiters and may have room. */
  readonly #callable = new Set<string>();
  readonly #reservations = new Heap<{ names: readonly string[]; who: string; until: number }>(
    (a, b) => a.until < b.until,
  );
  readonly #lingering = new Heap<{ name: string; until: number }>((a, b) => a.until < b.until);
  /** Permits of leases whose partitions have left this node and have no new owner yet. */
  #moving: ({ readonly name: string } & Moves)[] = [];
  /** Limits under which nothing is granted before a time, because attempts of a former owner may still run. */
  readonly #blocked = new Map<string, number>();

  /** `shared` has the settings if other nodes use the same limits; null if there are no other nodes. */
  constructor(shared: Settings | null = null) {
    const usage = (name: string) => {
      const limit = this.#limits.get(name);
      const { held = 0, adopted = 0, queue, reserved, window = null } = limit ?? {};
      const { size = 0, priority = 0 } = queue ?? {};
      let moved = 0;
      for (const one of this.leaving()) if (one === name) moved++;
      const waits = { waiting: size, priority, reserved: reserved?.size ?? 0 };
      return { held, adopted, moved, ...waits, isRate: window !== null };
    };
    this.shares = shared === null ? null : new QuotaClient(shared.permitPatienceMs, usage);
  }

  /** Declares a limit. The value that was declared last applies from the next grant on. */
  declare(name: string, limit: Declared): void {
    Object.assign(this.#at(name), { max: limit.max, isTransient: false });
    this.shares?.declare(name, limit, false);
    this.#callable.add(name);
  }

  /** Declares the limit of one key, which is dropped once it is unused. */
  declareKey(name: string, limit: Declared): void {
    const state = this.#at(name, true);
    if (limit.max > state.max) this.#callable.add(name);
    state.max = limit.max;
    this.shares?.declare(name, limit, true);
  }

  /** Declares the rate of a handler. */
  declareRate(name: string, declared: DeclaredRate): void {
    const limit = this.#at(name);
    this.declare(name, this.#openWindow(limit, declared));
    this.#windows.set(name, limit.window as RateWindow);
  }

  /** Declares the rate of one key. The rate is dropped once it is unused and no start counts under it. */
  declareKeyRate(name: string, declared: DeclaredRate): void {
    const limit = this.#at(name, true);
    this.declareKey(name, this.#openWindow(limit, declared));
    this.#watchKey(name, limit, declared.now);
  }

  /** Gives a limit the window of a rate, or changes its window. Returns the limit with that window. */
  #openWindow(limit: LimitState, { rate: declared, declaredAt, usedUpAt, now }: DeclaredRate): Declared {
    const rate = windowOf(declared, this.shares === null);
    if (limit.window === null) {
      limit.window = limit.isTransient ? new RateWindow(rate, KEY_TIMES_KEPT) : new RateWindow(rate);
      // The rate of a key is declared on each use, so unknown starts of a former owner may have left its window already.
      const isOld = limit.isTransient && (usedUpAt ?? 0) + rate.per <= now;
      if (this.shares === null && usedUpAt !== null && !isOld) limit.window.add(usedUpAt, rate.limit);
    } else limit.window.declare(rate, now);
    limit.held = limit.window.used;
    return { max: rate.limit, declaredAt, silenceMs: Math.ceil(rate.per) };
  }

  /** Schedules the next check of a key's rate, at which starts leave its window or the rate is dropped. */
  #watchKey(name: string, limit: LimitState, now: number): void {
    if (limit.window === null || !limit.isTransient) return;
    const { held, window } = limit;
    const at = held > 0 ? window.nextAt() : Math.max(window.forgottenAt, now + UNUSED_MS);
    if (at >= limit.watchedAt) return;
    limit.watchedAt = at;
    this.#keyWindows.push({ name, at });
  }

  /** Frees the starts that have left the window of a key's rate; drops the rate if it is not in use. */
  #expireKey(name: string, at: number, now: number): void {
    const limit = this.#limits.get(name);
    // Ignores a check that was replaced by an earlier one.
    if (limit === undefined || limit.window === null || limit.watchedAt !== at) return;
    limit.watchedAt = Number.POSITIVE_INFINITY;
    if (limit.window.expire(now) > 0) {
      limit.held = limit.window.used;
      this.shares?.noteUse(name);
      this.#callable.add(name);
    }
    const isUsed = limit.held > 0 || waitersAt(limit) > 0 || limit.reserved.size > 0;
    if (isUsed || limit.window.forgottenAt > now) this.#watchKey(name, limit, now);
    else this.#limits.delete(name);
  }

  /** Counts a start under the rate with this name. */
  start(name: string, who: Waiter, now: number): void {
    const limit = this.#limits.get(name);
    if (limit === undefined || limit.window === null) return;
    // @plant starts not counted under a rate
    limit.window.add(now);
    limit.held = limit.window.used;
    // A key's rate gets a wait queue only when a handler waits, since there can be very many keys.
    if (limit.isTransient) limit.queue?.served(who.id, limit.max);
    else queueOf(limit).served(who.id, limit.max);
    this.#watchKey(name, limit, now);
    this.shares?.used(name);
  }

  /**
   * Called when an attempt begins whose start was counted at `noted`: from now on it counts from its beginning. A start that has left
   * the window is counted again. In a cluster, that takes no permit from other nodes, but this node has less room for a while.
   */
  began(name: string, noted: number, now: number): void {
    const limit = this.#limits.get(name);
    if (limit === undefined || limit.window === null) return;
    if (noted >= now || limit.window.move(noted, now)) return;
    // @plant starts not counted under a rate 2
    limit.window.add(now);
    limit.held = limit.window.used;
    this.#watchKey(name, limit, now);
    this.shares?.used(name);
  }

  /** Whether an attempt whose start was counted at `noted` may begin now: the start still counts, or there is room for one more. */
  mayBegin(name: string, noted: number, now: number): boolean {
    return this.#limits.get(name)?.window?.counts(noted) === true || this.hasRoom(name, now);
  }

  /** The time at which the next start under a rate is allowed, as far as this node knows; 0 if it is allowed now. */
  allowedAt(name: string): number {
    const limit = this.#limits.get(name);
    if (limit === undefined || limit.window === null || limit.held < limit.max) return 0;
    return limit.window.nextAt();
  }

  /** Declares a barrier: a limit whose waiters go on when no permit of it is held any more. */
  declareBarrier(name: string): void {
    this.#at(name, true).isBarrier = true;
  }

  /** Whether a permit is free. */
  hasRoom(name: string, now: number): boolean {
    return this.#room(name, now) > 0;
  }

  /** Whether this waiter may acquire a permit now: a permit is free, and no other waiter comes first. */
  mayAcquire(name: string, who: Waiter, now: number): boolean {
    // @plant permit returned to its giver
    return this.hasRoom(name, now) && this.#limits.get(name)?.queue?.isBehind(who) !== true;
  }

  /** The number of free permits. */
  #room(name: string, now: number): number {
    const { max = Number.POSITIVE_INFINITY, held = 0, isBarrier = false } = this.#limits.get(name) ?? {};
    if (this.isBlocked(name, now) || (isBarrier && held > 0)) return 0;
    // @plant limit off by one
    return Math.min(max - held, this.shares?.room(name, held) ?? Number.POSITIVE_INFINITY);
  }

  /** Whether nothing is granted under the limit now, because attempts of a former owner may still run. */
  isBlocked(name: string, now: number): boolean {
    return this.blockedUntil(name) > now;
  }

  /** Until when nothing is granted under this limit; 0 if it is not blocked. */
  blockedUntil(name: string): number {
    return this.#blocked.get(name) ?? 0;
  }

  /** Acquires a permit. `who` is the waiter that gets it. */
  acquire(name: string, who?: Waiter): void {
    const limit = this.#at(name);
    limit.held++;
    if (who !== undefined) queueOf(limit).served(who.id, limit.max);
    this.shares?.used(name);
  }

  /** Acquires a permit for an attempt that this node adopts from a dead node. */
  adopt(name: string): void {
    this.acquire(name);
    this.#at(name).adopted++;
  }

  /** Called when an adopted attempt ends at this node. The caller then calls `release` or `linger` for its permit. */
  endAdopted(name: string): void {
    const limit = this.#limits.get(name);
    if (limit !== undefined) limit.adopted--;
  }

  /** Releases a permit. */
  release(name: string): void {
    const limit = this.#limits.get(name);
    if (limit === undefined) return;
    limit.held--;
    this.shares?.noteUse(name);
    if (waitersAt(limit) > 0)
      // @plant waiters not called when a permit returns
      this.#callable.add(name);
    else if (limit.isTransient && limit.held === 0 && limit.reserved.size === 0) this.#limits.delete(name);
  }

  /**
   * Keeps a permit although its lease has ended at this node: the attempt goes on, and the next owner of its partition will hold a
   * permit for it. The permit counts at this node until some time after the partition has a new owner.
   */
  linger(name: string, moves: Moves): void {
    this.#moving.push({ name, ...moves });
  }

  /** Applies the current epochs of partitions. Permits of partitions that have a new owner are released after a while. */
  moved(epochs: ReadonlyMap<number, number>, now: number): void {
    if (this.#moving.length === 0) return;
    this.#moving = this.#moving.filter(({ name, partition, epoch, ms }) => {
      if ((epochs.get(partition) ?? 0) <= epoch) return true;
      this.#lingering.push({ name, until: now + ms });
      return false;
    });
  }

  /**
   * Lets a handler wait at a limit. `run` is called once, when it is the waiter's turn and a permit may be free. A waiter is in the
   * queue at most once.
   */
  wait(name: string, who: Waiter, run: () => void): void {
    const limit = this.#at(name);
    queueOf(limit).add(who, limit.max, run);
    this.#callable.add(name);
    this.shares?.noteUse(name);
  }

  /** Whether there may be a waiter to call. */
  get isCallable(): boolean {
    return this.#callable.size > 0;
  }

  /** Calls the next waiter of each limit that has room. Returns how many waiters were called. */
  callWaiters(now: number): number {
    let called = 0;
    for (const name of [...this.#callable]) {
      const limit = this.#limits.get(name);
      if (limit === undefined || waitersAt(limit) === 0 || !this.hasRoom(name, now))
        this.#callable.delete(name);
      else {
        queueOf(limit).callNext(limit.max);
        called++;
      }
    }
    return called;
  }

  /**
   * Reserves permits for a waiter under the limits that are acquired before the full one. Without that, two nodes that need the same
   * two permits could pass them back and forth.
   */
  reserve(names: readonly string[], who: string, until: number): void {
    if (this.shares === null) return;
    // @plant room under one limit not kept
    for (const name of names) this.#at(name).reserved.add(who);
    if (names.length > 0) this.#reservations.push({ names: [...names], who, until });
  }

  /** Ends the reservations of a waiter. */
  unreserve(names: readonly (string | null)[], who: string): void {
    if (this.shares === null) return;
    for (const name of names) {
      if (name === null || this.#limits.get(name)?.reserved.delete(who) !== true) continue;
      this.shares.noteUse(name);
    }
  }

  /** Drops the waiters of executions that this node no longer owns. */
  forget(isOver: (execution: string) => boolean): void {
    const isOf = (who: string) => isOver(decodeName(who.slice(0, who.indexOf("/"))) ?? "");
    for (const [name, limit] of this.#limits) {
      const { queue, reserved } = limit;
      const before = waitersAt(limit) + reserved.size;
      queue?.forget(isOf);
      for (const who of reserved) if (isOf(who)) reserved.delete(who);
      if (waitersAt(limit) + reserved.size < before) this.shares?.noteUse(name);
    }
  }

  /** Applies a grant of a quota server, so that waiters may continue. */
  granted(grant: PermitGrant): void {
    if (this.shares?.granted(grant) === true) this.#callable.add(grant.name);
  }

  /**
   * If a quota server does not answer, this node uses the quota that it has from that server again. Returns true if waiters may
   * continue.
   */
  useKept(): boolean {
    const kept = this.shares?.drainKept() ?? [];
    for (const name of kept) this.#callable.add(name);
    return kept.length > 0;
  }

  block(name: string, until: number): void {
    this.#blocked.set(name, Math.max(this.#blocked.get(name) ?? 0, until));
  }

  /**
   * Frees everything whose time is over: blocks of limits, starts that have left the window of their rate, reservations and moved
   * permits.
   */
  unblock(now: number): void {
    for (const [name, window] of this.#windows) {
      if (window.expire(now) === 0) continue;
      this.#at(name).held = window.used;
      this.shares?.noteUse(name);
      this.#callable.add(name);
    }
    for (const { name, at } of this.#keyWindows.popWhile((one) => one.at <= now))
      this.#expireKey(name, at, now);
    for (const { name } of this.#lingering.popWhile(({ until }) => until <= now)) {
      this.shares?.forfeit(name);
      this.release(name);
    }
    for (const { names, who } of this.#reservations.popWhile(({ until }) => until <= now))
      this.unreserve(names, who);
    for (const [name, until] of this.#blocked) {
      if (until > now) continue;
      this.#blocked.delete(name);
      this.#callable.add(name);
    }
  }

  /** When `unblock` must be called next; Infinity if it need not be. */
  nextUnblockAt(): number {
    let next = Number.POSITIVE_INFINITY;
    for (const until of this.#blocked.values()) if (until < next) next = until;
    for (const [name, window] of this.#windows)
      if (this.shares !== null || waitersAt(this.#at(name)) > 0) next = Math.min(next, window.nextAt());
    next = Math.min(next, this.#keyWindows.peek()?.at ?? Number.POSITIVE_INFINITY);
    const lingers = this.#lingering.peek()?.until ?? Number.POSITIVE_INFINITY;
    const reserves = this.#reservations.peek()?.until ?? Number.POSITIVE_INFINITY;
    return Math.min(next, lingers, reserves);
  }

  /** Every limit, by name. */
  states(): Iterable<[string, Readonly<LimitState>]> {
    return this.#limits;
  }

  /** Returns the names of limits with permits that move to other nodes, which may not count them yet. */
  *leaving(): Generator<string> {
    for (const { name } of this.#moving) yield name;
    for (const { name } of this.#lingering.items()) yield name;
  }

  /** The waiters at a limit. */
  waiting(name: string): Iterable<Waiter> {
    return this.#limits.get(name)?.queue?.all() ?? [];
  }

  find(name: string): { max: number; held: number } | null {
    return this.#limits.get(name) ?? null;
  }

  /**
   * Returns every declared limit with the number of its waiters. For a rate, `held` is the number of starts that count. At most
   * `LISTED_KEYS_MAX` limits of keys are listed.
   */
  *all(now: number): Generator<{ name: string; max: number; held: number; waiting: number; perMs?: number }> {
    let keys = 0;
    for (const [name, limit] of this.#limits) {
      const { max, held, window, isTransient } = limit;
      if (max === Number.POSITIVE_INFINITY || (isTransient && ++keys > LISTED_KEYS_MAX)) continue;
      const rate = window === null ? {} : { held: window.usedAt(now), perMs: Math.ceil(window.perMs) };
      yield { name, max, held, waiting: waitersAt(limit), ...rate };
    }
  }

  #at(name: string, isTransient = false): LimitState {
    let limit = this.#limits.get(name);
    if (limit === undefined) {
      limit = {
        max: Number.POSITIVE_INFINITY,
        held: 0,
        adopted: 0,
        isTransient,
        isBarrier: false,
        watchedAt: Number.POSITIVE_INFINITY,
        window: null,
        queue: null,
        reserved: new Set(),
      };
      this.#limits.set(name, limit);
    }
    return limit;
  }
}

function queueOf(limit: LimitState): WaitQueue {
  limit.queue ??= new WaitQueue();
  return limit.queue;
}

/** The number of waiters at a limit. */
export function waitersAt({ queue }: Pick<LimitState, "queue">): number {
  return queue?.size ?? 0;
}
