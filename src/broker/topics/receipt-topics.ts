/**
 * The receipt topics that this node consumes.
 *
 * 1. A topic is consumed while a command of this node waits for a receipt from it, and a little longer, so that a chain of commands does
 *    not start and stop a consumer for each command. Some waiting commands may be only in the store: waiting-commands.ts searches for
 *    them, and the topic is consumed if it finds one.
 * 2. A queue that Rondo has not consumed before is consumed only if it does not exist, or is empty and without other consumers, or is
 *    listed by the operator. So a workflow that names a wrong queue does not take the messages of another application.
 * 3. The store registers the queues that were consumed (QueueRegistry) and the role of each name (TopicRegistry).
 */
import type { TopicRegistry } from "../../commands/topic-registry.ts";
import { matchesTopic } from "../../kernel/command/topic-rules.ts";
import { toFault } from "../../net/amqp/broker-fault.ts";
import type { BrokerSession } from "../../net/amqp/connection.ts";
import type { Delivery } from "../../net/amqp/delivery.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import type { BridgeParts } from "../bridge-parts.ts";
import { declareTopic } from "../topology.ts";

type Shared = Pick<BridgeParts, "queueRegistry" | "repair" | "clock" | "session" | "onFault">;

export interface ReceiptTopicsParts extends Shared {
  readonly topicRegistry: Pick<TopicRegistry, "claim">;
  /** Patterns of queue names from the operator's setting. Rondo may consume these queues although they have messages or consumers. */
  readonly receiptTopics: readonly string[];
  readonly onReceipt: (delivery: Delivery) => void;
  /** Called when no command in memory waits for receipts from a topic, but a command in the store may. */
  readonly onUnsure: () => void;
}

interface ReceiptTopic {
  readonly name: string;
  readonly project: string;
  readonly open: Set<string>;
  /** The consumer's tag, or the reason why the topic may not be consumed; null if the topic is not consumed. */
  consumer: Promise<string | Rejection> | null;
  /** Not null while commands that are not in memory may wait for receipts on this topic. Each call of `mayHaveMore` sets a new object. */
  unsure: object | null;
  stopLater: (() => void) | null;
}

/** How long a topic is still consumed after its last open command. */
const LINGER_MS = 1_000;

export class ReceiptTopics {
  readonly #parts: ReceiptTopicsParts;
  readonly #topics = new Map<string, ReceiptTopic>();
  /** Queues that Rondo has consumed before. */
  readonly #consumed = new Set<string>();

  constructor(parts: ReceiptTopicsParts) {
    this.#parts = parts;
  }

  add(name: string, command: string, project: string): void {
    const topic = this.#topic(name, project);
    topic.open.add(command);
    topic.stopLater?.();
    topic.stopLater = null;
  }

  /** Called when commands that are not in memory may wait for receipts on this topic. */
  mayHaveMore(name: string): void {
    this.#topic(name, "").unsure = {};
  }

  /**
   * Called when a search has shown that no further command waits for receipts on this topic. `since` is the object of `unsure` from
   * before the search: if it has changed, the call has no effect.
   */
  hasNoMore(name: string, since: object): void {
    const topic = this.#topics.get(name);
    if (topic?.unsure !== since) return;
    topic.unsure = null;
    this.#stopLater(topic);
  }

  /**
   * Returns the topics for which commands may wait that are only in the store, and none in memory does. Each has the object to pass to
   * `hasNoMore`.
   */
  get unsure(): ReadonlyMap<string, object> {
    const found = new Map<string, object>();
    for (const { name, unsure, open } of this.#topics.values())
      if (unsure !== null && open.size === 0) found.set(name, unsure);
    return found;
  }

  /** Whether no command in memory waits for a receipt on this topic. */
  needsCommand(name: string): boolean {
    return this.#topics.get(name)?.open.size === 0;
  }

  remove(name: string, command: string): void {
    const topic = this.#topics.get(name);
    if (topic === undefined || !topic.open.delete(command) || topic.open.size > 0) return;
    if (topic.unsure === null) this.#stopLater(topic);
    else this.#parts.onUnsure();
  }

  /** Consumes the topic, unless it is consumed already. Returns the reason if the topic may not be consumed, otherwise null. */
  async consume(session: BrokerSession, name: string): Promise<Rejection | null> {
    const topic = this.#topics.get(name);
    if (topic === undefined) return null;
    const consumer = topic.consumer ?? this.#start(session, topic);
    topic.consumer = consumer;
    try {
      const started = await consumer;
      if (!isRejection(started)) return null;
      if (topic.consumer === consumer) topic.consumer = null;
      return started;
    } catch (thrown) {
      if (topic.consumer === consumer) topic.consumer = null;
      throw thrown;
    }
  }

  /** Returns why a queue may not be consumed for receipts; null if it may be. */
  async refusal(session: BrokerSession, name: string): Promise<Rejection | null> {
    const { queueRegistry, receiptTopics } = this.#parts;
    if (this.#consumed.has(name) || receiptTopics.some((pattern) => matchesTopic(pattern, name))) return null;
    const counts = await session.counts(name);
    if (counts === null || counts.ready + counts.consumers === 0) return null;
    // Another node may have consumed the queue before. The register shows that: a node registers a queue before it consumes it.
    if (await queueRegistry.hasTopic(name)) {
      this.#consumed.add(name);
      return null;
    }
    const what = [
      ...(counts.ready > 0 ? [`${counts.ready} messages`] : []),
      ...(counts.consumers > 0 ? [`${counts.consumers} consumers`] : []),
    ].join(" and ");
    return reject(
      "invalid_input",
      `receipts cannot be received on "${name}": this queue has ${what} of other applications, and Rondo has not consumed it before`,
      {
        path: "receiptTopic",
        hint: `choose another name for the receipt topic, or list "${name}" under receiptTopics in the server's configuration`,
      },
    );
  }

  /** Returns the names of topics that have open commands but are not consumed. */
  get missing(): readonly string[] {
    const all = [...this.#topics.values()];
    return all.filter(({ consumer, open }) => consumer === null && open.size > 0).map(({ name }) => name);
  }

  detach(): void {
    for (const topic of this.#topics.values()) topic.consumer = null;
  }

  #topic(name: string, project: string): ReceiptTopic {
    let topic = this.#topics.get(name);
    if (topic === undefined) {
      topic = { name, project, open: new Set(), consumer: null, unsure: null, stopLater: null };
      this.#topics.set(name, topic);
    }
    return topic;
  }

  #stopLater(topic: ReceiptTopic): void {
    if (topic.open.size > 0) return;
    topic.stopLater ??= this.#parts.clock.after(LINGER_MS, () => {
      topic.stopLater = null;
      if (topic.open.size > 0 || topic.unsure !== null) return;
      this.#topics.delete(topic.name);
      this.#stop(topic);
    });
  }

  async #start(session: BrokerSession, topic: ReceiptTopic): Promise<string | Rejection> {
    const { name, project } = topic;
    const { queueRegistry, repair, topicRegistry, onReceipt } = this.#parts;
    const refusal =
      (await topicRegistry.claim([{ name, role: "receipt" }], project)) ??
      (await this.refusal(session, name));
    if (refusal !== null) return refusal;
    if (!this.#consumed.has(name)) await queueRegistry.putTopic(name);
    this.#consumed.add(name);
    return repair.open(session, [name], async () => {
      await declareTopic(session, name);
      return session.consume(name, (delivery) => {
        if (delivery !== null) return onReceipt(delivery);
        topic.consumer = null;
        if (topic.open.size > 0) this.#run((again) => this.consume(again, name));
      });
    });
  }

  #stop({ consumer }: ReceiptTopic): void {
    if (consumer === null) return;
    this.#run(async (session) => {
      const tag = await consumer;
      // If a command was added in the meantime, the topic has a new consumer, which stays.
      if (!isRejection(tag) && this.#parts.session() === session) await session.cancel(tag);
    });
  }

  #run(step: (session: BrokerSession) => Promise<unknown>): void {
    const session = this.#parts.session();
    if (session === null) return;
    step(session).catch((thrown: unknown) => this.#parts.onFault(toFault(thrown)));
  }
}
