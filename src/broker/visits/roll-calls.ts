/**
 * Roll calls of one task queue. They find single tasks that are lost at the broker: purged, or acknowledged by a consumer that sent no
 * receipt.
 *
 * 1. When the queue is empty, the engine's side notes the published attempts without a receipt. The next `process` broadcast asks every
 *    worker which of these attempts it has.
 * 2. A roll call is complete when as many workers answered as there are consumers of the queue. Its missing attempts are those that no
 *    answer names. An attempt that is missing in two complete roll calls in a row is lost: an attempt that was on its way to a worker
 *    during the first is named in the second.
 * 3. A consumer that does not answer, such as a worker in another language, may have attempts that were published while it consumed the
 *    queue. A roll call never declares those attempts lost. They count as lost only when no receipt arrives for a long time.
 */
import { rollCallId } from "../../protocol/amqp-wire.ts";
import { signAttempt } from "../../protocol/attempt-id.ts";
import type { Clock } from "../../std/clock.ts";
import type { ReadRollCall } from "../read-message.ts";
import type { SignedRollCall } from "../write-message.ts";

interface Call {
  readonly number: number;
  /** Attempts that this roll call asks about. Each of them should be at some worker. */
  readonly attempts: readonly string[];
  /** The number of consumers of the queue when the roll call was made. */
  readonly consumers: number;
  isAsked: boolean;
  readonly answers: Map<string, ReadRollCall>;
}

interface RollCallParts {
  readonly clock: Clock;
  readonly engine: { readonly info: { readonly key: string } };
}

const NONE: ReadonlySet<string> = new Set();

export class RollCalls {
  readonly #queue: string;
  readonly #parts: RollCallParts;
  #number = 0;
  /** The current roll call, which was sent last or will be sent next. */
  #current: Call | null = null;
  /** The roll call before the current one, for late answers. */
  #former: Call | null = null;
  /** Attempts that were missing in the roll call before the current one. */
  #missing: ReadonlySet<string> = NONE;
  /** Attempts that a consumer that does not answer roll calls may hold. */
  #unsure = new Set<string>();
  /** Attempts whose receipt has arrived. The engine may not have counted these receipts yet. */
  #received = new Set<string>();

  constructor(queue: string, parts: RollCallParts) {
    this.#queue = queue;
    this.#parts = parts;
  }

  /** Called when the receipt of an attempt arrives. The attempt then does not count as lost. */
  onReceipt(id: string): void {
    if (this.#current !== null) this.#received.add(id);
  }

  onAnswer(answer: ReadRollCall): void {
    for (const call of [this.#current, this.#former])
      if (call?.number === answer.rollCall) call.answers.set(answer.worker, answer);
  }

  /** Returns the roll call for the next `process` message; null if none is due. */
  ask(): SignedRollCall | null {
    const { key } = this.#parts.engine.info;
    if (this.#current === null) return null;
    this.#current.isAsked = true;
    const { number } = this.#current;
    return { number, token: signAttempt(key, rollCallId(this.#queue, number)) };
  }

  /** Drops the roll calls, because the queue is not empty or workers must not consume it now. */
  clear(): void {
    this.#current = null;
    this.#former = null;
    this.#missing = NONE;
    this.#received.clear();
  }

  /**
   * Called when the queue is empty; `taken` are the published attempts without a receipt. Returns the attempts that are lost.
   */
  findLost(taken: readonly string[], consumers: number): readonly string[] {
    const open = new Set(taken);
    for (const set of [this.#unsure, this.#received]) for (const id of set) if (!open.has(id)) set.delete(id);
    if (this.#current?.isAsked === false) return [];
    if (this.#former !== null && !isComplete(this.#former, 0))
      for (const id of this.#former.attempts) if (open.has(id)) this.#unsure.add(id);
    const missing = this.#missingNow(open, consumers);
    const lost = [...missing].filter((id) => this.#missing.has(id));
    for (const id of lost) missing.delete(id);
    this.#missing = missing;
    this.#former = this.#current;
    // A roll call's number is taken from the clock, so that numbers are not repeated after a restart.
    this.#number = Math.max(this.#number + 1, this.#parts.clock.now());
    this.#current =
      consumers === 0
        ? null
        : {
            number: this.#number,
            attempts: taken.filter((id) => !lost.includes(id)),
            consumers,
            isAsked: false,
            answers: new Map(),
          };
    return lost;
  }

  #missingNow(open: ReadonlySet<string>, consumers: number): Set<string> {
    const call = this.#current;
    const missing = new Set<string>();
    if (call === null || !isComplete(call, consumers)) return missing;
    const named = new Set([...call.answers.values()].flatMap(({ held }) => held));
    for (const id of call.attempts)
      if (open.has(id) && !named.has(id) && !this.#received.has(id) && !this.#unsure.has(id)) missing.add(id);
    return missing;
  }
}

/** Whether at least as many workers answered as the queue had consumers at the roll call and has now. */
function isComplete({ answers, consumers }: Call, now: number): boolean {
  const answered = [...answers.values()].filter(({ consumes }) => consumes).length;
  return answered > 0 && answered >= Math.max(consumers, now);
}
