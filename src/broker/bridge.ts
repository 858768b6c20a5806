/**
 * The bridge: it joins the engine as one worker, which stands for the broker and all workers there.
 *
 * 1. The bridge joins as a worker for code that no other worker serves, and for code that enumerates at the broker.
 * 2. Granted tasks go to the queue of their handler's visit (visit-queues.ts), enumerations to one worker (open-enumerations.ts),
 *    commands to their topics (topics.ts).
 * 3. Messages of workers become reports (receipt-inbox.ts, enumeration.ts), and are acknowledged after the commit.
 * 4. Without a connection, or while the broker takes no messages, the bridge claims no work; granted work waits.
 * 5. Requests of clients go to the server that serves them (request-queues.ts).
 * 6. The store registers the queues, so that the next process or node finds them (queue-registry.ts).
 */
import type { TopicRegistry } from "../commands/topic-registry.ts";
import type { WorkerLink } from "../engine/driver-options.ts";
import type { EnginePort } from "../engine/engine-port.ts";
import type { Inspection } from "../engine/io.ts";
import type { Plan } from "../kernel/definition/plan.ts";
import { toFault } from "../net/amqp/broker-fault.ts";
import { BrokerConnection, type BrokerSession } from "../net/amqp/connection.ts";
import { DeadLetters } from "../net/amqp/dead-letters.ts";
import { Publisher } from "../net/amqp/publisher.ts";
import { QueueRepair } from "../net/amqp/queue-repair.ts";
import { FANOUT } from "../protocol/amqp-wire.ts";
import type { RequestPort } from "../protocol/broker-requests.ts";
import type { BrokerView } from "../protocol/broker-view.ts";
import {
  type Beat,
  BROKER_WORKER,
  type Grant,
  type ReportPlace,
  type SentAt,
  type Serves,
} from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import type { Random } from "../std/random.ts";
import { type Rejection, reject } from "../std/rejection.ts";
import { atMost, every } from "../std/within.ts";
import type { Store } from "../store/store.ts";
import type { BridgeParts } from "./bridge-parts.ts";
import { EventPublisher } from "./event-publisher.ts";
import { type BrokerNames, brokerNames } from "./names.ts";
import { RequestQueues } from "./request-queues.ts";
import { type BrokerSettings, DEFAULT_BROKER_SETTINGS } from "./settings.ts";
import type { FindCommand } from "./topics/read-receipt.ts";
import { Topics } from "./topics/topics.ts";
import { OpenEnumerations } from "./visits/open-enumerations.ts";
import { QueueRegistry } from "./visits/queue-registry.ts";
import { ReceiptInbox } from "./visits/receipt-inbox.ts";
import { ServedAtBroker } from "./visits/served-at-broker.ts";
import { SingleTasks } from "./visits/single-tasks.ts";
import { VisitQueueSet } from "./visits/visit-queue-set.ts";
import type { VisitQueues } from "./visits/visit-queues.ts";
import { TaskWriter } from "./write-message.ts";

export interface AmqpBridgeOptions {
  /** The address of the broker, `amqp://` or `amqps://`. */
  readonly url: string;
  readonly prefix: string;
  readonly engine: EnginePort;
  readonly store: Store;
  /** Reads a definition by its hash; null if there is none that this version can read. */
  readonly planOf: (hash: string) => Promise<Plan | null>;
  readonly clock: Clock;
  readonly random: Random;
  readonly topicRegistry: Pick<TopicRegistry, "claim">;
  /** Patterns of queues from which receipts may be consumed although they have messages or consumers. */
  readonly receiptTopics: readonly string[];
  readonly settings?: Partial<BrokerSettings>;
  readonly onFault: (fault: Error) => void;
}

export class AmqpBridge implements WorkerLink {
  readonly #options: AmqpBridgeOptions;
  readonly #settings: BrokerSettings;
  readonly #names: BrokerNames;
  readonly #connection: BrokerConnection;
  readonly #publisher: Publisher;
  readonly #dead: DeadLetters;
  readonly #inbox: ReceiptInbox;
  readonly #enumerations: OpenEnumerations;
  readonly #topics: Topics;
  readonly #events: EventPublisher;
  readonly #served: ServedAtBroker;
  readonly #visits: VisitQueueSet;
  readonly #singles: SingleTasks;
  readonly #requests: RequestQueues;
  #session: BrokerSession | null = null;
  #isBlocked = false;
  /** When the broker last became usable. The silence of workers is counted from this time: before it they could not send anything. */
  #openedAt = 0;
  #isFull = false;
  #isClosed = false;
  #hasJoined = false;
  #isRefreshing = false;
  readonly #timers: (() => void)[] = [];

  constructor(options: AmqpBridgeOptions) {
    const { url, prefix, engine, store, clock, random, onFault, topicRegistry, receiptTopics, planOf } =
      options;
    this.#options = options;
    this.#settings = { ...DEFAULT_BROKER_SETTINGS, ...options.settings };
    this.#names = brokerNames(prefix);
    this.#publisher = new Publisher(clock, (count) => this.#noteFull(count));
    const shared = {
      worker: BROKER_WORKER,
      engine,
      store,
      clock,
      names: this.#names,
      publisher: this.#publisher,
      repair: new QueueRepair(onFault),
      queueRegistry: new QueueRegistry(store),
      settings: this.#settings,
      silentMs: (heardAt: number) => clock.now() - Math.max(heardAt, this.#openedAt),
      session: () => this.#session,
      // Faults that occur while the bridge closes are not reported.
      onFault: (fault: Error) => (this.#isClosed ? undefined : onFault(fault)),
    };
    this.#dead = new DeadLetters({ ...shared, dead: this.#names.dead });
    const parts: BridgeParts = { ...shared, dead: this.#dead };
    this.#inbox = new ReceiptInbox({
      ...parts,
      mayCount: (at, use) => this.#singles.mayCount(at, use),
      onEnumerated: (report, delivery) => this.#enumerations.onEnumerated(report, delivery),
    });
    this.#enumerations = new OpenEnumerations(parts);
    this.#topics = new Topics({
      ...parts,
      inbox: this.#inbox,
      planOf,
      topicRegistry,
      receiptTopics,
      findCommand: (receipt, topic) => this.findCommand(receipt, topic),
    });
    this.#events = new EventPublisher({ ...parts, isUp: () => this.#session !== null });
    this.#visits = new VisitQueueSet(
      {
        ...parts,
        isUnpublished: (place) => this.#singles.has(place),
        onFinished: (delivery, visit) => this.#inbox.onFinished(delivery, visit),
      },
      (use) => this.#enumerations.deleteUnused(use),
    );
    this.#requests = new RequestQueues(parts);
    this.#served = new ServedAtBroker(this.#names, () => this.#join());
    this.#singles = new SingleTasks({
      ...parts,
      enumeratesNow: (session, use) => this.#served.enumeratesNow(session, use),
      open: (grant) => this.#publishTasks({ ...grant, items: [] }),
      publish: (grant) => void this.#publishTasks(grant),
    });
    this.#connection = new BrokerConnection({
      ...{ url, name: `rondo ${prefix}`, clock, random, onFault },
      isSplit: true,
      prefetch: this.#settings.prefetch,
      answerMs: this.#settings.answerMs,
      onUp: (session) => this.#up(session),
      onDown: () => this.#down(),
      onBlocked: (isBlocked) => {
        this.#isBlocked = isBlocked;
        this.#openedAt = clock.now();
        this.#claim();
      },
    });
  }

  findCommand: FindCommand = async () => reject("not_found", "`cmd_metadata.rondo` is missing");

  /** Returns why receipts may not be consumed from a queue; null if they may, or if there is no connection to ask the broker. */
  refusesReceipts(receiptTopic: string): Promise<Rejection | null> {
    return this.#topics.refusesReceipts(receiptTopic);
  }

  /** Consumes the requests of clients. Returns a function that stops consuming them. */
  serveRequests(port: RequestPort): () => Promise<void> {
    return this.#requests.serve(port);
  }

  get view(): BrokerView {
    return {
      state: this.#connection.state,
      fault: this.#connection.fault,
      prefix: this.#options.prefix,
      queues: this.#visits.size,
      unconfirmed: this.#publisher.size,
      published: this.#publisher.published,
      counted: this.#inbox.counted,
      deadLetters: this.#dead.count,
    };
  }

  async start(): Promise<void> {
    const { clock } = this.#options;
    this.#timers.push(
      every(clock, this.#settings.broadcastMs, () => {
        // No announcement is sent while the broker is blocked: the broker would only deliver it late.
        if (this.#isBlocked) return;
        for (const visit of this.#visits.all()) visit.broadcast();
        clock.after(CONSUMED_MS, () => this.#singles.check());
      }),
      every(clock, this.#settings.lookMs, () => this.#check()),
    );
    await this.#connection.open();
  }

  /** Stops claiming work. Messages stay in their queues for the next process or node. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#options.engine.claim(BROKER_WORKER, 0);
    for (const stop of this.#timers) stop();
    this.#events.close();
    if (this.#session !== null && !this.#isBlocked) {
      await atMost(this.#options.clock, CLOSE_MS, this.#visits.idle());
      await this.#publisher.emptyWithin(CLOSE_MS);
    }
    this.#session = null;
    await this.#connection.close();
  }

  accept(grant: Grant): void {
    if (grant.do === "enumerate") for (const item of grant.items) this.#enumerations.start(grant, item);
    else if (grant.do === "command") this.#topics.send(grant);
    else if (grant.single === true) this.#singles.hold(grant);
    else this.#publishTasks(grant);
  }

  /** Cancels commands only. Tasks of a handler are cancelled by `withdraw` and `closed`. */
  cancel(beats: readonly Beat[], why: "cancel" | "lost", topic?: string): void {
    if (why === "cancel" && topic !== undefined) this.#topics.cancel(beats, topic);
  }

  withdraw(from: ReportPlace, why: "paused" | "cancelled"): void {
    this.#singles.withdraw(from);
    this.#visits.get(from)?.withdraw(why);
    this.#enumerations.withdraw(from, why);
  }

  check(sent: SentAt): void {
    this.#topics.adopt(sent);
  }

  tookOver(): void {
    this.#topics.tookOver();
  }

  closed(place: ReportPlace): void {
    this.#singles.withdraw(place);
    this.#enumerations.close(place);
    this.#visits.close(place);
    this.#topics.closed(place);
  }

  explain(inspection: Inspection): Promise<Inspection> {
    return this.#topics.explain(this.#session, inspection);
  }

  joined(serves: readonly Serves[]): void {
    this.#served.noteElsewhere(serves);
    this.#giveWay(new Set(serves.map(({ use }) => use)));
  }

  /**
   * Called when workers outside of the broker serve this code too. Releases the work for which no worker at the broker consumes the
   * queue.
   */
  #giveWay(uses: ReadonlySet<string>): void {
    for (const visit of this.#visits.all()) if (uses.has(visit.facts.use)) visit.giveWay();
    this.#singles.giveWay(uses);
    this.#enumerations.giveWay(uses);
    this.#topics.giveWay(uses);
  }

  #publishTasks(grant: Grant): VisitQueues {
    const visit = this.#visits.getOrAdd(grant, {
      workflow: grant.workflow,
      use: grant.use,
      input: grant.input,
      timeoutMs: grant.timeoutMs,
      batch: grant.batch,
    });
    const writer = new TaskWriter(grant, this.#names, this.#options.engine.info.key);
    const plain = grant.items.filter(({ alone }) => alone !== true).map((item) => writer.write(item));
    const alone = grant.items.filter(({ alone }) => alone === true).map((item) => writer.write(item));
    if (plain.length > 0 || alone.length === 0) visit.add(plain, false);
    if (alone.length > 0) visit.add(alone, true);
    return visit;
  }

  async #up(session: BrokerSession): Promise<void> {
    const names = this.#names;
    await session.withChannel(async (channel) => {
      await channel.assertExchange(names.cancelConsumer, "fanout", FANOUT);
      for (const exchange of [names.events, names.receipts])
        await channel.assertExchange(exchange, "topic", { durable: true });
    });
    await this.#dead.declare(session);
    if (this.#isClosed) return;
    this.#session = session;
    await this.#enumerations.consumeEnumerated(session);
    this.#publisher.attach(session.publish);
    for (const visit of this.#visits.all()) visit.open();
    this.#enumerations.attach();
    this.#topics.attach();
    await this.#requests.attach(session);
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
    for (const visit of this.#visits.all()) visit.detach();
    this.#enumerations.detach();
    this.#topics.detach();
    this.#requests.detach();
    if (this.#isClosed) return;
    // The bridge joins the engine even before the first connection, so that `why` can name the broker as the reason for waiting.
    if (!this.#hasJoined) this.#joinEngine();
    this.#options.engine.claim(
      BROKER_WORKER,
      0,
      `the broker is not available: ${this.#connection.fault ?? "no connection"}`,
    );
  }

  async #restore(): Promise<void> {
    await this.#enumerations.restore();
    await this.#visits.restore();
  }

  #check(): void {
    const session = this.#session;
    // While the broker is blocked, workers can send nothing, so queues are not checked for silent workers.
    if (session === null || this.#isBlocked) return;
    const { engine, onFault } = this.#options;
    this.#visits.check();
    this.#enumerations.handOver((execution) => engine.isOwn(execution));
    this.#enumerations.check();
    this.#topics.check();
    this.#requests.check();
    this.#events.checkPartitions();
    const checks = [this.#refresh(session)];
    // This node may have taken over partitions of nodes that have ended, and their queues with them.
    if (engine.info.partitions > 1 || this.#enumerations.isUntidy) checks.push(this.#restore());
    for (const check of checks)
      check.catch((thrown: unknown) => onFault(thrown instanceof Error ? thrown : toFault(thrown)));
  }

  async #refresh(session: BrokerSession): Promise<void> {
    if (this.#isRefreshing) return;
    this.#isRefreshing = true;
    try {
      await this.#served.refresh(session, this.#visits.uses);
    } finally {
      this.#isRefreshing = false;
    }
  }

  #join(): void {
    if (this.#isClosed || this.#session === null) return;
    this.#joinEngine();
    this.#claim();
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

  #claim(): void {
    if (!this.#hasJoined || this.#isClosed) return;
    const canTake = this.#session !== null && !this.#isBlocked && !this.#isFull;
    const why = this.#isBlocked ? (this.#connection.fault ?? undefined) : undefined;
    this.#options.engine.claim(BROKER_WORKER, canTake ? 1 : 0, why);
  }

  #noteFull(count: number): void {
    const { unconfirmedMax } = this.#settings;
    const isFull = this.#isFull ? count > unconfirmedMax / 2 : count > unconfirmedMax;
    if (isFull === this.#isFull) return;
    this.#isFull = isFull;
    this.#claim();
  }
}

/** The time after an announcement of a queue in which most workers begin to consume it. */
const CONSUMED_MS = 200;
/** How long `close` waits for its running steps and for the broker's confirmations. */
const CLOSE_MS = 2_000;
