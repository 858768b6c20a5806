/**
 * The broker as one worker of the engine.
 *
 * 1. It joins as one that takes what nobody else serves, and what has consumers at the broker.
 * 2. Granted tasks go into the queue of their handler's visit, enumerations to a worker of theirs, commands to topics.
 * 3. What workers say comes back as reports (word-desk.ts, enumerations.ts) and is acknowledged after the commit.
 * 4. Without a broker, or with one that takes no messages, no work is asked for; what is under way waits.
 * 5. The book in the store says which queues there are, for whoever comes after this process.
 */
import type { WorkerLink } from "../engine/driver-options.ts";
import type { Inspection } from "../engine/io.ts";
import { FANOUT } from "../protocol/amqp-wire.ts";
import type { BrokerView } from "../protocol/broker-view.ts";
import type { DeadLetters } from "../protocol/dead-letters.ts";
import {
  type Beat,
  BROKER_WORKER,
  type Grant,
  type ReportPlace,
  type SentAt,
  type Serves,
} from "../protocol/work.ts";
import { type Rejection, reject } from "../std/rejection.ts";
import type { AmqpBridgeOptions } from "./bridge-options.ts";
import { toFault } from "./broker-fault.ts";
import { BrokerLink, type BrokerSession } from "./broker-link.ts";
import { deadLetters, declareDeadLetters } from "./dead-letters.ts";
import { EventPublisher } from "./event-publisher.ts";
import { every } from "./every.ts";
import { type BrokerNames, brokerNames } from "./names.ts";
import { Publisher } from "./publisher.ts";
import { type BrokerSettings, DEFAULT_BROKER_SETTINGS } from "./settings.ts";
import type { FindCommand } from "./topics/receipt-intake.ts";
import { Topics } from "./topics/topics.ts";
import { consumeEnumerated } from "./visits/enumerated-queue.ts";
import { OpenEnumerations } from "./visits/open-enumerations.ts";
import { QueueMender } from "./visits/queue-mender.ts";
import { QueueRegistry } from "./visits/queue-registry.ts";
import { ReceiptInbox } from "./visits/receipt-inbox.ts";
import { ServedAtBroker } from "./visits/served-at-broker.ts";
import { SingleTasks } from "./visits/single-tasks.ts";
import { VisitQueueSet } from "./visits/visit-queue-set.ts";
import type { VisitQueues } from "./visits/visit-queues.ts";
import { TaskWriter } from "./write-message.ts";

export type { AmqpBridgeOptions } from "./bridge-options.ts";

export class AmqpBridge implements WorkerLink {
  readonly #options: AmqpBridgeOptions;
  readonly #settings: BrokerSettings;
  readonly #names: BrokerNames;
  readonly #link: BrokerLink;
  readonly #publisher: Publisher;
  readonly #dead: DeadLetters;
  readonly #mender = new QueueMender((fault) => this.#options.onFault(fault));
  readonly #book: QueueRegistry;
  readonly #words: ReceiptInbox;
  readonly #enumerations: OpenEnumerations;
  readonly #topics: Topics;
  readonly #events: EventPublisher;
  readonly #served: ServedAtBroker;
  readonly #desks: VisitQueueSet;
  readonly #singles: SingleTasks;
  #session: BrokerSession | null = null;
  #isBlocked = false;
  /** Silence counts from here: a broker that took nothing let nobody say anything. */
  #openedAt = 0;
  #isFull = false;
  #isClosed = false;
  #hasJoined = false;
  readonly #timers: (() => void)[] = [];

  constructor(options: AmqpBridgeOptions) {
    const { url, prefix, store, clock, random, onFault, registry, receiptTopics, planOf } = options;
    this.#options = options;
    this.#settings = { ...DEFAULT_BROKER_SETTINGS, ...options.settings };
    this.#names = brokerNames(prefix);
    this.#publisher = new Publisher(clock, (count) => this.#noteFull(count));
    this.#book = new QueueRegistry(store);
    this.#dead = deadLetters(this.#shared);
    this.#words = new ReceiptInbox({
      ...this.#shared,
      dead: this.#dead,
      isOpen: (channel) => this.#session?.consume === channel,
      mayCount: (at, use) => this.#singles.mayCount(at, use),
      onEnumerated: (word, delivery) => this.#enumerations.enumerated(word, delivery),
    });
    const parts = { ...this.#shared, words: this.#words };
    this.#enumerations = new OpenEnumerations(parts);
    this.#topics = new Topics({
      ...parts,
      store,
      planOf,
      registry,
      receiptTopics,
      findCommand: (receipt, topic) => this.findCommand(receipt, topic),
    });
    this.#events = new EventPublisher({ ...this.#shared, store, isUp: () => this.#session !== null });
    this.#desks = new VisitQueueSet(
      {
        ...this.#shared,
        isUnpublished: (place) => this.#singles.has(place),
        onWord: (message, channel, of) =>
          this.#words.finished({ message, channel, queue: this.#names.finished(of.place) }, of),
      },
      (use) => this.#enumerations.tidy(use),
    );
    this.#served = new ServedAtBroker(this.#names, () => this.#join());
    this.#singles = new SingleTasks({
      ...this.#shared,
      enumeratesNow: (session, use) => this.#served.learn(session, use),
      open: (grant) => this.#takeTasks({ ...grant, items: [] }),
      publish: (grant) => void this.#takeTasks(grant),
    });
    this.#link = new BrokerLink({
      url,
      name: `rondo ${prefix}`,
      clock,
      random,
      prefetch: this.#settings.prefetch,
      answerMs: this.#settings.answerMs,
      onUp: (session) => this.#up(session),
      onDown: () => this.#down(),
      onBlocked: (isBlocked) => {
        this.#isBlocked = isBlocked;
        this.#openedAt = clock.now();
        this.#ask();
      },
      onFault,
    });
  }

  findCommand: FindCommand = async () => reject("not_found", "`cmd_metadata.rondo` is missing");

  /** Why receipts cannot be consumed from a queue; null: they can, or nobody can tell now. */
  refusesReceipts(receiptTopic: string): Promise<Rejection | null> {
    return this.#topics.refusesReceipts(receiptTopic);
  }

  get #shared() {
    const { engine, clock, onFault } = this.#options;
    return {
      worker: BROKER_WORKER,
      engine,
      clock,
      // What breaks off at the end is no news.
      onFault: (fault: Error) => (this.#isClosed ? undefined : onFault(fault)),
      names: this.#names,
      publisher: this.#publisher,
      mender: this.#mender,
      silentMs: (heardAt: number) => clock.now() - Math.max(heardAt, this.#openedAt),
      book: this.#book,
      settings: this.#settings,
      session: () => this.#session,
    };
  }

  get view(): BrokerView {
    return {
      state: this.#link.state,
      fault: this.#link.fault,
      prefix: this.#options.prefix,
      queues: this.#desks.size,
      unconfirmed: this.#publisher.size,
      published: this.#publisher.published,
      counted: this.#words.counted,
      deadLetters: this.#dead.count,
    };
  }

  /** Connects, now or as soon as the broker is there. */
  async start(): Promise<void> {
    const { clock } = this.#options;
    this.#timers.push(
      every(clock, this.#settings.broadcastMs, () => {
        // It would only wait, and then be old.
        if (this.#isBlocked) return;
        for (const desk of this.#desks.all()) desk.broadcast();
        clock.after(CONSUMED_MS, () => this.#singles.check());
      }),
      every(clock, this.#settings.lookMs, () => this.#look()),
    );
    await this.#link.open();
  }

  /** Takes no more work; what is in queues stays there for whoever comes next. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#options.engine.claim(BROKER_WORKER, 0);
    for (const stop of this.#timers) stop();
    this.#events.close();
    if (this.#session !== null && !this.#isBlocked) {
      const late = new Promise<void>((resolve) => this.#options.clock.after(CLOSE_MS, resolve));
      await Promise.race([this.#desks.idle(), late]);
      await this.#publisher.emptyWithin(CLOSE_MS);
    }
    this.#session = null;
    await this.#link.close();
  }

  take(grant: Grant): void {
    if (grant.do === "enumerate") for (const item of grant.items) this.#enumerations.begin(grant, item);
    else if (grant.do === "command") this.#topics.send(grant);
    else if (grant.single === true) this.#singles.take(grant);
    else this.#takeTasks(grant);
  }

  /** Commands are told one by one; for tasks `withdraw` and `closed` say it for all of a handler. */
  cancel(beats: readonly Beat[], why: "cancel" | "lost", topic?: string): void {
    if (why === "cancel" && topic !== undefined) this.#topics.cancel(beats, topic);
  }

  withdraw(from: ReportPlace, why: "paused" | "cancelled"): void {
    this.#singles.withdraw(from);
    this.#desks.get(from)?.withdraw(why);
    this.#enumerations.withdraw(from, why);
  }

  check(sent: SentAt): void {
    this.#topics.check(sent);
  }

  tookOver(): void {
    this.#topics.tookOver();
  }

  closed(place: ReportPlace): void {
    this.#singles.withdraw(place);
    this.#enumerations.close(place);
    this.#desks.close(place);
    this.#topics.closed(place);
  }

  explain(inspection: Inspection): Promise<Inspection> {
    return this.#topics.explain(this.#session, inspection);
  }

  joined(serves: readonly Serves[]): void {
    this.#served.elsewhere(serves);
    this.#giveWay(new Set(serves.map(({ use }) => use)));
  }

  /** Others serve these: what waits at the broker for nobody is theirs. */
  #giveWay(uses: ReadonlySet<string>): void {
    for (const desk of this.#desks.all()) if (uses.has(desk.facts.use)) desk.giveWay();
    this.#singles.giveWay(uses);
    this.#enumerations.giveWay(uses);
    this.#topics.giveWay(uses);
  }

  #takeTasks(grant: Grant): VisitQueues {
    const desk = this.#desks.at(grant, {
      workflow: grant.workflow,
      use: grant.use,
      input: grant.input,
      timeoutMs: grant.timeoutMs,
      batch: grant.batch,
    });
    const writer = new TaskWriter(grant, this.#names, this.#options.engine.info.key);
    const plain = grant.items.filter(({ alone }) => alone !== true).map((item) => writer.write(item));
    const alone = grant.items.filter(({ alone }) => alone === true).map((item) => writer.write(item));
    if (plain.length > 0 || alone.length === 0) desk.add(plain, false);
    if (alone.length > 0) desk.add(alone, true);
    return desk;
  }

  async #up(session: BrokerSession): Promise<void> {
    const names = this.#names;
    await session.with(async (channel) => {
      await channel.assertExchange(names.cancelConsumer, "fanout", FANOUT);
      for (const exchange of [names.events, names.receipts])
        await channel.assertExchange(exchange, "topic", { durable: true });
    });
    await declareDeadLetters(session, this.#shared);
    if (this.#isClosed) return;
    this.#session = session;
    await consumeEnumerated(session, {
      ...this.#shared,
      queue: names.enumerated,
      key: this.#options.engine.info.key,
      words: this.#words,
      enumerations: this.#enumerations,
    });
    this.#publisher.attach(session.publish);
    for (const desk of this.#desks.all()) desk.open();
    this.#enumerations.attach();
    this.#topics.attach();
    await this.#restore();
    if (this.#session !== session) return;
    this.#giveWay(this.#options.engine.usesServed());
    this.#events.attach();
    this.#join();
  }

  #down(): void {
    this.#session = null;
    this.#isBlocked = false;
    this.#publisher.detach();
    for (const desk of this.#desks.all()) desk.detach();
    this.#enumerations.detach();
    this.#topics.detach();
    if (this.#isClosed) return;
    // Work for the broker can then say what it waits for, also before the first connection.
    if (!this.#hasJoined) this.#joinEngine();
    this.#options.engine.claim(
      BROKER_WORKER,
      0,
      `the broker is away: ${this.#link.fault ?? "no connection"}`,
    );
  }

  async #restore(): Promise<void> {
    await this.#enumerations.restore();
    await this.#desks.restore();
  }

  #look(): void {
    const session = this.#session;
    // Workers that cannot say anything are not silent.
    if (session === null || this.#isBlocked) return;
    const { engine, onFault } = this.#options;
    this.#desks.look();
    this.#enumerations.handOver((execution) => engine.isOwn(execution));
    this.#enumerations.look();
    this.#topics.look();
    this.#events.look();
    const looks = [this.#served.look(session, this.#desks.uses)];
    // Executions of other nodes come here when those go.
    if (engine.info.partitions > 1 || this.#enumerations.isUntidy) looks.push(this.#restore());
    for (const look of looks)
      look.catch((thrown: unknown) => onFault(thrown instanceof Error ? thrown : toFault(thrown)));
  }

  #join(): void {
    if (this.#isClosed || this.#session === null) return;
    this.#joinEngine();
    this.#ask();
  }

  #joinEngine(): void {
    const { engine } = this.#options;
    const { tasksPerQueue, queuesMax } = this.#settings;
    this.#hasJoined = true;
    engine.join(BROKER_WORKER, this, {
      serves: this.#served.serves,
      capacity: tasksPerQueue * queuesMax,
      local: false,
      fallback: true,
      queued: true,
      perQueue: tasksPerQueue,
      queuesMax: queuesMax,
    });
  }

  /** Asks for work, or for none. */
  #ask(): void {
    if (!this.#hasJoined || this.#isClosed) return;
    const canTake = this.#session !== null && !this.#isBlocked && !this.#isFull;
    const why = this.#isBlocked ? this.#link.fault?.replace(/^it /, "the broker ") : undefined;
    this.#options.engine.claim(BROKER_WORKER, canTake ? 1 : 0, why);
  }

  #noteFull(count: number): void {
    const { unconfirmedMax } = this.#settings;
    const isFull = this.#isFull ? count > unconfirmedMax / 2 : count > unconfirmedMax;
    if (isFull === this.#isFull) return;
    this.#isFull = isFull;
    this.#ask();
  }
}

/** How soon workers that are told of a task queue consume it, mostly. */
const CONSUMED_MS = 200;
/** How long what is under way has to be confirmed at the end. */
const CLOSE_MS = 2_000;
