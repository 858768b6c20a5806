/**
 * One enumeration at a worker of the broker. Each attempt has a queue for the tasks that it finds, the intake. Tasks are
 * journaled page by page, by position, and acknowledged after the commit. The message `enumerated` arrives on a shared queue,
 * perhaps before the last tasks: the enumeration ends when all tasks that it counts are journaled.
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
  /** Whether tasks are distinguished by identity; otherwise identities are ignored. */
  readonly byIdentity: boolean;
  /** The most unacknowledged deliveries of a consumer: a missing task cannot arrive after this many. */
  readonly prefetch: number;
  /** Whether `enumerated` may lack attempt, token and total, and tasks may be bare. */
  readonly shortMessages: boolean;
  readonly onEnd: (enumeration: Enumeration) => void;
}

interface Item extends ReadItem {
  /** The message whose last item this is; null if more items of the same message follow. */
  readonly delivery: Delivery | null;
}

/** The most items that are kept although an earlier item is missing. */
const EARLY_MAX = 10_000;
/**
 * After this many checks that find the intake empty although items are missing, and `enumerated` has arrived, the attempt
 * fails.
 */
const STRIKES_MAX = 2;

export class Enumeration {
  readonly at: ReportedAttempt;
  readonly id: string;
  readonly intake: string;
  readonly #parts: EnumerationParts;
  /** The position of the next item; all earlier items are journaled or in `#items`. */
  #next: number;
  #first: number;
  #items: Item[] = [];
  readonly #early = new Map<number, Item>();
  #isReporting = false;
  /** Whether the failure because of missing items is being reported. */
  #isFailing = false;
  /** The message `enumerated`, once it has come. */
  #end: {
    readonly outcome: EnumerationOutcome;
    readonly delivery: Delivery;
    readonly isShort?: true;
  } | null = null;
  #isOver = false;
  #strikes = 0;
  /** The position of the next bare task: bare tasks are numbered in the order of their arrival, from 0 in each attempt. */
  #nextBare = 0;
  /** How many messages in the intake were refused. */
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

  /** Called when the connection is lost: the broker delivers all unacknowledged messages again. */
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
    // The message is `enumerated`, which another node has consumed and passed on to this intake.
    if (!isRejection(fields) && fields["position"] === undefined && fields["token"] !== undefined) {
      const report = readTaskReport(fields, key);
      if (isRejection(report)) return dead.put(delivery, report.message);
      if (encodeAttempt(report.at) === this.id) return this.onEnumerated(report, delivery);
      return dead.put(delivery, "`attempt` is not that of the enumeration");
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
    // An enumeration by identity lists all tasks from the beginning in each attempt.
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
      return this.#failMissing(`task ${this.#next} has not arrived, but ${this.#early.size} later ones have`);
    this.#advance();
  }

  /** Whether the number of items that arrived out of order shows that a missing item is lost. */
  get #hasGap(): boolean {
    if (this.#early.size === 0) return false;
    let deliveries = 0;
    for (const { delivery } of this.#early.values()) if (delivery !== null) deliveries++;
    return deliveries >= this.#parts.prefetch || this.#early.size > EARLY_MAX;
  }

  /** Fails the attempt. By the retry policy, the next attempt resumes behind the journaled tasks. */
  #failMissing(message: string): void {
    this.#fail({ name: "TasksMissing", code: "tasks_missing", message });
  }

  #fail(error: { readonly name: string; readonly code: string; readonly message: string }): void {
    this.#isFailing = true;
    this.#report({ status: "failed", payload: JSON.stringify(error) }, this.#end?.delivery ?? null);
  }

  /** Fails the attempt as crashed: workers received the enumeration again and again and sent nothing. */
  crash(times: number): void {
    if (this.#isReporting || this.#isOver) return;
    const message = `workers received the enumeration ${times} times and sent nothing`;
    const error = { name: "Crashed", code: "crashed", message };
    this.#report({ status: "crashed", payload: JSON.stringify(error) }, null);
  }

  #add(item: Item): void {
    // The item is a repetition, by this worker or by one that started again.
    if (item.position < this.#next) return item.delivery?.ack();
    if (item.position === this.#next) return this.#push(item);
    this.#early.get(item.position)?.delivery?.ack();
    this.#early.set(item.position, item);
  }

  onEnumerated({ outcome }: TaskReport, delivery: Delivery): void {
    assert(endsEnumeration(outcome), "the end of an enumeration is read with its total");
    if (this.#isOver) return delivery.ack();
    this.#end?.delivery.ack();
    this.#end = { outcome, delivery };
    this.#advance();
  }

  /** A short `enumerated`: the enumeration ends with the tasks that have come, once the intake stays empty. */
  onShortEnumerated(delivery: Delivery): void {
    if (this.#isOver) return delivery.ack();
    this.#end?.delivery.ack();
    const outcome = { status: "done", payload: "null", total: Number.POSITIVE_INFINITY } as const;
    this.#end = { outcome, delivery, isShort: true };
    this.#strikes = 0;
  }

  /** Fails the attempt if the intake stays empty although items are missing. */
  async checkMissing(session: BrokerSession): Promise<void> {
    if (this.#end === null || this.#isReporting || this.#isOver || this.#items.length > 0) return;
    const counts = await session.counts(this.intake);
    if (counts !== null && counts.ready > 0) return;
    const { total } = this.#end.outcome;
    if (++this.#strikes < STRIKES_MAX) return;
    // A short end has no total, which would show that tasks are missing.
    if (this.#end?.isShort === true && this.#refused > 0)
      return this.#fail({
        name: "TasksRefused",
        code: "tasks_refused",
        message: `${this.#refused === 1 ? "1 message" : `${this.#refused} messages`} in the intake could not be read as tasks; the dead letters of the broker have them with the reason`,
      });
    if (this.#end?.isShort === true && this.#early.size === 0)
      return this.#report({ status: "done", payload: "null", total: this.#next }, this.#end.delivery);
    this.#failMissing(
      this.#end?.isShort === true
        ? `task ${this.#next} has not arrived, but ${this.#early.size} later ones have`
        : `the enumeration reports ${total} tasks, but only ${this.#next} have arrived`,
    );
  }

  /** Ends the enumeration without a report: its messages are acknowledged and dropped. */
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
      // The connection was lost meanwhile, so the broker delivers the items again.
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
