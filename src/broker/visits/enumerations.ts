/**
 * Enumerations at workers of the broker. Each attempt has a queue of its own for what it finds, the intake: that is
 * journaled page by page, in the order of positions, and acknowledged after its commit. `enumerated` comes on a queue
 * that all share, so it may come first: the enumeration ends when everything that it counts is journaled.
 */
import type { EnginePort } from "../../engine/engine-port.ts";
import { LIMITS } from "../../kernel/definition/definition.ts";
import { type EnumerationOutcome, endsEnumeration } from "../../kernel/message.ts";
import { encodeAttempt } from "../../protocol/attempt-id.ts";
import { readFields } from "../../protocol/read-body.ts";
import type { ReportedAttempt } from "../../protocol/work.ts";
import { assert } from "../../std/assert.ts";
import { isRejection } from "../../std/rejection.ts";
import type { BrokerSession } from "../broker-link.ts";
import { notStorable, type ReadItem, readItems, readTaskReport, type TaskReport } from "../read-message.ts";
import type { Delivery, ReceiptInbox } from "./receipt-inbox.ts";

export interface EnumerationParts {
  readonly worker: string;
  readonly engine: EnginePort;
  readonly words: ReceiptInbox;
  readonly onFault: (fault: Error) => void;
  /** Identities count; without it they are ignored. */
  readonly byIdentity: boolean;
  /** Deliveries that a consumer has at a time: what is missing cannot come behind so many. */
  readonly prefetch: number;
  /** It has ended: its intake can go. */
  readonly onEnd: (enumeration: Enumeration) => void;
}

interface Item extends ReadItem {
  /** The message that it ends; null: others of the same message follow, and it is acknowledged with the last. */
  readonly delivery: Delivery | null;
}

/** Items that came before those that they follow, at most. */
const EARLY_MAX = 10_000;
/** Looks at an empty intake that lacks items, after `enumerated`, before the attempt has failed. */
const STRIKES_MAX = 2;

export class Enumeration {
  readonly at: ReportedAttempt;
  readonly id: string;
  readonly intake: string;
  readonly #parts: EnumerationParts;
  /** Items that are journaled or on their way there: the position of the next. */
  #next: number;
  #first: number;
  #items: Item[] = [];
  readonly #early = new Map<number, Item>();
  #isReporting = false;
  /** It is reported that items do not come. */
  #isFailing = false;
  #word: { readonly outcome: EnumerationOutcome; readonly delivery: Delivery } | null = null;
  #isOver = false;
  #strikes = 0;

  /** `known`: tasks that are journaled already. */
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

  /** Nothing of it has come. */
  get isUntouched(): boolean {
    return this.#next === this.#first && this.#items.length === 0 && this.#word === null;
  }

  /** The broker was lost: whatever was not acknowledged comes again. */
  detach(): void {
    this.#next -= this.#items.length;
    this.#items = [];
    this.#early.clear();
    this.#word = null;
  }

  /** A message in the intake. */
  found(delivery: Delivery): void {
    const { words } = this.#parts;
    if (this.#isOver) return words.acknowledge(delivery);
    this.#strikes = 0;
    const fields = readFields(delivery.message.content);
    // Another node got the last word on it, and passed it on.
    if (!isRejection(fields) && fields["position"] === undefined && fields["token"] !== undefined) {
      const word = readTaskReport(fields, this.#parts.engine.info.key);
      if (isRejection(word)) return words.refuse(delivery, word.message);
      if (encodeAttempt(word.at) === this.id) return this.ended(word, delivery);
      return words.refuse(delivery, "`attempt` is not that of the enumeration");
    }
    const items = isRejection(fields) ? fields : readItems(fields, this.at, this.#parts.engine.info.key);
    if (isRejection(items)) {
      words.refuse(delivery, items.message);
      if (items.code === "not_storable" || items.code === "too_large" || items.code === "too_deep")
        this.#report(notStorable(items), null);
      return;
    }
    const { byIdentity } = this.#parts;
    const [first] = items;
    // What is named by identity is told from the beginning each time.
    if (this.isUntouched && byIdentity && (first?.identity ?? null) !== null && this.#early.size === 0)
      this.#next = this.#first = 0;
    items.forEach((item, i) => {
      const identity = byIdentity ? item.identity : null;
      this.#take({ ...item, identity, delivery: i === items.length - 1 ? delivery : null });
    });
    for (let early = this.#early.get(this.#next); early !== undefined; early = this.#early.get(this.#next)) {
      this.#early.delete(early.position);
      this.#push(early);
    }
    if (this.#hasGap && !this.#isFailing)
      return this.#missing(`task ${this.#next} has not come, ${this.#early.size} behind it have`);
    this.#goOn();
  }

  /** So much has come out of order that what is missing is lost, or cannot be delivered. */
  get #hasGap(): boolean {
    if (this.#early.size === 0) return false;
    let deliveries = 0;
    for (const { delivery } of this.#early.values()) if (delivery !== null) deliveries++;
    return deliveries >= this.#parts.prefetch || this.#early.size > EARLY_MAX;
  }

  /** The attempt has failed: it is asked for again by policy, from what is journaled. */
  #missing(message: string): void {
    this.#isFailing = true;
    const error = { name: "TasksMissing", code: "tasks_missing", message };
    this.#report({ status: "failed", payload: JSON.stringify(error) }, this.#word?.delivery ?? null);
  }

  /** Whoever has it says nothing, again and again: it counts as a crash. */
  crashed(times: number): void {
    if (this.#isReporting || this.#isOver) return;
    const message = `workers took the enumeration ${times} times and said nothing`;
    const error = { name: "Crashed", code: "crashed", message };
    this.#report({ status: "crashed", payload: JSON.stringify(error) }, null);
  }

  #take(item: Item): void {
    // Said before, by this worker or by one that has begun anew.
    if (item.position < this.#next) return this.#acknowledge(item.delivery);
    if (item.position === this.#next) return this.#push(item);
    const known = this.#early.get(item.position);
    if (known !== undefined) this.#acknowledge(known.delivery);
    this.#early.set(item.position, item);
  }

  #acknowledge(delivery: Delivery | null): void {
    if (delivery !== null) this.#parts.words.acknowledge(delivery);
  }

  /** `enumerated`. */
  ended({ outcome }: TaskReport, delivery: Delivery): void {
    const { words } = this.#parts;
    assert(endsEnumeration(outcome), "the end of an enumeration is read with its total");
    if (this.#isOver) return words.acknowledge(delivery);
    if (this.#word !== null) words.acknowledge(this.#word.delivery);
    this.#word = { outcome, delivery };
    this.#goOn();
  }

  /** Whether it lacks items that do not come; `session` to look at the intake. */
  async look(session: BrokerSession): Promise<void> {
    if (this.#word === null || this.#isReporting || this.#isOver || this.#items.length > 0) return;
    const counts = await session.look(this.intake);
    if (counts !== null && counts.ready > 0) return;
    const { total } = this.#word.outcome;
    if (++this.#strikes < STRIKES_MAX) return;
    this.#missing(`the enumerator says ${total} tasks, ${this.#next} have come`);
  }

  /** It is of no use any more. */
  end(): void {
    this.#isOver = true;
    const { words } = this.#parts;
    for (const { delivery } of [...this.#items, ...this.#early.values()]) this.#acknowledge(delivery);
    if (this.#word !== null) words.acknowledge(this.#word.delivery);
    this.#items = [];
    this.#early.clear();
    this.#word = null;
  }

  #push(item: Item): void {
    this.#items.push(item);
    this.#next++;
  }

  #goOn(): void {
    if (this.#isReporting || this.#isOver) return;
    if (this.#items.length > 0) return this.#page();
    if (this.#word === null) return;
    const { outcome } = this.#word;
    // Not all that it counts has come.
    if (outcome.status === "done" && outcome.total > this.#next) return;
    this.#report(outcome, this.#word.delivery);
  }

  /** One page at a time, as large as it may be. */
  #page(): void {
    const { engine, worker, words } = this.#parts;
    let count = 0;
    let chars = 0;
    while (count < this.#items.length && count < LIMITS.pageTasks && chars < LIMITS.pageBytes / 2)
      chars += (this.#items[count++] as Item).task.length;
    const items = this.#items.slice(0, count);
    const { task: _, ...place } = this.at;
    const [first] = items;
    const keyed = items.some(({ key }) => key !== null);
    const named = items.some(({ identity }) => identity !== null);
    this.#isReporting = true;
    const page = {
      kind: "page" as const,
      ...place,
      from: first?.position ?? 0,
      tasks: items.map(({ task }) => task),
      keys: keyed ? items.map(({ key }) => key ?? "") : null,
      identities: named ? items.map(({ identity }) => identity ?? "") : null,
    };
    engine.report(worker, [page]).then(([verdicts]) => {
      this.#isReporting = false;
      const verdict = verdicts?.[0];
      if (engine.hasStopped) return;
      // The broker was lost meanwhile: all of it comes again, or has by now.
      if (this.#items[0] !== first) return this.#goOn();
      this.#items.splice(0, items.length);
      for (const { delivery } of items) {
        if (delivery === null) continue;
        if (verdict === "elsewhere" || verdict === undefined) words.putBack(delivery);
        else words.acknowledge(delivery);
      }
      if (verdict === "stale" || verdict === "gone") return this.#finish();
      if (verdict === "elsewhere" || verdict === undefined) this.#next -= items.length;
      this.#goOn();
    }, this.#parts.onFault);
  }

  #report(outcome: EnumerationOutcome, delivery: Delivery | null): void {
    const { engine, worker, words } = this.#parts;
    const { task: _, ...place } = this.at;
    this.#isReporting = true;
    engine.report(worker, [{ kind: "enumeration", ...place, ms: 0, outcome }]).then(([verdicts]) => {
      this.#isReporting = false;
      const verdict = verdicts?.[0];
      if (engine.hasStopped || this.#isOver) return;
      if (verdict === undefined || verdict === "elsewhere") {
        if (delivery !== null) words.putBack(delivery);
        this.#word = null;
        this.#isFailing = false;
        return;
      }
      this.#finish();
    }, this.#parts.onFault);
  }

  #finish(): void {
    this.end();
    this.#parts.onEnd(this);
  }
}
