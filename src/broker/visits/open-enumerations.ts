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
import { TransientMap } from "../../std/transient-map.ts";
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
  /** A promise of the enumeration's last step at the broker. The steps run one after the other. */
  turn: Promise<void>;
  isSent: boolean;
  isChecking: boolean;
  /** When the last message of the enumeration arrived. */
  heardAt: number;
  strikes: number;
}

/** After this many checks that find the enumerate queue empty and without consumers, the enumeration counts as lost. */
const STRIKES_MAX = 2;

export class OpenEnumerations {
  readonly #parts: BridgeParts;
  readonly #open = new TransientMap<string, Open>();
  /** How often each enumeration was released because its worker sent nothing. */
  readonly #silences = new Map<string, number>();
  /** Enumerate queues that are being deleted, each with the promise of the deletion. */
  readonly #deletions = new Map<string, Promise<void>>();

  constructor(parts: BridgeParts) {
    this.#parts = parts;
  }

  /** Whether a step at the broker failed, so that queues of ended enumerations may still exist. `restore` deletes them. */
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

  /** Declares and consumes the queue `enumerated`. Workers send the ends of all enumerations of all nodes to it. */
  async consumeEnumerated(session: BrokerSession): Promise<void> {
    const { names, engine, repair, dead, onFault } = this.#parts;
    const queue = names.enumerated;
    await repair.open(session, [queue], async () => {
      await session.withChannel((channel) => channel.assertQueue(queue, SHARED_QUEUE));
      await session.consume(queue, (delivery) => {
        // No delivery means that the broker cancelled the consumer: the queue was deleted. It is declared and consumed again.
        if (delivery === null) {
          this.consumeEnumerated(session).catch((thrown: unknown) => onFault(toFault(thrown)));
          return;
        }
        const fields = readFields(delivery.message.content);
        if (!isRejection(fields) && this.#parts.settings.shortMessages && isShort(fields))
          return this.#onShort(fields, delivery);
        const report = isRejection(fields) ? fields : readTaskReport(fields, engine.info.key);
        if (isRejection(report)) dead.put(delivery, report.message);
        else if (report.at.task >= 0)
          dead.put(
            delivery,
            "the queue is for ends of enumerations, but the attempt in the message is not an enumeration",
          );
        else this.onEnumerated(report, delivery);
      });
    });
  }

  /**
   * Handles an `enumerated` message. If another node has the enumeration, passes the message on to the intake queue, which that node
   * consumes.
   */
  onEnumerated(report: TaskReport, delivery: Delivery): void {
    const { engine, publisher, names } = this.#parts;
    const id = encodeAttempt(report.at);
    const open = this.#open.get(id);
    if (open !== undefined) return open.enumeration.onEnumerated(report, delivery);
    if (engine.isOwn(report.at.execution)) return delivery.ack();
    publisher.publish({
      key: names.intake(report.at),
      // The broker may deliver the same message twice. The delivery tag makes the ids of the two copies differ, so that each delivery is
      // acknowledged.
      id: `${id}~enumerated~${delivery.message.fields.deliveryTag}`,
      body: delivery.message.content,
      mandatory: true,
      // If the intake queue does not exist, no node waits for the message, so it is acknowledged as well.
      done: () => delivery.ack(),
    });
  }

  /** Handles a short `enumerated`. It ends the one open enumeration of its `task_queue` or, without that field, of its handler. */
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
        "the message fits no open enumeration or several: send `task_queue`, or `attempt` and `token`",
      );
    publisher.publish({
      key: intake,
      id: `${intake}~enumerated~${delivery.message.fields.deliveryTag}`,
      body: delivery.message.content,
      mandatory: true,
      // If the intake queue does not exist, no node waits for the message, so it is acknowledged.
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

  /** Called when workers outside of the broker serve this code too. Releases enumerations whose queue has no consumer. */
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

  /** Deletes the enumerate queue of code that is not used any more. While it is being deleted, no message is published to it. */
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
        // If the queue is in use or the connection is lost, the deletion fails, and the queue stays.
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

  /** Drops the enumerations of executions that now belong to other nodes. */
  handOver(isOwn: (execution: string) => boolean): void {
    for (const [id, open] of this.#open) {
      if (isOwn(open.enumeration.at.execution)) continue;
      this.#open.delete(id);
      this.#run(open, async (session) => {
        if (open.consumer !== null) await session.cancel(open.consumer);
      });
    }
  }

  /** Checks for each enumeration that its message is in its queue or at a worker. */
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
   * Deletes the intake queues of earlier processes and releases their enumerations. The next attempts continue after the journaled tasks.
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

  /**
   * Releases an enumeration whose message is lost. Other enumerations share the queue, so the message is surely lost only if the queue is
   * empty.
   */
  async #check(session: BrokerSession, open: Open): Promise<void> {
    const { settings, repair, silentMs } = this.#parts;
    const { enumeration } = open;
    if (enumeration.isOver) return;
    // An earlier try to send the enumeration, or to consume its intake queue, failed. It is tried again.
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
   * Called when the worker of an enumeration sends nothing. Releases the enumeration. After a few such times the enumeration counts as
   * crashed.
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
