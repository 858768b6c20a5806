/**
 * Announces cancelled commands on the fanout `cancel.consumer`. A copy may still be in its topic or at a worker: Rondo's
 * workers stop it, or acknowledge it without running it. `task_queue` names a queue that commands never have, so workers
 * that do not know the field `commands` stop nothing.
 */

import type { Publisher } from "../../net/amqp/publisher.ts";
import type { CancelConsumerMessage } from "../../protocol/amqp-wire.ts";
import { encodeAttempt } from "../../protocol/attempt-id.ts";
import type { ReportedAttempt } from "../../protocol/work.ts";
import type { Clock } from "../../std/clock.ts";
import type { BrokerNames } from "../names.ts";
import type { BrokerSettings } from "../settings.ts";

export interface CancelledCommandsParts {
  readonly names: BrokerNames;
  readonly publisher: Publisher;
  readonly settings: BrokerSettings;
  readonly clock: Clock;
}

/** Ids in one message. */
const PORTION = 500;

let messages = 0;

export class CancelledCommands {
  readonly #parts: CancelledCommandsParts;
  /** Ids of the attempts cancelled in this turn, by the queue that tasks of their handler would have. */
  readonly #ids = new Map<string, string[]>();

  constructor(parts: CancelledCommandsParts) {
    this.#parts = parts;
  }

  /** Announces a cancelled command, together with the others of this turn. */
  add(at: ReportedAttempt): void {
    const { clock, names } = this.#parts;
    if (this.#ids.size === 0) clock.soon(() => this.#announce());
    const queue = names.tasks(at);
    const ids = this.#ids.get(queue) ?? [];
    this.#ids.set(queue, ids);
    ids.push(encodeAttempt(at));
  }

  #announce(): void {
    const { names, publisher, settings } = this.#parts;
    for (const [queue, ids] of this.#ids) {
      for (let from = 0; from < ids.length; from += PORTION) {
        const message: CancelConsumerMessage = {
          task_queue: queue,
          reason: "cancelled",
          commands: ids.slice(from, from + PORTION),
        };
        publisher.publish({
          exchange: names.cancelConsumer,
          key: "",
          id: `cancel-commands~${++messages}`,
          body: Buffer.from(JSON.stringify(message)),
          expirationMs: settings.broadcastMs * 12,
        });
      }
    }
    this.#ids.clear();
  }
}
