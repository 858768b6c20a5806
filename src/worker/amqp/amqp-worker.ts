/**
 * A worker over an AMQP broker: hosts handler code and does what comes out of queues (docs/protocol.md).
 *
 * 1. It declares what it shares with the engine, consumes the `enumerate` queue of each handler, and has one queue of its
 *    own that is bound to the fanouts `process` and `cancel.consumer`.
 * 2. It consumes the task queues that `process` tells of. An unacknowledged delivery is the lease: it is acknowledged
 *    when the last word on the attempt is confirmed by the broker.
 * 3. After a broken connection it declares and consumes anew, says again what was not confirmed, and takes a delivery of
 *    what it still runs for the same attempt.
 * 4. It stops gracefully: consumes no more, hands back what has not begun, lets the rest end within a grace.
 */
import type { Channel, ChannelModel } from "amqplib";
import { receiptTopicOf, topicOf } from "../../kernel/topic.ts";
import { amqpNames, FANOUT, SHARED_QUEUE, TOPIC_QUEUE } from "../../protocol/amqp-wire.ts";
import { decodeAttempt, encodeAttempt } from "../../protocol/attempt-id.ts";
import { INTERNAL_ERROR, QueueDoubts } from "../../protocol/queue-doubts.ts";
import type { ReportedAttempt } from "../../protocol/work.ts";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import { samePlace } from "../attempt-place.ts";
import { type HostedPart, withChildren } from "../handler-code.ts";
import { Worker, type WorkerOptions } from "../worker.ts";
import { Answers } from "./answers.ts";
import { BrokerLink, NoAnswer } from "./broker-link.ts";
import type { Delivery } from "./consumer.ts";
import { HeldAttempts } from "./held-attempts.ts";
import { KeptConsumer } from "./kept-consumer.ts";
import { Publisher } from "./publisher.ts";
import {
  readCancelConsumer,
  readCommand,
  readEnumerate,
  readMark,
  readProcess,
  readTask,
} from "./read-message.ts";
import { type TaskQueue, TaskQueues } from "./task-queues.ts";
import { commanding, type Gathered, listing, working } from "./write-grant.ts";

export interface AmqpWorkerOptions {
  readonly url: string;
  readonly prefix: string;
  /** How it is called at the broker. */
  readonly name: string;
  /** How long the broker may take to answer before a queue is taken for broken; 20 s by default. */
  readonly answerMs?: number;
  /** Attempts at a time. */
  readonly capacity: number;
  /** Workflows and topics. */
  readonly workflows: readonly HostedPart[];
  readonly secrets?: readonly string[];
  readonly clock: Clock;
  readonly random: Random;
  readonly onLog: WorkerOptions["log"];
  /** The broker is away, takes nothing, or refuses (null: it is there again). */
  readonly onTrouble: (what: string | null) => void;
  /** It consumes, for the first time. */
  readonly onReady: () => void;
  /** Something that is put right by itself, or was put aside. */
  readonly onNote: (what: string) => void;
  readonly onBug: (thrown: unknown) => void;
}

/** How long, after the grace, what was said last may take to be heard. */
const LAST_WORDS_MS = 5_000;
/** Enumerations of one handler that it has at a time. */
const ENUMERATIONS_MAX = 4;
const ANSWER_MS = 20_000;
/** How often bindings are put right that somebody may have removed. */
const REBIND_MS = 15_000;

const LACKS =
  "a worker over AMQP has no steps, sleeps, waits or earlier results; serve this handler over HTTP: rondo worker --url";

export class AmqpWorker {
  readonly #options: AmqpWorkerOptions;
  readonly #names: ReturnType<typeof amqpNames>;
  readonly #link: BrokerLink;
  readonly #held: HeldAttempts;
  readonly #publisher: Publisher;
  readonly #answers: Answers;
  readonly #tasks: TaskQueues;
  readonly #doubts = new QueueDoubts();
  readonly #worker: Worker;
  readonly #kept: readonly KeptConsumer[];
  /** The wire names of handlers, by the fanout that tells of their queues. */
  readonly #uses = new Map<string, string>();
  #gathered: Gathered[] = [];
  #bound: { readonly channel: Channel; readonly queue: string } | null = null;
  #stopRebinding: (() => void) | null = null;
  #isReady = false;
  #foreigners = 0;

  constructor(options: AmqpWorkerOptions) {
    const { url, name, prefix, clock, random, capacity, onTrouble, onBug, answerMs = ANSWER_MS } = options;
    this.#options = options;
    this.#names = amqpNames(prefix);
    this.#held = new HeldAttempts((queue) => this.#tasks.release(queue));
    this.#publisher = new Publisher(clock);
    const { enumerated } = this.#names;
    this.#answers = new Answers({ held: this.#held, publisher: this.#publisher, enumerated });
    this.#worker = new Worker({
      clock,
      results: { checkpoint: lacking, settled: lackingRows },
      send: (reports) => this.#answers.send(reports),
      log: options.onLog,
      concurrency: capacity,
      lacks: LACKS,
      ...(options.secrets === undefined ? {} : { secrets: options.secrets }),
      onBug,
    });
    this.#tasks = new TaskQueues({
      capacity,
      heldOf: (queue) => this.#held.countOf(queue),
      onDelivery: (queue, delivery) => this.#task(queue, delivery),
      answered: (work) => this.#link.answered(work),
      onBug,
    });
    const { uses, topics } = this.#host();
    this.#kept = [
      this.#control(),
      ...uses.map((use) => this.#enumerations(use)),
      ...topics.map((topic) => this.#commands(topic)),
    ];
    this.#link = new BrokerLink({
      ...{ url, name, clock, random, onTrouble, answerMs },
      onUp: (connection) => this.#up(connection),
      onDown: () => this.#down(),
    });
  }

  /** Attempts under way. */
  get held(): number {
    return this.#held.size;
  }

  get capacity(): number {
    return this.#options.capacity;
  }

  /** Task queues that it consumes. */
  get queues(): number {
    return this.#tasks.size;
  }

  /** Begins, now or as soon as the broker is there. */
  async start(): Promise<void> {
    this.#rebindLater();
    await this.#link.open();
  }

  /** Ends gracefully; resolves when everything is said, or when it was given long enough. */
  async stop(graceMs: number): Promise<void> {
    this.#stopRebinding?.();
    await this.#within(LAST_WORDS_MS, async () => {
      await Promise.all([this.#tasks.stop(), ...this.#kept.map((consumer) => consumer.stop())]);
    });
    await this.#worker.stop(graceMs, LAST_WORDS_MS);
    if (!this.#link.isInTrouble) await this.#within(LAST_WORDS_MS, () => this.#publisher.empty());
    // Whoever has just heard that its word is there acknowledges now what it was about.
    await new Promise<void>((resolve) => this.#options.clock.soon(resolve));
    await this.#within(LAST_WORDS_MS, () => this.#link.close());
  }

  /** Hosts the code; answers the wire names of what enumerates, and the topics. */
  #host(): { readonly uses: readonly string[]; readonly topics: readonly string[] } {
    const uses = new Set<string>();
    const topics = new Set<string>();
    for (const { name, handlers } of withChildren(this.#options.workflows)) {
      for (const code of handlers) {
        const { use, enumerate, process, processBatch, answer } = code;
        const topic = topicOf(use);
        this.#worker.host(name, code);
        if (topic !== null) topics.add(topic);
        else if ((process ?? processBatch ?? answer) !== undefined)
          this.#uses.set(this.#names.process(use), use);
        if (enumerate !== undefined) uses.add(use);
      }
    }
    return { uses: [...uses], topics: [...topics] };
  }

  async #up(connection: ChannelModel): Promise<void> {
    const channel = await connection.createConfirmChannel();
    // What breaks it breaks no more than itself; the connection is made anew then.
    channel.on("error", () => {
      connection.close().catch(this.#options.onBug);
    });
    await this.#link.answered(channel.assertQueue(this.#names.enumerated, SHARED_QUEUE));
    this.#publisher.attach(channel);
    for (const consumer of this.#kept) await consumer.attach(connection);
    this.#tasks.attach(connection);
    if (!this.#isReady) this.#options.onReady();
    this.#isReady = true;
  }

  #down(): void {
    this.#bound = null;
    for (const consumer of this.#kept) consumer.detach();
    this.#tasks.detach();
  }

  /** A queue of its own for what every worker is told. */
  #control(): KeptConsumer {
    return new KeptConsumer({
      ...this.#keeping,
      prefetch: () => null,
      prepare: async (channel) => {
        const { queue } = await channel.assertQueue("", { exclusive: true, autoDelete: true });
        this.#bound = { channel, queue };
        await this.#bind(channel, queue);
        return queue;
      },
      onDelivery: ({ message }) => this.#told(message.fields.exchange, message.content),
    });
  }

  async #bind(channel: Channel, queue: string): Promise<void> {
    for (const fanout of [this.#names.cancelConsumer, ...this.#uses.keys()]) {
      await channel.assertExchange(fanout, "fanout", FANOUT);
      await channel.bindQueue(queue, fanout, "");
    }
  }

  #rebindLater(): void {
    this.#stopRebinding = this.#options.clock.after(REBIND_MS, () => {
      const bound = this.#bound;
      // A channel that breaks here is found by its consumer.
      if (bound !== null) this.#bind(bound.channel, bound.queue).catch(() => {});
      this.#rebindLater();
    });
  }

  #enumerations(use: string): KeptConsumer {
    const { capacity } = this.#options;
    const name = this.#names.enumerate(use);
    return new KeptConsumer({
      ...this.#keeping,
      prefetch: () => Math.min(capacity, ENUMERATIONS_MAX),
      onOpened: (failure) => this.#opened(name, failure),
      prepare: async (channel) => {
        await this.#mend(name);
        return (await channel.assertQueue(name, SHARED_QUEUE)).queue;
      },
      onDelivery: (delivery) => this.#enumerate(use, delivery),
    });
  }

  /** A topic and its receipt topic are shared with others: they are declared only where they are not there. */
  #commands(topic: string): KeptConsumer {
    const { capacity } = this.#options;
    return new KeptConsumer({
      ...this.#keeping,
      prefetch: () => capacity,
      onOpened: (failure) => this.#opened(topic, failure),
      prepare: async (channel) => {
        await this.#mend(topic);
        for (const queue of [receiptTopicOf(topic), topic])
          if (!(await this.#link.hasQueue(queue))) await channel.assertQueue(queue, TOPIC_QUEUE);
        return topic;
      },
      onDelivery: (delivery) => this.#command(topic, delivery),
    });
  }

  get #keeping() {
    const { clock, onNote } = this.#options;
    return { clock, onNote, answered: <T>(work: Promise<T>) => this.#link.answered(work) };
  }

  /** Whether a queue could be consumed: what is there and of no use breaks even the connection, and stays so. */
  #opened(queue: string, failure: Error | null): void {
    if (failure === null) return this.#doubts.clear(queue);
    const { code } = this.#link;
    if (failure instanceof NoAnswer || code === INTERNAL_ERROR) this.#doubts.failed(queue);
  }

  async #mend(queue: string): Promise<void> {
    if (!this.#doubts.has(queue)) return;
    this.#doubts.clear(queue);
    await this.#link.removeUseless(queue);
    this.#options.onNote(`the queue ${queue} could not be used, and is made anew`);
  }

  #told(exchange: string, body: Buffer): void {
    const use = this.#uses.get(exchange);
    if (use === undefined) {
      const message = readCancelConsumer(body);
      if (message === null) this.#broken(exchange);
      else this.#cancel(message.task_queue, message.reason === "paused");
      return;
    }
    const message = readProcess(body);
    if (message === null) this.#broken(exchange);
    else this.#tasks.add({ use, message, input: JSON.stringify(message.input ?? null) });
  }

  /** A pause lets go on what has begun. */
  #cancel(taskQueue: string, isPause: boolean): void {
    this.#tasks.remove(taskQueue);
    const beats = this.#held.beatsOf(taskQueue);
    if (isPause) this.#worker.giveBack(beats);
    else this.#worker.cancel(beats, "cancel");
  }

  #enumerate(use: string, delivery: Delivery): void {
    const message = readEnumerate(delivery.message.content);
    const at = message === null ? null : decodeAttempt(message.attempt);
    if (message === null || at === null) return this.#putAside(delivery);
    const held = { kind: "enumeration", id: message.attempt, at, message, delivery } as const;
    if (delivery.message.fields.redelivered && !this.#held.knows(held.id))
      this.#answers.passOn(held, this.#names.enumerate(use));
    else if (this.#held.add(held, (body) => this.#answers.again(held, body)))
      this.#worker.take(listing(use, message, at));
  }

  /** What comes in one turn is one grant. */
  #task(queue: TaskQueue, delivery: Delivery): void {
    const message = readTask(delivery.message.content);
    const at = message === null ? null : decodeAttempt(message.attempt);
    if (message === null || at === null) return this.#putAside(delivery);
    const { attempt: id, token, finished_queue: finishedQueue } = message;
    const held = {
      kind: "task",
      id,
      at,
      token,
      taskQueue: queue.message.task_queue,
      finishedQueue,
      delivery,
    } as const;
    if (!this.#held.add(held, (body) => this.#answers.again(held, body))) return;
    const { task: number, attempt, claim } = at;
    const item = { number, attempt, claim, task: JSON.stringify(message.data ?? null), checkpoints: null };
    if (this.#gathered.length === 0) this.#options.clock.soon(() => this.#take());
    const last = this.#gathered.at(-1);
    if (last?.queue === queue && samePlace(last.at, at)) last.items.push(item);
    else this.#gathered.push({ queue, at, message, items: [item] });
  }

  #take(): void {
    const gathered = this.#gathered;
    this.#gathered = [];
    for (const one of gathered) this.#worker.take(working(one));
  }

  #command(topic: string, delivery: Delivery): void {
    const { content, properties } = delivery.message;
    const command = readCommand(content);
    if (command === null) return this.#putAside(delivery);
    const mark = readMark(command);
    const at = (mark === null ? null : decodeAttempt(mark.attempt)) ?? this.#foreign();
    const receiptTopic = String(properties.replyTo ?? receiptTopicOf(topic));
    const held = { kind: "command", id: encodeAttempt(at), at, command, receiptTopic, delivery } as const;
    if (!this.#held.add(held, (body) => this.#answers.again(held, body))) return;
    this.#worker.take(commanding(topic, at, { command, receiptTopic, step: mark?.step ?? 0 }));
  }

  /** A command that no engine sent is an attempt too, of nobody's. */
  #foreign(): ReportedAttempt {
    const place = {
      execution: "foreign",
      phase: "command",
      visit: 1,
      handler: "command",
      round: 1,
      epoch: 0,
    };
    return { ...place, task: this.#foreigners++, attempt: 1, claim: 0 };
  }

  #putAside(delivery: Delivery): void {
    delivery.nack(false);
    this.#broken(delivery.message.fields.routingKey);
  }

  #broken(from: string): void {
    this.#options.onNote(`a message from ${from} cannot be read, and was put aside`);
  }

  /** Waits for something, but only so long. */
  #within(ms: number, run: () => Promise<void>): Promise<void> {
    return new Promise((resolve, fail) => {
      const cancel = this.#options.clock.after(ms, resolve);
      run().then(resolve, fail).finally(cancel);
    });
  }
}

function lacking(): Promise<never> {
  return Promise.reject(new Error(LACKS));
}

async function* lackingRows(): AsyncGenerator<never> {
  yield await lacking();
}
