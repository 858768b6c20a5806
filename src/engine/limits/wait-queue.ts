/**
 * Those who wait at one limit, in a fair order: higher priority first, then whoever has got the least, then in turn.
 * Whoever was served goes to the end of the ring, and so do newcomers; among newcomers that have the same place, the oldest
 * execution is first. What one has got counts only as far as it is more than the others have, and up to the size of the
 * limit: so an execution that came first and took all permits at once loses its lead, and a newcomer makes up for no more
 * than that. Now and then a call goes round the ring, whoever has got what: so a stream of newcomers starves nobody.
 *
 * A waiter that is called leaves the queue and tries to take a permit. If it cannot (its execution waits for a commit, or
 * no worker has room), the next one is called. When it comes back, it has the place that it had, and is called before the
 * others of its priority: those that were called after it take nothing past it.
 */
import { Heap } from "../../std/heap.ts";

/** Who waits: a handler of an execution, or such a handler with one key. */
export interface Waiter {
  readonly id: string;
  /** When its execution was created. */
  readonly age: number;
  readonly priority: number;
}

interface Entry extends Waiter {
  /** Its place in the ring: grows each time somebody who was served comes back. */
  readonly turn: number;
  /** How much it has got. */
  readonly got: number;
  /** The order of arrival. */
  readonly n: number;
  /** The number of the call after which it came back; Infinity: it was not called. */
  readonly call: number;
  readonly run: () => void;
  isGone: boolean;
}

/** After so many calls one goes round the ring: twice as many as the limit has permits, within these bounds. */
const RING_EVERY_MIN = 4;
const RING_EVERY_MAX = 16;
/** How many of those that were called or served are remembered. */
const REMEMBERED = 4_096;

export class WaitQueue {
  readonly #entries = new Map<string, Entry>();
  readonly #ring = new Heap<Entry>((a, b) => isBefore(a, b, a.turn - b.turn));
  readonly #least = new Heap<Entry>((a, b) => isBefore(a, b, a.got - b.got || a.turn - b.turn));
  /** Those that were called and have come back. */
  readonly #again = new Heap<Entry>((a, b) => isBefore(a, b, a.call - b.call));
  /** The places of those that were called and have not been served since. */
  readonly #called = new Map<string, Pick<Entry, "turn" | "n" | "call">>();
  /** What those have got that were served, and whether they have come back since. */
  readonly #served = new Map<string, { got: number; isBack: boolean }>();
  #turn = 0;
  #arrivals = 0;
  #calls = 0;
  #sinceRing = 0;
  /** The most that one has got. */
  #most = 0;

  get size(): number {
    return this.#entries.size;
  }

  /** Those who wait. */
  all(): Iterable<Waiter> {
    return this.#entries.values();
  }

  /** The highest priority that waits; -Infinity: nobody does. */
  get priority(): number {
    return top(this.#ring)?.priority ?? Number.NEGATIVE_INFINITY;
  }

  /** `run` is called once, when the waiter's turn has come; a waiter waits only once. `max` is the size of the limit. */
  add({ id, age, priority }: Waiter, max: number, run: () => void): void {
    if (this.#entries.has(id)) return;
    const served = this.#served.get(id);
    const isBack = served !== undefined && !served.isBack;
    if (served !== undefined) served.isBack = true;
    const { turn, n, call } = this.#called.get(id) ?? {
      turn: isBack ? this.#turn + 1 : this.#turn,
      n: ++this.#arrivals,
      call: Number.POSITIVE_INFINITY,
    };
    this.#called.delete(id);
    this.#turn = Math.max(this.#turn, turn);
    const got = Math.max(served?.got ?? 0, this.#most - max);
    const entry = { id, age, priority, turn, got, n, call, run, isGone: false };
    this.#entries.set(id, entry);
    this.#ring.push(entry);
    this.#least.push(entry);
    if (call !== Number.POSITIVE_INFINITY) this.#again.push(entry);
  }

  /**
   * Whether somebody waits who goes before this one: only those that were called go before others that wait, and not before
   * one that was called earlier and has come back.
   */
  isBehind({ id, priority }: Waiter): boolean {
    const called = this.#called.get(id);
    const again = top(this.#again);
    if (called !== undefined)
      return again !== undefined && again.priority >= priority && again.call < called.call;
    if (this.#entries.size === 0) return false;
    const isAlone = this.#entries.size === 1 && this.#entries.has(id);
    return !isAlone && this.priority >= priority;
  }

  /** Calls the next one. */
  callNext(max: number): void {
    const again = top(this.#again);
    const isAgain = again !== undefined && again.priority >= this.priority;
    const next = isAgain ? again : top(this.#isRingsTurn(max) ? this.#ring : this.#least);
    if (next === undefined) return;
    this.#leave(next.id);
    // One that is called again keeps the number of its first call.
    const { id, turn, n } = next;
    this.#called.set(id, { turn, n, call: Math.min(next.call, ++this.#calls) });
    forgetOldest(this.#called);
    next.run();
  }

  /** It has got what it waited for: next time it is behind all that wait now. */
  served(id: string, max: number): void {
    const got = Math.max(this.#served.get(id)?.got ?? 0, this.#most - max) + 1;
    this.#called.delete(id);
    this.#leave(id);
    if (this.#entries.size === 0 && this.#called.size === 0) this.#served.clear();
    this.#served.delete(id);
    this.#served.set(id, { got, isBack: false });
    this.#most = Math.max(this.#most, got);
    forgetOldest(this.#served);
  }

  /** Those for whom this holds do not wait any more. */
  forget(isOver: (id: string) => boolean): void {
    for (const id of this.#entries.keys()) if (isOver(id)) this.#leave(id);
    for (const id of this.#called.keys()) if (isOver(id)) this.#called.delete(id);
    for (const id of this.#served.keys()) if (isOver(id)) this.#served.delete(id);
  }

  #isRingsTurn(max: number): boolean {
    this.#sinceRing++;
    if (this.#sinceRing < Math.min(RING_EVERY_MAX, Math.max(RING_EVERY_MIN, 2 * max))) return false;
    this.#sinceRing = 0;
    return true;
  }

  #leave(id: string): void {
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    entry.isGone = true;
    this.#entries.delete(id);
  }
}

/** The first that still waits. */
function top(order: Heap<Entry>): Entry | undefined {
  for (;;) {
    const first = order.peek();
    if (first?.isGone !== true) return first;
    order.pop();
  }
}

function isBefore(a: Entry, b: Entry, order: number): boolean {
  if (a.priority !== b.priority) return a.priority > b.priority;
  if (order !== 0) return order < 0;
  if (a.age !== b.age) return a.age < b.age;
  return a.n < b.n;
}

function forgetOldest(remembered: Map<string, unknown>): void {
  if (remembered.size <= REMEMBERED) return;
  for (const oldest of remembered.keys()) {
    remembered.delete(oldest);
    return;
  }
}
