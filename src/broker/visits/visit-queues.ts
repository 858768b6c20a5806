/**
 * The queues of one handler of a visit at the broker: a queue of tasks, a queue of lone tasks, and a queue of receipts.
 *
 * 1. The queues are declared before the first task is published, and again after every loss. Steps run one after the other.
 * 2. Tasks are published as they are granted. A task that reached the delivery limit goes to the queue of lone tasks, which holds one
 *    task at a time.
 * 3. When the handler is paused, failing or cancelled, consumers are cancelled, and tasks that no worker took are released.
 * 4. The queues are checked from time to time. Tasks that are lost at the broker are released, and the engine grants them again.
 * 5. When the visit is over, the queues are deleted.
 */
import { BrokerFault, toReported } from "../../net/amqp/broker-fault.ts";
import type { BrokerSession } from "../../net/amqp/connection.ts";
import type { Delivery } from "../../net/amqp/delivery.ts";
import type { Outgoing } from "../../net/amqp/publisher.ts";
import { beatsOf, decodeAttempt } from "../../protocol/attempt-id.ts";
import type { BridgeParts } from "../bridge-parts.ts";
import { type VisitPlace, visitKey } from "../names.ts";
import type { ReadRollCall } from "../read-message.ts";
import { assertVisit, deleteQueues, removeReady } from "../topology.ts";
import type { TaskCopy, VisitFacts } from "../write-message.ts";
import { LoneTasks } from "./lone-tasks.ts";
import { RollCalls } from "./roll-calls.ts";
import { VisitAnnouncer } from "./visit-announcer.ts";

/** After this many checks that find a task queue empty and without consumers, its tasks count as lost. */
const STRIKES_MAX = 2;
const HELD_MAX = 100_000;

export interface VisitParts extends BridgeParts {
  /** Whether the single task of this handler is held back and so is not at the broker (single-tasks.ts). */
  readonly isUnpublished: (place: VisitPlace) => boolean;
  readonly onFinished: (delivery: Delivery, visit: VisitQueues) => void;
}

export class VisitQueues {
  readonly place: VisitPlace;
  readonly key: string;
  readonly facts: VisitFacts;
  readonly tasks: string;
  readonly alone: string;
  readonly finished: string;
  readonly #parts: VisitParts;
  readonly #lone: LoneTasks;
  readonly #announcer: VisitAnnouncer;
  /** Tasks that wait until the queues are declared. */
  #backlog: TaskCopy[] = [];
  #turn: Promise<void> = Promise.resolve();
  #isOpening = false;
  #isOpen = false;
  /** Whether the queues were declared before. If they have disappeared since, their tasks are lost. */
  #wasOpen = false;
  /** Whether the queue of receipts was deleted. In that case receipts were lost. */
  #isDeleted = false;
  #isWithdrawn = false;
  #isOver = false;
  #isGone = false;
  #isChecking = false;
  #isRegistered: boolean;
  /** Whether the queue may contain messages of an earlier process. */
  #isOld: boolean;
  /** When a task was last granted or a receipt last arrived. */
  #heardAt: number;
  #strikes = 0;
  #silences = 0;
  readonly #calls: RollCalls;

  /** `isOld` says that an earlier process registered the queues. */
  constructor(place: VisitPlace, facts: VisitFacts, isOld: boolean, parts: VisitParts) {
    const { execution, phase, visit, handler, round } = place;
    this.place = { execution, phase, visit, handler, round };
    this.key = visitKey(place);
    this.facts = facts;
    this.#parts = parts;
    this.#isRegistered = isOld;
    this.#isOld = isOld;
    this.#heardAt = parts.clock.now();
    this.tasks = parts.names.tasks(this.place);
    this.alone = parts.names.alone(this.place);
    this.finished = parts.names.finished(this.place);
    this.#calls = new RollCalls(this.tasks, parts);
    this.#announcer = new VisitAnnouncer(this.place, facts, parts);
    this.#lone = new LoneTasks({
      publish: (task) => this.#publish(task, this.alone),
      declare: () => this.#run((session) => this.#declareLone(session)),
    });
  }

  /** Whether the queues are deleted or belong to another node now. */
  get isGone(): boolean {
    return this.#isGone;
  }

  /** Publishes tasks as soon as the queues are declared. */
  add(tasks: readonly TaskCopy[], alone: boolean): void {
    const wasWithdrawn = this.#isWithdrawn;
    this.#isWithdrawn = false;
    if (wasWithdrawn) this.#announcer.reset();
    this.#heardAt = this.#parts.clock.now();
    if (alone) for (const task of tasks) this.#lone.add(task);
    if (!alone && this.#isOpen && !this.#isOld) for (const task of tasks) this.#publish(task, this.tasks);
    else if (!alone) for (const task of tasks) this.#backlog.push(task);
    if (!this.#isOpen || this.#isOld) this.open();
    else if (wasWithdrawn) this.broadcast();
  }

  /** Called when a task was delivered too often. Either this task or another task of the same worker may have crashed the worker. */
  suspect(task: TaskCopy): void {
    if (this.#isWithdrawn) this.release([task.id]);
    else this.#lone.add(task);
  }

  onReceipt(id: string): void {
    this.#heardAt = this.#parts.clock.now();
    this.#strikes = 0;
    this.#silences = 0;
    this.#lone.onEnded(id);
    this.#calls.onReceipt(id);
  }

  onRollCall(answer: ReadRollCall): void {
    this.#calls.onAnswer(answer);
  }

  /** Declares the queues and consumes receipts, unless that is done already. */
  open(): void {
    if (this.#isOpening || this.#isGone) return;
    this.#isOpening = true;
    this.#run(async (session) => {
      this.#isOpening = false;
      if (this.#isOver) return this.#delete(session);
      await this.#open(session);
    });
  }

  detach(): void {
    this.#isOpen = false;
    this.#isOpening = false;
    this.#lone.detach();
    this.#calls.clear();
  }

  broadcast(): void {
    if (this.#isOpen && !this.#isWithdrawn && !this.#isOver)
      this.#announcer.announce(this.#lone.isDeclared, () => this.#calls.ask());
  }

  /** Releases the tasks that no worker has received. */
  withdraw(why: "paused" | "cancelled"): void {
    if (this.#isOver || this.#isWithdrawn) return;
    this.#isWithdrawn = true;
    this.#releaseBacklog();
    this.#announcer.cancel(why, this.#lone.isDeclared);
    this.#run((session) => this.#releaseReady(session));
  }

  /** Called when workers outside of the broker serve this code too. Releases the tasks of a queue without consumers. */
  giveWay(): void {
    if (this.#isOver || this.#isWithdrawn) return;
    this.#run(async (session) => {
      const counts = await session.counts(this.tasks);
      if (counts !== null && counts.consumers > 0) return;
      this.#releaseBacklog();
      await this.#releaseReady(session);
    });
  }

  /** Called when the visit is over: deletes its queues. */
  close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#backlog = [];
    this.#lone.clear();
    this.#parts.publisher.forget((message) => this.#isOwn(message));
    this.#run((session) => this.#delete(session));
  }

  /** Called when another node owns the execution now. That node consumes the receipts from now on. */
  handOver(): void {
    this.#isGone = true;
    this.#isOpen = false;
    this.#run(async (session) => {
      if (this.#consumer !== null) await session.cancel(this.#consumer);
    });
  }

  #consumer: string | null = null;

  get idle(): Promise<void> {
    return this.#turn;
  }

  /** Releases attempts that no worker has begun. */
  release(ids: readonly string[]): void {
    const attempts = ids.map(decodeAttempt).filter((at) => at !== null);
    if (attempts.length > 0) this.#parts.engine.release(this.#parts.worker, beatsOf(attempts));
  }

  /** Checks that each published task is in a queue or at a worker. Releases tasks that are lost. */
  check(): void {
    if (this.#isOver || !this.#isOpen) return this.open();
    // Skips the check if the last one still runs. On a busy machine checks would pile up, and count strikes without a pause between them.
    if (this.#isChecking) return;
    this.#isChecking = true;
    this.#run(async (session) => {
      const { settings, silentMs } = this.#parts;
      const held = this.#published();
      if (held.length === 0 || !this.#isOpen) return;
      const counts = await session.counts(this.tasks);
      const lone = this.#lone.isDeclared ? await session.counts(this.alone) : null;
      if (counts === null || (this.#lone.isDeclared && lone === null)) return this.#onLost(held, true);
      if (counts.ready + (lone?.ready ?? 0) > 0) {
        this.#strikes = 0;
        this.#calls.clear();
        if (this.#isWithdrawn) await this.#releaseReady(session);
        return;
      }
      const missing = this.#missing(held, counts.consumers);
      if (missing.length > 0) return this.#onLost(missing, false);
      const consumers = counts.consumers + (lone?.consumers ?? 0);
      const silenceMs = Math.max(settings.silenceMs, 2 * (this.facts.timeoutMs ?? 0)) * 2 ** this.#silences;
      const isSilent = silentMs(this.#heardAt) >= silenceMs && this.#silences < settings.silencesMax;
      if (isSilent) this.#silences++;
      if (consumers === 0 && !this.#isWithdrawn) this.#strikes++;
      if (this.#strikes >= STRIKES_MAX) return this.#redeclare(session, held);
      if (isSilent) this.#onLost(held, false);
    });
    void this.#turn.then(() => {
      this.#isChecking = false;
    });
  }

  /**
   * Deletes queues that are empty and without consumers although they should have tasks: a quorum queue that is broken does not recover
   * by itself.
   */
  async #redeclare(session: BrokerSession, held: readonly string[]): Promise<void> {
    this.#parts.publisher.forget((message) => this.#isOwn(message));
    await deleteQueues(session, this.#lone.isDeclared ? [this.tasks, this.alone] : [this.tasks]);
    this.#onLost(held, true);
  }

  /** Returns the attempts of this handler that the engine regards as published. */
  #published(): readonly string[] {
    const { engine, worker, isUnpublished } = this.#parts;
    if (isUnpublished(this.place)) return [];
    const { execution, phase, visit, handler } = this.place;
    return engine
      .openAttempts({ worker, execution, max: HELD_MAX })
      .filter(
        (open) => open.phase === phase && open.visit === visit && open.handler === handler && open.task >= 0,
      )
      .map(({ attempt }) => attempt);
  }

  /** Returns the published attempts that are neither in a queue nor at a worker. */
  #missing(held: readonly string[], consumers: number): readonly string[] {
    // A roll call does not ask about lone tasks.
    if (this.#lone.isDeclared || this.#isWithdrawn) {
      this.#calls.clear();
      return [];
    }
    const waiting = new Set(this.#backlog.map(({ id }) => id));
    const taken = held.filter((id) => !waiting.has(id) && !this.#parts.publisher.has(id));
    return this.#calls.findLost(taken, consumers);
  }

  /** Releases published attempts that are no longer at the broker. */
  #onLost(held: readonly string[], isDeleted: boolean): void {
    this.#strikes = 0;
    this.#heardAt = this.#parts.clock.now();
    this.#lone.clear();
    if (held.length === 0) return;
    const gone = new Set(held);
    this.#backlog = this.#backlog.filter(({ id }) => !gone.has(id));
    this.#parts.publisher.forget(({ id }) => gone.has(id));
    if (isDeleted) {
      this.#isOpen = false;
      this.#lone.detach();
      this.open();
    }
    this.#parts.onFault(
      new BrokerFault(`${held.length} tasks of ${this.key} are lost at the broker: they are published again`),
    );
    this.release(held);
  }

  async #open(session: BrokerSession): Promise<void> {
    const { queueRegistry, repair } = this.#parts;
    if (!this.#isRegistered) {
      await queueRegistry.putVisit({ place: this.place, use: this.facts.use });
      this.#isRegistered = true;
    }
    let isLost = false;
    if (!this.#isOpen) {
      isLost = this.#isDeleted || (this.#wasOpen && (await session.counts(this.tasks)) === null);
      this.#isDeleted = false;
      const queues = [this.finished, this.tasks];
      await repair.open(session, queues, () => this.#declare(session));
      this.#isOpen = true;
      this.#wasOpen = true;
    }
    if (isLost) {
      await removeReady(session, [this.tasks, this.alone]);
      this.#onLost(this.#published(), false);
    }
    if (this.#isOld && this.#backlog.length > 0) await this.#removeStale(session);
    this.broadcast();
    if (!this.#isOld) for (const task of this.#backlog.splice(0)) this.#publish(task, this.tasks);
    this.#lone.attach();
  }

  async #declare(session: BrokerSession): Promise<void> {
    const { onFinished } = this.#parts;
    await session.withChannel((channel) => assertVisit(channel, this.#topology));
    this.#consumer = await session.consume(this.finished, (delivery) => {
      if (delivery !== null) return onFinished(delivery, this);
      // The queue of receipts was deleted, with the receipts that were not delivered.
      this.#isDeleted = true;
      this.#isOpen = false;
      this.open();
    });
  }

  get #topology() {
    const { names, settings } = this.#parts;
    return { place: this.place, use: this.facts.use, names, settings };
  }

  /** Before the first task is published: removes messages of an earlier process whose attempts are not open any more. */
  async #removeStale(session: BrokerSession): Promise<void> {
    const { engine, worker } = this.#parts;
    const left = await removeReady(session, [this.tasks, this.alone]);
    this.#isOld = false;
    for (const task of left) {
      const at = decodeAttempt(task.id);
      if (at !== null && engine.holderOf(at)?.worker === worker) this.#publish(task, this.tasks);
    }
  }

  async #declareLone(session: BrokerSession): Promise<void> {
    if (!this.#isOpen) return;
    await session.withChannel((channel) => assertVisit(channel, { ...this.#topology, alone: true }));
    this.#lone.onDeclared();
    this.#announcer.reset();
    this.broadcast();
  }

  #releaseBacklog(): void {
    this.release([...this.#backlog.splice(0), ...this.#lone.clear()].map(({ id }) => id));
  }

  async #releaseReady(session: BrokerSession): Promise<void> {
    const left = await removeReady(session, [this.tasks, this.alone]);
    this.release(left.map(({ id }) => id));
  }

  /**
   * Deletes the queues, then tells the workers. In the other order a worker cancels its consumer while the queue is deleted, and RabbitMQ
   * 3.10 can answer such a cancel twice, which ends the connections of many clients.
   */
  async #delete(session: BrokerSession): Promise<void> {
    if (this.#isGone) return;
    if (this.#consumer !== null && this.#isOpen) await session.cancel(this.#consumer);
    this.#isOpen = false;
    await deleteQueues(session, [this.tasks, this.alone, this.finished]);
    this.#announcer.cancel("finished", this.#lone.isDeclared);
    this.#isGone = true;
    if (this.#isRegistered) await this.#parts.queueRegistry.removeVisit(this.place);
  }

  #publish(task: TaskCopy, queue: string): void {
    const { publisher, settings } = this.#parts;
    const alone = queue === this.alone;
    publisher.publish({
      key: queue,
      id: alone ? `${task.id}~alone` : task.id,
      body: task.body,
      mandatory: true,
      expirationMs: settings.messageMs,
      done: (isRouted) => {
        if (isRouted || this.#isOver || this.#isGone) return;
        // No delivery means that the broker cancelled the consumer: the queue was deleted.
        this.#backlog.push(task);
        this.#isOpen = false;
        this.open();
      },
    });
  }

  #isOwn({ key }: Outgoing): boolean {
    return key === this.tasks || key === this.alone;
  }

  /** Runs a step after the earlier steps. Without a connection the step is skipped, and `open` runs it later. */
  #run(step: (session: BrokerSession) => Promise<void>): void {
    this.#turn = this.#turn.then(async () => {
      const session = this.#parts.session();
      if (session === null) {
        this.#isOpening = false;
        return;
      }
      try {
        await step(session);
      } catch (thrown) {
        this.#isOpening = false;
        this.#parts.onFault(toReported(thrown));
      }
    });
  }
}
