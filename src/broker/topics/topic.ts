/** What a node knows of one command topic. */
import { encodeAttempt } from "../../protocol/attempt-id.ts";
import type { ReportedAttempt, SentAt } from "../../protocol/work.ts";
import type { BrokerSession } from "../broker-link.ts";
import { deskKey, type VisitPlace } from "../names.ts";
import type { ExplainParts } from "./explain-commands.ts";

/** A command that was sent, or is to be sent, and has no receipt yet. */
export interface Command {
  readonly at: ReportedAttempt;
  /** The id of the attempt, and of the message. */
  readonly id: string;
  /** Null: it is at the broker, or was sent by another process. To be sent again it is given back first. */
  body: Buffer | null;
  readonly receiptTopic: string;
  readonly project: string;
  /** When it was given to the publisher; null: it was not. */
  sentAt: number | null;
  /** Confirmed by the broker. */
  isThere: boolean;
}

/** A command topic, with the commands of this node that are open there. */
export interface Topic {
  readonly name: string;
  /** Commands that were sent and not heard of, by what they are (`commandKey`). */
  readonly open: Map<string, Command>;
  /** Commands that were given back because they are gone: that they are sent again is nothing new. */
  readonly returning: Set<string>;
  isMade: Promise<void> | null;
  /** Some were sent by others: whoever serves the topic by now has not heard of them. */
  isAdopted: boolean;
  heardAt: number;
  strikes: number;
  /** Who consumed it when it was looked at last; undefined: it was not. */
  consumers?: number;
  /** Why a command could not be sent the last time; null: it could. */
  fault: string | null;
  /** How often commands were sent again because nothing was heard, since something was sent or heard. */
  silences: number;
}

/** A topic that nothing was sent to yet. */
export function newTopic(name: string, now: number): Topic {
  return {
    name,
    open: new Map(),
    returning: new Set(),
    isMade: null,
    isAdopted: false,
    heardAt: now,
    strikes: 0,
    silences: 0,
    fault: null,
  };
}

/** A command that another process sent, or that is looked after again. */
export function sentCommand({ attempt: at, receiptTopic, project }: SentAt): Command {
  return { at, id: encodeAttempt(at), body: null, receiptTopic, project, sentAt: 0, isThere: true };
}

/** What a command is, whoever was told to send it. */
export function commandKey(at: VisitPlace & { readonly task: number; readonly attempt: number }): string {
  return `${deskKey(at)}/${at.task}/${at.attempt}`;
}

/** What is known here of an execution's commands, for those who ask how they are. */
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
        : topics.get(topic)?.open.get(commandKey({ execution, phase, handler, ...queued }))?.isThere,
    faultOf: (topic) => topics.get(topic)?.fault ?? null,
    lastConsumers: (topic) => topics.get(topic)?.consumers,
  };
}
