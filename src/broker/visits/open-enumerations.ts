/** The enumerations that are at workers of the broker, by attempt: begun, looked after, and ended. */
import { type CancelConsumerMessage, SHARED_QUEUE } from "../../protocol/amqp-wire.ts";
import { decodeAttempt, encodeAttempt } from "../../protocol/attempt-id.ts";
import type { Grant, GrantItem } from "../../protocol/work.ts";
import { beatsOf } from "../beats.ts";
import { toFault } from "../broker-fault.ts";
import type { BrokerSession } from "../broker-link.ts";
import { deskKey, type VisitPlace } from "../names.ts";
import type { TaskReport } from "../read-message.ts";
import { assertIntake } from "../topology.ts";
import { attemptOf, enumerateBody } from "../write-message.ts";
import { Enumeration } from "./enumerations.ts";
import type { Delivery, ReceiptInbox } from "./receipt-inbox.ts";
import type { BridgeParts } from "./visit-parts.ts";

export interface OpenEnumerationsParts extends BridgeParts {
  readonly words: ReceiptInbox;
}

interface Open {
  readonly enumeration: Enumeration;
  /** The wire name of the code. */
  readonly use: string;
  readonly queue: string;
  readonly body: Buffer;
  consumer: string | null;
  /** What is done about it at the broker comes one after the other. */
  turn: Promise<void>;
  isSent: boolean;
  heardAt: number;
  strikes: number;
}

const STRIKES_MAX = 2;

export class OpenEnumerations {
  readonly #parts: OpenEnumerationsParts;
  readonly #open = new Map<string, Open>();
  /** How often attempts were given back because nothing was heard of them. */
  readonly #silences = new Map<string, number>();
  /** Deletions of enumerate queues that are under way, by queue. */
  readonly #deletions = new Map<string, Promise<void>>();

  constructor(parts: OpenEnumerationsParts) {
    this.#parts = parts;
  }

  /** Something failed, so that what has ended may not be gone from the broker: `restore` looks after it. */
  isUntidy = false;

  /** An enumeration is to go to a worker. */
  begin(grant: Grant, item: GrantItem): void {
    const { worker, engine, names, words, clock, onFault } = this.#parts;
    const at = attemptOf(grant, item);
    const enumeration = new Enumeration(at, names.intake(at), grant.resume?.count ?? 0, {
      worker,
      engine,
      words,
      onFault,
      byIdentity: grant.byIdentity === true,
      prefetch: this.#parts.settings.prefetch,
      onEnd: (ended) => this.#end(ended.id),
    });
    const open: Open = {
      enumeration,
      use: grant.use,
      queue: names.enumerate(grant.use),
      body: enumerateBody(grant, at, names, engine.info.key),
      consumer: null,
      turn: Promise.resolve(),
      isSent: false,
      heardAt: clock.now(),
      strikes: 0,
    };
    this.#open.set(enumeration.id, open);
    this.#run(open, (session) => this.#send(session, open));
  }

  /** `enumerated` came: here, or it is passed on to the node that has the execution. */
  enumerated(word: TaskReport, delivery: Delivery): void {
    const { engine, words, publisher, names } = this.#parts;
    const id = encodeAttempt(word.at);
    const open = this.#open.get(id);
    if (open !== undefined) return open.enumeration.ended(word, delivery);
    if (engine.isOwn(word.at.execution)) return words.acknowledge(delivery);
    publisher.publish({
      key: names.intake(word.at),
      // It may come twice: each is acknowledged.
      id: `${id}~enumerated~${delivery.message.fields.deliveryTag}`,
      body: delivery.message.content,
      mandatory: true,
      // No queue: nobody waits for it any more.
      done: () => words.acknowledge(delivery),
    });
  }

  /** There is a broker again: intakes are consumed again, and what was not sent is. */
  attach(): void {
    for (const open of this.#open.values()) this.#run(open, (session) => this.#send(session, open));
  }

  detach(): void {
    for (const open of this.#open.values()) {
      open.consumer = null;
      open.enumeration.detach();
    }
  }

  /** Nothing is to begin: what no worker has begun is given back, and where all is over, everything. */
  withdraw(place: VisitPlace, why: "paused" | "cancelled"): void {
    for (const { enumeration } of this.#at(place)) {
      if (why === "paused" && !enumeration.isUntouched) continue;
      this.#giveBack(enumeration);
    }
  }

  /** Other workers serve these too: what waits at the broker for nobody is given back. */
  giveWay(uses: ReadonlySet<string>): void {
    for (const open of this.#open.values()) {
      const { enumeration, use, queue } = open;
      if (!uses.has(use) || !enumeration.isUntouched) continue;
      this.#run(open, async (session) => {
        const counts = await session.look(queue);
        if ((counts?.consumers ?? 0) === 0 && enumeration.isUntouched) this.#giveBack(enumeration);
      });
    }
  }

  /** The visit is over. */
  close(place: VisitPlace): void {
    for (const { enumeration } of this.#at(place)) {
      enumeration.end();
      this.#end(enumeration.id);
    }
    const key = deskKey(place);
    for (const known of this.#silences.keys()) if (known.startsWith(`${key}#`)) this.#silences.delete(known);
  }

  /**
   * No visit here needs the enumerations of this code any more: their queue is deleted, unless somebody uses it. RabbitMQ
   * confirms a message that comes to a queue while it is deleted, and drops it. So none is published until that is over.
   */
  tidy(use: string): void {
    const { names, session } = this.#parts;
    const queue = names.enumerate(use);
    const current = session();
    if (current === null || [...this.#open.values()].some((open) => open.queue === queue)) return;
    const deletion = this.#deleted(queue)
      .then(() => current.with((channel) => channel.deleteQueue(queue, { ifUnused: true, ifEmpty: true })))
      .then(
        () => {},
        // It is in use, or the broker is gone: then it stays.
        () => {},
      )
      .then(() => {
        if (this.#deletions.get(queue) === deletion) this.#deletions.delete(queue);
      });
    this.#deletions.set(queue, deletion);
  }

  #deleted(queue: string): Promise<void> {
    return this.#deletions.get(queue) ?? Promise.resolve();
  }

  /** Others have these executions. */
  handOver(isOwn: (execution: string) => boolean): void {
    for (const [id, open] of this.#open) {
      if (isOwn(open.enumeration.at.execution)) continue;
      this.#open.delete(id);
      this.#run(open, async (session) => {
        if (open.consumer !== null) await session.consume.cancel(open.consumer);
      });
    }
  }

  /** Looks whether all is there that should be. */
  look(): void {
    for (const open of this.#open.values()) this.#run(open, (session) => this.#look(session, open));
  }

  /** What a former life left: the enumeration begins anew with what is journaled. */
  async restore(): Promise<void> {
    const { book, engine } = this.#parts;
    this.isUntidy = false;
    for (const { attempt, intake } of await book.intakes()) {
      const at = decodeAttempt(attempt);
      if (at !== null && (!engine.isOwn(at.execution) || this.#open.has(attempt))) continue;
      const session = this.#parts.session();
      if (session === null) return;
      await session.with((channel) => channel.deleteQueue(intake));
      if (at !== null) engine.release(this.#parts.worker, beatsOf([at]));
      await book.removeIntake(attempt);
    }
  }

  *#at(place: VisitPlace): Iterable<Open> {
    const key = deskKey(place);
    for (const open of [...this.#open.values()]) if (deskKey(open.enumeration.at) === key) yield open;
  }

  async #send(session: BrokerSession, open: Open): Promise<void> {
    const { book, settings, publisher, mender } = this.#parts;
    const { enumeration, queue } = open;
    const { id } = enumeration;
    if (!this.#open.has(id)) return;
    if (!open.isSent) await book.putIntake({ attempt: id, intake: enumeration.intake });
    await this.#deleted(queue);
    await mender.open(session, [queue], () =>
      session.with((channel) => channel.assertQueue(queue, SHARED_QUEUE)),
    );
    await mender.open(session, [enumeration.intake], () => this.#consume(session, open));
    if (open.isSent || !this.#open.has(id)) return;
    open.isSent = true;
    publisher.publish({
      key: queue,
      id,
      body: open.body,
      mandatory: true,
      expirationMs: settings.messageMs,
      done: (isRouted) => {
        if (isRouted) return;
        open.isSent = false;
        this.#run(open, (again) => this.#send(again, open));
      },
    });
  }

  async #consume(session: BrokerSession, open: Open): Promise<void> {
    const { enumeration } = open;
    const queue = enumeration.intake;
    await session.with((channel) => assertIntake(channel, queue, this.#parts.settings));
    open.consumer ??= await session.take(queue, (message) => {
      if (message === null) return this.#giveBack(enumeration);
      open.heardAt = this.#parts.clock.now();
      open.strikes = 0;
      enumeration.found({ message, channel: session.consume, queue });
    });
  }

  /** Whether the message is gone that asks for it. Its queue is shared, so that is sure only where it is empty. */
  async #look(session: BrokerSession, open: Open): Promise<void> {
    const { settings, mender, silentMs } = this.#parts;
    const { enumeration } = open;
    if (enumeration.isOver) return;
    // It failed when it was to be sent, or its queues did.
    if (!open.isSent || open.consumer === null) return this.#send(session, open);
    await enumeration.look(session);
    const counts = await mender.look(session, open.queue);
    if (counts !== null && counts.ready > 0) {
      open.strikes = 0;
      return;
    }
    const silences = this.#silences.get(silenceKey(enumeration)) ?? 0;
    if (silentMs(open.heardAt) >= settings.silenceMs * 2 ** silences)
      return this.#silent(enumeration, silences);
    if (counts === null || counts.consumers === 0) open.strikes++;
    if (counts === null || (open.strikes >= STRIKES_MAX && enumeration.isUntouched))
      this.#giveBack(enumeration);
  }

  /** Somebody has taken it and says nothing. It is asked for again; what takes its workers down each time has crashed. */
  #silent(enumeration: Enumeration, silences: number): void {
    const { silencesMax } = this.#parts.settings;
    if (silences + 1 >= silencesMax) return enumeration.crashed(silences + 1);
    this.#silences.set(silenceKey(enumeration), silences + 1);
    this.#giveBack(enumeration);
  }

  #giveBack(enumeration: Enumeration): void {
    if (!this.#open.has(enumeration.id)) return;
    const { engine, worker } = this.#parts;
    enumeration.end();
    this.#end(enumeration.id);
    engine.release(worker, beatsOf([enumeration.at]));
  }

  #end(id: string): void {
    const open = this.#open.get(id);
    if (open === undefined) return;
    this.#open.delete(id);
    const { publisher, names, settings, book } = this.#parts;
    const { intake } = open.enumeration;
    publisher.forget((message) => message.id === id);
    const message: CancelConsumerMessage = { task_queue: intake, reason: "finished" };
    publisher.publish({
      exchange: names.cancelConsumer,
      key: "",
      id: `cancel~${id}`,
      body: Buffer.from(JSON.stringify(message)),
      expirationMs: settings.broadcastMs * 12,
    });
    this.#run(open, async (session) => {
      if (open.consumer !== null) await session.consume.cancel(open.consumer);
      await session.with((channel) => channel.deleteQueue(intake));
      await book.removeIntake(id);
    });
  }

  /** One after the other; without a broker it is done when there is one again, and what has ended by the book. */
  #run(open: Open, step: (session: BrokerSession) => Promise<void>): void {
    open.turn = open.turn.then(async () => {
      const session = this.#parts.session();
      if (session === null) return;
      try {
        await step(session);
      } catch (thrown) {
        this.isUntidy = true;
        this.#parts.onFault(thrown instanceof Error && "retryable" in thrown ? thrown : toFault(thrown));
      }
    });
  }
}

function silenceKey({ at }: Enumeration): string {
  return `${deskKey(at)}#${at.attempt}`;
}
