/**
 * One handler of a visit at the broker: a queue of tasks, one for tasks that go alone, and one for what workers say.
 *
 * 1. Opened before the first task is published, and again after every loss; its steps come one after the other.
 * 2. Tasks are published as they are granted. A task that reached the delivery limit goes alone, one at a time.
 * 3. Paused, failing or cancelled: consumers are cancelled, and what nobody has taken is given back.
 * 4. Looked at now and then: what is gone from the broker is given back, and so published again.
 * 5. When the visit is over everything is deleted.
 */
import { decodeAttempt } from "../../protocol/attempt-id.ts";
import { beatsOf } from "../beats.ts";
import { BrokerFault, toFault } from "../broker-fault.ts";
import type { BrokerSession } from "../broker-link.ts";
import { deskKey, type VisitPlace } from "../names.ts";
import type { Outgoing } from "../publisher.ts";
import type { ReadRollCall } from "../read-message.ts";
import { assertDesk, takeReady } from "../topology.ts";
import type { TaskCopy, VisitFacts } from "../write-message.ts";
import { LoneTasks } from "./lone-tasks.ts";
import { RollCalls } from "./roll-calls.ts";
import { VisitAnnouncer } from "./visit-announcer.ts";
import type { VisitParts } from "./visit-parts.ts";

/** Looks at an empty queue without consumers before its tasks are taken for lost. */
const STRIKES_MAX = 2;
const HELD_MAX = 100_000;

export class VisitQueues {
  readonly place: VisitPlace;
  readonly key: string;
  readonly facts: VisitFacts;
  readonly #parts: VisitParts;
  readonly #lone: LoneTasks;
  readonly #voice: VisitAnnouncer;
  /** What waits for the queues. */
  #backlog: TaskCopy[] = [];
  #turn: Promise<void> = Promise.resolve();
  #isOpening = false;
  #isOpen = false;
  /** The queues were there once: where they are not, something is lost. */
  #wasOpen = false;
  /** Words of workers are lost. */
  #isDeleted = false;
  #isWithdrawn = false;
  #isOver = false;
  #isGone = false;
  #isBooked: boolean;
  /** Messages of a former life may be in the queue. */
  #isOld: boolean;
  #heardAt: number;
  #strikes = 0;
  #silences = 0;
  readonly #calls: RollCalls;

  /** `isOld`: it is in the book. */
  constructor(place: VisitPlace, facts: VisitFacts, isOld: boolean, parts: VisitParts) {
    const { execution, phase, visit, handler, round } = place;
    this.place = { execution, phase, visit, handler, round };
    this.key = deskKey(place);
    this.facts = facts;
    this.#parts = parts;
    this.#isBooked = isOld;
    this.#isOld = isOld;
    this.#heardAt = parts.clock.now();
    this.#calls = new RollCalls(parts.names.tasks(this.place), parts);
    this.#voice = new VisitAnnouncer(this.place, facts, parts);
    this.#lone = new LoneTasks({
      publish: (task) => this.#publish(task, parts.names.alone(this.place)),
      make: () => this.#run((session) => this.#makeLone(session)),
    });
  }

  /** Its queues are deleted, or another node's. */
  get isGone(): boolean {
    return this.#isGone;
  }

  /** Tasks that are to go to workers. */
  add(tasks: readonly TaskCopy[], alone: boolean): void {
    const wasWithdrawn = this.#isWithdrawn;
    this.#isWithdrawn = false;
    if (wasWithdrawn) this.#voice.begin();
    this.#heardAt = this.#parts.clock.now();
    if (alone) for (const task of tasks) this.#lone.add(task);
    if (!alone && this.#isOpen && !this.#isOld)
      for (const task of tasks) this.#publish(task, this.#parts.names.tasks(this.place));
    else if (!alone) for (const task of tasks) this.#backlog.push(task);
    if (!this.#isOpen || this.#isOld) this.open();
    else if (wasWithdrawn) this.broadcast();
  }

  /** A task reached the delivery limit: it may have taken its worker down, or a neighbour of it has. */
  suspect(task: TaskCopy): void {
    if (this.#isWithdrawn) this.release([task.id]);
    else this.#lone.add(task);
  }

  /** Something was heard about an attempt. */
  heard(id: string): void {
    this.#heardAt = this.#parts.clock.now();
    this.#strikes = 0;
    this.#silences = 0;
    this.#lone.ended(id);
    this.#calls.heard(id);
  }

  /** A worker has answered a roll call. */
  answered(answer: ReadRollCall): void {
    this.#calls.answered(answer);
  }

  /** Makes the queues and consumes what workers say, if it does not yet. */
  open(): void {
    if (this.#isOpening || this.#isGone) return;
    this.#isOpening = true;
    this.#run(async (session) => {
      this.#isOpening = false;
      if (this.#isOver) return this.#remove(session);
      await this.#open(session);
    });
  }

  /** There is no broker. */
  detach(): void {
    this.#isOpen = false;
    this.#isOpening = false;
    this.#lone.detach();
    this.#calls.clear();
  }

  /** Says to every worker where the tasks are. */
  broadcast(): void {
    if (this.#isOpen && !this.#isWithdrawn && !this.#isOver)
      this.#voice.process(this.#lone.isMade, () => this.#calls.ask());
  }

  /** Nothing is to begin: what nobody has taken is given back. */
  withdraw(why: "paused" | "cancelled"): void {
    if (this.#isOver || this.#isWithdrawn) return;
    this.#isWithdrawn = true;
    this.release([...this.#backlog.splice(0), ...this.#lone.clear()].map(({ id }) => id));
    this.#voice.cancel(why, this.#lone.isMade);
    this.#run((session) => this.#giveBackReady(session));
  }

  /** Another worker serves it too: what is in a queue that nobody consumes is given back. */
  giveWay(): void {
    if (this.#isOver || this.#isWithdrawn) return;
    this.#run(async (session) => {
      const counts = await session.look(this.#parts.names.tasks(this.place));
      if (counts !== null && counts.consumers > 0) return;
      this.release([...this.#backlog.splice(0), ...this.#lone.clear()].map(({ id }) => id));
      await this.#giveBackReady(session);
    });
  }

  /** The visit is over: nothing of it stays at the broker. */
  close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#backlog = [];
    this.#lone.clear();
    this.#parts.publisher.forget((message) => this.#isOwn(message));
    this.#voice.cancel("finished", this.#lone.isMade);
    this.#run((session) => this.#remove(session));
  }

  /** Another node has the execution: it hears what workers say from now on. */
  handOver(): void {
    this.#isGone = true;
    this.#isOpen = false;
    this.#run(async (session) => {
      if (this.#consumer !== null) await session.consume.cancel(this.#consumer);
    });
  }

  #consumer: string | null = null;

  /** Resolves when what is under way has been done. */
  get idle(): Promise<void> {
    return this.#turn;
  }

  /** Gives attempts back that nobody has begun. */
  release(ids: readonly string[]): void {
    const attempts = ids.map(decodeAttempt).filter((at) => at !== null);
    if (attempts.length > 0) this.#parts.engine.release(this.#parts.worker, beatsOf(attempts));
  }

  /** Looks whether all is there that should be. */
  look(): void {
    if (this.#isOver || !this.#isOpen) return this.open();
    this.#run(async (session) => {
      const { names, settings, silentMs } = this.#parts;
      const held = this.#held();
      if (held.length === 0 || !this.#isOpen) return;
      const counts = await session.look(names.tasks(this.place));
      const lone = this.#lone.isMade ? await session.look(names.alone(this.place)) : null;
      if (counts === null || (this.#lone.isMade && lone === null)) return this.#lost(held, true);
      if (counts.ready + (lone?.ready ?? 0) > 0) {
        this.#strikes = 0;
        this.#calls.clear();
        if (this.#isWithdrawn) await this.#giveBackReady(session);
        return;
      }
      const missing = this.#missing(held, counts.consumers);
      if (missing.length > 0) return this.#lost(missing, false);
      const consumers = counts.consumers + (lone?.consumers ?? 0);
      const silenceMs = Math.max(settings.silenceMs, 2 * (this.facts.timeoutMs ?? 0)) * 2 ** this.#silences;
      const isSilent = silentMs(this.#heardAt) >= silenceMs && this.#silences < settings.silencesMax;
      if (isSilent) this.#silences++;
      if (consumers === 0 && !this.#isWithdrawn) this.#strikes++;
      if (this.#strikes >= STRIKES_MAX) return this.#remake(session, held);
      if (isSilent) this.#lost(held, false);
    });
  }

  /**
   * Empty and without consumers, although there are tasks. A quorum queue that was declared just when its broker was
   * killed is such a one for good: it takes messages and consumers without a word. It is made anew.
   */
  async #remake(session: BrokerSession, held: readonly string[]): Promise<void> {
    const { names, publisher } = this.#parts;
    publisher.forget((message) => this.#isOwn(message));
    await session.with((channel) => channel.deleteQueue(names.tasks(this.place)));
    if (this.#lone.isMade) await session.with((channel) => channel.deleteQueue(names.alone(this.place)));
    this.#lost(held, true);
  }

  /** Attempts of this handler that the engine takes for published. */
  #held(): readonly string[] {
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

  /** Of what was published, and is in no queue, what no worker has. */
  #missing(held: readonly string[], consumers: number): readonly string[] {
    // What goes alone is in a queue that is found empty by its deliveries.
    if (this.#lone.isMade || this.#isWithdrawn) {
      this.#calls.clear();
      return [];
    }
    const waiting = new Set(this.#backlog.map(({ id }) => id));
    const taken = held.filter((id) => !waiting.has(id) && !this.#parts.publisher.has(id));
    return this.#calls.look(taken, consumers);
  }

  /** What was published is not there any more. */
  #lost(held: readonly string[], isDeleted: boolean): void {
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
      new BrokerFault(
        `${held.length} tasks of ${this.key} are gone from the broker: they are published again`,
      ),
    );
    this.release(held);
  }

  async #open(session: BrokerSession): Promise<void> {
    const { names, book, mender } = this.#parts;
    if (!this.#isBooked) {
      await book.putDesk({ place: this.place, use: this.facts.use });
      this.#isBooked = true;
    }
    let isLost = false;
    if (!this.#isOpen) {
      isLost = this.#isDeleted || (this.#wasOpen && (await session.look(names.tasks(this.place))) === null);
      this.#isDeleted = false;
      const queues = [names.finished(this.place), names.tasks(this.place)];
      await mender.open(session, queues, () => this.#make(session));
      this.#isOpen = true;
      this.#wasOpen = true;
    }
    if (isLost) {
      await takeReady(session, [names.tasks(this.place), names.alone(this.place)]);
      this.#lost(this.#held(), false);
    }
    if (this.#isOld && this.#backlog.length > 0) await this.#tidy(session);
    this.broadcast();
    if (!this.#isOld)
      for (const task of this.#backlog.splice(0)) this.#publish(task, names.tasks(this.place));
    this.#lone.attach();
  }

  async #make(session: BrokerSession): Promise<void> {
    const { names, onWord } = this.#parts;
    await session.with((channel) => assertDesk(channel, this.#topology));
    this.#consumer = await session.take(names.finished(this.place), (message) => {
      if (message !== null) return onWord(message, session.consume, this);
      // Somebody deleted the queue, and with it words that nobody has heard.
      this.#isDeleted = true;
      this.#isOpen = false;
      this.open();
    });
  }

  get #topology() {
    const { names, settings } = this.#parts;
    return { place: this.place, use: this.facts.use, names, settings };
  }

  /** Before the first task of this life: of what a former one left, only what still counts stays. */
  async #tidy(session: BrokerSession): Promise<void> {
    const { names, engine, worker } = this.#parts;
    const left = await takeReady(session, [names.tasks(this.place), names.alone(this.place)]);
    this.#isOld = false;
    for (const task of left) {
      const at = decodeAttempt(task.id);
      if (at !== null && engine.holderOf(at)?.worker === worker) this.#publish(task, names.tasks(this.place));
    }
  }

  async #makeLone(session: BrokerSession): Promise<void> {
    if (!this.#isOpen) return;
    await session.with((channel) => assertDesk(channel, { ...this.#topology, alone: true }));
    this.#lone.made();
    this.#voice.begin();
    this.broadcast();
  }

  async #giveBackReady(session: BrokerSession): Promise<void> {
    const { names } = this.#parts;
    const left = await takeReady(session, [names.tasks(this.place), names.alone(this.place)]);
    this.release(left.map(({ id }) => id));
  }

  async #remove(session: BrokerSession): Promise<void> {
    if (this.#isGone) return;
    const { names, book } = this.#parts;
    if (this.#consumer !== null && this.#isOpen) await session.consume.cancel(this.#consumer);
    this.#isOpen = false;
    await session.with(async (channel) => {
      for (const queue of [names.tasks(this.place), names.alone(this.place)])
        await channel.deleteQueue(queue);
      await channel.deleteQueue(names.finished(this.place));
    });
    this.#isGone = true;
    if (this.#isBooked) await book.removeDesk(this.place);
  }

  #publish(task: TaskCopy, queue: string): void {
    const { publisher, settings, names } = this.#parts;
    const alone = queue === names.alone(this.place);
    publisher.publish({
      key: queue,
      id: alone ? `${task.id}~alone` : task.id,
      body: task.body,
      mandatory: true,
      expirationMs: settings.messageMs,
      done: (isRouted) => {
        if (isRouted || this.#isOver || this.#isGone) return;
        // Somebody deleted the queue.
        this.#backlog.push(task);
        this.#isOpen = false;
        this.open();
      },
    });
  }

  #isOwn({ key }: Outgoing): boolean {
    const { names } = this.#parts;
    return key === names.tasks(this.place) || key === names.alone(this.place);
  }

  /** One after the other; without a broker it is done when there is one again. */
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
        this.#parts.onFault(thrown instanceof Error && "retryable" in thrown ? thrown : toFault(thrown));
      }
    });
  }
}
