/**
 * Tells workers about cancelled commands, and removes the messages of these commands from their topics.
 *
 * 1. The announcement goes out on the fanout `cancel.consumer`. The message of a cancelled command may still be in its topic or at a
 *    worker. Rondo's workers stop the command, or acknowledge the message without running it. `task_queue` names a queue that commands
 *    never have, so workers that do not know the field `commands` stop nothing.
 * 2. To remove a message, the bridge reads the topic's queue, which may be shared with other applications. It returns all other messages.
 *    Each return counts as a delivery, and a quorum queue drops a message that was delivered too often. So the search ends at a message
 *    that was delivered a few times, and a message near the limit is published as a new one. A command that the search does not find may
 *    still be delivered to a worker, whose receipt then changes nothing.
 */
import type { Channel, GetMessage } from "amqplib";
import { toFault } from "../../net/amqp/broker-fault.ts";
import type { BrokerSession } from "../../net/amqp/connection.ts";
import { messageIdOf } from "../../protocol/amqp-wire.ts";
import { encodeAttempt } from "../../protocol/attempt-id.ts";
import type { ReportedAttempt } from "../../protocol/work.ts";
import type { BridgeParts } from "../bridge-parts.ts";
import { publishCancel } from "../visits/visit-announcer.ts";

type Parts = Pick<BridgeParts, "names" | "publisher" | "settings" | "clock">;

const PORTION = 500;

export class CancelAnnouncer {
  readonly #parts: Parts;
  /**
   * Ids of the attempts that were cancelled in this turn of the event loop, by the name of their handler's task queue. Commands have no
   * such queue.
   */
  readonly #ids = new Map<string, string[]>();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Announces that a command is cancelled. All announcements of one turn of the event loop are sent together. */
  add(at: ReportedAttempt): void {
    const { clock, names } = this.#parts;
    if (this.#ids.size === 0) clock.soon(() => this.#announce());
    const queue = names.tasks(at);
    const ids = this.#ids.get(queue) ?? [];
    this.#ids.set(queue, ids);
    ids.push(encodeAttempt(at));
  }

  #announce(): void {
    for (const [queue, ids] of this.#ids)
      for (let from = 0; from < ids.length; from += PORTION)
        publishCancel(this.#parts, {
          task_queue: queue,
          reason: "cancelled",
          commands: ids.slice(from, from + PORTION),
        });
    this.#ids.clear();
  }
}

const DEPTH_MAX = 1_000;
/** The search of a topic ends at a message that was delivered this many times before. */
const DELIVERIES_MAX = 2;
/**
 * A message that was delivered this many times before is published as a new one, because Rondo's topics allow 4 deliveries
 * (`TOPIC_QUEUE`).
 */
const DELIVERIES_NEAR_LIMIT = 3;

export class TopicCleaner {
  readonly #parts: Pick<BridgeParts, "session" | "onFault">;
  /** Ids of messages to remove, by topic. */
  readonly #unwanted = new Map<string, Set<string>>();
  readonly #busy = new Set<string>();

  constructor(parts: Pick<BridgeParts, "session" | "onFault">) {
    this.#parts = parts;
  }

  /** Removes a message from a topic, at once or as soon as there is a connection. */
  remove(topic: string, id: string): void {
    const unwanted = this.#unwanted.get(topic) ?? new Set();
    this.#unwanted.set(topic, unwanted.add(id));
    this.#search(topic);
  }

  attach(): void {
    for (const topic of this.#unwanted.keys()) this.#search(topic);
  }

  /** Runs one search at a time for each topic. Commands that are cancelled during a search are left to the next one. */
  #search(topic: string): void {
    const session = this.#parts.session();
    const unwanted = this.#unwanted.get(topic);
    if (session === null || unwanted === undefined || this.#busy.has(topic)) return;
    this.#unwanted.delete(topic);
    this.#busy.add(topic);
    removeMessages(session, topic, unwanted)
      .catch((thrown: unknown) => {
        // If the connection was lost, the search is repeated when there is a new one (`attach`).
        if (this.#parts.session() !== session)
          this.#unwanted.set(topic, new Set([...unwanted, ...(this.#unwanted.get(topic) ?? [])]));
        else this.#parts.onFault(toFault(thrown));
      })
      .finally(() => {
        this.#busy.delete(topic);
        this.#search(topic);
      });
  }
}

/** Removes these messages from a queue if the search finds them. */
export async function removeMessages(
  session: BrokerSession,
  queue: string,
  ids: ReadonlySet<string>,
): Promise<void> {
  if (((await session.counts(queue))?.ready ?? 0) === 0) return;
  await session.withChannel(async (channel) => {
    const others = await search(channel, queue, new Set([...ids].map(messageIdOf)));
    for (const message of others) await putBack(session, channel, { queue, message });
  });
}

async function search(channel: Channel, queue: string, left: Set<string>): Promise<GetMessage[]> {
  const others: GetMessage[] = [];
  for (let seen = 0; seen < DEPTH_MAX && left.size > 0; seen++) {
    const message = await channel.get(queue);
    if (message === false) return others;
    if (left.delete(String(message.properties.messageId))) channel.ack(message);
    else {
      others.push(message);
      if (deliveriesOf(message) >= DELIVERIES_MAX) return others;
    }
  }
  return others;
}

async function putBack(
  session: BrokerSession,
  channel: Channel,
  { queue, message }: { readonly queue: string; readonly message: GetMessage },
): Promise<void> {
  if (deliveriesOf(message) < DELIVERIES_NEAR_LIMIT) return channel.nack(message, false, true);
  await new Promise<void>((resolve, fail) => {
    // The new message has no user id: the broker refuses a message with the id of another user than this connection's.
    const { userId: _, headers, ...properties } = message.properties;
    const { "x-delivery-count": __, ...kept } = headers ?? {};
    const options = { ...properties, headers: kept, persistent: true };
    session.publish.sendToQueue(queue, message.content, options, (error: unknown) =>
      error === null ? resolve() : fail(toFault(error)),
    );
  });
  channel.ack(message);
}

/** Returns how often a quorum queue has delivered the message before. */
function deliveriesOf({ properties }: GetMessage): number {
  return Number(properties.headers?.["x-delivery-count"] ?? 0);
}
