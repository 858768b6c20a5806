/** Publishes durable messages with publisher confirms. Unconfirmed messages are published again over the next connection. */

import type { ConfirmChannel, Options } from "amqplib";
import { fitsProperty, messageIdOf } from "../../protocol/amqp-wire.ts";
import { backOffMs } from "../../std/back-off.ts";
import type { Clock } from "../../std/clock.ts";
import { TransientMap } from "../../std/transient-map.ts";
import { atMost } from "../../std/within.ts";

export interface Outgoing {
  /** The exchange; by default the default exchange, where the key is the queue's name. */
  readonly exchange?: string;
  readonly key: string;
  /** The id of the message, unique among the messages that are not confirmed. */
  readonly id: string;
  readonly body: Buffer;
  /** Whether `done` reports that no queue accepted the message. */
  readonly mandatory?: boolean;
  /**
   * Whether a mandatory message is published again a few times if no queue accepted it: the queue may be about to be declared.
   */
  readonly retryUnrouted?: boolean;
  /** Whether the sender repeats the message by itself, so that it is not published again over the next connection. */
  readonly isRepeated?: boolean;
  /** How long the message may wait in a queue. */
  readonly expirationMs?: number;
  readonly replyTo?: string;
  readonly correlationId?: string;
  readonly headers?: Readonly<Record<string, string | number | readonly string[]>>;
  /** Called once, when the broker has confirmed the message; with false if no queue accepted it. */
  readonly done?: (isRouted: boolean) => void;
}

const UNROUTED_MAX = 7;

export class Publisher {
  readonly #clock: Clock;
  readonly #entries = new TransientMap<string, Outgoing>();
  readonly #returned = new Set<string>();
  /** How often no queue accepted a message, by message id. Counted only for messages with `retryUnrouted`. */
  readonly #unrouted = new Map<string, number>();
  /** Callbacks of messages that were withdrawn before they were confirmed. */
  readonly #withdrawn = new TransientMap<string, () => void>();
  readonly #onSize: (count: number) => void;
  #channel: ConfirmChannel | null = null;
  #onEmpty: (() => void)[] = [];
  published = 0;

  /** `onSize` is called with the number of unconfirmed messages whenever it changes. */
  constructor(clock: Clock, onSize: (count: number) => void = () => {}) {
    this.#clock = clock;
    this.#onSize = onSize;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** Publishes over this channel from now on, first the unconfirmed messages. */
  attach(channel: ConfirmChannel): void {
    this.#channel = channel;
    this.#returned.clear();
    channel.on("return", ({ properties }) => this.#returned.add(String(properties.messageId)));
    for (const entry of [...this.#entries.values()]) this.#send(entry);
  }

  detach(): void {
    this.#channel = null;
    for (const [id, then] of [...this.#withdrawn]) {
      this.#withdrawn.delete(id);
      then();
    }
    this.forget(({ isRepeated }) => isRepeated === true);
  }

  /** Publishes a message. AMQP cannot send a key or property of more than 255 bytes: then no queue accepts the message. */
  publish(message: Outgoing): void {
    const { key, replyTo = "", correlationId = "", done } = message;
    if (![key, replyTo, correlationId].every(fitsProperty)) return done?.(false);
    this.#entries.set(message.id, message);
    this.#send(message);
    this.#onSize(this.#entries.size);
  }

  /** Whether a message is not confirmed yet. */
  has(id: string): boolean {
    return this.#entries.has(id);
  }

  /** Drops unconfirmed messages: they are not published again, and their `done` is not called. */
  forget(isUnwanted: (message: Outgoing) => boolean): void {
    for (const [id, message] of this.#entries) if (isUnwanted(message)) this.#drop(id);
    this.#noteSize();
  }

  /** Withdraws a message. If it was sent already, `then` is called when it is confirmed or the connection is lost. */
  withdraw(id: string, then: () => void): void {
    const isUnderWay = this.#drop(id) && this.#channel !== null;
    this.#noteSize();
    if (isUnderWay) this.#withdrawn.set(id, then);
    else then();
  }

  /** Resolves when all messages are confirmed, or after `ms`. */
  async emptyWithin(ms: number): Promise<void> {
    if (this.#entries.size === 0) return;
    await atMost(this.#clock, ms, new Promise<void>((resolve) => this.#onEmpty.push(resolve)));
  }

  #send(message: Outgoing): void {
    const channel = this.#channel;
    if (channel === null) return;
    const { exchange = "", key, id, body, mandatory = false, expirationMs, headers } = message;
    const { replyTo, correlationId } = message;
    const options: Options.Publish = {
      persistent: true,
      mandatory,
      contentType: "application/json",
      messageId: messageIdOf(id),
      ...(expirationMs === undefined ? {} : { expiration: String(expirationMs) }),
      ...(headers === undefined ? {} : { headers }),
      ...(replyTo === undefined ? {} : { replyTo }),
      ...(correlationId === undefined ? {} : { correlationId }),
    };
    try {
      channel.publish(exchange, key, body, options, (error) => {
        // If the channel has been replaced, the message is published again over the new channel.
        if (this.#channel === channel) this.#settle(message, error === null);
      });
    } catch (thrown) {
      // The channel is closing. The message is published again over the next channel.
      if (!(thrown instanceof Error && thrown.name === "IllegalOperationError")) throw thrown;
    }
  }

  #settle(message: Outgoing, isConfirmed: boolean): void {
    const { id, done } = message;
    const isReturned = this.#returned.delete(messageIdOf(id));
    const withdrawn = this.#withdrawn.get(id);
    if (withdrawn !== undefined) {
      this.#withdrawn.delete(id);
      return withdrawn();
    }
    if (this.#entries.get(id) !== message) return;
    const unrouted = this.#unrouted.get(id) ?? 0;
    const isTriedAgain = isReturned && message.retryUnrouted === true && unrouted + 1 < UNROUTED_MAX;
    if (isTriedAgain) this.#unrouted.set(id, unrouted + 1);
    if (isTriedAgain || !isConfirmed) {
      this.#clock.after(backOffMs(this.#unrouted.get(id) ?? 0, {}), () => {
        if (this.#entries.get(id) === message) this.#send(message);
      });
      return;
    }
    this.#drop(id);
    this.published++;
    done?.(!isReturned);
    this.#noteSize();
  }

  #drop(id: string): boolean {
    this.#unrouted.delete(id);
    return this.#entries.delete(id);
  }

  #noteSize(): void {
    this.#onSize(this.#entries.size);
    if (this.#entries.size === 0) for (const empty of this.#onEmpty.splice(0)) empty();
  }
}
