/**
 * The attempts that this worker has from the broker, by their ids. A delivery of an attempt that is held already is the
 * same attempt again: it takes the place of one whose channel broke, and is not run a second time.
 */
import type { EnumerateMessage } from "../../protocol/amqp-wire.ts";
import { attemptPrefix, encodeAttempt } from "../../protocol/attempt-id.ts";
import type { Beat, ReportedAttempt } from "../../protocol/work.ts";
import { reportPlace } from "../attempt-place.ts";
import type { Delivery } from "./consumer.ts";

interface HeldOne {
  readonly id: string;
  readonly at: ReportedAttempt;
  delivery: Delivery;
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

/** A command. One that no engine marked has an id of this worker's own, and its receipt is told by its hashes. */
export interface HeldCommand extends HeldOne {
  readonly kind: "command";
  readonly command: Readonly<Record<string, unknown>>;
  readonly receiptTopic: string;
}

export type Held = HeldTask | HeldEnumeration | HeldCommand;

/** Words on attempts whose delivery was lost, for when they are delivered once more. */
const SAID_MAX = 1_000;

export class HeldAttempts {
  readonly #held = new Map<string, Held>();
  readonly #said = new Map<string, Buffer>();
  /** By the queue they came out of. */
  readonly #counts = new Map<string, number>();
  readonly #onEmpty: (taskQueue: string) => void;

  /** `onEmpty`: nothing out of this task queue is held any more. */
  constructor(onEmpty: (taskQueue: string) => void) {
    this.#onEmpty = onEmpty;
  }

  get size(): number {
    return this.#held.size;
  }

  get(at: ReportedAttempt): Held | undefined {
    return this.#held.get(encodeAttempt(at));
  }

  /** Takes on a delivery; false: the attempt is here already, or its word was said before. */
  add(held: Held, sayAgain: (body: Buffer) => void): boolean {
    const same = this.#held.get(held.id);
    if (same !== undefined) {
      // Of two deliveries of one attempt one is enough.
      if (same.delivery.isOpen) held.delivery.ack();
      else same.delivery = held.delivery;
      return false;
    }
    const body = this.#said.get(held.id);
    if (body !== undefined) {
      sayAgain(body);
      return false;
    }
    this.#held.set(held.id, held);
    if (held.kind === "task") this.#counts.set(held.taskQueue, this.countOf(held.taskQueue) + 1);
    return true;
  }

  /** How many came out of this queue. */
  countOf(taskQueue: string): number {
    return this.#counts.get(taskQueue) ?? 0;
  }

  /** The last word on it, in this body, has arrived. */
  release(held: Held, body: Buffer): void {
    this.#said.delete(held.id);
    if (held.delivery.isOpen) held.delivery.ack();
    else this.#keep(held.id, body);
    this.#drop(held);
  }

  /** Whether the attempt is here, or its word was said here. */
  knows(id: string): boolean {
    return this.#held.has(id) || this.#said.has(id);
  }

  /** Nobody wants the word on it. */
  giveBack(held: Held): void {
    held.delivery.nack();
    this.#drop(held);
  }

  /** Nobody wants it done: no other worker is to get it. */
  discard(held: Held): void {
    if (held.delivery.isOpen) held.delivery.ack();
    this.#drop(held);
  }

  /** The ids of those that came out of a task queue. */
  idsOf(taskQueue: string): readonly string[] {
    const ids: string[] = [];
    for (const held of this.#held.values())
      if (held.kind === "task" && held.taskQueue === taskQueue) ids.push(held.id);
    return ids;
  }

  /** Those that came out of a task queue, or that fill an intake, as beats. */
  beatsOf(taskQueue: string): readonly Beat[] {
    return this.#beats((held) => queueOf(held) === taskQueue);
  }

  /** The commands that fit, as beats. */
  commandBeats(fits: (at: ReportedAttempt) => boolean): readonly Beat[] {
    return this.#beats(({ kind, at }) => kind === "command" && fits(at));
  }

  #beats(fits: (held: Held) => boolean): readonly Beat[] {
    const beats = new Map<string, Beat & { attempts: Beat["attempts"][number][] }>();
    for (const held of this.#held.values()) {
      if (!fits(held)) continue;
      const place = `${attemptPrefix(held.at)}${held.at.epoch}`;
      const beat = beats.get(place) ?? { ...reportPlace(held.at), attempts: [] };
      const { task, attempt, claim } = held.at;
      beat.attempts.push({ task, attempt, claim });
      beats.set(place, beat);
    }
    return [...beats.values()];
  }

  #keep(id: string, body: Buffer): void {
    this.#said.set(id, body);
    for (const oldest of this.#said.keys()) {
      if (this.#said.size <= SAID_MAX) break;
      this.#said.delete(oldest);
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
