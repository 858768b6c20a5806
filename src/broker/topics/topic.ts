/** One command topic, as a node knows it. */

import type { BrokerSession } from "../../net/amqp/connection.ts";
import { encodeAttempt } from "../../protocol/attempt-id.ts";
import type { ReportedAttempt, SentAt } from "../../protocol/work.ts";
import { type VisitPlace, visitKey } from "../names.ts";
import type { ExplainParts } from "./explain-commands.ts";

/** A command that was sent, or is to be sent, and has no receipt yet. */
export interface Command {
  readonly at: ReportedAttempt;
  /** The id of the attempt, and of the message. */
  readonly id: string;
  /** Null: it is at the broker, or was sent by another process. Such a command is released before it is sent again. */
  body: Buffer | null;
  readonly receiptTopic: string;
  readonly project: string;
  /** When it was given to the publisher; null: not yet. */
  sentAt: number | null;
  /** Confirmed by the broker. */
  isConfirmed: boolean;
}

/** A command topic, with the commands of this node that are open there. */
export interface Topic {
  readonly name: string;
  /** Commands without a receipt, by `commandKey`. */
  readonly open: Map<string, Command>;
  /** Commands that were released because they are lost: sending them again does not restart the silence. */
  readonly returning: Set<string>;
  /** The declaration of its queue; null: it has to be declared. */
  declared: Promise<void> | null;
  /** Some commands were sent by other processes: workers elsewhere that serve the topic now do not have them. */
  isAdopted: boolean;
  /** When a command was sent, or a receipt came, last. */
  heardAt: number;
  /** Checks in a row that found the queue empty and without consumers. */
  strikes: number;
  /** Consumers at the last check; undefined: there was none. */
  consumers?: number;
  /** Why the last command could not be sent; null: it could. */
  fault: string | null;
  /** How often commands were sent again since `heardAt` because no receipt came. */
  silences: number;
}

/** A topic without commands. */
export function newTopic(name: string, now: number): Topic {
  return {
    name,
    open: new Map(),
    returning: new Set(),
    declared: null,
    isAdopted: false,
    heardAt: now,
    strikes: 0,
    silences: 0,
    fault: null,
  };
}

/** A command that another process sent, or that was forgotten here. */
export function sentCommand({ attempt: at, receiptTopic, project }: SentAt): Command {
  return { at, id: encodeAttempt(at), body: null, receiptTopic, project, sentAt: 0, isConfirmed: true };
}

/** The identity of an attempt at a command, whichever node sent it. */
export function commandKey(at: VisitPlace & { readonly task: number; readonly attempt: number }): string {
  return `${visitKey(at)}/${at.task}/${at.attempt}`;
}

/** The state of an execution's commands, for `explainCommands`. */
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
