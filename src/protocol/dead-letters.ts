/**
 * The dead-letter queue at a broker, as the engine and its workers use it. A message that cannot be read is published to
 * the fanout `<prefix>.dead` with the headers `queue` and `reason`. Its delivery may be acknowledged only when the broker
 * has confirmed the copy, so that no message is dropped. A queue that was deleted is declared again.
 */
import { cutToBytes } from "../kernel/definition/names.ts";
import type { Clock } from "../std/clock.ts";

/** The part of an AMQP channel that declares the exchange and its queue. */
export interface DeclaringChannel {
  assertExchange(name: string, type: "fanout", options: { durable: boolean }): PromiseLike<unknown>;
  assertQueue(name: string, options: { durable: boolean; arguments: object }): PromiseLike<unknown>;
  bindQueue(queue: string, exchange: string, key: string): PromiseLike<unknown>;
}

/** A message for the dead-letter exchange. */
export interface DeadLetter {
  readonly exchange: string;
  readonly key: string;
  /** Unique among the messages that its publisher has under way. */
  readonly id: string;
  readonly body: Buffer;
  readonly headers: { readonly queue: string; readonly reason: string };
}

export interface DeadLettersParts {
  /** The name of the exchange and of its queue. */
  readonly dead: string;
  readonly clock: Clock;
  /** Publishes with confirms; calls `done` once the broker has confirmed, false: no queue is bound to the exchange. */
  readonly publish: (letter: DeadLetter, done: (isRouted: boolean) => void) => void;
  /** Declares the exchange and the queue, by `declareDead`. */
  readonly declare: () => Promise<void>;
  readonly onFault: (thrown: unknown) => void;
}

/** The queue holds this many messages; RabbitMQ then drops the oldest. */
const KEPT_MAX = 100_000;
const AGAIN_MS = 200;
const REASON_CHARS_MAX = 1_000;
const KEY_BYTES_MAX = 255;

/** Declares the exchange and binds its queue. */
export async function declareDead(channel: DeclaringChannel, dead: string): Promise<void> {
  await channel.assertExchange(dead, "fanout", { durable: true });
  await channel.assertQueue(dead, { durable: true, arguments: { "x-max-length": KEPT_MAX } });
  await channel.bindQueue(dead, dead, "");
}

export class DeadLetters {
  readonly #parts: DeadLettersParts;
  #count = 0;

  constructor(parts: DeadLettersParts) {
    this.#parts = parts;
  }

  /** Messages put there since the start. */
  get count(): number {
    return this.#count;
  }

  /** Publishes a copy of a message; calls `done` when the broker has confirmed it. */
  put(body: Buffer, from: { queue: string; reason: string }, done: () => void): void {
    this.#count++;
    const letter: DeadLetter = {
      exchange: this.#parts.dead,
      key: cutToBytes(from.queue, KEY_BYTES_MAX),
      id: `dead~${this.#count}`,
      body,
      headers: { queue: from.queue, reason: from.reason.slice(0, REASON_CHARS_MAX) },
    };
    this.#publish(letter, done);
  }

  #publish(letter: DeadLetter, done: () => void): void {
    const { publish, clock, declare, onFault } = this.#parts;
    const again = (): void => void clock.after(AGAIN_MS, () => this.#publish(letter, done));
    publish(letter, (isRouted) => {
      if (isRouted) return done();
      declare().then(again, (thrown: unknown) => {
        onFault(thrown);
        again();
      });
    });
  }
}
