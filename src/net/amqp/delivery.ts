/** A delivered message. It can only be acknowledged over the channel that delivered it. */
import type { Channel, ConsumeMessage } from "amqplib";

/** A channel, and whether its deliveries can still be acknowledged. */
export interface Lane {
  readonly channel: Channel;
  isOpen: boolean;
}

export function watchLane(channel: Channel): Lane {
  const lane = { channel, isOpen: true };
  const end = (): void => {
    lane.isOpen = false;
  };
  channel.on("error", end);
  channel.on("close", end);
  return lane;
}

export class Delivery {
  readonly message: ConsumeMessage;
  readonly queue: string;
  readonly #lane: Lane;

  constructor(message: ConsumeMessage, queue: string, lane: Lane) {
    this.message = message;
    this.queue = queue;
    this.#lane = lane;
  }

  /** Whether the delivery can still be acknowledged. If not, the broker delivers the message again. */
  get isOpen(): boolean {
    return this.#lane.isOpen;
  }

  ack(): void {
    if (this.isOpen) unlessClosing(() => this.#lane.channel.ack(this.message));
  }

  nack(): void {
    if (this.isOpen) unlessClosing(() => this.#lane.channel.nack(this.message, false, true));
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
