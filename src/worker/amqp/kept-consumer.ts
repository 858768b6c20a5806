/** Consumes a queue for as long as there is a connection: one that is deleted is declared again. */
import type { ChannelModel } from "amqplib";
import type { Clock } from "../../std/clock.ts";
import { Consumer, type ConsumerOptions } from "./consumer.ts";

export interface KeptConsumerOptions extends Omit<ConsumerOptions, "onGone"> {
  readonly clock: Clock;
  /** It had to be declared again. */
  readonly onNote: (what: string) => void;
  /** It consumes, or why it does not. */
  readonly onOpened?: (failure: Error | null) => void;
}

const AGAIN_MS = 500;

export class KeptConsumer {
  readonly #options: KeptConsumerOptions;
  #connection: ChannelModel | null = null;
  #consumer: Consumer | null = null;

  constructor(options: KeptConsumerOptions) {
    this.#options = options;
  }

  /** Consumes over this connection. */
  async attach(connection: ChannelModel): Promise<void> {
    this.#connection = connection;
    await this.#open(connection);
  }

  detach(): void {
    this.#connection = null;
  }

  /** Consumes no more; what was delivered may still be acknowledged. */
  async stop(): Promise<void> {
    this.#connection = null;
    await this.#consumer?.cancel();
  }

  async #open(connection: ChannelModel): Promise<void> {
    const { clock, onNote, onOpened } = this.#options;
    const consumer = new Consumer({
      ...this.#options,
      onGone: (why) => {
        // With the connection everything is made again.
        if (this.#connection !== connection || this.#consumer !== consumer) return;
        onNote(`a queue is declared again: ${why}`);
        clock.after(AGAIN_MS, () => {
          // It tells by itself how it ended.
          if (this.#connection === connection) void this.#open(connection);
        });
      },
    });
    this.#consumer = consumer;
    const failure = await consumer.open(connection);
    onOpened?.(failure);
  }
}
