/** The attempts that this worker holds, by id. A second delivery of a held attempt replaces one whose channel broke. */
import type { Delivery } from "../../net/amqp/delivery.ts";
import type { EnumerateMessage } from "../../protocol/amqp-wire.ts";
import { attemptPrefix, beatsOf, encodeAttempt } from "../../protocol/attempt-id.ts";
import type { Beat, ReportedAttempt } from "../../protocol/work.ts";

interface HeldOne {
  readonly id: string;
  readonly at: ReportedAttempt;
  delivery: Delivery;
  /** When it was delivered. */
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

/** A command. If no engine marked it, its id is made here, and the sender finds its receipt by its hashes. */
export interface HeldCommand extends HeldOne {
  readonly kind: "command";
  readonly command: Readonly<Record<string, unknown>>;
  readonly receiptTopic: string;
}

export type Held = HeldTask | HeldEnumeration | HeldCommand;

/** The most receipts that are kept because their delivery was lost. Such an attempt will be delivered again. */
const RECEIPTS_MAX = 1_000;

export class HeldAttempts {
  readonly #held = new Map<string, Held>();
  readonly #receipts = new Map<string, Buffer>();
  readonly #counts = new Map<string, number>();
  readonly #onEmpty: (taskQueue: string) => void;

  /** `onEmpty` is called when no attempt of a task queue is held any more. */
  constructor(onEmpty: (taskQueue: string) => void) {
    this.#onEmpty = onEmpty;
  }

  get size(): number {
    return this.#held.size;
  }

  get(at: ReportedAttempt): Held | undefined {
    return this.#held.get(encodeAttempt(at));
  }

  /** The attempt with this id, if it is held. */
  find(id: string): Held | undefined {
    return this.#held.get(id);
  }

  /** Adds a delivery. Returns false if its attempt is held already, or has a receipt; `publishAgain` gets that receipt. */
  add(held: Held, publishAgain: (body: Buffer) => void): boolean {
    const same = this.#held.get(held.id);
    if (same !== undefined) {
      // Each attempt needs only one delivery.
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

  /** Whether the attempt is held, or has a receipt here. */
  knows(id: string): boolean {
    return this.#held.has(id) || this.#receipts.has(id);
  }

  giveBack(held: Held): void {
    held.delivery.nack();
    this.#drop(held);
  }

  /** Acknowledges the delivery without a receipt, so that it is not delivered again. */
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

  /** The tasks of a task queue, or the enumeration of an intake, in the form in which a worker cancels attempts. */
  beatsOf(taskQueue: string): readonly Beat[] {
    return this.#beats((held) => queueOf(held) === taskQueue);
  }

  /** The commands that match, in the form in which a worker cancels attempts. */
  commandBeats(matches: (at: ReportedAttempt) => boolean): readonly Beat[] {
    return this.#beats(({ kind, at }) => kind === "command" && matches(at));
  }

  #beats(matches: (held: Held) => boolean): readonly Beat[] {
    return beatsOf([...this.#held.values()].filter(matches).map(({ at }) => at));
  }

  /** Keeps a receipt for an attempt that will be delivered again. */
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

/** The commands that `cancel.consumer` named, so that later copies do not run. The oldest are forgotten. */
export class CancelledCommands {
  /** The last cancelled attempt of each task. */
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

/** A retry of the execution starts a new round, whose commands have other keys. */
function keyOf(at: ReportedAttempt): string {
  return `${attemptPrefix(at)}${at.task}`;
}
