/** A delivered message. It can only be acknowledged over the channel that delivered it. */
import type { Channel, ConsumeMessage } from "amqplib";

/**
 * A channel with its unacknowledged deliveries. It sends the acknowledgements of one turn of the event loop as one frame
 * (`multiple`), up to the oldest delivery that stays unacknowledged.
 */
export class Lane {
  readonly channel: Channel;
  /** Whether deliveries can still be acknowledged. */
  isOpen = true;
  /** The tags of the deliveries that are neither acknowledged nor returned, in ascending order. */
  readonly #open = new Set<number>();
  /** Deliveries that are acknowledged at the end of this turn of the event loop. */
  #acked: ConsumeMessage[] = [];

  constructor(channel: Channel) {
    this.channel = channel;
    const end = (): void => {
      this.isOpen = false;
    };
    channel.on("error", end);
    channel.on("close", end);
  }

  /** Called for each message that the channel delivers. */
  onDelivered({ fields }: ConsumeMessage): void {
    this.#open.add(fields.deliveryTag);
  }

  ack(message: ConsumeMessage): void {
    if (!this.isOpen) return;
    this.#open.delete(message.fields.deliveryTag);
    if (this.#acked.length === 0) queueMicrotask(() => this.flush());
    this.#acked.push(message);
  }

  nack(message: ConsumeMessage): void {
    if (!this.isOpen) return;
    this.#open.delete(message.fields.deliveryTag);
    unlessClosing(() => this.channel.nack(message, false, true));
  }

  /** Sends the acknowledgements that wait for the end of this turn of the event loop. */
  flush(): void {
    const acked = this.#acked;
    this.#acked = [];
    if (!this.isOpen) return;
    const [oldest = Number.POSITIVE_INFINITY] = this.#open;
    let last: ConsumeMessage | null = null;
    unlessClosing(() => {
      for (const message of acked) {
        const { deliveryTag } = message.fields;
        if (deliveryTag > oldest) this.channel.ack(message);
        else if (last === null || deliveryTag > last.fields.deliveryTag) last = message;
      }
      // All deliveries up to `last` are settled now or were settled before, so one frame acknowledges them.
      if (last !== null) this.channel.ack(last, true);
    });
  }
}

export class Delivery {
  readonly message: ConsumeMessage;
  readonly queue: string;
  readonly #lane: Lane;

  constructor(message: ConsumeMessage, queue: string, lane: Lane) {
    this.message = message;
    this.queue = queue;
    this.#lane = lane;
    lane.onDelivered(message);
  }

  /** Whether the delivery can still be acknowledged. If not, the broker delivers the message again. */
  get isOpen(): boolean {
    return this.#lane.isOpen;
  }

  /** Acknowledges the message at the end of this turn of the event loop. */
  ack(): void {
    this.#lane.ack(this.message);
  }

  nack(): void {
    this.#lane.nack(this.message);
  }
}

/** Ignores the error of a channel that is closing: the broker delivers the message again. */
function unlessClosing(answer: () => void): void {
  try {
    answer();
  } catch (thrown) {
    if (!(thrown instanceof Error && thrown.name === "IllegalOperationError")) throw thrown;
  }
}
