/**
 * Publishes to queues, durable and confirmed: what is not confirmed when the connection breaks is published again over
 * the next one, so it may come twice and is never lost. What no queue takes is tried again a few times, since queues
 * are made anew after a loss.
 */
import type { ConfirmChannel } from "amqplib";
import { messageIdOf } from "../../protocol/amqp-wire.ts";
import type { Clock } from "../../std/clock.ts";

export type Published = "confirmed" | "unroutable";

/** One message. */
export interface Outgoing {
  /** Left out: the default exchange. */
  readonly exchange?: string;
  readonly queue: string;
  /** Tells it apart from all others that are under way. */
  readonly id: string;
  readonly body: Buffer;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly expiration?: string;
  /** Its end, once. */
  readonly done: (published: Published) => void;
}

interface Entry extends Outgoing {
  unroutable: number;
}

const TRIES_MAX = 7;
const AGAIN_MS = 100;

export class Publisher {
  readonly #clock: Clock;
  readonly #entries = new Map<string, Entry>();
  readonly #returned = new Set<string>();
  #channel: ConfirmChannel | null = null;
  #onEmpty: (() => void)[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Messages under way. */
  get size(): number {
    return this.#entries.size;
  }

  /** From now on over this channel, beginning with what is not confirmed. */
  attach(channel: ConfirmChannel): void {
    this.#channel = channel;
    this.#returned.clear();
    channel.on("return", ({ properties }) => this.#returned.add(String(properties.messageId)));
    channel.on("close", () => {
      if (this.#channel === channel) this.#channel = null;
    });
    for (const entry of this.#entries.values()) this.#publish(entry);
  }

  publish(message: Outgoing): void {
    const entry = { ...message, unroutable: 0 };
    this.#entries.set(message.id, entry);
    this.#publish(entry);
  }

  /** Resolves when nothing is under way. */
  empty(): Promise<void> {
    return this.#entries.size === 0
      ? Promise.resolve()
      : new Promise((resolve) => this.#onEmpty.push(resolve));
  }

  #publish(entry: Entry): void {
    const channel = this.#channel;
    if (channel === null) return;
    const options = {
      persistent: true,
      mandatory: true,
      contentType: "application/json",
      messageId: messageIdOf(entry.id),
      ...(entry.headers === undefined ? {} : { headers: entry.headers }),
      ...(entry.expiration === undefined ? {} : { expiration: entry.expiration }),
    };
    try {
      channel.publish(entry.exchange ?? "", entry.queue, entry.body, options, (error) => {
        // Over another channel it is published again.
        if (this.#channel === channel) this.#heard(entry, error === null);
      });
    } catch (thrown) {
      // The channel is closing: what is not confirmed goes over the next one.
      if (!(thrown instanceof Error && thrown.name === "IllegalOperationError")) throw thrown;
    }
  }

  #heard(entry: Entry, isConfirmed: boolean): void {
    const { id } = entry;
    if (this.#entries.get(id) !== entry) return;
    const isReturned = this.#returned.delete(messageIdOf(id));
    // Queues of a visit are made anew after a loss; what is behind an exchange is its publisher's concern.
    const mayComeBack = isReturned && entry.exchange === undefined && ++entry.unroutable < TRIES_MAX;
    if (!isConfirmed || mayComeBack) {
      this.#clock.after(AGAIN_MS * 2 ** entry.unroutable, () => {
        if (this.#entries.get(id) === entry) this.#publish(entry);
      });
      return;
    }
    this.#entries.delete(id);
    entry.done(isReturned ? "unroutable" : "confirmed");
    if (this.#entries.size === 0) for (const empty of this.#onEmpty.splice(0)) empty();
  }
}
