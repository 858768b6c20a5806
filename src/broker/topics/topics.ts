/**
 * Commands on topics, and their receipts. A topic is a queue of exactly its name, shared with whoever uses it, and so is
 * its receipt topic. A node consumes the receipt topics of its open commands (receipt-topics.ts); a receipt of a command
 * of another node is passed on to that node by the engine.
 */
import type { Inspection } from "../../engine/io.ts";
import { topicError } from "../../kernel/command/command-state.ts";
import { topicUse } from "../../kernel/command/topic.ts";
import type { Outcome } from "../../kernel/message.ts";
import { decodeAttempt, encodeAttempt } from "../../protocol/attempt-id.ts";
import type { Beat, Grant, ReportedAttempt, ReportPlace, SentAt } from "../../protocol/work.ts";
import type { Clock } from "../../std/clock.ts";
import type { Rejection } from "../../std/rejection.ts";
import { beatsOf } from "../beats.ts";
import { toFault } from "../broker-fault.ts";
import type { BrokerSession } from "../broker-link.ts";
import { declareTopic } from "../topology.ts";
import type { QueueMender } from "../visits/queue-mender.ts";
import type { QueueRegistry } from "../visits/queue-registry.ts";
import type { Delivery, ReceiptInbox } from "../visits/receipt-inbox.ts";
import { attemptOf, commandBody } from "../write-message.ts";
import { CancelledCommands, type CancelledCommandsParts } from "./cancelled-commands.ts";
import { explainCommands } from "./explain-commands.ts";
import { findLost, sendInPortions, settledIn } from "./lost-commands.ts";
import { OpenCommands } from "./open-commands.ts";
import { type ReceiptIntakeParts, readDelivery } from "./receipt-intake.ts";
import { ReceiptTopics, type ReceiptTopicsParts } from "./receipt-topics.ts";
import { type Command, commandKey, explainedBy, sentCommand, type Topic } from "./topic.ts";
import { TopicCleaner, takeOut } from "./topic-cleaner.ts";
import { WaitingCommands, type WaitingCommandsParts } from "./waiting-commands.ts";

export interface TopicsParts
  extends Omit<ReceiptTopicsParts, "onReceipt" | "onUnsure" | "book">,
    ReceiptIntakeParts,
    CancelledCommandsParts,
    Omit<WaitingCommandsParts, "engine" | "book"> {
  /** The name under which the bridge is a worker of the engine. */
  readonly worker: string;
  readonly book: QueueRegistry;
  readonly mender: QueueMender;
  readonly clock: Clock;
  /** For how long nothing was heard since then, as far as something could be. */
  readonly silentMs: (heardAt: number) => number;
  readonly words: ReceiptInbox;
}

const ADOPTED_MAX = 10_000;

export class Topics {
  readonly #parts: TopicsParts;
  readonly #open: OpenCommands;
  readonly #receipts: ReceiptTopics;
  readonly #waiting: WaitingCommands;
  readonly #cleaner: TopicCleaner;
  readonly #cancelled: CancelledCommands;
  /** Commands that the broker has confirmed in this turn. */
  readonly #confirmed: ReportedAttempt[] = [];

  constructor(parts: TopicsParts) {
    this.#parts = parts;
    this.#cleaner = new TopicCleaner(parts);
    this.#cancelled = new CancelledCommands(parts);
    this.#receipts = new ReceiptTopics({
      ...parts,
      onReceipt: (delivery) =>
        readDelivery(parts, delivery, (at, outcome) => this.#take(at, outcome, delivery)),
      onUnsure: () => this.#findWaiting(),
    });
    this.#open = new OpenCommands(this.#receipts, parts.clock);
    this.#waiting = new WaitingCommands(parts, this.#receipts, (sent) => {
      this.check(sent);
      this.#consumeMissing();
    });
  }

  /** Why receipts cannot be consumed from a queue; null: they can, or nobody can tell now. */
  async refusesReceipts(receiptTopic: string): Promise<Rejection | null> {
    const { session, onFault } = this.#parts;
    const now = session();
    if (now === null) return null;
    try {
      return await this.#receipts.refusal(now, receiptTopic);
    } catch (thrown) {
      // The same is asked again when the command is sent.
      onFault(toFault(thrown));
      return null;
    }
  }

  /** Sends commands to their topic. */
  send(grant: Grant): void {
    if (grant.command === null) return;
    const { topic: name, receiptTopic } = grant.command;
    const topic = this.#open.topic(name);
    for (const item of grant.items) {
      const at = attemptOf(grant, item);
      const key = commandKey(at);
      this.#open.remove(topic, commandKey({ ...at, attempt: at.attempt - 1 }));
      this.#open.add(topic, key, {
        ...commandBody(grant, item, this.#parts.engine.info.key),
        at,
        receiptTopic,
        project: grant.project,
        sentAt: null,
        isThere: false,
      });
      if (!topic.returning.delete(key)) {
        topic.heardAt = this.#parts.clock.now();
        topic.silences = 0;
      }
      this.#runFor(topic, (session) => this.#deliver(session, topic, key));
    }
  }

  /** What is known of commands at topics, for those who ask how they are. */
  explain(session: BrokerSession | null, inspection: Inspection): Promise<Inspection> {
    return explainCommands(explainedBy(session, this.#open.topics, inspection.view.id), inspection);
  }

  /** Other workers serve these: what waits at a topic that nobody consumes is theirs. */
  giveWay(uses: ReadonlySet<string>): void {
    this.#adopt();
    for (const topic of this.#open.topics.values()) {
      if (!uses.has(topicUse(topic.name))) continue;
      topic.isAdopted = false;
      this.#run(async (session) => {
        const counts = await session.look(topic.name);
        if (counts !== null && counts.consumers > 0) return;
        const waiting = [...topic.open.values()];
        for (const key of [...topic.open.keys()]) this.#open.remove(topic, key);
        const ids = new Set(waiting.map(({ id }) => id));
        this.#parts.publisher.forget(({ id }) => ids.has(id));
        if (counts !== null) await takeOut(session, topic.name, ids);
        this.#release(waiting);
      });
    }
  }

  /** Nobody waits for these commands any more: workers stop them, and what no worker has is taken out of its topic. */
  cancel(beats: readonly Beat[], name: string): void {
    const { engine, worker, publisher } = this.#parts;
    const topic = this.#open.topic(name);
    for (const { attempts, ...place } of beats) {
      for (const one of attempts) {
        const at = { ...place, ...one };
        const known = this.#open.remove(topic, commandKey(at));
        const id = known?.id ?? encodeAttempt(at);
        this.#cancelled.add(at);
        // A command that the broker has not confirmed is not sent over the next connection, and may yet arrive over this one.
        if (known?.sentAt !== null) publisher.withdraw(id, () => this.#cleaner.remove(name, id));
      }
    }
    engine.release(worker, beats);
  }

  /** Nothing was heard of a command for long, be it of a former process: it is looked after from here. */
  check(sent: SentAt): void {
    const topic = this.#open.topic(sent.topic);
    const key = commandKey(sent.attempt);
    if (topic.open.has(key)) return;
    this.#open.add(topic, key, sentCommand(sent));
    this.#open.forgetOldest(topic);
  }

  /** Partitions of another process are this node's now: commands may be at topics that nobody here knows of. */
  tookOver(): void {
    this.#waiting.tookOver();
    this.#findWaiting();
  }

  /** The visit of a handler is over: none of its commands is open, however they ended. */
  closed(place: ReportPlace): void {
    this.#open.removeAll(place);
  }

  /** There is a broker again. A topic that cannot be used keeps nothing else from going on. */
  attach(): void {
    this.#cleaner.attach();
    this.#adopt();
    this.#findWaiting();
    this.#consumeMissing();
    for (const topic of this.#open.topics.values()) this.#deliverUnsent(topic);
  }

  detach(): void {
    this.#receipts.detach();
    for (const topic of this.#open.topics.values()) topic.isMade = null;
  }

  /** Commands that are gone from the broker are sent again. */
  look(): void {
    this.#adopt();
    this.#findWaiting();
    this.#consumeMissing();
    const adopted = [...this.#open.topics.values()].filter(({ isAdopted }) => isAdopted);
    if (adopted.length > 0) this.giveWay(this.#parts.engine.usesServed());
    for (const topic of adopted) topic.isAdopted = false;
    for (const topic of this.#open.topics.values()) {
      this.#deliverUnsent(topic);
      this.#run((session) => this.#look(session, topic));
    }
  }

  /** Finds commands that are only in the store, for topics of which no open command is known. */
  #findWaiting(): void {
    this.#run(() => this.#waiting.find());
  }

  /** Commands that were sent before this process, or by a node that has gone, are looked after here from now on. */
  #adopt(): void {
    const { engine, worker } = this.#parts;
    for (const open of engine.openAttempts({ worker, commands: true, max: ADOPTED_MAX })) {
      const { attempt: id, topic: name, receiptTopic, project } = open;
      const at = decodeAttempt(id);
      if (at === null || name === undefined || receiptTopic === undefined) continue;
      const topic = this.#open.topic(name);
      const key = commandKey(at);
      if (topic.open.has(key)) continue;
      this.#open.add(topic, key, { at, id, body: null, receiptTopic, project, sentAt: 0, isThere: true });
      topic.isAdopted = true;
    }
  }

  /** Consumes the receipt topics of open commands that are not consumed: of adopted ones, and where a try failed. */
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

  /** The command may not be sent: its task fails for good, with the reason. */
  #refuse(topic: Topic, key: string, refusal: Rejection): void {
    const { engine, worker, onFault } = this.#parts;
    const command = this.#open.remove(topic, key);
    if (command === null) return;
    const { task, attempt, claim, ...place } = command.at;
    const outcome = { status: "killed", fatal: true, payload: topicError(refusal) } as const;
    const receipts = [{ task, attempt, claim, ms: 0, outcome }];
    // Who has the execution by now sends the command again, and finds the same.
    engine.report(worker, [{ kind: "receipts", ...place, receipts }]).catch(onFault);
  }

  async #look(session: BrokerSession, topic: Topic): Promise<void> {
    const { settings, clock, mender, silentMs } = this.#parts;
    if (topic.open.size === 0) {
      if (topic.returning.size === 0) this.#open.topics.delete(topic.name);
      return topic.returning.clear();
    }
    for (const key of settledIn(topic, this.#parts)) this.#open.remove(topic, key);
    const counts = await mender.look(session, topic.name);
    topic.consumers = counts?.consumers ?? 0;
    if (counts !== null && counts.ready > 0) {
      topic.strikes = 0;
      return;
    }
    const { stuck, gone } = findLost(topic, counts, { now: clock.now(), settings, silentMs });
    if (gone === null) return;
    const sent = gone.map(([key, { sentAt }]) => [key, sentAt] as const);
    // It is empty, nobody consumes it, and what goes there is not confirmed: it has a name and nothing more.
    if (counts?.consumers === 0 && stuck) {
      await mender.remove(session, topic.name);
      topic.isMade = null;
    }
    await this.#make(session, topic);
    // What the broker gave back meanwhile has been published again.
    sendInPortions(
      sent,
      clock,
      ([key, at]) => topic.open.get(key)?.sentAt === at && this.#publish(topic, key),
    );
  }

  /** The broker has it: the engine need not keep it in memory, and neither is its body kept here. */
  #sent(topic: Topic, command: Command): void {
    const { clock, engine, worker } = this.#parts;
    command.body = null;
    if (this.#confirmed.length === 0)
      clock.soon(() => engine.sent(worker, beatsOf(this.#confirmed.splice(0))));
    this.#confirmed.push(command.at);
    this.#open.forgetOldest(topic);
  }

  /** What has not been sent yet; a receipt topic that cannot be used holds up its own commands only. */
  #deliverUnsent(topic: Topic): void {
    const unsent = [...topic.open].filter(([, { sentAt }]) => sentAt === null);
    for (const wanted of new Set(unsent.map(([, { receiptTopic }]) => receiptTopic)))
      this.#runFor(topic, async (session) => {
        for (const [key, { receiptTopic }] of unsent)
          if (receiptTopic === wanted) await this.#deliver(session, topic, key);
      });
  }

  /** A command goes when its topics have their roles and its receipt can come. */
  async #deliver(session: BrokerSession, topic: Topic, key: string): Promise<void> {
    const command = topic.open.get(key);
    if (command === undefined) return;
    const { receiptTopic, project } = command;
    const uses = [
      { name: topic.name, role: "command" },
      { name: receiptTopic, role: "receipt" },
    ] as const;
    const refusal =
      (await this.#parts.registry.claim(uses, project)) ??
      (await this.#receipts.consume(session, receiptTopic));
    if (refusal !== null) return this.#refuse(topic, key, refusal);
    await this.#make(session, topic);
    if (topic.open.get(key)?.sentAt === null) this.#publish(topic, key);
  }

  /** Whoever made it first says how it is; only where there is none it is made. */
  #make(session: BrokerSession, topic: Topic): Promise<void> {
    topic.isMade ??= this.#parts.mender
      .open(session, [topic.name], () => declareTopic(session, topic.name))
      .catch((thrown: unknown) => {
        topic.isMade = null;
        throw thrown;
      });
    return topic.isMade;
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
    command.isThere = false;
    this.#parts.publisher.publish({
      key: topic.name,
      id,
      body,
      replyTo: receiptTopic,
      mandatory: true,
      done: (isRouted) => {
        command.isThere = isRouted;
        if (isRouted) return this.#sent(topic, command);
        if (topic.open.get(key) !== command) return;
        topic.isMade = null;
        this.#run(async (session) => {
          await this.#make(session, topic);
          this.#publish(topic, key);
        });
      },
    });
  }

  #take(at: ReportedAttempt, outcome: Outcome, delivery: Delivery): void {
    const { clock, words } = this.#parts;
    const key = commandKey(at);
    for (const topic of this.#open.topics.values()) {
      if (this.#open.remove(topic, key) === null) continue;
      topic.heardAt = clock.now();
      topic.strikes = 0;
      topic.silences = 0;
    }
    words.take({ at, ms: 0, outcome }, delivery);
  }

  #release(commands: readonly Command[]): void {
    const { engine, worker } = this.#parts;
    engine.release(worker, beatsOf(commands.map(({ at }) => at)));
  }

  /** The same for commands of a topic: what keeps them from it is remembered for those who ask. */
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
    step(session).catch((thrown: unknown) =>
      this.#parts.onFault(thrown instanceof Error && "retryable" in thrown ? thrown : toFault(thrown)),
    );
  }
}
