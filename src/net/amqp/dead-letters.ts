/** The dead-letter queue at the broker. It contains unreadable messages, with the headers `queue` and `reason`. */
import { fitsProperty } from "../../protocol/amqp-wire.ts";
import type { Clock } from "../../std/clock.ts";
import { toFault } from "./broker-fault.ts";
import type { BrokerSession } from "./connection.ts";
import type { Delivery } from "./delivery.ts";
import type { Outgoing, Publisher } from "./publisher.ts";
import type { QueueRepair } from "./queue-repair.ts";

export interface DeadLettersParts {
  /** The common name of the dead-letter exchange and its queue. */
  readonly dead: string;
  readonly clock: Clock;
  readonly publisher: Publisher;
  readonly repair: QueueRepair;
  readonly session: () => BrokerSession | null;
  readonly onFault: (fault: Error) => void;
}

/** The most messages in the dead-letter queue; beyond that, RabbitMQ drops the oldest. */
const LENGTH_MAX = 100_000;
const RETRY_MS = 200;
const REASON_CHARS_MAX = 1_000;

export class DeadLetters {
  readonly #parts: DeadLettersParts;
  #count = 0;

  constructor(parts: DeadLettersParts) {
    this.#parts = parts;
  }

  /** The number of messages put into the dead-letter queue since the start. */
  get count(): number {
    return this.#count;
  }

  async declare(session: BrokerSession): Promise<void> {
    const { dead, repair } = this.#parts;
    await repair.open(session, [dead], () =>
      session.withChannel(async (channel) => {
        await channel.assertExchange(dead, "fanout", { durable: true });
        await channel.assertQueue(dead, { durable: true, arguments: { "x-max-length": LENGTH_MAX } });
        await channel.bindQueue(dead, dead, "");
      }),
    );
  }

  /**
   * Publishes a copy of a message to the dead-letter queue and acknowledges the delivery. `from` names where the message came
   * from, if that is not its queue.
   */
  put(delivery: Delivery, reason: string, from = delivery.queue): void {
    this.#count++;
    const copy: Outgoing = {
      exchange: this.#parts.dead,
      key: fitsProperty(from) ? from : "",
      id: `dead~${this.#count}`,
      body: delivery.message.content,
      mandatory: true,
      headers: { queue: from, reason: reason.slice(0, REASON_CHARS_MAX) },
      done: (isRouted) => {
        if (isRouted) delivery.ack();
        else void this.#publishAgain(copy);
      },
    };
    this.#parts.publisher.publish(copy);
  }

  /** Declares the dead-letter queue and publishes the copy again, because no queue accepted it. */
  async #publishAgain(copy: Outgoing): Promise<void> {
    const { session, clock, publisher, onFault } = this.#parts;
    const current = session();
    if (current !== null) await this.declare(current).catch((thrown: unknown) => onFault(toFault(thrown)));
    clock.after(RETRY_MS, () => publisher.publish(copy));
  }
}
