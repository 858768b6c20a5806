/**
 * The open commands of this node, by topic and by handler of a visit. Functions of this file find the commands that are lost, settled, or
 * too many to keep in memory.
 */

import type { EnginePort } from "../../engine/engine-port.ts";
import type { QueueCounts } from "../../net/amqp/connection.ts";
import { encodeAttempt } from "../../protocol/attempt-id.ts";
import type { ReportedAttempt, SentAt } from "../../protocol/work.ts";
import type { Clock } from "../../std/clock.ts";
import { TransientMap } from "../../std/transient-map.ts";
import { type VisitPlace, visitKey } from "../names.ts";
import type { BrokerSettings } from "../settings.ts";
import type { ReceiptTopics } from "./receipt-topics.ts";

/** A command without a receipt that was sent or waits to be sent. */
export interface Command {
  readonly at: ReportedAttempt;
  /** The id of the command's attempt, which is also the id of its message. */
  readonly id: string;
  /**
   * The body of the message. It is null once the broker has the command, or if another process sent it. To send such a command again, its
   * task is released, and the engine grants it anew.
   */
  body: Buffer | null;
  readonly receiptTopic: string;
  readonly project: string;
  /** When the command was passed to the publisher; null if that has not happened yet. */
  sentAt: number | null;
  /** Whether the broker has confirmed the command. */
  isConfirmed: boolean;
}

/** A command topic, with the commands of this node that are open there. */
export interface Topic {
  readonly name: string;
  /** Commands without a receipt, by their `commandKey`. */
  readonly open: TransientMap<string, Command>;
  /**
   * Keys of commands that counted as lost and were released. Sending such a command again does not count as a sign of life of the topic.
   */
  readonly returning: Set<string>;
  /** The running or finished declaration of the topic's queue; null if the queue has to be declared. */
  declared: Promise<void> | null;
  /** Whether other processes sent some of the commands. */
  isAdopted: boolean;
  /** When the last command was sent, or the last receipt arrived. */
  heardAt: number;
  /** How many checks in a row found the topic's queue empty and without consumers. */
  strikes: number;
  /** The number of consumers of the topic's queue at the last check; undefined if the queue was not checked yet. */
  consumers?: number;
  /** Why the last command for the topic could not be sent; null if it was sent. */
  fault: string | null;
  /** How often commands were sent again since `heardAt` because no receipt arrived. */
  silences: number;
}

export function newTopic(name: string, now: number): Topic {
  return {
    name,
    open: new TransientMap(),
    returning: new Set(),
    declared: null,
    isAdopted: false,
    heardAt: now,
    strikes: 0,
    silences: 0,
    fault: null,
  };
}

/** Makes the record of a command that another process sent, or that this node has dropped from memory. */
export function sentCommand({ attempt: at, receiptTopic, project }: SentAt): Command {
  return { at, id: encodeAttempt(at), body: null, receiptTopic, project, sentAt: 0, isConfirmed: true };
}

/** Returns the key of an attempt at a command. It is the same on all nodes. */
export function commandKey(at: VisitPlace & { readonly task: number; readonly attempt: number }): string {
  return `${visitKey(at)}/${at.task}/${at.attempt}`;
}

export class OpenCommands {
  readonly topics = new Map<string, Topic>();
  /** The keys of the commands of each handler of a visit, each with its topic. */
  readonly #places = new TransientMap<string, Map<string, Topic>>();
  readonly #receipts: Pick<ReceiptTopics, "add" | "remove" | "mayHaveMore">;
  readonly #clock: Clock;

  constructor(receipts: Pick<ReceiptTopics, "add" | "remove" | "mayHaveMore">, clock: Clock) {
    this.#receipts = receipts;
    this.#clock = clock;
  }

  topic(name: string): Topic {
    let topic = this.topics.get(name);
    if (topic === undefined) {
      topic = newTopic(name, this.#clock.now());
      this.topics.set(name, topic);
    }
    return topic;
  }

  add(topic: Topic, key: string, command: Command): void {
    topic.open.set(key, command);
    const place = visitKey(command.at);
    const keys = this.#places.get(place) ?? new Map<string, Topic>();
    this.#places.set(place, keys.set(key, topic));
    this.#receipts.add(command.receiptTopic, key, command.project);
  }

  remove(topic: Topic, key: string): Command | null {
    const command = topic.open.get(key);
    if (command === undefined) return null;
    topic.open.delete(key);
    const place = visitKey(command.at);
    const keys = this.#places.get(place);
    keys?.delete(key);
    if (keys?.size === 0) this.#places.delete(place);
    this.#receipts.remove(command.receiptTopic, key);
    return command;
  }

  removeAll(place: VisitPlace): void {
    for (const [key, topic] of [...(this.#places.get(visitKey(place)) ?? [])]) this.remove(topic, key);
  }

  /** Drops the oldest confirmed commands of a topic from memory, if it has too many. */
  forgetOldest(topic: Topic): void {
    for (const [key, { receiptTopic }] of overflowOf(topic)) {
      this.#receipts.mayHaveMore(receiptTopic);
      this.remove(topic, key);
    }
  }
}

/** After this many checks that find a topic's queue empty and without consumers, the topic's commands count as lost. */
const STRIKES_MAX = 2;

/** The most commands of a topic that are kept in memory. If the engine asks about another command, it is added again (`Topics.adopt`). */
const KEPT_MAX = 30_000;
/** How many commands are sent again at a time (a portion), and the pause between two portions. */
const PORTION = 500;
const PORTION_MS = 250;

interface Lost {
  /** Whether the broker has not confirmed some command within the time that it may take to answer. */
  readonly stuck: boolean;
  /** Commands to send again; null if none counts as lost. */
  readonly gone: readonly (readonly [string, Command])[] | null;
}

/** Finds the lost commands of a topic. Called when its queue has no message ready, or does not exist (`counts` is null). */
export function findLost(
  topic: Topic,
  counts: QueueCounts | null,
  at: {
    readonly now: number;
    readonly settings: BrokerSettings;
    readonly silentMs: (heardAt: number) => number;
  },
): Lost {
  const { now, settings, silentMs } = at;
  let stuck = false;
  for (const { sentAt, isConfirmed } of topic.open.values())
    if (!isConfirmed && sentAt !== null && now - sentAt >= settings.answerMs) stuck = true;
  const gone = [...topic.open].filter(
    ([, { sentAt, isConfirmed }]) => sentAt !== null && (stuck || isConfirmed),
  );
  if (gone.length === 0) {
    topic.strikes = 0;
    return { stuck, gone: null };
  }
  // A worker may need long for a command. So the time after which commands are sent again doubles each time.
  const isSilent =
    topic.silences < settings.silencesMax &&
    silentMs(topic.heardAt) >= settings.silenceMs * 2 ** topic.silences;
  if (counts === null) topic.declared = null;
  if (counts !== null && counts.consumers === 0) topic.strikes++;
  if (counts !== null && topic.strikes < STRIKES_MAX && !isSilent) return { stuck, gone: null };
  if (isSilent) topic.silences++;
  topic.strikes = 0;
  topic.heardAt = now;
  return { stuck, gone };
}

/** Returns the keys of commands that are settled or belong to another node. Commands of executions that are not in memory count as open. */
export function settledIn(
  topic: Topic,
  { engine, worker }: { readonly engine: EnginePort; readonly worker: string },
): readonly string[] {
  const settled: string[] = [];
  for (const [key, { at }] of topic.open) {
    const isOver = engine.isResident(at.execution) && engine.holderOf(at)?.worker !== worker;
    if (isOver || !engine.isOwn(at.execution)) settled.push(key);
  }
  return settled;
}

/** Returns the oldest confirmed commands of a topic beyond the number that is kept in memory. */
export function overflowOf({ open }: Topic): readonly (readonly [string, Command])[] {
  const overflow: (readonly [string, Command])[] = [];
  for (const entry of open) {
    if (open.size - overflow.length <= KEPT_MAX) break;
    if (entry[1].isConfirmed) overflow.push(entry);
  }
  return overflow;
}

/** Calls `send` for all commands, in portions with a pause between them. To send a command again the engine has to load its execution. */
export function sendInPortions<T>(all: readonly T[], clock: Clock, send: (one: T) => unknown): void {
  for (const one of all.slice(0, PORTION)) send(one);
  const rest = all.slice(PORTION);
  if (rest.length > 0) clock.after(PORTION_MS, () => sendInPortions(rest, clock, send));
}
