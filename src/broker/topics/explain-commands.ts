/** Explains the state of an execution's commands at the broker. A command is PENDING as long as no worker can have received it. */
import type { Inspection } from "../../engine/io.ts";
import type { CommandView } from "../../kernel/command/command-view.ts";
import { toFault } from "../../net/amqp/broker-fault.ts";
import type { BrokerSession, QueueCounts } from "../../net/amqp/connection.ts";
import { commandKey, type Topic } from "./open-commands.ts";

export interface ExplainParts {
  /** The session at the broker; null if there is no connection. */
  readonly session: BrokerSession | null;
  /** Whether the broker has confirmed the command; undefined if another process sent the command. */
  readonly isConfirmed: (command: CommandView) => boolean | undefined;
  /** Why the last command for the topic could not be sent; null if it was sent. */
  readonly faultOf: (topic: string) => string | null;
  /** The number of consumers of the topic's queue at the last check; undefined if the queue was not checked yet. */
  readonly lastConsumers: (topic: string) => number | undefined;
}

/** Returns the inspection with the status of each command at the broker. Adds to `why` a sentence for each topic that delays a command. */
export async function explainCommands(parts: ExplainParts, inspection: Inspection): Promise<Inspection> {
  const { why, commands = [] } = inspection;
  const sentences: string[] = [];
  const explained: CommandView[] = [];
  for (const command of commands) {
    const { canHold, sentence } = command.queued === undefined ? RUNNING : await standingOf(parts, command);
    if (sentence !== null) sentences.push(sentence);
    explained.push(canHold ? command : { ...command, procStatus: "PENDING" });
  }
  return { ...inspection, why: [why, ...sentences].join(" "), commands: explained };
}

interface Standing {
  /** Whether a worker may have received the command. */
  readonly canHold: boolean;
  readonly sentence: string | null;
}

const RUNNING: Standing = { canHold: true, sentence: null };

async function standingOf(parts: ExplainParts, command: CommandView): Promise<Standing> {
  const { topic } = command;
  const { session, isConfirmed, faultOf, lastConsumers } = parts;
  const wasConfirmed = isConfirmed(command) !== false;
  if (!wasConfirmed) {
    const fault = faultOf(topic);
    const sentence = `The topic ${topic} does not have the command yet${fault === null ? "" : `: ${fault}`}.`;
    return { canHold: false, sentence };
  }
  // While there is no connection: if the topic had a consumer at the last check, a worker may have the command and run it.
  if (session === null) return { canHold: lastConsumers(topic) !== 0, sentence: null };
  let counts: QueueCounts | null;
  try {
    counts = await session.counts(topic);
  } catch (thrown) {
    return {
      canHold: true,
      sentence: `The queue of the topic ${topic} cannot be read: ${toFault(thrown).message}.`,
    };
  }
  if (counts === null)
    return { canHold: true, sentence: `The queue of the topic ${topic} is gone; it will be declared again.` };
  if (counts.consumers > 0) return RUNNING;
  const { ready } = counts;
  const sentence = `No worker consumes the topic ${topic} at the broker; ${ready} ${ready === 1 ? "message waits" : "messages wait"} there.`;
  return { canHold: ready === 0, sentence };
}

/** Collects the state of an execution's commands for `explainCommands`. */
export function explainedBy(
  session: BrokerSession | null,
  topics: ReadonlyMap<string, Topic>,
  execution: string,
): ExplainParts {
  return {
    session,
    isConfirmed: ({ topic, phase, handler, queued }) =>
      queued === undefined
        ? undefined
        : topics.get(topic)?.open.get(commandKey({ execution, phase, handler, ...queued }))?.isConfirmed,
    faultOf: (topic) => topics.get(topic)?.fault ?? null,
    lastConsumers: (topic) => topics.get(topic)?.consumers,
  };
}
