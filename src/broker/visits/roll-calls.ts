/**
 * Roll calls of one task queue, which find single tasks that are lost at the broker: taken out of the queue by somebody
 * who acknowledged them and said nothing, or purged.
 *
 * 1. When the queue is seen empty, the attempts that were published and not heard of are noted. The next `process`
 *    broadcast asks every worker which of them it has.
 * 2. A roll call is complete when as many workers answered as there are consumers of the queue. Its missing attempts are
 *    those that no answer names. An attempt that is missing in two complete roll calls in a row is lost: whatever was on its
 *    way to a worker during the first is named in the second.
 * 3. A consumer that does not answer, such as a worker in another language, may have what was published while it was
 *    there. Those attempts are never judged here; the silence of the queue decides about them.
 */
import { rollCallId } from "../../protocol/amqp-wire.ts";
import { signAttempt } from "../../protocol/attempt-id.ts";
import type { Clock } from "../../std/clock.ts";
import type { ReadRollCall } from "../read-message.ts";
import type { SignedRollCall } from "../write-message.ts";

interface Call {
  readonly number: number;
  /** Attempts that somebody should have. */
  readonly attempts: readonly string[];
  /** Consumers when it was noted. */
  readonly consumers: number;
  isAsked: boolean;
  /** By worker. */
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
  /** The one that is asked, or is to be asked next. */
  #current: Call | null = null;
  /** The one before, for answers that come late. */
  #former: Call | null = null;
  /** Missing in the roll call before, which was complete. */
  #missing: ReadonlySet<string> = NONE;
  /** Attempts that a consumer without answers may have. */
  #unsure = new Set<string>();
  /** Attempts that were heard of; the engine may not have counted that yet. */
  #heard = new Set<string>();

  constructor(queue: string, parts: RollCallParts) {
    this.#queue = queue;
    this.#parts = parts;
  }

  /** Something was heard of an attempt: it is not lost. */
  heard(id: string): void {
    if (this.#current !== null) this.#heard.add(id);
  }

  answered(answer: ReadRollCall): void {
    for (const call of [this.#current, this.#former])
      if (call?.number === answer.rollCall) call.answers.set(answer.worker, answer);
  }

  /** The roll call for the `process` message that is written now; null: nothing is to be asked. */
  ask(): SignedRollCall | null {
    const { key } = this.#parts.engine.info;
    if (this.#current === null) return null;
    this.#current.isAsked = true;
    const { number } = this.#current;
    return { number, token: signAttempt(key, rollCallId(this.#queue, number)) };
  }

  /** The queue is not empty, or nobody is to consume it: nothing can be said about what was asked. */
  clear(): void {
    this.#current = null;
    this.#former = null;
    this.#missing = NONE;
    this.#heard.clear();
  }

  /** The queue is empty; `taken` was published and not heard of. Answers what is lost. */
  look(taken: readonly string[], consumers: number): readonly string[] {
    const open = new Set(taken);
    for (const set of [this.#unsure, this.#heard]) for (const id of set) if (!open.has(id)) set.delete(id);
    if (this.#current?.isAsked === false) return [];
    if (this.#former !== null && !isComplete(this.#former, 0))
      for (const id of this.#former.attempts) if (open.has(id)) this.#unsure.add(id);
    const missing = this.#missingNow(open, consumers);
    const lost = [...missing].filter((id) => this.#missing.has(id));
    for (const id of lost) missing.delete(id);
    this.#missing = missing;
    this.#former = this.#current;
    // The time, so that a process that is started again uses other numbers.
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
      if (open.has(id) && !named.has(id) && !this.#heard.has(id) && !this.#unsure.has(id)) missing.add(id);
    return missing;
  }
}

/** Whether every consumer has answered, those of then and of now. */
function isComplete({ answers, consumers }: Call, now: number): boolean {
  const answered = [...answers.values()].filter(({ consumes }) => consumes).length;
  return answered > 0 && answered >= Math.max(consumers, now);
}
