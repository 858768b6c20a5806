/** How queues and exchanges are declared that only the engine makes, and how what is in them is taken out again. */
import type { Channel, MessageProperties } from "amqplib";
import { FANOUT, isHashedId, TOPIC_QUEUE } from "../protocol/amqp-wire.ts";
import type { BrokerSession } from "./broker-link.ts";
import type { BrokerNames, VisitPlace } from "./names.ts";
import type { BrokerSettings } from "./settings.ts";
import type { TaskCopy } from "./write-message.ts";

const AT_A_TIME = 100;

export interface VisitTopology {
  readonly place: VisitPlace;
  readonly use: string;
  readonly names: BrokerNames;
  readonly settings: BrokerSettings;
  /** The queue of tasks that go one at a time, instead of the others. */
  readonly alone?: boolean;
}

/** Makes the queues of a handler of a visit. Tasks that are delivered too often come back through its finished queue. */
export async function assertDesk(channel: Channel, desk: VisitTopology): Promise<void> {
  const { place, use, names, settings, alone = false } = desk;
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

/** Makes the queue into which one attempt at an enumeration puts what it finds. */
export async function assertIntake(
  channel: Channel,
  intake: string,
  settings: BrokerSettings,
): Promise<void> {
  await channel.assertQueue(intake, { durable: true, arguments: { "x-expires": settings.expiresMs } });
}

/** Takes everything out of queues that nobody has taken. */
export async function takeReady(
  session: BrokerSession,
  queues: readonly string[],
): Promise<readonly TaskCopy[]> {
  const taken: TaskCopy[] = [];
  for (const queue of queues) {
    if (((await session.look(queue))?.ready ?? 0) === 0) continue;
    while (await session.with((channel) => takeSome(channel, queue, taken)));
  }
  return taken;
}

/** Few at a time, since the broker has to answer each; true: there may be more. */
async function takeSome(channel: Channel, queue: string, taken: TaskCopy[]): Promise<boolean> {
  for (let n = 0; n < AT_A_TIME; n++) {
    const message = await channel.get(queue, { noAck: true });
    if (message === false) return false;
    const id = attemptOf(message).replace(/~alone$/, "");
    taken.push({ id, body: message.content });
  }
  return true;
}

/** The attempt that a task's message is of: its id, or, where that was too long for a property, what the body says. */
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

/** Makes the queue of a topic where there is none; whoever made it first says how it is. */
export async function declareTopic(session: BrokerSession, name: string): Promise<void> {
  if ((await session.look(name)) === null)
    await session.with((channel) => channel.assertQueue(name, TOPIC_QUEUE));
}
