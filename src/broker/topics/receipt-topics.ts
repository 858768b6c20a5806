/**
 * The receipt topics that this node consumes.
 *
 * 1. A topic is consumed while a command of this node waits for a receipt there, and a little longer, so that a chain of
 *    commands does not begin and stop with each. Commands that are only in the store are searched for (waiting-commands.ts)
 *    when none is known: consuming begins when one is found, and stops when there is none.
 * 2. A queue that Rondo has not consumed before is consumed only if it is absent, or empty and without other consumers, or
 *    listed by the operator. So a name in a document never empties a queue of somebody else.
 * 3. The store notes what was consumed (queue-registry), and that the name is a receipt topic (topic-registry).
 */
import type { TopicRegistry } from "../../commands/topic-registry.ts";
import { matchesTopic } from "../../kernel/command/topic-rules.ts";
import type { Clock } from "../../std/clock.ts";
import { isRejection, type Rejection, reject } from "../../std/rejection.ts";
import { toFault } from "../broker-fault.ts";
import type { BrokerSession } from "../broker-link.ts";
import { declareTopic } from "../topology.ts";
import type { QueueMender } from "../visits/queue-mender.ts";
import type { QueueRegistry } from "../visits/queue-registry.ts";
import type { Delivery } from "../visits/receipt-inbox.ts";

export interface ReceiptTopicsParts {
  readonly book: QueueRegistry;
  readonly registry: Pick<TopicRegistry, "claim">;
  readonly mender: QueueMender;
  readonly clock: Clock;
  /** Patterns of queues that the operator allows to be consumed, whatever is in them. */
  readonly receiptTopics: readonly string[];
  readonly session: () => BrokerSession | null;
  readonly onReceipt: (delivery: Delivery) => void;
  /** No command is known that waits at a topic, but there may be one in the store. */
  readonly onUnsure: () => void;
  readonly onFault: (fault: Error) => void;
}

interface ReceiptTopic {
  readonly name: string;
  /** The project whose command asked for it first, here. */
  readonly project: string;
  /** Commands that wait for a receipt here. */
  readonly open: Set<string>;
  /** The tag of the consumer, or why there is none; null: it does not consume. */
  consumer: Promise<string | Rejection> | null;
  /** Since when commands may wait here that this process does not know, as a value of its own; null: there are none. */
  unsure: object | null;
  /** Cancels the timer that ends the consumer. */
  stopLater: (() => void) | null;
}

/** How long a topic is consumed after its last command, in case there is another one. */
const LINGER_MS = 1_000;

export class ReceiptTopics {
  readonly #parts: ReceiptTopicsParts;
  readonly #topics = new Map<string, ReceiptTopic>();
  /** Queues that Rondo has consumed before. */
  readonly #consumed = new Set<string>();

  constructor(parts: ReceiptTopicsParts) {
    this.#parts = parts;
  }

  /** A command waits for its receipt here. */
  add(name: string, command: string, project: string): void {
    const topic = this.#topic(name, project);
    topic.open.add(command);
    topic.stopLater?.();
    topic.stopLater = null;
  }

  /** Commands that this process does not know may wait for receipts here. */
  mayHaveMore(name: string): void {
    this.#topic(name, "").unsure = {};
  }

  /** All commands that wait here are known, unless `mayHaveMore` was called again since then. */
  hasNoMore(name: string, since: object): void {
    const topic = this.#topics.get(name);
    if (topic?.unsure !== since) return;
    topic.unsure = null;
    this.#mayStop(topic);
  }

  /** Topics that may have commands of which none is known, and since when. */
  get unsure(): ReadonlyMap<string, object> {
    const found = new Map<string, object>();
    for (const { name, unsure, open } of this.#topics.values())
      if (unsure !== null && open.size === 0) found.set(name, unsure);
    return found;
  }

  /** No command is known that waits here. */
  needsCommand(name: string): boolean {
    return this.#topics.get(name)?.open.size === 0;
  }

  /** The command waits no more. */
  remove(name: string, command: string): void {
    const topic = this.#topics.get(name);
    if (topic === undefined || !topic.open.delete(command) || topic.open.size > 0) return;
    if (topic.unsure === null) this.#mayStop(topic);
    else this.#parts.onUnsure();
  }

  /** Consumes the topic if it does not; or says why it may not be consumed. */
  async consume(session: BrokerSession, name: string): Promise<Rejection | null> {
    const topic = this.#topics.get(name);
    if (topic === undefined) return null;
    const consumer = topic.consumer ?? this.#begin(session, topic);
    topic.consumer = consumer;
    try {
      const begun = await consumer;
      if (!isRejection(begun)) return null;
      if (topic.consumer === consumer) topic.consumer = null;
      return begun;
    } catch (thrown) {
      if (topic.consumer === consumer) topic.consumer = null;
      throw thrown;
    }
  }

  /** Why a queue may not be consumed for receipts; null: it may. */
  async refusal(session: BrokerSession, name: string): Promise<Rejection | null> {
    const { book, receiptTopics } = this.#parts;
    if (this.#consumed.has(name) || receiptTopics.some((pattern) => matchesTopic(pattern, name))) return null;
    const counts = await session.look(name);
    if (counts === null || counts.ready + counts.consumers === 0) return null;
    // Another node may have begun with it: that is noted before it consumes.
    if (await book.hasTopic(name)) {
      this.#consumed.add(name);
      return null;
    }
    const what = [
      ...(counts.ready > 0 ? [`${counts.ready} messages`] : []),
      ...(counts.consumers > 0 ? [`${counts.consumers} consumers`] : []),
    ].join(" and ");
    return reject(
      "invalid_input",
      `receipts cannot come back on "${name}": this queue has ${what} of others, and Rondo has not consumed it before`,
      {
        path: "receiptTopic",
        hint: `choose another name, or list "${name}" under receiptTopics in the server's configuration`,
      },
    );
  }

  /** Names of topics with open commands that are not consumed. */
  get missing(): readonly string[] {
    const all = [...this.#topics.values()];
    return all.filter(({ consumer, open }) => consumer === null && open.size > 0).map(({ name }) => name);
  }

  /** The connection is gone, and its consumers with it. */
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

  #mayStop(topic: ReceiptTopic): void {
    if (topic.open.size > 0) return;
    topic.stopLater ??= this.#parts.clock.after(LINGER_MS, () => {
      topic.stopLater = null;
      if (topic.open.size > 0 || topic.unsure !== null) return;
      this.#topics.delete(topic.name);
      this.#stop(topic);
    });
  }

  async #begin(session: BrokerSession, topic: ReceiptTopic): Promise<string | Rejection> {
    const { name, project } = topic;
    const { book, mender, registry, onReceipt } = this.#parts;
    const refusal =
      (await registry.claim([{ name, role: "receipt" }], project)) ?? (await this.refusal(session, name));
    if (refusal !== null) return refusal;
    if (!this.#consumed.has(name)) await book.putTopic(name);
    this.#consumed.add(name);
    return mender.open(session, [name], async () => {
      await declareTopic(session, name);
      return session.take(name, (message) => {
        if (message !== null)
          return onReceipt({ message, channel: session.consume, queue: name, isShared: true });
        topic.consumer = null;
        if (topic.open.size > 0) this.#run((again) => this.consume(again, name));
      });
    });
  }

  #stop({ consumer }: ReceiptTopic): void {
    if (consumer === null) return;
    this.#run(async (session) => {
      const tag = await consumer;
      // A command may have come meanwhile; then a consumer of its own has begun.
      if (!isRejection(tag) && this.#parts.session() === session) await session.consume.cancel(tag);
    });
  }

  #run(step: (session: BrokerSession) => Promise<unknown>): void {
    const session = this.#parts.session();
    if (session === null) return;
    step(session).catch((thrown: unknown) => this.#parts.onFault(toFault(thrown)));
  }
}
