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
import {
  amqpNames,
  type EnumerateMessage,
  FANOUT,
  SHARED_QUEUE,
  type TaskMessage,
} from "../../protocol/amqp-wire.ts";
import { decodeAttempt } from "../../protocol/attempt-id.ts";
import type { Grant, GrantItem, ReportedAttempt } from "../../protocol/work.ts";
import type { Clock } from "../../std/clock.ts";
import type { Random } from "../../std/random.ts";
import { samePlace } from "../attempt-place.ts";
import { type HostedWorkflow, withChildren } from "../handler-code.ts";
import { Worker, type WorkerOptions } from "../worker.ts";
import { Answers } from "./answers.ts";
import { BrokerLink } from "./broker-link.ts";
import type { Delivery } from "./consumer.ts";
import { HeldAttempts } from "./held-attempts.ts";
import { KeptConsumer } from "./kept-consumer.ts";
import { Publisher } from "./publisher.ts";
import { readCancelConsumer, readEnumerate, readProcess, readTask } from "./read-message.ts";
import { type TaskQueue, TaskQueues } from "./task-queues.ts";

export interface AmqpWorkerOptions {
  readonly url: string;
  readonly prefix: string;
  /** How it is called at the broker. */
  readonly name: string;
  /** Attempts at a time. */
  readonly capacity: number;
  readonly workflows: readonly HostedWorkflow[];
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
/** How often bindings are put right that somebody may have removed. */
const REBIND_MS = 15_000;

const LACKS =
  "a worker over AMQP has no steps, sleeps, waits or earlier results; serve this handler over HTTP: rondo worker --url";

/** Deliveries of one task queue that came together. */
interface Gathered {
  readonly queue: TaskQueue;
  readonly at: ReportedAttempt;
  readonly message: TaskMessage;
  readonly items: GrantItem[];
}

export class AmqpWorker {
  readonly #options: AmqpWorkerOptions;
  readonly #names: ReturnType<typeof amqpNames>;
  readonly #link: BrokerLink;
  readonly #held: HeldAttempts;
  readonly #publisher: Publisher;
  readonly #answers: Answers;
  readonly #tasks: TaskQueues;
  readonly #worker: Worker;
  readonly #kept: readonly KeptConsumer[];
  /** The wire names of handlers, by the fanout that tells of their queues. */
  readonly #uses = new Map<string, string>();
  #gathered: Gathered[] = [];
  #bound: { readonly channel: Channel; readonly queue: string } | null = null;
  #stopRebinding: (() => void) | null = null;
  #isReady = false;

  constructor(options: AmqpWorkerOptions) {
    const { url, name, prefix, clock, random, capacity, onTrouble, onBug } = options;
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
      onBug,
    });
    const uses = this.#host();
    this.#kept = [this.#control(), ...uses.map((use) => this.#enumerations(use))];
    this.#link = new BrokerLink({
      ...{ url, name, clock, random, onTrouble },
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
    await this.#within(LAST_WORDS_MS, () => this.#link.close());
  }

  /** Hosts the code; answers the wire names of what enumerates, be it one task: the input. */
  #host(): readonly string[] {
    const listed = new Set<string>();
    for (const { name, handlers } of withChildren(this.#options.workflows)) {
      for (const code of handlers) {
        const { use, enumerate, answer } = code;
        const hasTasks = code.process !== undefined || code.processBatch !== undefined;
        this.#worker.host(name, code);
        if (hasTasks || enumerate !== undefined) listed.add(use);
        if (hasTasks || answer !== undefined) this.#uses.set(this.#names.process(use), use);
      }
    }
    return [...listed];
  }

  async #up(connection: ChannelModel): Promise<void> {
    const channel = await connection.createConfirmChannel();
    // What breaks it breaks no more than itself; the connection is made anew then.
    channel.on("error", () => {
      connection.close().catch(this.#options.onBug);
    });
    await channel.assertQueue(this.#names.enumerated, SHARED_QUEUE);
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
    const { clock, onNote } = this.#options;
    return new KeptConsumer({
      clock,
      onNote,
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
    const { clock, onNote, capacity } = this.#options;
    const name = this.#names.enumerate(use);
    return new KeptConsumer({
      clock,
      onNote,
      prefetch: () => Math.min(capacity, ENUMERATIONS_MAX),
      prepare: async (channel) => (await channel.assertQueue(name, SHARED_QUEUE)).queue,
      onDelivery: (delivery) => this.#enumerate(use, delivery),
    });
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
    if (this.#held.add(held, (body) => this.#answers.again(held, body)))
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

const SHARED = { project: "", version: null, heartbeatMs: 0, phases: [], script: null, trace: null } as const;

function listing(use: string, message: EnumerateMessage, at: ReportedAttempt): Grant {
  const { execution, phase, visit, handler, round, epoch } = at;
  const { resume } = message;
  return {
    ...SHARED,
    ...{ execution, phase, visit, handler, round, epoch, use },
    do: "enumerate",
    workflow: message.workflow ?? "",
    input: JSON.stringify(message.input ?? null),
    timeoutMs: message.timeout_ms ?? null,
    resume: resume === undefined ? null : { ...resume, last: JSON.stringify(resume.last) },
    batch: 1,
    items: [{ number: -1, attempt: at.attempt, claim: at.claim, task: null, checkpoints: null }],
  };
}

function working({ queue, at, message, items }: Gathered): Grant {
  const { execution, phase, visit, handler, round, epoch } = at;
  return {
    ...SHARED,
    ...{ execution, phase, visit, handler, round, epoch, use: queue.use, input: queue.input, items },
    do: message.do ?? "process",
    workflow: queue.message.workflow ?? "",
    timeoutMs: queue.message.timeout_ms ?? null,
    resume: null,
    phases: message.phases ?? [],
    batch: queue.message.batch ?? 1,
  };
}

function lacking(): Promise<never> {
  return Promise.reject(new Error(LACKS));
}

async function* lackingRows(): AsyncGenerator<never> {
  yield await lacking();
}
