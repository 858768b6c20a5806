/** Stands in for the engine at a broker: publishes what it would, and hears what a worker says. */
import { type ChannelModel, type ConfirmChannel, type ConsumeMessage, connect } from "amqplib";
import type {
  EnumeratedMessage,
  EnumerateMessage,
  FinishedMessage,
  IntakeItem,
  IntakeMessage,
  ProcessMessage,
  TaskMessage,
} from "../../../src/protocol/amqp-wire.ts";
import { amqpNames, FANOUT, SHARED_QUEUE, TOPIC_QUEUE } from "../../../src/protocol/amqp-wire.ts";
import { encodeAttempt } from "../../../src/protocol/attempt-id.ts";
import { until } from "../../faults/until.ts";

const QUORUM = { durable: true, arguments: { "x-queue-type": "quorum", "x-delivery-limit": 4 } };

/** One visit of one handler, with its queues. */
export class StandIn {
  readonly finished: FinishedMessage[] = [];
  readonly #intake: IntakeMessage[] = [];
  readonly enumerated: EnumeratedMessage[] = [];
  readonly #connection: ChannelModel;
  readonly #channel: ConfirmChannel;
  readonly #use: string;
  readonly #names: ReturnType<typeof amqpNames>;
  readonly #base: string;

  private constructor(connection: ChannelModel, channel: ConfirmChannel, use: string) {
    this.#connection = connection;
    this.#channel = channel;
    this.#use = use;
    this.#names = amqpNames("rondo");
    this.#base = "rondo.workflow.ex_1.work.work";
  }

  static async open(url: string, use: string): Promise<StandIn> {
    const connection = await connect(url);
    // What goes wrong is thrown by the call that meets it.
    connection.on("error", () => {});
    const channel = await connection.createConfirmChannel();
    const engine = new StandIn(connection, channel, use);
    await engine.#declare();
    return engine;
  }

  get taskQueue(): string {
    return `${this.#base}.tasks`;
  }

  get intakeQueue(): string {
    return `${this.#base}.tasks.in.1`;
  }

  get finishedQueue(): string {
    return `${this.#base}.finished`;
  }

  /** Tasks that were put into the intake, with their positions. */
  get intake(): readonly (IntakeItem & { readonly position: number })[] {
    return this.#intake.flatMap((message) => {
      const items = "items" in message ? message.items : [message];
      return items.map(
        ({ data, key, identity }, i) => ({ data, key, identity, position: message.position + i }) as never,
      );
    });
  }

  async enumerate(more: Partial<EnumerateMessage> = {}): Promise<void> {
    const message: EnumerateMessage = {
      ...this.#place(),
      workflow: "flow",
      visit: 1,
      input: { n: 3 },
      task_queue: this.intakeQueue,
      finished_queue: this.finishedQueue,
      cancel_consumer_queue: this.#names.cancelConsumer,
      attempt: attempt(-1, 1),
      token: "of the enumeration",
      ...more,
    };
    await this.send(this.#names.enumerate(this.#use), message);
  }

  /** Tells of the task queue until some worker consumes it. */
  async process(): Promise<void> {
    await until("a worker consumes the task queue", async () => {
      await this.tell();
      return (await this.#channel.checkQueue(this.taskQueue)).consumerCount > 0;
    });
  }

  /** Tells every worker of the task queue. */
  async tell(): Promise<void> {
    const message: ProcessMessage = {
      ...this.#place(),
      workflow: "flow",
      visit: 1,
      task_queue: this.taskQueue,
      finished_queue: this.finishedQueue,
      cancel_consumer_queue: this.#names.cancelConsumer,
      input: { n: 3 },
    };
    this.#channel.publish(this.#names.process(this.#use), "", json(message));
    await this.#channel.waitForConfirms();
  }

  async task(number: number, more: Partial<TaskMessage> = {}): Promise<void> {
    const message: TaskMessage = {
      ...this.#place(),
      visit: 1,
      task: number,
      attempt: attempt(number, 1),
      token: `of ${number}`,
      data: { number },
      finished_queue: this.finishedQueue,
      idempotency_key: ["ex_1", "work", 1, "work", number].join("/"),
      ...more,
    };
    await this.send(this.taskQueue, message);
  }

  async cancelConsumer(reason?: "paused" | "cancelled"): Promise<void> {
    const message = { task_queue: this.taskQueue, ...(reason === undefined ? {} : { reason }) };
    this.#channel.publish(this.#names.cancelConsumer, "", json(message));
    await this.#channel.waitForConfirms();
  }

  /** Says that nobody waits for these attempts at commands any more. */
  async cancelCommands(...commands: string[]): Promise<void> {
    const message = { task_queue: this.taskQueue, reason: "cancelled", commands };
    this.#channel.publish(this.#names.cancelConsumer, "", json(message));
    await this.#channel.waitForConfirms();
  }

  async send(queue: string, message: unknown, more: { replyTo?: string } = {}): Promise<void> {
    const body = Buffer.isBuffer(message) ? message : json(message);
    this.#channel.sendToQueue(queue, body, { persistent: true, ...more });
    await this.#channel.waitForConfirms();
  }

  /** What comes in a topic, from now on. */
  async listen(topic: string): Promise<unknown[]> {
    const heard: unknown[] = [];
    await this.#channel.assertQueue(topic, TOPIC_QUEUE);
    await this.#consume(topic, heard);
    return heard;
  }

  async remake(queue: string): Promise<void> {
    await this.#channel.deleteQueue(queue);
    await this.#channel.assertQueue(queue, queue === this.taskQueue ? QUORUM : SHARED_QUEUE);
  }

  async delete(queue: string): Promise<void> {
    await this.#channel.deleteQueue(queue);
  }

  async consumersOf(queue: string): Promise<number> {
    return (await this.#channel.checkQueue(queue)).consumerCount;
  }

  async messagesIn(queue: string): Promise<number> {
    return (await this.#channel.checkQueue(queue)).messageCount;
  }

  /** Until so many tasks have had their last word. */
  async settled(count: number): Promise<void> {
    await until(`${count} are finished`, () => this.finished.length >= count, { state: () => this.finished });
  }

  async close(): Promise<void> {
    await this.#connection.close();
  }

  #place(): { workflow_id: string; phase: string; handler: string } {
    return { workflow_id: "ex_1", phase: "work", handler: "work" };
  }

  async #declare(): Promise<void> {
    const channel = this.#channel;
    await channel.assertExchange(this.#names.process(this.#use), "fanout", FANOUT);
    await channel.assertExchange(this.#names.cancelConsumer, "fanout", FANOUT);
    await channel.assertQueue(this.#names.enumerate(this.#use), SHARED_QUEUE);
    await channel.assertQueue(this.taskQueue, QUORUM);
    await this.#hear(this.finishedQueue, this.finished);
    await this.#hear(this.intakeQueue, this.#intake);
    await this.#hear(this.#names.enumerated, this.enumerated);
  }

  async #hear(queue: string, into: unknown[]): Promise<void> {
    await this.#channel.assertQueue(queue, SHARED_QUEUE);
    await this.#consume(queue, into);
  }

  async #consume(queue: string, into: unknown[]): Promise<void> {
    const onMessage = (message: ConsumeMessage | null): void => {
      if (message !== null) into.push(JSON.parse(message.content.toString()));
    };
    await this.#channel.consume(queue, onMessage, { noAck: true });
  }
}

/** The id of an attempt at a task; -1 is the enumeration. */
export function attempt(task: number, number: number): string {
  const place = { execution: "ex_1", phase: "work", visit: 1, handler: "work", round: 0, epoch: 1 };
  return encodeAttempt({ ...place, task, attempt: number, claim: task + 2 });
}

function json(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}
