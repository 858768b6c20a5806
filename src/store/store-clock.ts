/**
 * The clock of a node in a cluster. It follows the store's clock, which is measured when the store opens and at each renewal,
 * and advances by the monotonic clock in between. It assumes the latest possible time, so nothing happens too early. The clock
 * never goes back; if the store's clock does, this clock runs slower for a while.
 */
import type { Clock } from "../std/clock.ts";
import { decorate } from "../std/decorate.ts";
import { monotonicMs } from "../std/monotonic.ts";
import { SteadyTime } from "../std/steady-time.ts";
import type { ClusterStore } from "./cluster-store.ts";

export class StoreClock implements Clock {
  readonly #machine: Clock;
  readonly #monotonic: () => number;
  /**
   * The difference between the store's clock and the monotonic clock. Before the first measurement, the machine's clock is used
   * instead of the store's.
   */
  #ahead: number;
  #time: SteadyTime;

  constructor(machine: Clock, monotonic: () => number = monotonicMs) {
    this.#machine = machine;
    this.#monotonic = monotonic;
    this.#ahead = machine.now() - monotonic();
    this.#time = this.#begin();
  }

  /** Wraps the store so that `open` and `renew` set this clock. */
  setBy<S extends Pick<ClusterStore, "open" | "renew" | "now">>(store: S): S {
    const replaced: Pick<ClusterStore, "open" | "renew"> = {
      open: async () => {
        const info = await store.open();
        // Nobody has read a time from this clock yet, so it may be set back.
        this.#ahead = (await store.now()) - this.#monotonic();
        this.#time = this.#begin();
        return info;
      },
      renew: async () => {
        const askedAt = this.#monotonic();
        const membership = await store.renew();
        this.#measured(membership.now, askedAt);
        return membership;
      },
    };
    return decorate(store, replaced as Partial<S>);
  }

  now(): number {
    return this.#time.now();
  }

  stepped(): number {
    return this.#time.stepped;
  }

  after(ms: number, run: () => void): () => void {
    return this.#machine.after(ms, run);
  }

  soon(run: () => void): void {
    this.#machine.soon(run);
  }

  /** Sets the clock by a measurement: the store's clock showed `now` at some moment since `askedAt`. */
  #measured(now: number, askedAt: number): void {
    const least = now - this.#monotonic();
    const most = now - askedAt;
    this.#ahead = this.#ahead > most ? least : Math.max(this.#ahead, least);
  }

  #begin(): SteadyTime {
    return new SteadyTime({
      wall: () => Math.floor(this.#monotonic() + this.#ahead),
      elapsed: this.#monotonic,
    });
  }
}
