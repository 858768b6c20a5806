/**
 * Consumes one queue over a channel of its own, so that a queue that is not there harms no other. The channel outlives
 * the consuming: what was delivered is acknowledged over it.
 */
import type { Channel, ChannelModel, ConsumeMessage } from "amqplib";
import { NoAnswer } from "./broker-link.ts";

/** A message that is acknowledged over the channel that brought it, or not at all. */
export class Delivery {
  readonly message: ConsumeMessage;
  readonly #lane: Lane;

  constructor(message: ConsumeMessage, lane: Lane) {
    this.message = message;
    this.#lane = lane;
  }

  /** The broker still counts on us for it. */
  get isOpen(): boolean {
    return this.#lane.isOpen;
  }

  ack(): void {
    if (this.isOpen) this.#lane.channel.ack(this.message);
  }

  /** Gives it back to its queue. */
  nack(): void {
    if (this.isOpen) this.#lane.channel.nack(this.message, false, true);
  }
}

interface Lane {
  readonly channel: Channel;
  isOpen: boolean;
}

export interface ConsumerOptions {
  /** Declares what is needed; answers the queue. */
  readonly prepare: (channel: Channel) => Promise<string>;
  /** Messages that may be unacknowledged at a time. */
  readonly prefetch: () => number;
  readonly onDelivery: (delivery: Delivery) => void;
  /** The queue is gone, was never there, or the broker closed the channel; not called when the connection breaks. */
  readonly onGone: (why: string) => void;
  /** Throws a `NoAnswer` when the broker has had long enough. */
  readonly answered: <T>(work: Promise<T>) => Promise<T>;
}

export class Consumer {
  readonly #options: ConsumerOptions;
  #lane: Lane | null = null;
  #queue = "";
  #tag: string | null = null;
  #isClosed = false;
  #prefetch = 0;
  /** Messages that it has had. */
  deliveries = 0;

  constructor(options: ConsumerOptions) {
    this.#options = options;
  }

  /** The one it was opened with. */
  get prefetch(): number {
    return this.#prefetch;
  }

  /** Begins to consume; answers why it does not, if so. */
  async open(connection: ChannelModel): Promise<Error | null> {
    let lane: Lane | null = null;
    try {
      const channel = await connection.createChannel();
      lane = { channel, isOpen: true };
      await this.#open(lane);
      return null;
    } catch (thrown) {
      if (!(thrown instanceof Error)) throw thrown;
      // A channel that broke has said so; so does a connection, to its owner.
      if (thrown instanceof NoAnswer && lane !== null) {
        lane.isOpen = false;
        lane.channel.close().catch(() => {});
        this.#gone(lane, thrown.message);
      }
      return thrown;
    }
  }

  async #open(lane: Lane): Promise<void> {
    const { channel } = lane;
    const { prepare, answered } = this.#options;
    this.#lane = lane;
    channel.on("error", (error) => {
      lane.isOpen = false;
      this.#gone(lane, error.message);
    });
    channel.on("close", () => {
      lane.isOpen = false;
    });
    this.#queue = await answered(prepare(channel));
    await answered(this.#consume(lane));
  }

  /** Takes on the prefetch that is right now. */
  async renew(): Promise<void> {
    const lane = this.#lane;
    const tag = this.#tag;
    if (lane === null || tag === null || !lane.isOpen) return;
    this.#tag = null;
    try {
      await lane.channel.cancel(tag);
      if (!this.#isClosed && lane.isOpen) await this.#consume(lane);
    } catch (thrown) {
      if (!(thrown instanceof Error)) throw thrown;
    }
  }

  /** Consumes no more; what was delivered may still be acknowledged. */
  async cancel(): Promise<void> {
    const lane = this.#lane;
    const tag = this.#tag;
    this.#isClosed = true;
    this.#tag = null;
    if (lane === null || tag === null || !lane.isOpen) return;
    // A channel that breaks meanwhile consumes no more either.
    await lane.channel.cancel(tag).catch(() => {});
  }

  /** The channel too: whatever is not acknowledged is delivered again. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const lane = this.#lane;
    if (lane?.isOpen === true) await lane.channel.close().catch(() => {});
  }

  async #consume(lane: Lane): Promise<void> {
    const prefetch = this.#options.prefetch();
    this.#prefetch = prefetch;
    await lane.channel.prefetch(prefetch);
    const onMessage = (message: ConsumeMessage | null): void => {
      if (message === null) {
        this.#gone(lane, "the queue is gone");
        return;
      }
      this.deliveries++;
      this.#options.onDelivery(new Delivery(message, lane));
    };
    const { consumerTag } = await lane.channel.consume(this.#queue, onMessage);
    this.#tag = consumerTag;
    if (this.#isClosed) await this.cancel();
  }

  #gone(lane: Lane, why: string): void {
    if (this.#lane !== lane) return;
    this.#tag = null;
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#options.onGone(why);
  }
}
