/** Declares the queues and exchanges that only the engine declares, and removes messages from them. */
import type { Channel, MessageProperties } from "amqplib";
import type { BrokerSession } from "../net/amqp/connection.ts";
import { FANOUT, isHashedId, TOPIC_QUEUE } from "../protocol/amqp-wire.ts";
import type { BrokerNames, VisitPlace } from "./names.ts";
import type { BrokerSettings } from "./settings.ts";
import type { TaskCopy } from "./write-message.ts";

const BATCH = 100;

export interface VisitTopology {
  readonly place: VisitPlace;
  readonly use: string;
  readonly names: BrokerNames;
  readonly settings: BrokerSettings;
  /** Whether to declare only the queue of lone tasks. */
  readonly alone?: boolean;
}

/**
 * Declares the queues of a handler of a visit. A task that is delivered too often is dead-lettered to the visit's receipt
 * queue.
 */
export async function assertVisit(channel: Channel, visit: VisitTopology): Promise<void> {
  const { place, use, names, settings, alone = false } = visit;
  const finished = names.finished(place);
  const expires = { "x-expires": settings.expiresMs };
  if (!alone) {
    await channel.assertExchange(names.process(use), "fanout", FANOUT);
    await channel.assertQueue(finished, { durable: true, arguments: expires });
  }
  await channel.assertQueue(alone ? names.alone(place) : names.tasks(place), {
    durable: true,
    arguments: {
      ...expires,
      "x-queue-type": "quorum",
      "x-delivery-limit": alone ? 0 : settings.deliveryLimit,
      "x-dead-letter-exchange": "",
      "x-dead-letter-routing-key": finished,
    },
  });
}

export async function assertIntake(
  channel: Channel,
  intake: string,
  settings: BrokerSettings,
): Promise<void> {
  await channel.assertQueue(intake, { durable: true, arguments: { "x-expires": settings.expiresMs } });
}

export function deleteQueues(session: BrokerSession, queues: readonly string[]): Promise<void> {
  return session.withChannel(async (channel) => {
    for (const queue of queues) await channel.deleteQueue(queue);
  });
}

/** Removes from queues all messages that no consumer has received. Returns the removed messages. */
export async function removeReady(
  session: BrokerSession,
  queues: readonly string[],
): Promise<readonly TaskCopy[]> {
  const removed: TaskCopy[] = [];
  for (const queue of queues) {
    if (((await session.counts(queue))?.ready ?? 0) === 0) continue;
    while (await session.withChannel((channel) => removeSome(channel, queue, removed)));
  }
  return removed;
}

/** Removes a batch of messages. Returns true if there may be more. Batches are small, because each message is a request to the broker. */
async function removeSome(channel: Channel, queue: string, removed: TaskCopy[]): Promise<boolean> {
  for (let n = 0; n < BATCH; n++) {
    const message = await channel.get(queue, { noAck: true });
    if (message === false) return false;
    const id = attemptOf(message).replace(/~alone$/, "");
    removed.push({ id, body: message.content });
  }
  return true;
}

/** Returns the id of the attempt of a task's message: the message id, or the id in the body if it is too long for a message id. */
function attemptOf({ properties, content }: { properties: MessageProperties; content: Buffer }): string {
  const id = textOr(properties.messageId, "");
  if (!isHashedId(id)) return id;
  try {
    return textOr((JSON.parse(content.toString()) as { attempt?: unknown }).attempt, "");
  } catch (error) {
    if (error instanceof SyntaxError) return "";
    throw error;
  }
}

function textOr(value: unknown, other: string): string {
  return typeof value === "string" ? value : other;
}

/** Declares the queue of a topic if there is none. The properties of an existing queue are not changed. */
export async function declareTopic(session: BrokerSession, name: string): Promise<void> {
  if ((await session.counts(name)) === null)
    await session.withChannel((channel) => channel.assertQueue(name, TOPIC_QUEUE));
}
