/**
 * A worker over an AMQP broker. It hosts handler code, and runs the work that it consumes from queues (docs/protocol.md).
 * 1. It declares the queues that it shares with the engine, consumes the `enumerate` queue of each handler, and has one queue
 *    of its own that is bound to the fanout exchanges `process` and `cancel.consumer`.
 * 2. It consumes the task queues that `process` announces. An unacknowledged delivery is the lease of an attempt: the worker
 *    acknowledges it when the broker has confirmed the attempt's receipt.
 * 3. After a lost connection it declares and consumes again, and publishes again what was not confirmed. If an attempt that is
 *    still running is delivered again, it counts as the same attempt.
 * 4. It stops gracefully: it stops consuming, returns the work that has not begun, and lets the rest end within a grace period.
 */
import { receiptTopicOf, topicOf } from "../../kernel/command/topic-rules.ts";
import { BrokerConnection, type BrokerSession } from "../../net/amqp/connection.ts";
import { FanoutConsumer, RecoveringConsumer } from "../../net/amqp/consumer.ts";
import { DeadLetters } from "../../net/amqp/dead-letters.ts";
import type { Delivery } from "../../net/amqp/delivery.ts";
import { Publisher } from "../../net/amqp/publisher.ts";
import { QueueRepair } from "../../net/amqp/queue-repair.ts";
import { amqpNames, type ProcessMessage, SHARED_QUEUE, TOPIC_QUEUE } from "../../protocol/amqp-wire.ts";
import { beatsOf, decodeAttempt, encodeAttempt } from "../../protocol/attempt-id.ts";
import { brandFatal } from "../../protocol/error-brands.ts";
import { type GrantItem, type ReportedAttempt, readCompensation, SCRIPT_USE } from "../../protocol/work.ts";
import { isRejection } from "../../std/rejection.ts";
import { atMost } from "../../std/within.ts";
import { samePlace } from "../attempt-place.ts";
import { withChildren } from "../handler-code.ts";
import { type StatusOptions, type StatusServer, startStatusServer } from "../status-server.ts";
import { type NetworkWorkerOptions, Worker } from "../worker.ts";
import { Answers } from "./answers.ts";
import { CancelledCommands, HeldAttempts, type HeldTask } from "./held-attempts.ts";
import {
  commandGrant,
  enumerateGrant,
  foreignAttempt,
  readCancelConsumer,
  readCommand,
  readEnumerate,
  readProcess,
  readTask,
  type TaskBatch,
  taskGrant,
} from "./read-message.ts";
import { ReceiptSpool } from "./receipt-spool.ts";
import { ScriptLink, type ScriptLinkOptions } from "./script-link.ts";
import { type TaskQueue, TaskQueues } from "./task-queues.ts";

export interface AmqpWorkerOptions extends NetworkWorkerOptions {
  readonly url: string;
  readonly prefix: string;
  /** A directory in which receipts are kept until the broker has confirmed them. Without it, they are kept in memory only. */
  readonly spool?: string;
  /**
   * The options of scripts, and the servers from which the worker reads their runs. Without them, this worker runs no scripts.
   */
  readonly scripts?: Pick<ScriptLinkOptions, "scripts" | "addresses">;
  /** The address on which the worker's status API listens. Without it, there is no status API. */
  readonly status?: Pick<StatusOptions, "host" | "port">;
  /** How long the broker may take to answer before a queue counts as broken; 20 s by default. */
  readonly answerMs?: number;
  /** Called when the worker consumes its queues for the first time. */
  readonly onReady: () => void;
  /** Called with a fault that the worker repairs itself, or with a message that it moved to the dead-letter queue. */
  readonly onNote: (what: string) => void;
}

/** How long each part of a stop may take, in addition to the grace period. */
const STOP_MS = 5_000;
/** The most enumerations of one handler that run at a time. */
const ENUMERATIONS_MAX = 4;
const CONTROL_PREFETCH = 100;
const ANSWER_MS = 20_000;

const TOO_DEEP = "the message is nested too deeply";

const LACKS =
  "a worker over AMQP has no steps, sleeps, waits or earlier results; serve this workflow by workers without --broker: " +
  "rondo worker FILE --url http://<host>:<port>";

export class AmqpWorker {
  readonly #options: AmqpWorkerOptions;
  readonly #names: ReturnType<typeof amqpNames>;
  readonly #connection: BrokerConnection;
  readonly #held: HeldAttempts;
  readonly #cancelled = new CancelledCommands();
  readonly #publisher: Publisher;
  readonly #spool: ReceiptSpool | null;
  readonly #scripts: ScriptLink | null;
  readonly #answers: Answers;
  readonly #dead: DeadLetters;
  readonly #repair: QueueRepair;
  #session: BrokerSession | null = null;
  readonly #tasks: TaskQueues;
  readonly #worker: Worker;
  /** The worker's own queue, for `process` and `cancel.consumer`. */
  readonly #control: FanoutConsumer;
  readonly #consumers: readonly RecoveringConsumer[];
  /** The wire names of handlers, by the fanout exchange that announces their queues. */
  readonly #uses = new Map<string, string>();
  #batches: TaskBatch[] = [];
  /** The id of this process in roll calls, which distinguishes it from other processes. */
  readonly #id: string;
  #status: StatusServer | null = null;
  #isReady = false;
  #isInTrouble = false;
  #foreignCommands = 0;

  constructor(options: AmqpWorkerOptions) {
    const { url, name, prefix, clock, random, capacity, onNote, onBug, answerMs = ANSWER_MS } = options;
    this.#options = options;
    this.#id = `${random.u32().toString(36)}-${random.u32().toString(36)}`;
    this.#names = amqpNames(prefix);
    this.#held = new HeldAttempts((queue) => this.#tasks.release(queue));
    this.#publisher = new Publisher(clock);
    this.#spool = options.spool === undefined ? null : new ReceiptSpool(options.spool, onBug);
    for (const { path, lines } of this.#spool?.damaged ?? [])
      onNote(`a spool file is damaged: ${lines} of its lines cannot be read; it is kept as ${path}`);
    const { enumerated } = this.#names;
    this.#scripts =
      options.scripts === undefined
        ? null
        : new ScriptLink({
            ...options.scripts,
            ...{ clock, random, onNote, onBug },
            onStop: ({ at }, why) => this.#worker.cancel(beatsOf([at]), why),
          });
    this.#answers = new Answers({
      ...{ held: this.#held, cancelled: this.#cancelled, publisher: this.#publisher, enumerated },
      spool: this.#spool,
      scripts: this.#scripts,
      onBug,
    });
    this.#answers.publishLeft();
    this.#repair = new QueueRepair((fault) => onNote(fault.message));
    this.#dead = new DeadLetters({
      dead: this.#names.dead,
      clock,
      publisher: this.#publisher,
      repair: this.#repair,
      session: () => this.#session,
      onFault: (fault) => onNote(`the dead-letter queue cannot be declared: ${fault.message}`),
    });
    this.#worker = new Worker({
      clock,
      results: {
        checkpoint: async (_execution, seq) => this.#scripts?.state(seq) ?? lacking(),
        settled: lackingRows,
      },
      send: (reports) => this.#answers.send(reports),
      log: options.onLog,
      concurrency: capacity,
      lacks: LACKS,
      ...(options.scripts === undefined ? {} : { scripts: options.scripts.scripts }),
      ...(options.secrets === undefined ? {} : { secrets: options.secrets }),
      onBug,
    });
    this.#tasks = new TaskQueues({
      capacity,
      heldOf: (queue) => this.#held.countOf(queue),
      onDelivery: (queue, delivery) => this.#task(queue, delivery),
      onBug,
    });
    const { uses, topics } = this.#host();
    this.#control = new FanoutConsumer({
      ...this.#recovery,
      prefetch: () => CONTROL_PREFETCH,
      fanouts: () => [this.#names.cancelConsumer, ...this.#uses.keys()],
      onDelivery: (delivery) => this.#onControl(delivery),
    });
    this.#consumers = [
      this.#control,
      ...uses.map((use) => this.#enumerations(use)),
      ...topics.map((topic) => this.#commands(topic)),
    ];
    this.#connection = new BrokerConnection({
      ...{ url, name, clock, random, answerMs },
      onUp: (session) => this.#up(session),
      onDown: () => this.#down(),
      onBlocked: (isBlocked) => this.#setTrouble(isBlocked ? this.#connection.fault : null),
      onFault: (fault) => this.#setTrouble(fault.message),
    });
  }

  get held(): number {
    return this.#held.size;
  }

  get capacity(): number {
    return this.#options.capacity;
  }

  get queues(): number {
    return this.#tasks.size;
  }

  /** The address of the worker's status API; null if it has none. */
  get url(): string | null {
    return this.#status?.url ?? null;
  }

  /** Connects to the broker, and repeats that until a broker answers. */
  async start(): Promise<void> {
    const { status } = this.#options;
    if (status !== undefined)
      this.#status = await startStatusServer({
        ...status,
        health: () => this.#health(),
        attempt: (id) => this.#about(id),
        run: (id, run) => this.#scripts?.about(id, run) ?? null,
      });
    await this.#connection.open();
  }

  /** Stops gracefully; resolves when the broker has confirmed all receipts, or when the grace period is over. */
  async stop(graceMs: number): Promise<void> {
    const { clock } = this.#options;
    const others = this.#consumers.filter((consumer) => consumer !== this.#control);
    const stopped = Promise.all([this.#tasks.stop(), ...others.map((consumer) => consumer.stop())]);
    await atMost(clock, STOP_MS, stopped);
    // The worker answers roll calls until all its attempts have ended, because no other process knows which attempts it holds.
    await this.#worker.stop(graceMs, STOP_MS);
    await atMost(clock, STOP_MS, this.#control.stop());
    if (!this.#isInTrouble) await this.#publisher.emptyWithin(STOP_MS);
    // Deliveries whose receipts were just confirmed are acknowledged in this turn of the event loop, so the worker waits for one turn.
    await new Promise<void>((resolve) => clock.soon(resolve));
    await atMost(clock, STOP_MS, this.#connection.close());
    this.#spool?.close();
    this.#scripts?.close();
    this.#status?.close();
  }

  #health(): Readonly<Record<string, unknown>> {
    const { name, capacity } = this.#options;
    const connected = this.#session !== null && !this.#isInTrouble;
    return { ok: true, name, workers: [name], capacity, held: this.held, connected };
  }

  /** The status of an attempt; null if the worker does not have the attempt. */
  #about(id: string): Readonly<Record<string, unknown>> | null {
    const held = this.#held.find(id);
    if (held === undefined) return null;
    return { attempt: id, status: held.hasStarted === true ? "running" : "claimed", since: held.since };
  }

  /** Hosts the handler code. Returns the wire names of code that enumerates, and the topics. */
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
    if (this.#scripts !== null) this.#uses.set(this.#names.process(SCRIPT_USE), SCRIPT_USE);
    return { uses: [...uses], topics: [...topics] };
  }

  async #up(session: BrokerSession): Promise<void> {
    await session.withChannel((channel) => channel.assertQueue(this.#names.enumerated, SHARED_QUEUE));
    await this.#dead.declare(session);
    this.#session = session;
    this.#publisher.attach(session.publish);
    for (const consumer of this.#consumers) await consumer.attach(session);
    // The session may have ended while the consumers were opened.
    if (this.#session !== session) return;
    this.#tasks.attach(session);
    this.#setTrouble(null);
    if (!this.#isReady) this.#options.onReady();
    this.#isReady = true;
  }

  #down(): void {
    this.#session = null;
    this.#publisher.detach();
    for (const consumer of this.#consumers) consumer.detach();
    this.#tasks.detach();
  }

  /** Reports the first fault of a series, and the end of the series (null). */
  #setTrouble(what: string | null): void {
    if (this.#isInTrouble === (what !== null)) return;
    this.#isInTrouble = what !== null;
    this.#options.onTrouble(what);
  }

  #enumerations(use: string): RecoveringConsumer {
    const { capacity } = this.#options;
    const name = this.#names.enumerate(use);
    return new RecoveringConsumer({
      ...this.#recovery,
      queue: name,
      prefetch: () => Math.min(capacity, ENUMERATIONS_MAX),
      prepare: async (channel) => (await channel.assertQueue(name, SHARED_QUEUE)).queue,
      onDelivery: (delivery) => this.#enumerate(use, delivery),
    });
  }

  /**
   * Consumes the commands of a topic. Topics and their receipt topics are shared with other applications: the worker declares
   * them only if they do not exist.
   */
  #commands(topic: string): RecoveringConsumer {
    const { capacity } = this.#options;
    return new RecoveringConsumer({
      ...this.#recovery,
      queue: topic,
      prefetch: () => capacity,
      prepare: async (channel, session) => {
        for (const queue of [receiptTopicOf(topic), topic])
          if ((await session.counts(queue)) === null) await channel.assertQueue(queue, TOPIC_QUEUE);
        return topic;
      },
      onDelivery: (delivery) => this.#command(topic, delivery),
    });
  }

  get #now(): number {
    return this.#options.clock.now();
  }

  get #recovery() {
    const { clock, onNote } = this.#options;
    return { clock, onNote, repair: this.#repair };
  }

  #onControl(delivery: Delivery): void {
    const { content, fields } = delivery.message;
    const use = this.#uses.get(fields.exchange);
    if (use === undefined) {
      const message = readCancelConsumer(content);
      if (isRejection(message)) return this.#refuse(delivery, message.message, fields.exchange);
      this.#cancel(message.task_queue, message.reason === "paused");
      this.#cancelCommands(message.commands ?? []);
    } else {
      const message = readProcess(content);
      if (isRejection(message)) return this.#refuse(delivery, message.message, fields.exchange);
      const input = this.#text(message.input);
      if (input === null) return this.#refuse(delivery, TOO_DEEP, fields.exchange);
      this.#tasks.add({ use, message: this.#withinSandbox(use, message), input });
      const consumes = this.#tasks.has(message.task_queue);
      this.#answers.answerRollCall(message, { worker: this.#id, consumes });
    }
    delivery.ack();
  }

  /** Limits the prefetched scripts to the number that the sandbox runs at a time. */
  #withinSandbox(use: string, message: ProcessMessage): ProcessMessage {
    if (use !== SCRIPT_USE || this.#scripts === null) return message;
    const { atOnce } = this.#scripts.scripts;
    return { ...message, prefetch: Math.min(atOnce, message.prefetch ?? atOnce) };
  }

  /** Stops consuming a task queue. If the execution was only paused, attempts that have begun go on. */
  #cancel(taskQueue: string, isPause: boolean): void {
    this.#tasks.remove(taskQueue);
    const beats = this.#held.beatsOf(taskQueue);
    if (isPause) this.#worker.giveBack(beats);
    else this.#worker.cancel(beats, "cancel");
  }

  /**
   * Drops commands that have not begun, aborts running code, and remembers the ids so that later copies of the commands do not
   * run.
   */
  #cancelCommands(ids: readonly string[]): void {
    if (ids.length === 0) return;
    for (const id of ids) this.#cancelled.add(decodeAttempt(id) as ReportedAttempt);
    const beats = this.#held.commandBeats((at) => this.#cancelled.has(at));
    this.#worker.cancel(beats, "cancel");
  }

  #enumerate(use: string, delivery: Delivery): void {
    const queue = this.#names.enumerate(use);
    const message = readEnumerate(delivery.message.content);
    if (isRejection(message)) return this.#refuse(delivery, message.message);
    if (this.#text(message) === null) return this.#refuse(delivery, TOO_DEEP);
    const at = decodeAttempt(message.attempt) as ReportedAttempt;
    const held = {
      kind: "enumeration",
      id: message.attempt,
      at,
      message,
      delivery,
      since: this.#now,
    } as const;
    if (delivery.message.fields.redelivered && !this.#held.knows(held.id)) this.#answers.passOn(held, queue);
    else if (this.#held.add(held, (body) => this.#answers.again(held, body)))
      this.#worker.accept(enumerateGrant(use, message, at));
  }

  /** Gathers deliveries of one turn of the event loop into one grant. */
  #task(queue: TaskQueue, delivery: Delivery): void {
    const { task_queue: taskQueue } = queue.message;
    const message = readTask(delivery.message.content);
    if (isRejection(message)) return this.#refuse(delivery, message.message);
    const task = this.#text(message.data);
    if (task === null) return this.#refuse(delivery, TOO_DEEP);
    const at = decodeAttempt(message.attempt) as ReportedAttempt;
    const { attempt: id, token, finished_queue: finishedQueue } = message;
    const held = {
      kind: "task",
      id,
      at,
      token,
      taskQueue,
      finishedQueue,
      delivery,
      since: this.#now,
    } as const;
    if (!this.#held.add(held, (body) => this.#answers.again(held, body))) return;
    if (message.do === "script") {
      this.#script(held, { queue, at, message, items: [] }).catch(this.#options.onBug);
      return;
    }
    const { task: number, attempt, claim } = at;
    const compensates = readCompensation(message);
    const item: GrantItem = {
      number,
      attempt,
      claim,
      task,
      checkpoints: null,
      ...(compensates === undefined ? {} : { compensates }),
    };
    if (this.#batches.length === 0) this.#options.clock.soon(() => this.#runBatches());
    const last = this.#batches.at(-1);
    if (last?.queue === queue && samePlace(last.at, at)) last.items.push(item);
    else this.#batches.push({ queue, at, message, items: [item] });
  }

  /**
   * Begins an attempt of a script with the runs and the state that the server sends. If the attempt has ended, its delivery is
   * dropped.
   */
  async #script(held: HeldTask, batch: TaskBatch): Promise<void> {
    const grant = await this.#scripts?.read(held, taskGrant(batch), batch.message);
    if (grant === null) this.#held.discard(held);
    else if (grant !== undefined) this.#worker.accept(grant);
  }

  #runBatches(): void {
    const batches = this.#batches;
    this.#batches = [];
    for (const batch of batches) this.#worker.accept(taskGrant(batch));
  }

  #command(topic: string, delivery: Delivery): void {
    const { content, properties } = delivery.message;
    const read = readCommand(content);
    if (isRejection(read)) return this.#refuse(delivery, read.message);
    const { command, step } = read;
    if (this.#text(command) === null) return this.#refuse(delivery, TOO_DEEP);
    const at = read.at ?? foreignAttempt(this.#foreignCommands++);
    if (this.#cancelled.has(at)) return delivery.ack();
    const receiptTopic = String(properties.replyTo ?? receiptTopicOf(topic));
    const held = {
      kind: "command",
      id: encodeAttempt(at),
      at,
      command,
      receiptTopic,
      delivery,
      since: this.#now,
    } as const;
    if (!this.#held.add(held, (body) => this.#answers.again(held, body))) return;
    this.#worker.accept(commandGrant(topic, at, { command, receiptTopic, step }));
  }

  /** Writes a value as JSON text; null if the value is nested too deeply. */
  #text(value: unknown): string | null {
    try {
      return JSON.stringify(value ?? null);
    } catch (thrown) {
      if (!(thrown instanceof RangeError)) throw thrown;
      return null;
    }
  }

  /** Moves a message that cannot be read to the dead-letter queue. `from` says where the message came from, if that is not its queue. */
  #refuse(delivery: Delivery, reason: string, from = delivery.queue): void {
    this.#options.onNote(`a message from ${from} cannot be read (${reason}): it goes to ${this.#names.dead}`);
    this.#dead.put(delivery, reason, from);
  }
}

function lacking(): Promise<never> {
  return Promise.reject(brandFatal(new Error(LACKS)));
}

async function* lackingRows(): AsyncGenerator<never> {
  yield await lacking();
}
