/**
 * What workers say, on its way to the engine: last words of one turn are one report, and a delivery is acknowledged when
 * the commit that counts it is made. What is broken, or of nobody we know, goes to the dead letters.
 */
import type { Channel, ConsumeMessage } from "amqplib";
import type { EnginePort } from "../../engine/engine-port.ts";
import type { Outcome } from "../../kernel/message.ts";
import { attemptPrefix, encodeAttempt } from "../../protocol/attempt-id.ts";
import type { DeadLetters } from "../../protocol/dead-letters.ts";
import { readFields } from "../../protocol/read-body.ts";
import type { Report, ReportedAttempt, ReportedReceipt, ReportPlace } from "../../protocol/work.ts";
import type { Clock } from "../../std/clock.ts";
import { isRejection } from "../../std/rejection.ts";
import { DAMAGED } from "../../store/store.ts";
import { toFault } from "../broker-fault.ts";
import type { BrokerNames } from "../names.ts";
import { isRollCall, readAttempt, readRollCall, readTaskReport, type TaskReport } from "../read-message.ts";
import type { VisitQueues } from "./visit-queues.ts";

export interface ReceiptInboxParts {
  readonly worker: string;
  readonly engine: EnginePort;
  readonly names: BrokerNames;
  readonly clock: Clock;
  readonly dead: DeadLetters;
  /** Whether a channel is still the one that deliveries come over. */
  readonly isOpen: (channel: Channel) => boolean;
  /** Whether a receipt may count; one that may not is dropped. */
  readonly mayCount: (at: ReportedAttempt, use: string) => true | Promise<boolean>;
  /** The last word on an enumeration. */
  readonly onEnumerated: (word: TaskReport, delivery: Delivery) => void;
  readonly onFault: (fault: Error) => void;
}

/** When a word is said again that found no owner. */
const AGAIN_MS = 1_000;

/** A message, and where to acknowledge it. */
export interface Delivery {
  readonly message: ConsumeMessage;
  readonly channel: Channel;
  readonly queue: string;
  /** All nodes consume its queue, which counts deliveries: what finds no owner for a while is kept, not put back. */
  readonly isShared?: boolean;
}

interface Waiting {
  readonly delivery: Delivery;
  readonly key: string;
  readonly place: ReportPlace;
  readonly receipt: ReportedReceipt;
}

interface Death {
  readonly reason?: unknown;
  readonly queue?: unknown;
}

export class ReceiptInbox {
  readonly #parts: ReceiptInboxParts;
  #waiting: Waiting[] = [];
  #isScheduled = false;
  /** Last words that counted, since the start. */
  counted = 0;

  constructor(parts: ReceiptInboxParts) {
    this.#parts = parts;
  }

  /** A message in the finished queue of a handler of a visit. */
  finished(delivery: Delivery, desk: VisitQueues): void {
    const { message } = delivery;
    const [death] = (message.properties.headers?.["x-death"] ?? []) as readonly Death[];
    if (death !== undefined) return this.#died(delivery, desk, death);
    const fields = readFields(message.content);
    if (!isRejection(fields) && isRollCall(fields)) return this.#rollCall(fields, delivery, desk);
    const word = isRejection(fields) ? fields : readTaskReport(fields, this.#parts.engine.info.key);
    if (isRejection(word)) return this.refuse(delivery, word.message);
    if (word.at.task < 0) return this.#parts.onEnumerated(word, delivery);
    desk.heard(encodeAttempt(word.at));
    const mayCount = this.#parts.mayCount(word.at, desk.facts.use);
    if (mayCount === true) return this.take(word, delivery);
    mayCount.then(
      (may) => (may ? this.take(word, delivery) : this.acknowledge(delivery)),
      (thrown: unknown) => {
        this.#parts.onFault(toFault(thrown));
        this.putBack(delivery);
      },
    );
  }

  #rollCall(fields: Readonly<Record<string, unknown>>, delivery: Delivery, desk: VisitQueues): void {
    const { names, engine } = this.#parts;
    const answer = readRollCall(fields, names.tasks(desk.place), engine.info.key);
    if (isRejection(answer)) return this.refuse(delivery, answer.message);
    desk.answered(answer);
    this.acknowledge(delivery);
  }

  /** The last word on an attempt at a task. */
  take({ at, ms, outcome }: TaskReport, delivery: Delivery): void {
    const { task, attempt, claim, ...place } = at;
    const receipt = { task, attempt, claim, ms, outcome };
    this.#push({ delivery, key: `${attemptPrefix(place)}${place.epoch}`, place, receipt });
  }

  #push(waiting: Waiting): void {
    this.#waiting.push(waiting);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#parts.clock.soon(() => {
      this.#isScheduled = false;
      this.#report().catch((thrown: unknown) =>
        this.#parts.onFault(thrown instanceof Error ? thrown : new Error(String(thrown))),
      );
    });
  }

  /** Nobody can use it: it goes to the dead letters, and is acknowledged once it is there. */
  refuse(delivery: Delivery, reason: string): void {
    const { queue } = delivery;
    this.#parts.dead.put(delivery.message.content, { queue, reason }, () => this.acknowledge(delivery));
  }

  acknowledge({ message, channel }: Delivery): void {
    if (this.#parts.isOpen(channel)) unlessClosing(() => channel.ack(message));
  }

  /** Calls `run` after a while, unless the message comes again by then over another connection. */
  later({ channel }: Delivery, run: () => void): void {
    const { clock, isOpen } = this.#parts;
    clock.after(AGAIN_MS, () => (isOpen(channel) ? run() : undefined));
  }

  /** It comes again, here or elsewhere. */
  putBack({ message, channel }: Delivery): void {
    if (this.#parts.isOpen(channel)) unlessClosing(() => channel.nack(message, false, true));
  }

  /**
   * A task that its queue gave up: it waited too long, or was delivered too often. Its neighbours in the hands of a
   * worker that dies are delivered too often as well, so it is a suspect; only where it went alone it is a crash.
   */
  #died(delivery: Delivery, desk: VisitQueues, { reason, queue }: Death): void {
    const { engine, worker, names } = this.#parts;
    const fields = readFields(delivery.message.content);
    const at = isRejection(fields) ? fields : readAttempt(fields, engine.info.key);
    if (isRejection(at)) return this.refuse(delivery, at.message);
    const id = encodeAttempt(at);
    if (engine.holderOf(at)?.worker !== worker) return this.acknowledge(delivery);
    if (queue === names.alone(desk.place) && reason !== "expired") {
      desk.heard(id);
      return this.take({ at, ms: 0, outcome: CRASHED }, delivery);
    }
    if (reason === "expired") desk.release([id]);
    else desk.suspect({ id, body: delivery.message.content });
    this.acknowledge(delivery);
  }

  async #report(): Promise<void> {
    const { engine, worker } = this.#parts;
    const waiting = this.#waiting;
    this.#waiting = [];
    const groups = new Map<string, { report: Report; members: Waiting[]; receipts: ReportedReceipt[] }>();
    for (const one of waiting) {
      let group = groups.get(one.key);
      if (group === undefined) {
        const receipts: ReportedReceipt[] = [];
        group = { report: { kind: "receipts", ...one.place, receipts }, members: [], receipts };
        groups.set(one.key, group);
      }
      group.receipts.push(one.receipt);
      group.members.push(one);
    }
    const all = [...groups.values()];
    const verdicts = await engine.report(
      worker,
      all.map(({ report }) => report),
    );
    // What an engine that has stopped says counts nothing: it all comes again.
    if (engine.hasStopped) return;
    all.forEach(({ members }, i) => {
      const list = verdicts[i] ?? [];
      members.forEach((one, j) => {
        const { delivery } = one;
        const verdict = list[j] ?? list[0];
        if (verdict === undefined || verdict === "elsewhere")
          return delivery.isShared === true
            ? this.later(delivery, () => this.#push(one))
            : this.putBack(delivery);
        if (verdict === "accepted") this.counted++;
        if (verdict === "stale" && delivery.isShared === true) this.#keepIfDamaged(one);
        else this.acknowledge(delivery);
      });
    });
  }

  /** Ends the delivery of a receipt that changed nothing. A damaged execution takes none: its receipt is a dead letter. */
  #keepIfDamaged(one: Waiting): void {
    const { delivery, place } = one;
    this.#parts.engine.inspect(place.execution).then(
      (found) => {
        if (isRejection(found) && found.code !== "not_found")
          return this.later(delivery, () => this.#push(one));
        const isDamaged = !isRejection(found) && found.view.status === DAMAGED;
        if (!isDamaged) return this.acknowledge(delivery);
        const reason = `the execution ${place.execution} is damaged: send the receipt again once it is restored`;
        this.refuse(delivery, reason);
      },
      (thrown: unknown) => {
        this.#parts.onFault(toFault(thrown));
        this.later(delivery, () => this.#push(one));
      },
    );
  }
}

/** A channel that is closing takes nothing any more: what was not acknowledged comes again. */
function unlessClosing(answer: () => void): void {
  try {
    answer();
  } catch (thrown) {
    if (!(thrown instanceof Error && thrown.name === "IllegalOperationError")) throw thrown;
  }
}

const CRASHED: Outcome = {
  status: "crashed",
  payload: JSON.stringify({
    name: "Crashed",
    code: "crashed",
    message: "the worker that had it alone gave it back without a word",
  }),
};
