/**
 * Sends commands to topics, and consumes their receipts. A topic is a queue with the topic's name, shared with other applications. A node
 * consumes the receipt topics of its own open commands. If it gets the receipt of another node's command, the engine passes it on to that
 * node.
 */
import type { Inspection } from "../../engine/io.ts";
import { topicError } from "../../kernel/command/command-state.ts";
import { topicUse } from "../../kernel/command/topic-rules.ts";
import type { Outcome } from "../../kernel/message.ts";
import { toFault, toReported } from "../../net/amqp/broker-fault.ts";
import type { BrokerSession } from "../../net/amqp/connection.ts";
import type { Delivery } from "../../net/amqp/delivery.ts";
import { beatsOf, decodeAttempt, encodeAttempt, reportedAttempt } from "../../protocol/attempt-id.ts";
import type { Beat, Grant, ReportedAttempt, ReportPlace, SentAt } from "../../protocol/work.ts";
import type { Rejection } from "../../std/rejection.ts";
import type { BridgeParts } from "../bridge-parts.ts";
import { declareTopic } from "../topology.ts";
import { commandBody } from "../write-message.ts";
import { CancelAnnouncer, removeMessages, TopicCleaner } from "./cancelled-commands.ts";
import { explainCommands, explainedBy } from "./explain-commands.ts";
import {
  type Command,
  commandKey,
  findLost,
  OpenCommands,
  sendInPortions,
  sentCommand,
  settledIn,
  type Topic,
} from "./open-commands.ts";
import { type ReceiptIntakeParts, readDelivery } from "./read-receipt.ts";
import { ReceiptTopics, type ReceiptTopicsParts } from "./receipt-topics.ts";
import { WaitingCommands, type WaitingCommandsParts } from "./waiting-commands.ts";

export interface TopicsParts
  extends BridgeParts,
    Pick<ReceiptTopicsParts, "topicRegistry" | "receiptTopics">,
    Pick<ReceiptIntakeParts, "inbox" | "findCommand">,
    Pick<WaitingCommandsParts, "planOf"> {}

const ADOPTED_MAX = 10_000;

export class Topics {
  readonly #parts: TopicsParts;
  readonly #open: OpenCommands;
  readonly #receipts: ReceiptTopics;
  readonly #waiting: WaitingCommands;
  readonly #cleaner: TopicCleaner;
  readonly #canceller: CancelAnnouncer;
  /** Commands that the broker has confirmed in this turn of the event loop. */
  readonly #confirmed: ReportedAttempt[] = [];

  constructor(parts: TopicsParts) {
    this.#parts = parts;
    this.#cleaner = new TopicCleaner(parts);
    this.#canceller = new CancelAnnouncer(parts);
    this.#receipts = new ReceiptTopics({
      ...parts,
      onReceipt: (delivery) =>
        readDelivery(parts, delivery, (at, outcome) => this.#onReceipt(at, outcome, delivery)),
      onUnsure: () => this.#findWaiting(),
    });
    this.#open = new OpenCommands(this.#receipts, parts.clock);
    this.#waiting = new WaitingCommands(parts, this.#receipts, (sent) => {
      this.adopt(sent);
      this.#consumeMissing();
    });
  }

  /** Returns why receipts may not be consumed from a queue; null if they may, or if there is no connection to ask the broker. */
  async refusesReceipts(receiptTopic: string): Promise<Rejection | null> {
    const { session, onFault } = this.#parts;
    const now = session();
    if (now === null) return null;
    try {
      return await this.#receipts.refusal(now, receiptTopic);
    } catch (thrown) {
      // If the queue cannot be checked now, it is checked when the command is sent.
      onFault(toFault(thrown));
      return null;
    }
  }

  send(grant: Grant): void {
    if (grant.command === null) return;
    const { topic: name, receiptTopic } = grant.command;
    const topic = this.#open.topic(name);
    for (const item of grant.items) {
      const at = reportedAttempt(grant, item);
      const key = commandKey(at);
      if (at.attempt > 1) this.#open.remove(topic, commandKey({ ...at, attempt: at.attempt - 1 }));
      this.#open.add(topic, key, {
        ...commandBody(grant, item, this.#parts.engine.info.key),
        at,
        receiptTopic,
        project: grant.project,
        sentAt: null,
        isConfirmed: false,
      });
      if (!topic.returning.delete(key)) {
        topic.heardAt = this.#parts.clock.now();
        topic.silences = 0;
      }
      this.#runFor(topic, (session) => this.#deliver(session, topic, key));
    }
  }

  explain(session: BrokerSession | null, inspection: Inspection): Promise<Inspection> {
    return explainCommands(explainedBy(session, this.#open.topics, inspection.view.id), inspection);
  }

  /** Called when workers outside of the broker serve this code too. Releases the commands of topics without consumers. */
  giveWay(uses: ReadonlySet<string>): void {
    this.#adoptOpen();
    for (const topic of this.#open.topics.values()) {
      if (!uses.has(topicUse(topic.name))) continue;
      topic.isAdopted = false;
      this.#run(async (session) => {
        const counts = await session.counts(topic.name);
        if (counts !== null && counts.consumers > 0) return;
        const waiting = [...topic.open.values()];
        for (const key of [...topic.open.keys()]) this.#open.remove(topic, key);
        const ids = new Set(waiting.map(({ id }) => id));
        this.#parts.publisher.forget(({ id }) => ids.has(id));
        if (counts !== null) await removeMessages(session, topic.name, ids);
        this.#release(waiting);
      });
    }
  }

  /** Cancels commands: workers stop them, and commands that no worker has received are removed from their topic. */
  cancel(beats: readonly Beat[], name: string): void {
    const { engine, worker, publisher } = this.#parts;
    const topic = this.#open.topic(name);
    for (const { attempts, ...place } of beats) {
      for (const one of attempts) {
        const at = { ...place, ...one };
        const known = this.#open.remove(topic, commandKey(at));
        const id = known?.id ?? encodeAttempt(at);
        this.#canceller.add(at);
        // If the broker has not confirmed the command, the command is not sent over the next connection. It may still arrive over this
        // one.
        if (known?.sentAt !== null) publisher.withdraw(id, () => this.#cleaner.remove(name, id));
      }
    }
    engine.release(worker, beats);
  }

  /** Records a command that another process sent, or that this node has dropped from memory. */
  adopt(sent: SentAt): void {
    const topic = this.#open.topic(sent.topic);
    const key = commandKey(sent.attempt);
    if (topic.open.has(key)) return;
    this.#open.add(topic, key, sentCommand(sent));
    this.#open.forgetOldest(topic);
  }

  /** Called after this node took over partitions. Their commands may wait at topics that this node does not know yet. */
  tookOver(): void {
    this.#waiting.tookOver();
    this.#findWaiting();
  }

  closed(place: ReportPlace): void {
    this.#open.removeAll(place);
  }

  /** Called when there is a connection. If one topic cannot be used, the others are still served. */
  attach(): void {
    this.#cleaner.attach();
    this.#adoptOpen();
    this.#findWaiting();
    this.#consumeMissing();
    for (const topic of this.#open.topics.values()) this.#deliverUnsent(topic);
  }

  detach(): void {
    this.#receipts.detach();
    for (const topic of this.#open.topics.values()) topic.declared = null;
  }

  /** Finds commands that are lost at the broker, and sends them again. */
  check(): void {
    this.#adoptOpen();
    this.#findWaiting();
    this.#consumeMissing();
    const adopted = [...this.#open.topics.values()].filter(({ isAdopted }) => isAdopted);
    if (adopted.length > 0) this.giveWay(this.#parts.engine.usesServed());
    for (const topic of adopted) topic.isAdopted = false;
    for (const topic of this.#open.topics.values()) {
      this.#deliverUnsent(topic);
      this.#run((session) => this.#check(session, topic));
    }
  }

  /** Searches the store for open commands, for topics that have none in memory. */
  #findWaiting(): void {
    this.#run(() => this.#waiting.find());
  }

  /** Adds to memory the open commands that a process or node sent before it ended. */
  #adoptOpen(): void {
    const { engine, worker } = this.#parts;
    for (const open of engine.openAttempts({ worker, commands: true, max: ADOPTED_MAX })) {
      const { attempt: id, topic: name, receiptTopic, project } = open;
      const at = decodeAttempt(id);
      if (at === null || name === undefined || receiptTopic === undefined) continue;
      const topic = this.#open.topic(name);
      const key = commandKey(at);
      if (topic.open.has(key)) continue;
      this.#open.add(topic, key, { at, id, body: null, receiptTopic, project, sentAt: 0, isConfirmed: true });
      topic.isAdopted = true;
    }
  }

  /**
   * Consumes the receipt topics of open commands that are not consumed yet: the commands were sent by another process, or an earlier try
   * failed.
   */
  #consumeMissing(): void {
    for (const receiptTopic of this.#receipts.missing)
      this.#run(async (session) => {
        const refusal = await this.#receipts.consume(session, receiptTopic);
        if (refusal === null) return;
        for (const topic of this.#open.topics.values())
          for (const [key, command] of topic.open)
            if (command.receiptTopic === receiptTopic) this.#refuse(topic, key, refusal);
      });
  }

  /** Fails the task of a command that may not be sent. The task fails for good, with the reason. */
  #refuse(topic: Topic, key: string, refusal: Rejection): void {
    const { engine, worker, onFault } = this.#parts;
    const command = this.#open.remove(topic, key);
    if (command === null) return;
    const { task, attempt, claim, ...place } = command.at;
    const outcome = { status: "killed", fatal: true, payload: topicError(refusal) } as const;
    const receipts = [{ task, attempt, claim, ms: 0, outcome }];
    // If another node owns the execution by now, the report has no effect. That node sends the command again, and refuses it for the same
    // reason.
    engine.report(worker, [{ kind: "receipts", ...place, receipts }]).catch(onFault);
  }

  async #check(session: BrokerSession, topic: Topic): Promise<void> {
    const { settings, clock, repair, silentMs } = this.#parts;
    if (topic.open.size === 0) {
      if (topic.returning.size === 0) this.#open.topics.delete(topic.name);
      return topic.returning.clear();
    }
    for (const key of settledIn(topic, this.#parts)) this.#open.remove(topic, key);
    const counts = await repair.counts(session, topic.name);
    topic.consumers = counts?.consumers ?? 0;
    if (counts !== null && counts.ready > 0) {
      topic.strikes = 0;
      return;
    }
    const { stuck, gone } = findLost(topic, counts, { now: clock.now(), settings, silentMs });
    if (gone === null) return;
    const sent = gone.map(([key, { sentAt }]) => [key, sentAt] as const);
    // If the broker does not confirm messages although the queue is empty and without consumers, the queue's process at the broker has
    // died.
    if (counts?.consumers === 0 && stuck) {
      await repair.remove(session, topic.name);
      topic.declared = null;
    }
    await this.#declare(session, topic);
    // A command that the broker returned as unroutable in the meantime was published again already.
    sendInPortions(
      sent,
      clock,
      ([key, at]) => topic.open.get(key)?.sentAt === at && this.#publish(topic, key),
    );
  }

  /** Called when the broker has confirmed a command. From then on its body is not kept in memory, here or in the engine. */
  #onConfirmed(topic: Topic, command: Command): void {
    const { clock, engine, worker } = this.#parts;
    command.body = null;
    if (this.#confirmed.length === 0)
      clock.soon(() => engine.sent(worker, beatsOf(this.#confirmed.splice(0))));
    this.#confirmed.push(command.at);
    this.#open.forgetOldest(topic);
  }

  /** Sends the commands that were not sent yet. A receipt topic that cannot be used delays only its own commands. */
  #deliverUnsent(topic: Topic): void {
    const unsent = [...topic.open].filter(([, { sentAt }]) => sentAt === null);
    for (const wanted of new Set(unsent.map(([, { receiptTopic }]) => receiptTopic)))
      this.#runFor(topic, async (session) => {
        for (const [key, { receiptTopic }] of unsent)
          if (receiptTopic === wanted) await this.#deliver(session, topic, key);
      });
  }

  /** Sends a command after its topics have their roles in the register and its receipt topic is consumed. */
  async #deliver(session: BrokerSession, topic: Topic, key: string): Promise<void> {
    const command = topic.open.get(key);
    if (command === undefined) return;
    const { receiptTopic, project } = command;
    const uses = [
      { name: topic.name, role: "command" },
      { name: receiptTopic, role: "receipt" },
    ] as const;
    const refusal =
      (await this.#parts.topicRegistry.claim(uses, project)) ??
      (await this.#receipts.consume(session, receiptTopic));
    if (refusal !== null) return this.#refuse(topic, key, refusal);
    await this.#declare(session, topic);
    if (topic.open.get(key)?.sentAt === null) this.#publish(topic, key);
  }

  /** Declares the topic's queue, unless it is declared already. */
  #declare(session: BrokerSession, topic: Topic): Promise<void> {
    topic.declared ??= this.#parts.repair
      .open(session, [topic.name], () => declareTopic(session, topic.name))
      .catch((thrown: unknown) => {
        topic.declared = null;
        throw thrown;
      });
    return topic.declared;
  }

  #publish(topic: Topic, key: string): void {
    const command = topic.open.get(key);
    if (command === undefined) return;
    const { id, body, receiptTopic } = command;
    if (body === null) {
      this.#open.remove(topic, key);
      topic.returning.add(key);
      return this.#release([command]);
    }
    command.sentAt = this.#parts.clock.now();
    command.isConfirmed = false;
    this.#parts.publisher.publish({
      key: topic.name,
      id,
      body,
      replyTo: receiptTopic,
      mandatory: true,
      done: (isRouted) => {
        command.isConfirmed = isRouted;
        if (isRouted) return this.#onConfirmed(topic, command);
        if (topic.open.get(key) !== command) return;
        topic.declared = null;
        this.#run(async (session) => {
          await this.#declare(session, topic);
          this.#publish(topic, key);
        });
      },
    });
  }

  #onReceipt(at: ReportedAttempt, outcome: Outcome, delivery: Delivery): void {
    const { clock, inbox } = this.#parts;
    const key = commandKey(at);
    for (const topic of this.#open.topics.values()) {
      if (this.#open.remove(topic, key) === null) continue;
      topic.heardAt = clock.now();
      topic.strikes = 0;
      topic.silences = 0;
    }
    inbox.accept({ at, ms: 0, outcome }, delivery, true);
  }

  #release(commands: readonly Command[]): void {
    const { engine, worker } = this.#parts;
    engine.release(worker, beatsOf(commands.map(({ at }) => at)));
  }

  /** Runs a step that sends to a topic. If it fails, keeps the error as the topic's fault, which `explain` shows. */
  #runFor(topic: Topic, step: (session: BrokerSession) => Promise<void>): void {
    this.#run(async (session) => {
      try {
        await step(session);
        topic.fault = null;
      } catch (thrown) {
        topic.fault = toFault(thrown).message;
        throw thrown;
      }
    });
  }

  #run(step: (session: BrokerSession) => Promise<void>): void {
    const session = this.#parts.session();
    if (session === null) return;
    step(session).catch((thrown: unknown) => this.#parts.onFault(toReported(thrown)));
  }
}
