/**
 * Single tasks: if the definition names no source of tasks for a handler, the execution's input is its one task. Code that enumerates
 * must not get a single task: the definition may be an old one that was meant as a fan-out (docs/decisions/031).
 *
 * 1. The queues of the visit are opened and announced, but the task is not published while its queue has no consumer.
 * 2. When a worker consumes the task queue, the bridge counts the consumers of the code's enumerate queue. Without consumers there, the
 *    task is published. With one, the claim is released. The engine knows by then that this code enumerates at the broker, so the task
 *    waits, and `why` says what to do.
 * 3. A receipt counts only if the enumerate queue has no consumer when the receipt arrives, because a worker that enumerates may have
 *    connected since the task was published. Each decision asks the broker anew and never uses an earlier count.
 */

import { BrokerFault, toFault } from "../../net/amqp/broker-fault.ts";
import type { BrokerSession } from "../../net/amqp/connection.ts";
import { beatsOf, reportedAttempt } from "../../protocol/attempt-id.ts";
import type { Grant, GrantItem, ReportedAttempt } from "../../protocol/work.ts";
import { TransientMap } from "../../std/transient-map.ts";
import type { BridgeParts } from "../bridge-parts.ts";
import { type VisitPlace, visitKey } from "../names.ts";
import type { VisitQueues } from "./visit-queues.ts";

type Shared = Pick<BridgeParts, "worker" | "engine" | "names" | "clock" | "session" | "onFault">;

export interface SingleTasksParts extends Shared {
  /** Returns whether the code's enumerate queue has consumers now. The engine is informed of a change before this resolves. */
  readonly enumeratesNow: (session: BrokerSession, use: string) => Promise<boolean>;
  readonly open: (grant: Grant) => VisitQueues;
  readonly publish: (grant: Grant) => void;
}

interface Held {
  readonly grant: Grant;
  readonly at: ReportedAttempt;
  isChecking: boolean;
}

/** The time after an announcement at which to check for consumers. Workers that connect later are found after the next announcement. */
const CHECK_AFTER_MS = [0, 5, 10, 20, 40, 80, 160, 320] as const;

export class SingleTasks {
  readonly #parts: SingleTasksParts;
  /** Claims whose single tasks are not published yet, by handler of a visit. */
  readonly #held = new TransientMap<string, Held>();

  constructor(parts: SingleTasksParts) {
    this.#parts = parts;
  }

  /** Holds back the single task of a grant until its queue has a consumer and the code does not enumerate. */
  hold(grant: Grant): void {
    const held: Held = { grant, at: reportedAttempt(grant, grant.items[0] as GrantItem), isChecking: false };
    this.#held.set(visitKey(grant), held);
    void this.#parts.open(grant).idle.then(() => this.#checkSoon(held, 0));
  }

  has(place: VisitPlace): boolean {
    return this.#held.has(visitKey(place));
  }

  /** Checks for each held-back task whether a worker consumes its queue now. Drops claims that have ended. */
  check(): void {
    for (const [key, held] of this.#held) {
      if (this.#parts.engine.holderOf(held.at) === null) this.#held.delete(key);
      else void this.#check(held);
    }
  }

  /** Releases the claim, if its single task is not published yet. */
  withdraw(place: VisitPlace): void {
    const held = this.#held.get(visitKey(place));
    if (held !== undefined) this.#release(held);
  }

  /**
   * Called when workers outside of the broker serve this code too. Releases its claims, unless a worker at the broker consumes the task's
   * queue.
   */
  giveWay(uses: ReadonlySet<string>): void {
    for (const held of this.#held.values())
      if (uses.has(held.grant.use))
        void this.#check(held).then((isDecided) => (isDecided ? undefined : this.#release(held)));
  }

  /** Decides whether a receipt may be counted. If not, releases its claim, so that the task waits. */
  mayCount(at: ReportedAttempt, use: string): true | Promise<boolean> {
    const { engine, worker, session, enumeratesNow, onFault } = this.#parts;
    if (!engine.needsSingleCode(at)) return true;
    const open = session();
    if (open === null) return Promise.resolve(false);
    return enumeratesNow(open, use).then((enumerates) => {
      if (!enumerates) return true;
      engine.release(worker, beatsOf([at]));
      const task = `the input of ${at.execution} as the one task of "${at.handler}"`;
      onFault(
        new BrokerFault(
          `a worker at the broker did ${task}, but "${use}" enumerates its tasks: the result does not count`,
        ),
      );
      return false;
    });
  }

  #checkSoon(held: Held, tries: number): void {
    const ms = CHECK_AFTER_MS[tries];
    if (ms === undefined) return;
    this.#parts.clock.after(ms, () => {
      void this.#check(held).then((isDecided) => (isDecided ? undefined : this.#checkSoon(held, tries + 1)));
    });
  }

  /** Publishes or releases the single task if its queue has a consumer. Returns false if the queue has none yet. */
  async #check(held: Held): Promise<boolean> {
    const { names, session, engine, enumeratesNow, publish, onFault } = this.#parts;
    const open = session();
    if (open === null || held.isChecking || !this.#isHeld(held)) return !this.#isHeld(held);
    held.isChecking = true;
    try {
      const queue = await open.counts(names.tasks(held.at));
      if (queue === null || queue.consumers === 0) return false;
      const enumerates = await enumeratesNow(open, held.grant.use);
      if (!this.#isHeld(held)) return true;
      if (enumerates) this.#release(held);
      else {
        this.#held.delete(visitKey(held.at));
        if (engine.holderOf(held.at) !== null) publish(held.grant);
      }
      return true;
    } catch (thrown) {
      onFault(toFault(thrown));
      return false;
    } finally {
      held.isChecking = false;
    }
  }

  #isHeld(held: Held): boolean {
    return this.#held.get(visitKey(held.at)) === held;
  }

  #release(held: Held): void {
    const { engine, worker } = this.#parts;
    if (!this.#isHeld(held)) return;
    this.#held.delete(visitKey(held.at));
    engine.release(worker, beatsOf([held.at]));
  }
}
