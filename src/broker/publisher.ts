/**
 * Publishes, durable and confirmed: what is not confirmed when the connection breaks is published again over the next
 * one, so it may come twice and is never lost. What finds no queue is told to whoever published it.
 */
import type { ConfirmChannel, Options } from "amqplib";
import { messageIdOf } from "../protocol/amqp-wire.ts";
import type { Clock } from "../std/clock.ts";

export interface Outgoing {
  readonly exchange?: string;
  readonly key: string;
  /** Tells it apart from all others that are under way. */
  readonly id: string;
  readonly body: Buffer;
  /** That no queue takes it matters. */
  readonly mandatory?: boolean;
  /** It is said again by whoever says it: over another connection it is not. */
  readonly isRepeated?: boolean;
  /** How long it is of use. */
  readonly expirationMs?: number;
  /** Where the answer goes. */
  readonly replyTo?: string;
  readonly headers?: Readonly<Record<string, string | readonly string[]>>;
  /** Its end, once; false: no queue took it. */
  readonly done?: (isRouted: boolean) => void;
}

const AGAIN_MS = 100;

export class Publisher {
  readonly #clock: Clock;
  readonly #entries = new Map<string, Outgoing>();
  readonly #returned = new Set<string>();
  /** Messages that were withdrawn before they were confirmed, and who waits until they cannot arrive any more. */
  readonly #withdrawn = new Map<string, () => void>();
  readonly #onSize: (count: number) => void;
  #channel: ConfirmChannel | null = null;
  #onEmpty: (() => void)[] = [];
  published = 0;

  /** `onSize` hears how much is under way whenever that gets more or less. */
  constructor(clock: Clock, onSize: (count: number) => void = () => {}) {
    this.#clock = clock;
    this.#onSize = onSize;
  }

  /** Messages that are not confirmed. */
  get size(): number {
    return this.#entries.size;
  }

  /** From now on over this channel, beginning with what is not confirmed. */
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

  publish(message: Outgoing): void {
    this.#entries.set(message.id, message);
    this.#send(message);
    this.#onSize(this.#entries.size);
  }

  /** Whether a message is under way: given to this publisher, and not confirmed. */
  has(id: string): boolean {
    return this.#entries.has(id);
  }

  /** Takes back what is not confirmed and not wanted any more. */
  forget(isUnwanted: (message: Outgoing) => boolean): void {
    for (const [id, message] of this.#entries) if (isUnwanted(message)) this.#entries.delete(id);
    this.#noteSize();
  }

  /**
   * Takes a message back. The broker may get it all the same if it is on its way: `then` is called once the broker has
   * confirmed it, or the connection has gone.
   */
  withdraw(id: string, then: () => void): void {
    const isUnderWay = this.#entries.delete(id) && this.#channel !== null;
    this.#noteSize();
    if (isUnderWay) this.#withdrawn.set(id, then);
    else then();
  }

  /** Resolves when all is confirmed, or after so long. */
  emptyWithin(ms: number): Promise<void> {
    if (this.#entries.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const stop = this.#clock.after(ms, resolve);
      this.#onEmpty.push(() => {
        stop();
        resolve();
      });
    });
  }

  #send(message: Outgoing): void {
    const channel = this.#channel;
    if (channel === null) return;
    const { exchange = "", key, id, body, mandatory = false, expirationMs, headers, replyTo } = message;
    const options: Options.Publish = {
      persistent: true,
      mandatory,
      contentType: "application/json",
      messageId: messageIdOf(id),
      ...(expirationMs === undefined ? {} : { expiration: String(expirationMs) }),
      ...(headers === undefined ? {} : { headers }),
      ...(replyTo === undefined ? {} : { replyTo }),
    };
    try {
      channel.publish(exchange, key, body, options, (error) => {
        // Over another channel it is published again.
        if (this.#channel === channel) this.#heard(message, error === null);
      });
    } catch (thrown) {
      // The channel is closing: what is not confirmed goes over the next one.
      if (!(thrown instanceof Error && thrown.name === "IllegalOperationError")) throw thrown;
    }
  }

  #heard(message: Outgoing, isConfirmed: boolean): void {
    const { id, done } = message;
    const isReturned = this.#returned.delete(messageIdOf(id));
    const withdrawn = this.#withdrawn.get(id);
    if (withdrawn !== undefined) {
      this.#withdrawn.delete(id);
      return withdrawn();
    }
    if (this.#entries.get(id) !== message) return;
    if (!isConfirmed) {
      this.#clock.after(AGAIN_MS, () => {
        if (this.#entries.get(id) === message) this.#send(message);
      });
      return;
    }
    this.#entries.delete(id);
    this.published++;
    done?.(!isReturned);
    this.#noteSize();
  }

  #noteSize(): void {
    this.#onSize(this.#entries.size);
    if (this.#entries.size === 0) for (const empty of this.#onEmpty.splice(0)) empty();
  }
}
