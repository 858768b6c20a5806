/** What nobody can use is kept, with the queue that it was in and the reason, behind an exchange of its own. */
import type { Channel, ConsumeMessage } from "amqplib";
import type { BrokerNames } from "./names.ts";
import type { Publisher } from "./publisher.ts";

/** Most of them that are kept; the oldest go. */
const KEPT_MAX = 100_000;

export class DeadLetters {
  readonly #names: BrokerNames;
  readonly #publisher: Publisher;
  #count = 0;

  constructor(names: BrokerNames, publisher: Publisher) {
    this.#names = names;
    this.#publisher = publisher;
  }

  /** How many since the start. */
  get count(): number {
    return this.#count;
  }

  /** Makes the exchange, and a queue behind it. */
  async declare(channel: Channel): Promise<void> {
    const { dead } = this.#names;
    await channel.assertExchange(dead, "fanout", { durable: true });
    await channel.assertQueue(dead, { durable: true, arguments: { "x-max-length": KEPT_MAX } });
    await channel.bindQueue(dead, dead, "");
  }

  /** Puts a message there; `done` when it is safe. */
  put(message: ConsumeMessage, from: { queue: string; reason: string }, done: () => void): void {
    this.#count++;
    this.#publisher.publish({
      exchange: this.#names.dead,
      key: from.queue.slice(0, 255),
      id: `dead~${this.#count}~${message.fields.deliveryTag}`,
      body: message.content,
      headers: { queue: from.queue, reason: from.reason.slice(0, 1_000) },
      done,
    });
  }
}
