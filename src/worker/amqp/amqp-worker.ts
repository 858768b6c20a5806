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
import type { ChannelModel, ConfirmChannel } from "amqplib";
import { receiptTopicOf, topicOf } from "../../kernel/command/topic.ts";
import { amqpNames, SHARED_QUEUE, TOPIC_QUEUE } from "../../protocol/amqp-wire.ts";
import { decodeAttempt, encodeAttempt } from "../../protocol/attempt-id.ts";
import { DeadLetters, declareDead } from "../../protocol/dead-letters.ts";
import { INTERNAL_ERROR, QueueDoubts } from "../../protocol/queue-doubts.ts";
import type { ReportedAttempt } from "../../protocol/work.ts";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import { isRejection } from "../../std/rejection.ts";
import { samePlace } from "../attempt-place.ts";
import { type HostedPart, withChildren } from "../handler-code.ts";
import { Worker, type WorkerOptions } from "../worker.ts";
import { Answers } from "./answers.ts";
import { BrokerLink, NoAnswer } from "./broker-link.ts";
import { CancelledCommands } from "./cancelled-commands.ts";
import type { Delivery } from "./consumer.ts";
import { ControlQueue } from "./control-queue.ts";
import { HeldAttempts } from "./held-attempts.ts";
import { KeptConsumer } from "./kept-consumer.ts";
import { Publisher } from "./publisher.ts";
import { readCancelConsumer, readCommand, readEnumerate, readProcess, readTask } from "./read-message.ts";
import { type TaskQueue, TaskQueues } from "./task-queues.ts";
import { commanding, foreignAttempt, type Gathered, listing, working } from "./write-grant.ts";

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
  /** Something that is put right by itself, or a message that went to the dead letters. */
  readonly onNote: (what: string) => void;
  readonly onBug: (thrown: unknown) => void;
}

/** How long, after the grace, what was said last may take to be heard. */
const LAST_WORDS_MS = 5_000;
/** Enumerations of one handler that it has at a time. */
const ENUMERATIONS_MAX = 4;
const ANSWER_MS = 20_000;

const TOO_DEEP = "the message is nested too deeply";

const LACKS =
  "a worker over AMQP has no steps, sleeps, waits or earlier results; serve this handler over HTTP: rondo worker --url";

export class AmqpWorker {
  readonly #options: AmqpWorkerOptions;
  readonly #names: ReturnType<typeof amqpNames>;
  readonly #link: BrokerLink;
  readonly #held: HeldAttempts;
  readonly #cancelled = new CancelledCommands();
  readonly #publisher: Publisher;
  readonly #answers: Answers;
  readonly #dead: DeadLetters;
  /** Publishes, and declares what others may have deleted. */
  #channel: ConfirmChannel | null = null;
  readonly #tasks: TaskQueues;
  readonly #doubts = new QueueDoubts();
  readonly #worker: Worker;
  readonly #control: ControlQueue;
  readonly #kept: readonly KeptConsumer[];
  /** The wire names of handlers, by the fanout that tells of their queues. */
  readonly #uses = new Map<string, string>();
  #gathered: Gathered[] = [];
  /** Tells this process apart from others in roll calls. */
  readonly #id: string;
  #isReady = false;
  #foreigners = 0;

  constructor(options: AmqpWorkerOptions) {
    const { url, name, prefix, clock, random, capacity, onTrouble, onBug, answerMs = ANSWER_MS } = options;
    this.#options = options;
    this.#id = `${random.u32().toString(36)}-${random.u32().toString(36)}`;
    this.#names = amqpNames(prefix);
    this.#held = new HeldAttempts((queue) => this.#tasks.release(queue));
    this.#publisher = new Publisher(clock);
    const { enumerated } = this.#names;
    this.#answers = new Answers({
      ...{ held: this.#held, cancelled: this.#cancelled, publisher: this.#publisher, enumerated },
    });
    this.#dead = new DeadLetters({
      dead: this.#names.dead,
      clock,
      publish: ({ key: queue, ...letter }, done) =>
        this.#publisher.publish({ ...letter, queue, done: (end) => done(end === "confirmed") }),
      declare: async () =>
        this.#channel === null ? undefined : declareDead(this.#channel, this.#names.dead),
      // A channel that broke is replaced with the next connection.
      onFault: (thrown) => options.onNote(`the dead-letter queue cannot be declared: ${String(thrown)}`),
    });
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
    this.#control = new ControlQueue({
      ...this.#keeping,
      fanouts: () => [this.#names.cancelConsumer, ...this.#uses.keys()],
      onDelivery: (delivery) => this.#controlMessage(delivery),
    });
    this.#kept = [
      this.#control,
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
    this.#control.keepBound();
    await this.#link.open();
  }

  /** Ends gracefully; resolves when everything is said, or when it was given long enough. */
  async stop(graceMs: number): Promise<void> {
    await this.#within(LAST_WORDS_MS, async () => {
      const others = this.#kept.filter((consumer) => consumer !== this.#control);
      await Promise.all([this.#tasks.stop(), ...others.map((consumer) => consumer.stop())]);
    });
    // Until all has ended, roll calls are answered: nobody else knows what is held here.
    await this.#worker.stop(graceMs, LAST_WORDS_MS);
    await this.#within(LAST_WORDS_MS, () => this.#control.stop());
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
    await this.#link.answered(declareDead(channel, this.#names.dead));
    this.#channel = channel;
    this.#publisher.attach(channel);
    for (const consumer of this.#kept) await consumer.attach(connection);
    this.#tasks.attach(connection);
    if (!this.#isReady) this.#options.onReady();
    this.#isReady = true;
  }

  #down(): void {
    this.#channel = null;
    for (const consumer of this.#kept) consumer.detach();
    this.#tasks.detach();
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

  /** `process` or `cancel.consumer`. */
  #controlMessage(delivery: Delivery): void {
    const { content, fields } = delivery.message;
    const use = this.#uses.get(fields.exchange);
    if (use === undefined) {
      const message = readCancelConsumer(content);
      if (isRejection(message)) return this.#refuse(delivery, fields.exchange, message.message);
      this.#cancel(message.task_queue, message.reason === "paused");
      this.#cancelCommands(message.commands ?? []);
    } else {
      const message = readProcess(content);
      if (isRejection(message)) return this.#refuse(delivery, fields.exchange, message.message);
      const input = this.#text(message.input);
      if (input === null) return this.#refuse(delivery, fields.exchange, TOO_DEEP);
      this.#tasks.add({ use, message, input });
      const consumes = this.#tasks.has(message.task_queue);
      this.#answers.rollCall(message, { worker: this.#id, consumes });
    }
    delivery.ack();
  }

  /** A pause lets go on what has begun. */
  #cancel(taskQueue: string, isPause: boolean): void {
    this.#tasks.remove(taskQueue);
    const beats = this.#held.beatsOf(taskQueue);
    if (isPause) this.#worker.giveBack(beats);
    else this.#worker.cancel(beats, "cancel");
  }

  /** What has not begun is dropped, running code is told to stop, and copies that come later are not run. */
  #cancelCommands(ids: readonly string[]): void {
    if (ids.length === 0) return;
    for (const id of ids) this.#cancelled.add(decodeAttempt(id) as ReportedAttempt);
    const beats = this.#held.commandBeats((at) => this.#cancelled.has(at));
    this.#worker.cancel(beats, "cancel");
  }

  #enumerate(use: string, delivery: Delivery): void {
    const queue = this.#names.enumerate(use);
    const message = readEnumerate(delivery.message.content);
    if (isRejection(message)) return this.#refuse(delivery, queue, message.message);
    if (this.#text(message) === null) return this.#refuse(delivery, queue, TOO_DEEP);
    const at = decodeAttempt(message.attempt) as ReportedAttempt;
    const held = { kind: "enumeration", id: message.attempt, at, message, delivery } as const;
    if (delivery.message.fields.redelivered && !this.#held.knows(held.id)) this.#answers.passOn(held, queue);
    else if (this.#held.add(held, (body) => this.#answers.again(held, body)))
      this.#worker.take(listing(use, message, at));
  }

  /** What comes in one turn is one grant. */
  #task(queue: TaskQueue, delivery: Delivery): void {
    const { task_queue: taskQueue } = queue.message;
    const message = readTask(delivery.message.content);
    if (isRejection(message)) return this.#refuse(delivery, taskQueue, message.message);
    const task = this.#text(message.data);
    if (task === null) return this.#refuse(delivery, taskQueue, TOO_DEEP);
    const at = decodeAttempt(message.attempt) as ReportedAttempt;
    const { attempt: id, token, finished_queue: finishedQueue } = message;
    const held = { kind: "task", id, at, token, taskQueue, finishedQueue, delivery } as const;
    if (!this.#held.add(held, (body) => this.#answers.again(held, body))) return;
    const { task: number, attempt, claim } = at;
    const item = { number, attempt, claim, task, checkpoints: null };
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
    const read = readCommand(content);
    if (isRejection(read)) return this.#refuse(delivery, topic, read.message);
    const { command, step } = read;
    if (this.#text(command) === null) return this.#refuse(delivery, topic, TOO_DEEP);
    const at = read.at ?? foreignAttempt(this.#foreigners++);
    if (this.#cancelled.has(at)) return delivery.ack();
    const receiptTopic = String(properties.replyTo ?? receiptTopicOf(topic));
    const held = { kind: "command", id: encodeAttempt(at), at, command, receiptTopic, delivery } as const;
    if (!this.#held.add(held, (body) => this.#answers.again(held, body))) return;
    this.#worker.take(commanding(topic, at, { command, receiptTopic, step }));
  }

  /** A value as JSON text; null: it is nested too deeply to be written. */
  #text(value: unknown): string | null {
    try {
      return JSON.stringify(value ?? null);
    } catch (thrown) {
      if (!(thrown instanceof RangeError)) throw thrown;
      return null;
    }
  }

  /** Puts a message that cannot be read into the dead-letter queue, and acknowledges it once it is there. */
  #refuse(delivery: Delivery, queue: string, reason: string): void {
    this.#options.onNote(
      `a message from ${queue} cannot be read (${reason}): it goes to ${this.#names.dead}`,
    );
    this.#dead.put(delivery.message.content, { queue, reason }, () => delivery.ack());
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
