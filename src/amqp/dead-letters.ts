/**
 * What nobody can use is kept, with the queue that it was in and the reason, behind an exchange of its own. Where
 * somebody has deleted the queue behind it, it is made again: nothing is acknowledged before it is kept.
 */
import type { ConsumeMessage } from "amqplib";
import type { Clock } from "../std/clock.ts";
import { toFault } from "./broker-fault.ts";
import type { BrokerSession } from "./broker-link.ts";
import type { BrokerNames } from "./names.ts";
import type { Outgoing, Publisher } from "./publisher.ts";
import type { QueueMender } from "./queue-mender.ts";

export interface DeadLettersParts {
  readonly names: BrokerNames;
  readonly publisher: Publisher;
  readonly mender: QueueMender;
  readonly clock: Clock;
  readonly session: () => BrokerSession | null;
  readonly onFault: (fault: Error) => void;
}

/** Most of them that are kept; the oldest go. */
const KEPT_MAX = 100_000;
const AGAIN_MS = 200;

export class DeadLetters {
  readonly #parts: DeadLettersParts;
  #count = 0;

  constructor(parts: DeadLettersParts) {
    this.#parts = parts;
  }

  /** How many since the start. */
  get count(): number {
    return this.#count;
  }

  /** Makes the exchange, and a queue behind it. */
  async declare(session: BrokerSession): Promise<void> {
    const { mender, names } = this.#parts;
    const { dead } = names;
    await mender.open(session, [dead], () =>
      session.with(async (channel) => {
        await channel.assertExchange(dead, "fanout", { durable: true });
        await channel.assertQueue(dead, { durable: true, arguments: { "x-max-length": KEPT_MAX } });
        await channel.bindQueue(dead, dead, "");
      }),
    );
  }

  /** Puts a message there; `done` when it is safe. */
  put(message: ConsumeMessage, from: { queue: string; reason: string }, done: () => void): void {
    this.#count++;
    this.#publish(
      {
        exchange: this.#parts.names.dead,
        key: from.queue.slice(0, 255),
        id: `dead~${this.#count}~${message.fields.deliveryTag}`,
        body: message.content,
        mandatory: true,
        headers: { queue: from.queue, reason: from.reason.slice(0, 1_000) },
      },
      done,
    );
  }

  #publish(letter: Outgoing, done: () => void): void {
    const { publisher, clock, session, onFault } = this.#parts;
    const again = (): void => void clock.after(AGAIN_MS, () => this.#publish(letter, done));
    publisher.publish({
      ...letter,
      done: (isRouted) => {
        if (isRouted) return done();
        const now = session();
        if (now === null) return again();
        this.declare(now).then(again, (thrown: unknown) => {
          onFault(toFault(thrown));
          again();
        });
      },
    });
  }
}
