/**
 * Logs when a fault begins, when it goes on (at increasing intervals) and when it ends. All retryable faults of the store count
 * as one outage; other faults are distinguished by their messages.
 */
import type { Clock } from "../std/clock.ts";
import { decorate } from "../std/decorate.ts";
import { showDuration } from "../std/duration.ts";
import type { ClusterStore } from "./cluster-store.ts";
import { type Store, StoreFault } from "./store.ts";

const FIRST_DISTANCE_MS = 5_000;
const DISTANCE_MAX_MS = 300_000;
/** Failed calls are retried within this time. A call that failed longer ago was given up, and no longer counts as failing. */
const TRIED_AGAIN_MS = 6_000;
/** A fault that has not occurred for this time counts as a new fault when it occurs again. */
const FORGET_MS = 600_000;
/** The most faults that are remembered; if there are more, the oldest is dropped. */
const KINDS_MAX = 100;

interface Lasting {
  readonly from: number;
  /** How often the fault occurred since its last log line. */
  unlogged: number;
  distanceMs: number;
  nextAt: number;
  lastAt: number;
  /** When the calls began to succeed again; null if the fault has occurred since. */
  overAt: number | null;
}

export class FaultLog {
  readonly #clock: Pick<Clock, "now">;
  readonly #write: (line: string) => void;
  /** The faults that go on, by message. The outage of the store has the key "". */
  readonly #lasting = new Map<string, Lasting>();
  /**
   * The kinds of store calls that failed last, with the time. Successful reads are not reported, so all calls except commits
   * and renewals share the key "other".
   */
  readonly #failed = new Map<string, number>();
  /** Errors of commits and renewals. `#failed` counts these already under their own keys. */
  readonly #known = new WeakSet<object>();
  #isRenewed = false;

  constructor(clock: Pick<Clock, "now">, write: (line: string) => void) {
    this.#clock = clock;
    this.#write = write;
  }

  /** Wraps the store so that this log learns of each commit and renewal whether it succeeded. */
  watched<S extends Store>(store: S): S {
    const replaced: Partial<ClusterStore> = {
      commit: (content) => this.#observe("commit", store.commit(content)),
    };
    if (isShared(store)) {
      this.#isRenewed = true;
      replaced.renew = () => this.#observe("renew", store.renew());
    }
    return decorate<Store>(store, replaced) as S;
  }

  /** Logs a fault, unless it was logged recently. */
  readonly report = (fault: Error): void => {
    const { message, isStore } = describe(fault);
    const key = isStore ? "" : message;
    const now = this.#clock.now();
    const lasting = this.#lasting.get(key);
    // Renewals are made even if there is no work, so a later renewal can end the outage once no other call fails.
    if (key === "" && this.#isRenewed && !this.#known.has(fault)) this.#failed.set("other", now);
    if (lasting === undefined || now - lasting.lastAt > FORGET_MS) {
      this.#begin(key, now);
      return this.#write(message);
    }
    lasting.lastAt = now;
    lasting.overAt = null;
    lasting.unlogged++;
    if (now < lasting.nextAt) return;
    const more = lasting.unlogged === 1 ? "" : `, ${lasting.unlogged} times since the last line`;
    this.#write(`${message}: this has lasted for ${showDuration(now - lasting.from)}${more}`);
    lasting.unlogged = 0;
    lasting.distanceMs = Math.min(DISTANCE_MAX_MS, lasting.distanceMs * 2);
    lasting.nextAt = now + lasting.distanceMs;
  };

  #begin(key: string, now: number): void {
    this.#lasting.delete(key);
    const oldest = this.#lasting.size < KINDS_MAX ? undefined : this.#lasting.keys().next().value;
    if (oldest !== undefined) this.#lasting.delete(oldest);
    this.#lasting.set(key, {
      from: now,
      unlogged: 0,
      distanceMs: FIRST_DISTANCE_MS,
      nextAt: now + FIRST_DISTANCE_MS,
      lastAt: now,
      overAt: null,
    });
  }

  async #observe<T>(what: string, work: Promise<T>): Promise<T> {
    try {
      const answer = await work;
      if (this.#lasting.size > 0) this.#works(what);
      return answer;
    } catch (thrown) {
      this.#failed.set(what, this.#clock.now());
      if (thrown instanceof Error) this.#known.add(thrown);
      throw thrown;
    }
  }

  /** Called after a successful commit or renewal. Ends the outage if no call fails any more. */
  #works(what: string): void {
    const now = this.#clock.now();
    this.#failed.delete(what);
    const outage = this.#lasting.get("");
    if (outage === undefined) return;
    const failing = [...this.#failed].filter(([, at]) => now - at < TRIED_AGAIN_MS);
    if (failing.every(([other]) => other === "other")) outage.overAt ??= now;
    if (failing.length > 0) return;
    this.#failed.clear();
    this.#lasting.delete("");
    this.#write(`the store works again, after ${showDuration((outage.overAt ?? now) - outage.from)}`);
  }
}

function isShared(store: Store): store is ClusterStore {
  return "renew" in store;
}

/** Returns the message of a fault, and whether the store caused it. If the store did, the message includes the cause. */
function describe(fault: Error): { message: string; isStore: boolean } {
  const { message, cause } = fault;
  if (isOfStore(fault)) return { message, isStore: true };
  return isOfStore(cause)
    ? { message: `${message}: ${cause.message}`, isStore: true }
    : { message, isStore: false };
}

function isOfStore(thrown: unknown): thrown is StoreFault {
  return thrown instanceof StoreFault && thrown.retryable;
}
