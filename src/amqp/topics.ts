/**
 * Commands on topics, and their receipts. A topic is a queue of exactly its name, shared with whoever uses it, and so is
 * its receipt topic; every node consumes the receipts, and the engine brings each to the node that has the execution.
 */
import type { EnginePort } from "../engine/engine-port.ts";
import { LIMITS } from "../kernel/definition.ts";
import type { Outcome } from "../kernel/message.ts";
import { topicUse } from "../kernel/topic.ts";
import { decodeAttempt } from "../protocol/attempt-id.ts";
import { readFields } from "../protocol/read-body.ts";
import type { Grant, ReportedAttempt, ReportPlace } from "../protocol/work.ts";
import type { Clock } from "../std/clock.ts";
import { toStoredText } from "../std/json.ts";
import { isRejection } from "../std/rejection.ts";
import { beatsOf } from "./beats.ts";
import { toFault } from "./broker-fault.ts";
import type { BrokerSession } from "./broker-link.ts";
import type { DeskBook } from "./desk-book.ts";
import { deskKey } from "./names.ts";
import type { Publisher } from "./publisher.ts";
import type { QueueMender } from "./queue-mender.ts";
import { notStorable, readAttempt, readError } from "./read-message.ts";
import type { BrokerSettings } from "./settings.ts";
import { declareTopic, takeOut } from "./topology.ts";
import type { Delivery, WordDesk } from "./word-desk.ts";
import { attemptOf, commandBody } from "./write-message.ts";

type Fields = Readonly<Record<string, unknown>>;

export interface TopicsParts {
  readonly worker: string;
  readonly engine: EnginePort;
  readonly publisher: Publisher;
  readonly mender: QueueMender;
  readonly book: DeskBook;
  readonly settings: BrokerSettings;
  readonly clock: Clock;
  /** For how long nothing was heard since then, as far as something could be. */
  readonly silentMs: (heardAt: number) => number;
  readonly words: WordDesk;
  readonly session: () => BrokerSession | null;
  /** The one open command that a receipt without a mark is of, by its hashes; null: there is none, or several. */
  readonly findCommand: (receipt: Fields) => Promise<ReportedAttempt | null>;
  readonly onFault: (fault: Error) => void;
}

interface Command {
  readonly at: ReportedAttempt;
  /** The id of the attempt, and of the message. */
  readonly id: string;
  /** Null: it was sent by another process, of which this one has the lease. */
  readonly body: Buffer | null;
  readonly receiptTopic: string;
  /** When it was given to the publisher; null: it was not. */
  sentAt: number | null;
  /** Confirmed by the broker. */
  isThere: boolean;
}

interface Topic {
  readonly name: string;
  /** Commands that were sent and not heard of, by what they are (`commandKey`). */
  readonly open: Map<string, Command>;
  isMade: Promise<void> | null;
  /** Some were sent by others: whoever serves the topic by now has not heard of them. */
  isAdopted: boolean;
  heardAt: number;
  strikes: number;
  /** How often commands were sent again because nothing was heard, since something was sent or heard. */
  silences: number;
}

const STRIKES_MAX = 2;
/** Open commands that are gone through in one look. */
const ADOPTED_MAX = 10_000;

export class Topics {
  readonly #parts: TopicsParts;
  readonly #topics = new Map<string, Topic>();
  /** Receipt topics, with whether they are consumed. */
  readonly #receipts = new Map<string, boolean>();
  #isRestored = false;

  constructor(parts: TopicsParts) {
    this.#parts = parts;
  }

  /** Sends commands to their topic. */
  send(grant: Grant): void {
    if (grant.command === null) return;
    const { topic: name, receiptTopic } = grant.command;
    const topic = this.#topic(name);
    for (const item of grant.items) {
      const at = attemptOf(grant, item);
      const key = commandKey(at);
      topic.open.set(key, {
        ...commandBody(grant, item, this.#parts.engine.info.key),
        at,
        receiptTopic,
        sentAt: null,
        isThere: false,
      });
      topic.heardAt = this.#parts.clock.now();
      topic.silences = 0;
      this.#run((session) => this.#deliver(session, topic, key));
    }
  }

  /** Other workers serve these: what waits at a topic that nobody consumes is theirs. */
  giveWay(uses: ReadonlySet<string>): void {
    this.#adopt();
    for (const topic of this.#topics.values()) {
      if (!uses.has(topicUse(topic.name))) continue;
      topic.isAdopted = false;
      this.#run(async (session) => {
        const counts = await session.look(topic.name);
        if (counts !== null && counts.consumers > 0) return;
        const waiting = [...topic.open.values()];
        topic.open.clear();
        const ids = new Set(waiting.map(({ id }) => id));
        this.#parts.publisher.forget(({ id }) => ids.has(id));
        // More than that is not ours alone, and stays: who finds a command there that is done does it in vain.
        if (counts !== null && counts.ready <= waiting.length) await takeOut(session, topic.name, ids);
        this.#release(waiting);
      });
    }
  }

  /** The execution is cancelled, or has failed: nobody waits for receipts any more. */
  giveUp(place: ReportPlace): void {
    const desk = deskKey(place);
    for (const topic of this.#topics.values()) {
      for (const [key, command] of topic.open) {
        if (deskKey(command.at) !== desk) continue;
        topic.open.delete(key);
        // What the broker has not confirmed is not sent over the next connection.
        this.#parts.publisher.forget(({ id }) => id === command.id);
        this.#release([command]);
      }
    }
  }

  /** There is a broker again. A topic that cannot be used keeps nothing else from going on. */
  async attach(): Promise<void> {
    if (!this.#isRestored)
      for (const { receiptTopic } of await this.#parts.book.topics()) this.#receipts.set(receiptTopic, false);
    this.#isRestored = true;
    // One that breaks the session comes again with it.
    for (const receiptTopic of this.#receipts.keys())
      this.#run((session) => this.#consume(session, receiptTopic));
    for (const topic of this.#topics.values()) this.#deliverUnsent(topic);
  }

  detach(): void {
    for (const receiptTopic of this.#receipts.keys()) this.#receipts.set(receiptTopic, false);
    for (const topic of this.#topics.values()) topic.isMade = null;
  }

  /** Commands that are gone from the broker are sent again. */
  look(): void {
    for (const [receiptTopic, isConsumed] of this.#receipts)
      if (!isConsumed) this.#run((session) => this.#consume(session, receiptTopic));
    this.#adopt();
    const adopted = [...this.#topics.values()].filter(({ isAdopted }) => isAdopted);
    if (adopted.length > 0) this.giveWay(this.#parts.engine.usesServed());
    for (const topic of adopted) topic.isAdopted = false;
    for (const topic of this.#topics.values()) {
      this.#deliverUnsent(topic);
      this.#run((session) => this.#look(session, topic));
    }
  }

  /** Commands that were sent before this process, or by a node that has gone, are looked after here from now on. */
  #adopt(): void {
    const { engine, worker } = this.#parts;
    for (const { attempt: id, topic: name } of engine.openAttempts({
      worker,
      commands: true,
      max: ADOPTED_MAX,
    })) {
      const at = decodeAttempt(id);
      if (at === null || name === undefined) continue;
      const topic = this.#topic(name);
      const key = commandKey(at);
      if (topic.open.has(key)) continue;
      topic.open.set(key, { at, id, body: null, receiptTopic: "", sentAt: 0, isThere: true });
      topic.isAdopted = true;
    }
  }

  #topic(name: string): Topic {
    let topic = this.#topics.get(name);
    if (topic === undefined) {
      topic = {
        name,
        open: new Map(),
        isMade: null,
        isAdopted: false,
        heardAt: this.#parts.clock.now(),
        strikes: 0,
        silences: 0,
      };
      this.#topics.set(name, topic);
    }
    return topic;
  }

  async #look(session: BrokerSession, topic: Topic): Promise<void> {
    const { engine, worker, settings, clock, mender, silentMs } = this.#parts;
    for (const [key, { at }] of topic.open)
      if (engine.holderOf(at)?.worker !== worker) topic.open.delete(key);
    if (topic.open.size === 0) {
      this.#topics.delete(topic.name);
      return;
    }
    const counts = await mender.look(session, topic.name);
    const now = clock.now();
    const commands = [...topic.open];
    // What is on its way is the publisher's; it should be there by now.
    const stuck = commands.some(
      ([, { sentAt, isThere }]) => !isThere && sentAt !== null && now - sentAt >= settings.answerMs,
    );
    const gone = commands.filter(([, { sentAt, isThere }]) => sentAt !== null && (stuck || isThere));
    if (gone.length === 0 || (counts !== null && counts.ready > 0)) {
      topic.strikes = 0;
      return;
    }
    // Somebody may be at work for long: it is sent again less and less often.
    const isSilent =
      topic.silences < settings.silencesMax &&
      silentMs(topic.heardAt) >= settings.silenceMs * 2 ** topic.silences;
    if (counts === null) topic.isMade = null;
    if (counts !== null && counts.consumers === 0) topic.strikes++;
    if (counts !== null && topic.strikes < STRIKES_MAX && !isSilent) return;
    if (isSilent) topic.silences++;
    topic.strikes = 0;
    topic.heardAt = now;
    const sent = new Map(gone.map(([key, { sentAt }]) => [key, sentAt]));
    // It is empty, nobody consumes it, and what goes there is not confirmed: it has a name and nothing more.
    if (counts?.consumers === 0 && stuck) {
      await mender.remove(session, topic.name);
      topic.isMade = null;
    }
    await this.#make(session, topic);
    // What the broker gave back meanwhile has been published again.
    for (const [key, sentAt] of sent) if (topic.open.get(key)?.sentAt === sentAt) this.#publish(topic, key);
  }

  /** What has not been sent yet; a receipt topic that cannot be used holds up its own commands only. */
  #deliverUnsent(topic: Topic): void {
    const unsent = [...topic.open].filter(([, { sentAt }]) => sentAt === null);
    for (const wanted of new Set(unsent.map(([, { receiptTopic }]) => receiptTopic)))
      this.#run(async (session) => {
        for (const [key, { receiptTopic }] of unsent)
          if (receiptTopic === wanted) await this.#deliver(session, topic, key);
      });
  }

  /** A command goes when its receipt can come. */
  async #deliver(session: BrokerSession, topic: Topic, key: string): Promise<void> {
    const command = topic.open.get(key);
    if (command === undefined) return;
    await this.#consume(session, command.receiptTopic);
    await this.#make(session, topic);
    if (topic.open.get(key)?.sentAt === null) this.#publish(topic, key);
  }

  /** Whoever made it first says how it is; only where there is none it is made. */
  #make(session: BrokerSession, topic: Topic): Promise<void> {
    topic.isMade ??= this.#parts.mender
      .open(session, [topic.name], () => declareTopic(session, topic.name))
      .catch((thrown: unknown) => {
        topic.isMade = null;
        throw thrown;
      });
    return topic.isMade;
  }

  #publish(topic: Topic, key: string): void {
    const command = topic.open.get(key);
    if (command === undefined) return;
    const { id, body, receiptTopic } = command;
    if (body === null) {
      topic.open.delete(key);
      return this.#release([command]);
    }
    command.sentAt = this.#parts.clock.now();
    command.isThere = false;
    this.#parts.publisher.publish({
      key: topic.name,
      id,
      body,
      replyTo: receiptTopic,
      mandatory: true,
      done: (isRouted) => {
        command.isThere = isRouted;
        if (isRouted || topic.open.get(key) !== command) return;
        topic.isMade = null;
        this.#run(async (session) => {
          await this.#make(session, topic);
          this.#publish(topic, key);
        });
      },
    });
  }

  async #consume(session: BrokerSession, queue: string): Promise<void> {
    if (this.#receipts.get(queue) === true) return;
    const isNew = !this.#receipts.has(queue);
    this.#receipts.set(queue, true);
    try {
      if (isNew) await this.#parts.book.putTopic(queue);
      await this.#parts.mender.open(session, [queue], async () => {
        await declareTopic(session, queue);
        await session.take(queue, (message) => {
          if (message !== null)
            return this.#receipt({ message, channel: session.consume, queue, isShared: true });
          this.#receipts.set(queue, false);
          this.#run((again) => this.#consume(again, queue));
        });
      });
    } catch (thrown) {
      this.#receipts.set(queue, false);
      throw thrown;
    }
  }

  #receipt(delivery: Delivery): void {
    const { words, engine, onFault } = this.#parts;
    const fields = readFields(delivery.message.content);
    if (isRejection(fields)) return words.refuse(delivery, fields.message);
    const mark = ((fields["cmd_metadata"] ?? {}) as Fields)["rondo"];
    if (typeof mark === "object" && mark !== null) {
      const { workflow_id, attempt, token } = mark as Fields;
      const at = readAttempt({ workflow_id, attempt, token }, engine.info.key);
      return isRejection(at) ? words.refuse(delivery, at.message) : this.#take(at, fields, delivery);
    }
    const later = (fault: Error): void => {
      onFault(fault);
      words.later(delivery, () => this.#receipt(delivery));
    };
    this.#parts.findCommand(fields).then((at) => {
      if (at === null)
        words.refuse(delivery, "no mark `rondo`, and not exactly one open command has its hashes");
      else this.#take(at, fields, delivery);
    }, later);
  }

  #take(at: ReportedAttempt, fields: Fields, delivery: Delivery): void {
    const { clock, words } = this.#parts;
    const key = commandKey(at);
    for (const topic of this.#topics.values()) {
      if (!topic.open.delete(key)) continue;
      topic.heardAt = clock.now();
      topic.strikes = 0;
      topic.silences = 0;
    }
    words.take({ at, ms: 0, outcome: outcomeOf(fields) }, delivery);
  }

  #release(commands: readonly Command[]): void {
    const { engine, worker } = this.#parts;
    engine.release(worker, beatsOf(commands.map(({ at }) => at)));
  }

  #run(step: (session: BrokerSession) => Promise<void>): void {
    const session = this.#parts.session();
    if (session === null) return;
    step(session).catch((thrown: unknown) =>
      this.#parts.onFault(thrown instanceof Error && "retryable" in thrown ? thrown : toFault(thrown)),
    );
  }
}

/** What a command is, whoever was told to send it. */
function commandKey(at: ReportedAttempt): string {
  return `${deskKey(at)}/${at.task}/${at.attempt}`;
}

/** `proc_err` is an error in any shape; without it and without a result, the result is empty. */
function outcomeOf({ cmd_result = {}, proc_err }: Fields): Outcome {
  if (proc_err !== undefined && proc_err !== null && proc_err !== "")
    return { status: "failed", ...readError(proc_err, "the command failed") };
  const payload = toStoredText(cmd_result ?? {}, { bytesMax: LIMITS.resultBytes, what: "cmd_result" });
  return isRejection(payload) ? notStorable(payload) : { status: "done", payload };
}
