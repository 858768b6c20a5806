/** The open enumerations of this node at workers of the broker, by attempt. */
import { toFault, toReported } from "../../net/amqp/broker-fault.ts";
import type { BrokerSession } from "../../net/amqp/connection.ts";
import type { Delivery } from "../../net/amqp/delivery.ts";
import { SHARED_QUEUE } from "../../protocol/amqp-wire.ts";
import { beatsOf, decodeAttempt, encodeAttempt, reportedAttempt } from "../../protocol/attempt-id.ts";
import { readFields } from "../../protocol/read-body.ts";
import type { Grant, GrantItem } from "../../protocol/work.ts";
import type { Fields } from "../../std/decode.ts";
import { isRejection } from "../../std/rejection.ts";
import type { BridgeParts } from "../bridge-parts.ts";
import { type VisitPlace, visitKey } from "../names.ts";
import { readTaskReport, type TaskReport } from "../read-message.ts";
import { assertIntake, deleteQueues } from "../topology.ts";
import { enumerateBody } from "../write-message.ts";
import { Enumeration } from "./enumeration.ts";
import { isAbout, isShort } from "./short-messages.ts";
import { publishCancel } from "./visit-announcer.ts";

interface Open {
  readonly enumeration: Enumeration;
  readonly use: string;
  readonly queue: string;
  readonly body: Buffer;
  consumer: string | null;
  /** The last of the enumeration's steps at the broker. The steps run one after the other. */
  turn: Promise<void>;
  isSent: boolean;
  isChecking: boolean;
  /** When the last message of the enumeration arrived. */
  heardAt: number;
  strikes: number;
}

/** After this many checks that find the queue empty and without consumers, the enumeration counts as lost. */
const STRIKES_MAX = 2;

export class OpenEnumerations {
  readonly #parts: BridgeParts;
  readonly #open = new Map<string, Open>();
  /** How often each enumeration was released because its worker sent nothing. */
  readonly #silences = new Map<string, number>();
  /** Running deletions of enumerate queues, by queue. */
  readonly #deletions = new Map<string, Promise<void>>();

  constructor(parts: BridgeParts) {
    this.#parts = parts;
  }

  /** Whether a step failed, so that queues of ended enumerations may be left at the broker. `restore` deletes them. */
  isUntidy = false;

  start(grant: Grant, item: GrantItem): void {
    const { engine, names, clock, settings } = this.#parts;
    const at = reportedAttempt(grant, item);
    const enumeration = new Enumeration(at, names.intake(at), grant.resume?.count ?? 0, {
      ...this.#parts,
      byIdentity: grant.byIdentity === true,
      prefetch: settings.prefetch,
      shortMessages: settings.shortMessages,
      onEnd: (ended) => this.#remove(ended.id),
    });
    const open: Open = {
      enumeration,
      use: grant.use,
      queue: names.enumerate(grant.use),
      body: enumerateBody(grant, at, names, engine.info.key),
      consumer: null,
      turn: Promise.resolve(),
      isSent: false,
      isChecking: false,
      heardAt: clock.now(),
      strikes: 0,
    };
    this.#open.set(enumeration.id, open);
    this.#run(open, (session) => this.#send(session, open));
  }

  /** Declares and consumes the queue `enumerated`, where all enumerations of all nodes report their end. */
  async consumeEnumerated(session: BrokerSession): Promise<void> {
    const { names, engine, repair, dead, onFault } = this.#parts;
    const queue = names.enumerated;
    await repair.open(session, [queue], async () => {
      await session.withChannel((channel) => channel.assertQueue(queue, SHARED_QUEUE));
      await session.consume(queue, (delivery) => {
        // The queue was deleted.
        if (delivery === null) {
          this.consumeEnumerated(session).catch((thrown: unknown) => onFault(toFault(thrown)));
          return;
        }
        const fields = readFields(delivery.message.content);
        if (!isRejection(fields) && this.#parts.settings.shortMessages && isShort(fields))
          return this.#onShort(fields, delivery);
        const report = isRejection(fields) ? fields : readTaskReport(fields, engine.info.key);
        if (isRejection(report)) dead.put(delivery, report.message);
        else if (report.at.task >= 0) dead.put(delivery, "the message is not about an enumeration");
        else this.onEnumerated(report, delivery);
      });
    });
  }

  /**
   * Handles `enumerated` of an enumeration of this node, or passes the message on to the intake queue, where the enumeration's
   * node consumes it.
   */
  onEnumerated(report: TaskReport, delivery: Delivery): void {
    const { engine, publisher, names } = this.#parts;
    const id = encodeAttempt(report.at);
    const open = this.#open.get(id);
    if (open !== undefined) return open.enumeration.onEnumerated(report, delivery);
    if (engine.isOwn(report.at.execution)) return delivery.ack();
    publisher.publish({
      key: names.intake(report.at),
      // The same message may be delivered twice. Each delivery is passed on and acknowledged.
      id: `${id}~enumerated~${delivery.message.fields.deliveryTag}`,
      body: delivery.message.content,
      mandatory: true,
      // If the intake queue does not exist, no node waits for the message any more.
      done: () => delivery.ack(),
    });
  }

  /** A short `enumerated`: the one open enumeration of its intake or, without `task_queue`, of its handler is meant. */
  #onShort(fields: Fields, delivery: Delivery): void {
    const { publisher, dead } = this.#parts;
    const { task_queue: intake } = fields;
    const [open, another] = [...this.#open.values()].filter(({ enumeration }) =>
      intake === undefined ? isAbout(fields, enumeration.at) : enumeration.intake === intake,
    );
    if (open !== undefined && another === undefined) return open.enumeration.onShortEnumerated(delivery);
    if (typeof intake !== "string" || !intake.startsWith(`${this.#parts.names.prefix}.workflow.`))
      return dead.put(
        delivery,
        "the message does not identify one enumeration: send `task_queue`, or `attempt` and `token`",
      );
    publisher.publish({
      key: intake,
      id: `${intake}~enumerated~${delivery.message.fields.deliveryTag}`,
      body: delivery.message.content,
      mandatory: true,
      // Without an intake no node waits for it any more.
      done: () => delivery.ack(),
    });
  }

  /** Called when a connection is open: consumes the intakes, and sends the messages that were not sent before. */
  attach(): void {
    for (const open of this.#open.values()) this.#run(open, (session) => this.#send(session, open));
  }

  detach(): void {
    for (const open of this.#open.values()) {
      open.consumer = null;
      open.enumeration.detach();
    }
  }

  /** Releases the enumerations of a handler. If the handler is paused, only those that no worker has begun are released. */
  withdraw(place: VisitPlace, why: "paused" | "cancelled"): void {
    for (const { enumeration } of this.#at(place))
      if (why === "cancelled" || enumeration.isUntouched) this.#release(enumeration);
  }

  /** Called when other workers serve this code too: releases enumerations whose queue has no consumer. */
  giveWay(uses: ReadonlySet<string>): void {
    for (const open of this.#open.values()) {
      const { enumeration, use, queue } = open;
      if (!uses.has(use) || !enumeration.isUntouched) continue;
      this.#run(open, async (session) => {
        const counts = await session.counts(queue);
        if ((counts?.consumers ?? 0) === 0 && enumeration.isUntouched) this.#release(enumeration);
      });
    }
  }

  close(place: VisitPlace): void {
    for (const { enumeration } of this.#at(place)) {
      enumeration.drop();
      this.#remove(enumeration.id);
    }
    const key = visitKey(place);
    for (const known of this.#silences.keys()) if (known.startsWith(`${key}#`)) this.#silences.delete(known);
  }

  /** Deletes the enumerate queue of unused code. No message is published to the queue until the deletion has ended. */
  deleteUnused(use: string): void {
    const { names, session } = this.#parts;
    const queue = names.enumerate(use);
    const current = session();
    if (current === null || [...this.#open.values()].some((open) => open.queue === queue)) return;
    const deletion = this.#deleted(queue)
      .then(() =>
        current.withChannel((channel) => channel.deleteQueue(queue, { ifUnused: true, ifEmpty: true })),
      )
      .then(
        () => {},
        // The queue stays if it is in use or the connection is lost.
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

  /** Drops the enumerations of executions that other nodes own now. */
  handOver(isOwn: (execution: string) => boolean): void {
    for (const [id, open] of this.#open) {
      if (isOwn(open.enumeration.at.execution)) continue;
      this.#open.delete(id);
      this.#run(open, async (session) => {
        if (open.consumer !== null) await session.cancel(open.consumer);
      });
    }
  }

  /** Checks that each enumeration is in its queue or at a worker. */
  check(): void {
    for (const open of this.#open.values()) {
      if (open.isChecking) continue;
      open.isChecking = true;
      this.#run(open, (session) => this.#check(session, open));
      void open.turn.then(() => {
        open.isChecking = false;
      });
    }
  }

  /**
   * Deletes the intake queues of earlier processes, and releases their enumerations, which resume after the journaled tasks.
   */
  async restore(): Promise<void> {
    const { queueRegistry, engine } = this.#parts;
    this.isUntidy = false;
    for (const { attempt, intake } of await queueRegistry.intakes()) {
      const at = decodeAttempt(attempt);
      if (at !== null && (!engine.isOwn(at.execution) || this.#open.has(attempt))) continue;
      const session = this.#parts.session();
      if (session === null) return;
      await deleteQueues(session, [intake]);
      if (at !== null) engine.release(this.#parts.worker, beatsOf([at]));
      await queueRegistry.removeIntake(attempt);
    }
  }

  *#at(place: VisitPlace): Iterable<Open> {
    const key = visitKey(place);
    for (const open of [...this.#open.values()]) if (visitKey(open.enumeration.at) === key) yield open;
  }

  async #send(session: BrokerSession, open: Open): Promise<void> {
    const { queueRegistry, settings, publisher, repair } = this.#parts;
    const { enumeration, queue } = open;
    const { id, intake } = enumeration;
    if (!this.#open.has(id)) return;
    if (!open.isSent) await queueRegistry.putIntake({ attempt: id, intake });
    await this.#deleted(queue);
    await repair.open(session, [queue], () =>
      session.withChannel((channel) => channel.assertQueue(queue, SHARED_QUEUE)),
    );
    await repair.open(session, [intake], () => this.#consume(session, open));
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
    const { settings, clock } = this.#parts;
    const { enumeration } = open;
    await session.withChannel((channel) => assertIntake(channel, enumeration.intake, settings));
    open.consumer ??= await session.consume(enumeration.intake, (delivery) => {
      if (delivery === null) return this.#release(enumeration);
      open.heardAt = clock.now();
      open.strikes = 0;
      enumeration.onMessage(delivery);
    });
  }

  /** Releases an enumeration whose message is lost. The queue is shared, so the loss is certain only if the queue is empty. */
  async #check(session: BrokerSession, open: Open): Promise<void> {
    const { settings, repair, silentMs } = this.#parts;
    const { enumeration } = open;
    if (enumeration.isOver) return;
    // An earlier try to send the enumeration, or to consume its intake queue, failed.
    if (!open.isSent || open.consumer === null) return this.#send(session, open);
    await enumeration.checkMissing(session);
    const counts = await repair.counts(session, open.queue);
    if (counts !== null && counts.ready > 0) {
      open.strikes = 0;
      return;
    }
    const silences = this.#silences.get(silenceKey(enumeration)) ?? 0;
    if (silentMs(open.heardAt) >= settings.silenceMs * 2 ** silences)
      return this.#onSilence(enumeration, silences);
    if (counts === null || counts.consumers === 0) open.strikes++;
    if (counts === null || (open.strikes >= STRIKES_MAX && enumeration.isUntouched))
      this.#release(enumeration);
  }

  /**
   * Handles an enumeration whose worker sends nothing: the enumeration is released, and counts as crashed after a few times.
   */
  #onSilence(enumeration: Enumeration, silences: number): void {
    const { silencesMax } = this.#parts.settings;
    if (silences + 1 >= silencesMax) return enumeration.crash(silences + 1);
    this.#silences.set(silenceKey(enumeration), silences + 1);
    this.#release(enumeration);
  }

  #release(enumeration: Enumeration): void {
    if (!this.#open.has(enumeration.id)) return;
    const { engine, worker } = this.#parts;
    enumeration.drop();
    this.#remove(enumeration.id);
    engine.release(worker, beatsOf([enumeration.at]));
  }

  #remove(id: string): void {
    const open = this.#open.get(id);
    if (open === undefined) return;
    this.#open.delete(id);
    const { publisher, queueRegistry } = this.#parts;
    const { intake } = open.enumeration;
    publisher.forget((message) => message.id === id);
    publishCancel(this.#parts, { task_queue: intake, reason: "finished" });
    this.#run(open, async (session) => {
      if (open.consumer !== null) await session.cancel(open.consumer);
      await deleteQueues(session, [intake]);
      await queueRegistry.removeIntake(id);
    });
  }

  /**
   * Runs a step after the earlier steps. Without a connection the step is skipped, and `attach` or `restore` runs it later.
   */
  #run(open: Open, step: (session: BrokerSession) => Promise<void>): void {
    open.turn = open.turn.then(async () => {
      const session = this.#parts.session();
      if (session === null) return;
      try {
        await step(session);
      } catch (thrown) {
        this.isUntidy = true;
        this.#parts.onFault(toReported(thrown));
      }
    });
  }
}

function silenceKey({ at }: Enumeration): string {
  return `${visitKey(at)}#${at.attempt}`;
}
