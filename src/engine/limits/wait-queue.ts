/**
 * The waiters at one limit, in a fair order: higher priority first, then the waiter that was served least often, then in turn. Served
 * waiters and newcomers go to the end of a ring. Among newcomers at the same place, the oldest execution is first. How often a waiter
 * was served counts only up to the size of the limit. So an execution that took all permits at once loses its lead, and a newcomer
 * catches up by no more than that. Sometimes a call follows the order of the ring alone, so that a stream of newcomers starves no
 * waiter. A called waiter leaves the queue and tries to acquire a permit. If it cannot (its execution waits for a commit, or no
 * worker has room), the next waiter is called. When the first one returns, it keeps its place and is called before the others of its
 * priority; waiters that were called after it do not overtake it.
 */

import { Heap } from "../../std/heap.ts";
import { TransientMap } from "../../std/transient-map.ts";

/** A waiter at a limit: a handler of an execution, perhaps for one key. */
export interface Waiter {
  readonly id: string;
  /** When the waiter's execution was created. */
  readonly age: number;
  readonly priority: number;
}

interface Entry extends Waiter {
  /** The waiter's place in the ring. A served waiter that returns gets a higher place. */
  readonly turn: number;
  /** How often the waiter has got a permit. */
  readonly got: number;
  /** The number of the waiter's arrival, in order. */
  readonly n: number;
  /** The number of the first call of a waiter that has returned to the queue; Infinity if it was not called. */
  readonly call: number;
  readonly run: () => void;
  isGone: boolean;
}

/**
 * The lowest and highest number of calls after which one call follows the ring alone. Between these bounds, it is twice the size of
 * the limit.
 */
const RING_EVERY_MIN = 4;
const RING_EVERY_MAX = 16;
/** The most called waiters, and the most served waiters, that are remembered. */
const REMEMBERED = 4_096;

export class WaitQueue {
  readonly #entries = new TransientMap<string, Entry>();
  readonly #ring = new Heap<Entry>((a, b) => isBefore(a, b, a.turn - b.turn));
  readonly #least = new Heap<Entry>((a, b) => isBefore(a, b, a.got - b.got || a.turn - b.turn));
  /** Waiters that were called, got no permit and have returned. */
  readonly #again = new Heap<Entry>((a, b) => isBefore(a, b, a.call - b.call));
  /** The places of called waiters that have not been served since. */
  readonly #called = new TransientMap<string, Pick<Entry, "turn" | "n" | "call">>();
  /** Waiters that have got permits: how often, and whether they have returned to the queue since. */
  readonly #served = new TransientMap<string, { got: number; isBack: boolean }>();
  #turn = 0;
  #arrivals = 0;
  #calls = 0;
  #sinceRing = 0;
  /** The highest `got` of any waiter. */
  #most = 0;

  get size(): number {
    return this.#entries.size;
  }

  all(): Iterable<Waiter> {
    return this.#entries.values();
  }

  /** The highest priority among the waiters; -Infinity if there are none. */
  get priority(): number {
    return top(this.#ring)?.priority ?? Number.NEGATIVE_INFINITY;
  }

  /** Adds a waiter, unless it waits already. `run` is called once, in the waiter's turn. `max` is the size of the limit. */
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
   * Whether another waiter comes before this one. A called waiter comes before those that were not called, but after one that was
   * called earlier and has returned.
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

  /** Calls the next waiter in the fair order of the queue. */
  callNext(max: number): void {
    const again = top(this.#again);
    const isAgain = again !== undefined && again.priority >= this.priority;
    const next = isAgain ? again : top(this.#isRingsTurn(max) ? this.#ring : this.#least);
    if (next === undefined) return;
    this.#leave(next.id);
    // A waiter that is called again keeps the number of its first call, and so its place.
    const { id, turn, n } = next;
    this.#called.set(id, { turn, n, call: Math.min(next.call, ++this.#calls) });
    forgetOldest(this.#called);
    next.run();
  }

  /** Called when a waiter has got a permit. The next time, it comes after all that wait now. */
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

  /** Removes the waiters for whose ids `isOver` returns true. */
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

/** Returns the first entry that is still waiting. */
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

function forgetOldest(remembered: TransientMap<string, object>): void {
  if (remembered.size <= REMEMBERED) return;
  for (const oldest of remembered.keys()) {
    remembered.delete(oldest);
    return;
  }
}
