/**
 * Whether anybody can have the commands of an execution that are at the broker. Asked on request: the queue of a topic says
 * how many messages are in it and who consumes it. A command that nobody can have is PENDING.
 */
import type { Inspection } from "../../engine/io.ts";
import type { CommandView } from "../../kernel/command/command-view.ts";
import { toFault } from "../broker-fault.ts";
import type { BrokerSession, QueueCounts } from "../broker-link.ts";

export interface ExplainParts {
  /** Null: there is no connection to the broker. */
  readonly session: BrokerSession | null;
  /** Whether the broker has confirmed the command; undefined: another process has sent it. */
  readonly isConfirmed: (command: CommandView) => boolean | undefined;
  /** What kept commands from the topic the last time; null: nothing. */
  readonly faultOf: (topic: string) => string | null;
  /** Consumers of the topic when it was looked at last; undefined: it was not. */
  readonly lastConsumers: (topic: string) => number | undefined;
}

/** The inspection, with the status of each such command and a sentence on each topic that holds it up. */
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
  /** Somebody may have it. */
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
    const sentence = `The topic ${topic} does not have it yet${fault === null ? "" : `: ${fault}`}.`;
    return { canHold: false, sentence };
  }
  // Whoever had it when the connection broke may still be at work.
  if (session === null) return { canHold: lastConsumers(topic) !== 0, sentence: null };
  let counts: QueueCounts | null;
  try {
    counts = await session.look(topic);
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
  const sentence = `Nobody consumes the topic ${topic} at the broker; ${ready} ${ready === 1 ? "message waits" : "messages wait"} there.`;
  return { canHold: ready === 0, sentence };
}
