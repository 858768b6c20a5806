/**
 * One enumeration that a worker runs over the broker. The worker sends the tasks that it finds to the intake, a queue of the attempt. The
 * engine journals the tasks in pages, in the order of their positions, and messages are acknowledged after the commit. The message
 * `enumerated` arrives on a shared queue, perhaps before the last tasks. It has the number of tasks, and the enumeration ends when that
 * many are journaled.
 */
import { LIMITS } from "../../kernel/definition/definition.ts";
import { type EnumerationOutcome, endsEnumeration } from "../../kernel/message.ts";
import type { BrokerSession } from "../../net/amqp/connection.ts";
import type { Delivery } from "../../net/amqp/delivery.ts";
import { encodeAttempt } from "../../protocol/attempt-id.ts";
import { readFields } from "../../protocol/read-body.ts";
import type { ReportedAttempt } from "../../protocol/work.ts";
import { assert } from "../../std/assert.ts";
import { isRejection, type Rejection } from "../../std/rejection.ts";
import type { BridgeParts } from "../bridge-parts.ts";
import {
  itemsOf,
  notStorable,
  type ReadItem,
  readBareTask,
  readItems,
  readTaskReport,
  type TaskReport,
} from "../read-message.ts";
import { isBareTask, isShort } from "./short-messages.ts";

export interface EnumerationParts extends Pick<BridgeParts, "worker" | "engine" | "dead" | "onFault"> {
  /** Whether tasks are told apart by their identities. If not, identities are ignored. */
  readonly byIdentity: boolean;
  /**
   * The most unacknowledged deliveries of a consumer. If that many tasks wait for a missing one, the missing task cannot arrive any more.
   */
  readonly prefetch: number;
  /** Whether short messages are allowed: `enumerated` without attempt, token and total, and bare tasks (short-messages.ts). */
  readonly shortMessages: boolean;
  readonly onEnd: (enumeration: Enumeration) => void;
}

interface Item extends ReadItem {
  /** The message to acknowledge after this item; null if more items of the same message follow. */
  readonly delivery: Delivery | null;
}

/** The most items that are kept in memory while an earlier item is missing. */
const EARLY_MAX = 10_000;
/** The attempt fails after this many checks in which items are missing although `enumerated` has arrived and the intake is empty. */
const STRIKES_MAX = 2;

export class Enumeration {
  readonly at: ReportedAttempt;
  readonly id: string;
  readonly intake: string;
  readonly #parts: EnumerationParts;
  /** The position of the next expected item. All earlier items are journaled or in `#items`. */
  #next: number;
  #first: number;
  #items: Item[] = [];
  readonly #early = new Map<number, Item>();
  #isReporting = false;
  /** Whether the failure of the attempt because of missing items is being reported. */
  #isFailing = false;
  /** The message `enumerated`, once it has come. */
  #end: {
    readonly outcome: EnumerationOutcome;
    readonly delivery: Delivery;
    readonly isShort?: true;
  } | null = null;
  #isOver = false;
  #strikes = 0;
  /** The position that the next bare task gets. Bare tasks are numbered by arrival, from 0 in each attempt. */
  #nextBare = 0;
  /** How many messages in the intake queue were refused. */
  #refused = 0;

  /** `known` is the number of tasks that are journaled already. */
  constructor(at: ReportedAttempt, intake: string, known: number, parts: EnumerationParts) {
    this.at = at;
    this.id = encodeAttempt(at);
    this.intake = intake;
    this.#next = known;
    this.#first = known;
    this.#parts = parts;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  get isUntouched(): boolean {
    return this.#next === this.#first && this.#items.length === 0 && this.#end === null;
  }

  /** Called when the connection is lost. Drops what was received, because the broker delivers all unacknowledged messages again. */
  detach(): void {
    this.#next -= this.#items.length;
    this.#items = [];
    this.#early.clear();
    this.#end = null;
    this.#nextBare = Math.min(this.#nextBare, this.#next);
  }

  onMessage(delivery: Delivery): void {
    if (this.#isOver) return delivery.ack();
    const { dead, engine, shortMessages } = this.#parts;
    const { key } = engine.info;
    this.#strikes = 0;
    const { content } = delivery.message;
    const fields = readFields(content);
    if (shortMessages && isBareTask(fields, this.at, this.id)) {
      const item = readBareTask(content, this.#nextBare);
      if (!isRejection(item)) this.#nextBare++;
      return this.#onItems(isRejection(item) ? item : [item], delivery);
    }
    // This message is an `enumerated` that another node consumed and passed on to this intake.
    if (!isRejection(fields) && fields["position"] === undefined && fields["token"] !== undefined) {
      const report = readTaskReport(fields, key);
      if (isRejection(report)) return dead.put(delivery, report.message);
      if (encodeAttempt(report.at) === this.id) return this.onEnumerated(report, delivery);
      return dead.put(
        delivery,
        "`attempt` differs from the attempt at the enumeration whose intake queue this is",
      );
    }
    if (!isRejection(fields) && shortMessages && isShort(fields) && fields["task_queue"] === this.intake)
      return this.onShortEnumerated(delivery);
    this.#onItems(isRejection(fields) ? fields : readItems(fields, this.at, key), delivery);
  }

  #onItems(items: readonly ReadItem[] | Rejection, delivery: Delivery): void {
    const { dead, byIdentity } = this.#parts;
    if (isRejection(items)) {
      this.#refused++;
      dead.put(delivery, items.message);
      if (items.code === "not_storable" || items.code === "too_large" || items.code === "too_deep")
        this.#report(notStorable(items), null);
      return;
    }
    // If tasks have identities, each attempt at the enumeration sends all tasks from the beginning.
    if (this.isUntouched && byIdentity && (items[0]?.identity ?? null) !== null && this.#early.size === 0)
      this.#next = this.#first = 0;
    items.forEach((item, i) => {
      const identity = byIdentity ? item.identity : null;
      this.#add({ ...item, identity, delivery: i === items.length - 1 ? delivery : null });
    });
    for (let early = this.#early.get(this.#next); early !== undefined; early = this.#early.get(this.#next)) {
      this.#early.delete(early.position);
      this.#push(early);
    }
    if (this.#hasGap && !this.#isFailing)
      return this.#failMissing(
        `task ${this.#next} of the enumeration has not arrived, but ${this.#early.size} later tasks have`,
      );
    this.#advance();
  }

  /** Whether so many later items have arrived that the missing item must be lost. */
  get #hasGap(): boolean {
    if (this.#early.size === 0) return false;
    let deliveries = 0;
    for (const { delivery } of this.#early.values()) if (delivery !== null) deliveries++;
    return deliveries >= this.#parts.prefetch || this.#early.size > EARLY_MAX;
  }

  /** Fails the attempt at the enumeration. The next attempt, if the retry policy allows one, continues after the journaled tasks. */
  #failMissing(message: string): void {
    this.#fail({ name: "TasksMissing", code: "tasks_missing", message });
  }

  #fail(error: { readonly name: string; readonly code: string; readonly message: string }): void {
    this.#isFailing = true;
    this.#report({ status: "failed", payload: JSON.stringify(error) }, this.#end?.delivery ?? null);
  }

  /** Fails the attempt as crashed, because workers received the enumeration several times and sent nothing. */
  crash(times: number): void {
    if (this.#isReporting || this.#isOver) return;
    const message = `workers received the enumeration ${times} times and did not send a task or an end`;
    const error = { name: "Crashed", code: "crashed", message };
    this.#report({ status: "crashed", payload: JSON.stringify(error) }, null);
  }

  #add(item: Item): void {
    // The item arrived before: this worker sent it again, or another worker repeats the enumeration.
    if (item.position < this.#next) return item.delivery?.ack();
    if (item.position === this.#next) return this.#push(item);
    this.#early.get(item.position)?.delivery?.ack();
    this.#early.set(item.position, item);
  }

  onEnumerated({ outcome }: TaskReport, delivery: Delivery): void {
    assert(endsEnumeration(outcome), "the end of an enumeration must have a total once it was read");
    if (this.#isOver) return delivery.ack();
    this.#end?.delivery.ack();
    this.#end = { outcome, delivery };
    this.#advance();
  }

  /**
   * Handles a short `enumerated`, which has no total: the enumeration ends with the tasks that have arrived, once the intake stays empty.
   */
  onShortEnumerated(delivery: Delivery): void {
    if (this.#isOver) return delivery.ack();
    this.#end?.delivery.ack();
    const outcome = { status: "done", payload: "null", total: Number.POSITIVE_INFINITY } as const;
    this.#end = { outcome, delivery, isShort: true };
    this.#strikes = 0;
  }

  /** Fails the attempt if items are missing and several checks in a row find the intake empty. */
  async checkMissing(session: BrokerSession): Promise<void> {
    if (this.#end === null || this.#isReporting || this.#isOver || this.#items.length > 0) return;
    const counts = await session.counts(this.intake);
    if (counts !== null && counts.ready > 0) return;
    const { total } = this.#end.outcome;
    if (++this.#strikes < STRIKES_MAX) return;
    // A short `enumerated` message does not say how many tasks there are. So tasks are missing only if some were refused.
    if (this.#end?.isShort === true && this.#refused > 0)
      return this.#fail({
        name: "TasksRefused",
        code: "tasks_refused",
        message: `${this.#refused === 1 ? "1 message" : `${this.#refused} messages`} in the intake queue could not be read as tasks: see the dead letters of the broker for them and the reasons`,
      });
    if (this.#end?.isShort === true && this.#early.size === 0)
      return this.#report({ status: "done", payload: "null", total: this.#next }, this.#end.delivery);
    this.#failMissing(
      this.#end?.isShort === true
        ? `task ${this.#next} of the enumeration has not arrived, but ${this.#early.size} later tasks have`
        : `the enumeration reports ${total} tasks, but only ${this.#next} have arrived`,
    );
  }

  /** Ends the enumeration without a report. Acknowledges its messages and drops them. */
  drop(): void {
    this.#isOver = true;
    for (const { delivery } of [...this.#items, ...this.#early.values()]) delivery?.ack();
    this.#end?.delivery.ack();
    this.#items = [];
    this.#early.clear();
    this.#end = null;
  }

  #push(item: Item): void {
    this.#items.push(item);
    this.#next++;
  }

  #advance(): void {
    if (this.#isReporting || this.#isOver) return;
    if (this.#items.length > 0) return this.#reportPage();
    if (this.#end === null) return;
    const { outcome, delivery } = this.#end;
    if (outcome.status === "done" && outcome.total > this.#next) return;
    this.#report(outcome, delivery);
  }

  #reportPage(): void {
    const { engine, worker } = this.#parts;
    let count = 0;
    let chars = 0;
    while (count < this.#items.length && count < LIMITS.pageTasks && chars < LIMITS.pageBytes / 2)
      chars += (this.#items[count++] as Item).task.length;
    const items = this.#items.slice(0, count);
    const { task: _, ...place } = this.at;
    const [first] = items;
    this.#isReporting = true;
    const page = { kind: "page" as const, ...place, from: first?.position ?? 0, ...itemsOf(items) };
    engine.report(worker, [page]).then(([verdicts]) => {
      this.#isReporting = false;
      const verdict = verdicts?.[0];
      const isElsewhere = verdict === undefined || verdict === "elsewhere";
      if (engine.hasStopped) return;
      // The connection was lost during the commit, so the broker delivers the items again.
      if (this.#items[0] !== first) return this.#advance();
      this.#items.splice(0, items.length);
      for (const { delivery } of items) {
        if (isElsewhere) delivery?.nack();
        else delivery?.ack();
      }
      if (verdict === "stale" || verdict === "gone") return this.#finish();
      if (isElsewhere) {
        this.#next -= items.length;
        this.#nextBare = Math.min(this.#nextBare, this.#next);
      }
      this.#advance();
    }, this.#parts.onFault);
  }

  #report(outcome: EnumerationOutcome, delivery: Delivery | null): void {
    const { engine, worker } = this.#parts;
    const { task: _, ...place } = this.at;
    this.#isReporting = true;
    engine.report(worker, [{ kind: "enumeration", ...place, ms: 0, outcome }]).then(([verdicts]) => {
      this.#isReporting = false;
      const verdict = verdicts?.[0];
      if (engine.hasStopped || this.#isOver) return;
      if (verdict !== undefined && verdict !== "elsewhere") return this.#finish();
      delivery?.nack();
      this.#end = null;
      this.#isFailing = false;
    }, this.#parts.onFault);
  }

  #finish(): void {
    this.drop();
    this.#parts.onEnd(this);
  }
}
