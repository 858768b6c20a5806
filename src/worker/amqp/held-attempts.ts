/**
 * The attempts that this worker holds, by id. If a held attempt is delivered again, the new delivery replaces one whose channel
 * broke.
 */

import type { Delivery } from "../../net/amqp/delivery.ts";
import type { EnumerateMessage } from "../../protocol/amqp-wire.ts";
import { attemptPrefix, beatsOf, encodeAttempt } from "../../protocol/attempt-id.ts";
import type { Beat, ReportedAttempt } from "../../protocol/work.ts";
import { TransientMap } from "../../std/transient-map.ts";

interface HeldOne {
  readonly id: string;
  readonly at: ReportedAttempt;
  delivery: Delivery;
  /** When the attempt was delivered. */
  readonly since: number;
  hasStarted?: true;
}

export interface HeldTask extends HeldOne {
  readonly kind: "task";
  readonly token: string;
  readonly taskQueue: string;
  readonly finishedQueue: string;
}

export interface HeldEnumeration extends HeldOne {
  readonly kind: "enumeration";
  readonly message: EnumerateMessage;
}

/**
 * A command that this worker holds. If it was not sent by an engine, this worker makes an id for it, and the sender recognises
 * the receipt by the command's hashes.
 */
export interface HeldCommand extends HeldOne {
  readonly kind: "command";
  readonly command: Readonly<Record<string, unknown>>;
  readonly receiptTopic: string;
}

export type Held = HeldTask | HeldEnumeration | HeldCommand;

/**
 * The most receipts that are kept because the delivery of their attempt was lost. The broker delivers such an attempt again.
 */
const RECEIPTS_MAX = 1_000;

export class HeldAttempts {
  readonly #held = new TransientMap<string, Held>();
  readonly #receipts = new TransientMap<string, Buffer>();
  readonly #counts = new Map<string, number>();
  readonly #onEmpty: (taskQueue: string) => void;

  /** `onEmpty` is called when the worker holds no attempt of a task queue any more. */
  constructor(onEmpty: (taskQueue: string) => void) {
    this.#onEmpty = onEmpty;
  }

  get size(): number {
    return this.#held.size;
  }

  get(at: ReportedAttempt): Held | undefined {
    return this.#held.get(encodeAttempt(at));
  }

  /** Returns the attempt with this id; undefined if this worker does not hold it. */
  find(id: string): Held | undefined {
    return this.#held.get(id);
  }

  /**
   * Adds a delivery. Returns false if this worker holds the attempt already, or has a receipt for it. It calls `publishAgain`
   * with such a receipt.
   */
  add(held: Held, publishAgain: (body: Buffer) => void): boolean {
    const same = this.#held.get(held.id);
    if (same !== undefined) {
      // Each attempt needs only one open delivery, so the second one is acknowledged.
      if (same.delivery.isOpen) held.delivery.ack();
      else same.delivery = held.delivery;
      return false;
    }
    const body = this.#receipts.get(held.id);
    if (body !== undefined) {
      publishAgain(body);
      return false;
    }
    this.#held.set(held.id, held);
    if (held.kind === "task") this.#counts.set(held.taskQueue, this.countOf(held.taskQueue) + 1);
    return true;
  }

  countOf(taskQueue: string): number {
    return this.#counts.get(taskQueue) ?? 0;
  }

  /** Releases an attempt whose receipt `body` the broker has confirmed. */
  release(held: Held, body: Buffer): void {
    this.#receipts.delete(held.id);
    if (held.delivery.isOpen) held.delivery.ack();
    else this.keep(held.id, body);
    this.#drop(held);
  }

  /** Whether this worker holds the attempt or has its receipt. */
  knows(id: string): boolean {
    return this.#held.has(id) || this.#receipts.has(id);
  }

  giveBack(held: Held): void {
    held.delivery.nack();
    this.#drop(held);
  }

  /** Acknowledges the delivery of an attempt without a receipt, so that the broker does not deliver it again. */
  discard(held: Held): void {
    if (held.delivery.isOpen) held.delivery.ack();
    this.#drop(held);
  }

  idsOf(taskQueue: string): readonly string[] {
    const ids: string[] = [];
    for (const held of this.#held.values())
      if (held.kind === "task" && held.taskQueue === taskQueue) ids.push(held.id);
    return ids;
  }

  /** Returns the held tasks of a task queue, or the enumeration of an intake queue, in the form that `Worker.cancel` takes. */
  beatsOf(taskQueue: string): readonly Beat[] {
    return this.#beats((held) => queueOf(held) === taskQueue);
  }

  /** Returns the held commands that match, in the form that `Worker.cancel` takes. */
  commandBeats(matches: (at: ReportedAttempt) => boolean): readonly Beat[] {
    return this.#beats(({ kind, at }) => kind === "command" && matches(at));
  }

  #beats(matches: (held: Held) => boolean): readonly Beat[] {
    return beatsOf([...this.#held.values()].filter(matches).map(({ at }) => at));
  }

  /** Keeps the receipt of an attempt that the broker will deliver again. */
  keep(id: string, body: Buffer): void {
    this.#receipts.set(id, body);
    for (const oldest of this.#receipts.keys()) {
      if (this.#receipts.size <= RECEIPTS_MAX) break;
      this.#receipts.delete(oldest);
    }
  }

  #drop(held: Held): void {
    if (!this.#held.delete(held.id) || held.kind !== "task") return;
    const left = this.countOf(held.taskQueue) - 1;
    if (left > 0) {
      this.#counts.set(held.taskQueue, left);
      return;
    }
    this.#counts.delete(held.taskQueue);
    this.#onEmpty(held.taskQueue);
  }
}

function queueOf(held: Held): string | null {
  if (held.kind === "command") return null;
  return held.kind === "task" ? held.taskQueue : held.message.task_queue;
}

const CANCELLED_MAX = 10_000;

/**
 * Remembers the commands that messages of `cancel.consumer` named, so that later copies of these commands do not run. The
 * oldest entries are dropped.
 */
export class CancelledCommands {
  /** The number of the last cancelled attempt of each task. */
  readonly #attempts = new Map<string, number>();

  add(at: ReportedAttempt): void {
    const key = keyOf(at);
    const attempt = Math.max(at.attempt, this.#attempts.get(key) ?? 0);
    this.#attempts.delete(key);
    this.#attempts.set(key, attempt);
    for (const oldest of this.#attempts.keys()) {
      if (this.#attempts.size <= CANCELLED_MAX) return;
      this.#attempts.delete(oldest);
    }
  }

  /** Whether this attempt, or a later attempt of the same task, was cancelled. */
  has(at: ReportedAttempt): boolean {
    return at.attempt <= (this.#attempts.get(keyOf(at)) ?? -1);
  }
}

/** The key of a command's task. A retry of the execution starts a new round, whose commands have other keys. */
function keyOf(at: ReportedAttempt): string {
  return `${attemptPrefix(at)}${at.task}`;
}
