/**
 * Collects the receipts that workers send over the broker. All receipts of one turn of the event loop go to the engine in one report. A
 * delivery is acknowledged after the commit that counts its receipt.
 */
import type { Outcome, Verdict } from "../../kernel/message.ts";
import { toFault } from "../../net/amqp/broker-fault.ts";
import type { Delivery } from "../../net/amqp/delivery.ts";
import { attemptPrefix, encodeAttempt } from "../../protocol/attempt-id.ts";
import { readFields } from "../../protocol/read-body.ts";
import type { Report, ReportedAttempt, ReportedReceipt, ReportPlace } from "../../protocol/work.ts";
import type { Fields } from "../../std/decode.ts";
import { isRejection } from "../../std/rejection.ts";
import { toError } from "../../std/to-error.ts";
import { DAMAGED } from "../../store/store.ts";
import type { BridgeParts } from "../bridge-parts.ts";
import { isRollCall, readAttempt, readRollCall, readTaskReport, type TaskReport } from "../read-message.ts";
import { isShort, ShortReceipts } from "./short-messages.ts";
import type { VisitQueues } from "./visit-queues.ts";

type Shared = Pick<BridgeParts, "worker" | "engine" | "clock" | "dead" | "onFault"> & {
  readonly settings: Pick<BridgeParts["settings"], "shortMessages">;
};

export interface ReceiptInboxParts extends Shared {
  /** Decides whether a receipt may be counted. A receipt that may not be is dropped. */
  readonly mayCount: (at: ReportedAttempt, use: string) => true | Promise<boolean>;
  readonly onEnumerated: (report: TaskReport, delivery: Delivery) => void;
}

/** The pause before a receipt that no node accepted is reported again. */
const RETRY_MS = 1_000;

interface Waiting {
  readonly delivery: Delivery;
  readonly key: string;
  readonly place: ReportPlace;
  readonly receipt: ReportedReceipt;
  /**
   * Whether all nodes consume this queue. Returning a message to it would count as a delivery, so the message is kept and reported again.
   */
  readonly isShared: boolean;
}

/** An entry of RabbitMQ's `x-death` header. */
interface Death {
  readonly reason?: unknown;
  readonly queue?: unknown;
}

export class ReceiptInbox {
  readonly #parts: ReceiptInboxParts;
  readonly #short: ShortReceipts;
  #waiting: Waiting[] = [];
  #isScheduled = false;
  /** The number of receipts that the engine has counted since the start. */
  counted = 0;

  constructor(parts: ReceiptInboxParts) {
    this.#parts = parts;
    this.#short = new ShortReceipts(parts);
  }

  /** Reads a message of the receipt queue of a visit's handler. */
  onFinished(delivery: Delivery, visit: VisitQueues): void {
    const { dead, engine, onEnumerated } = this.#parts;
    const { message } = delivery;
    const [death] = (message.properties.headers?.["x-death"] ?? []) as readonly Death[];
    if (death !== undefined) return this.#onDeadLettered(delivery, visit, death);
    const fields = readFields(message.content);
    if (!isRejection(fields) && isRollCall(fields)) return this.#onRollCall(fields, delivery, visit);
    if (!isRejection(fields) && this.#parts.settings.shortMessages && isShort(fields))
      return this.#onShort(fields, delivery, visit);
    const report = isRejection(fields) ? fields : readTaskReport(fields, engine.info.key);
    if (isRejection(report)) return dead.put(delivery, report.message);
    if (report.at.task < 0) return onEnumerated(report, delivery);
    this.#countIfMay(report, delivery, visit);
  }

  #countIfMay(report: TaskReport, delivery: Delivery, visit: VisitQueues): void {
    const { mayCount, onFault } = this.#parts;
    visit.onReceipt(encodeAttempt(report.at));
    const counts = mayCount(report.at, visit.facts.use);
    if (counts === true) return this.accept(report, delivery);
    counts.then(
      (may) => {
        if (may) return this.accept(report, delivery);
        this.#short.settled(report.at);
        delivery.ack();
      },
      (thrown: unknown) => {
        onFault(toFault(thrown));
        this.#short.settled(report.at);
        delivery.nack();
      },
    );
  }

  #onShort(fields: Fields, delivery: Delivery, visit: VisitQueues): void {
    const report = this.#short.read(fields, visit.place);
    if (isRejection(report)) return this.#parts.dead.put(delivery, report.message);
    this.#countIfMay(report, delivery, visit);
  }

  #onRollCall(fields: Fields, delivery: Delivery, visit: VisitQueues): void {
    const { engine, dead } = this.#parts;
    const answer = readRollCall(fields, visit.tasks, engine.info.key);
    if (isRejection(answer)) return dead.put(delivery, answer.message);
    visit.onRollCall(answer);
    delivery.ack();
  }

  /** Reports a receipt to the engine, at the end of this turn of the event loop. */
  accept({ at, ms, outcome }: TaskReport, delivery: Delivery, isShared = false): void {
    const { task, attempt, claim, ...place } = at;
    const receipt = { task, attempt, claim, ms, outcome };
    this.#push({ delivery, key: `${attemptPrefix(place)}${place.epoch}`, place, receipt, isShared });
  }

  #push(waiting: Waiting): void {
    this.#waiting.push(waiting);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#parts.clock.soon(() => {
      this.#isScheduled = false;
      this.#report().catch((thrown: unknown) => this.#parts.onFault(toError(thrown)));
    });
  }

  /** Calls `run` after a pause, unless the connection is lost by then. In that case the broker delivers the message again. */
  retryLater(delivery: Delivery, run: () => void): void {
    this.#parts.clock.after(RETRY_MS, () => (delivery.isOpen ? run() : undefined));
  }

  /**
   * Handles a dead-lettered task. An expired task is released. A task that was delivered too often becomes a lone task; if it is one
   * already, it has crashed its worker.
   */
  #onDeadLettered(delivery: Delivery, visit: VisitQueues, { reason, queue }: Death): void {
    const { engine, worker, dead } = this.#parts;
    const fields = readFields(delivery.message.content);
    const at = isRejection(fields) ? fields : readAttempt(fields, engine.info.key);
    if (isRejection(at)) return dead.put(delivery, at.message);
    const id = encodeAttempt(at);
    if (engine.holderOf(at)?.worker !== worker) return delivery.ack();
    if (queue === visit.alone && reason !== "expired") {
      visit.onReceipt(id);
      return this.accept({ at, ms: 0, outcome: CRASHED }, delivery);
    }
    if (reason === "expired") visit.release([id]);
    else visit.suspect({ id, body: delivery.message.content });
    delivery.ack();
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
    // The answer of a stopped engine is ignored. The messages stay unacknowledged, so the broker delivers them again.
    if (engine.hasStopped) return;
    all.forEach(({ members }, i) => {
      const list = verdicts[i] ?? [];
      members.forEach((one, j) => this.#settle(one, list[j] ?? list[0]));
    });
  }

  #settle(one: Waiting, verdict: Verdict | undefined): void {
    const { delivery, isShared } = one;
    this.#short.settled({ ...one.place, ...one.receipt });
    if (verdict === undefined || verdict === "elsewhere")
      return isShared ? this.retryLater(delivery, () => this.#push(one)) : delivery.nack();
    if (verdict === "accepted") this.counted++;
    if (verdict === "stale" && isShared) this.#keepIfDamaged(one);
    else delivery.ack();
  }

  /**
   * Handles a stale receipt from a shared queue. If its execution is damaged, the receipt goes to the dead letters. If the execution cannot
   * be read now, the receipt is handled again later. Otherwise it is acknowledged.
   */
  #keepIfDamaged(one: Waiting): void {
    const { delivery, place } = one;
    const { engine, dead, onFault } = this.#parts;
    const retry = (): void => this.retryLater(delivery, () => this.#push(one));
    engine.inspect(place.execution).then(
      (found) => {
        if (isRejection(found) && found.code !== "not_found") return retry();
        if (isRejection(found) || found.view.status !== DAMAGED) return delivery.ack();
        const reason = `the execution ${place.execution} is damaged, so its receipt cannot be counted: restore the execution, then send the receipt again`;
        dead.put(delivery, reason);
      },
      (thrown: unknown) => {
        onFault(toFault(thrown));
        retry();
      },
    );
  }
}

const CRASHED: Outcome = {
  status: "crashed",
  payload: JSON.stringify({
    name: "Crashed",
    code: "crashed",
    message:
      "the worker that ran this task alone ended without a receipt: the task seems to crash its workers",
  }),
};
