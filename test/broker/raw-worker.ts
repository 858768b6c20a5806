/**
 * A worker as anybody could write it in any language, from the protocol alone: it knows names, queues and JSON, and
 * nothing of Rondo's code. What it saw is kept for the test.
 */
import { type Channel, type ChannelModel, type ConfirmChannel, type ConsumeMessage, connect } from "amqplib";

type Body = Record<string, unknown>;

export interface RawTask {
  readonly data: unknown;
  readonly body: Body;
  readonly redelivered: boolean;
}

export interface RawHandler {
  /** What there is to do; without it the worker does not enumerate. */
  readonly enumerate?: (input: unknown, body: Body) => Iterable<unknown> | AsyncIterable<unknown>;
  /** The result; what it throws fails the attempt. */
  readonly process?: (task: RawTask) => unknown;
}

export class RawWorker {
  readonly seen: RawTask[] = [];
  readonly processes: Body[] = [];
  readonly cancelled: string[] = [];
  readonly #connection: ChannelModel;
  readonly #channel: ConfirmChannel;
  readonly #prefix: string;
  readonly #handlers: Readonly<Record<string, RawHandler>>;
  readonly #prefetch: number;
  readonly #queues = new Map<string, { readonly channel: Channel; readonly tag: string }>();

  /** Queues whose channel is being opened. */
  readonly #coming = new Set<string>();
  #isKilled = false;

  private constructor(
    connection: ChannelModel,
    channel: ConfirmChannel,
    options: { prefix: string; prefetch: number; handlers: Readonly<Record<string, RawHandler>> },
  ) {
    this.#connection = connection;
    this.#channel = channel;
    this.#prefix = options.prefix;
    this.#prefetch = options.prefetch;
    this.#handlers = options.handlers;
  }

  static async open(
    url: string,
    handlers: Readonly<Record<string, RawHandler>>,
    { prefix = "rondo", prefetch = 10 }: { prefix?: string; prefetch?: number } = {},
  ): Promise<RawWorker> {
    const connection = await connect(url);
    connection.on("error", () => {
      // Tests break it on purpose.
    });
    const channel = await connection.createConfirmChannel();
    channel.on("error", () => {
      // As above.
    });
    const worker = new RawWorker(connection, channel, { prefix, prefetch, handlers });
    await worker.#listen();
    return worker;
  }

  /** Gone without a word: whatever it has is delivered again. */
  kill(): void {
    const { stream } = this.#connection.connection as unknown as { stream: { destroy(): void } };
    stream.destroy();
    this.#isKilled = true;
  }

  async close(): Promise<void> {
    if (!this.#isKilled) await this.#connection.close().catch(ofTheBroker);
  }

  /** Says something to a queue, as it is. */
  async say(queue: string, body: unknown): Promise<void> {
    const text = typeof body === "string" ? body : JSON.stringify(body);
    this.#channel.sendToQueue(queue, Buffer.from(text), { persistent: true });
    await this.#channel.waitForConfirms();
  }

  get channel(): Channel {
    return this.#channel;
  }

  async #listen(): Promise<void> {
    const channel = this.#channel;
    await channel.prefetch(this.#prefetch);
    const own = await channel.assertQueue("", { exclusive: true });
    const cancel = `${this.#prefix}.cancel.consumer`;
    await channel.assertExchange(cancel, "fanout", { durable: true });
    await channel.bindQueue(own.queue, cancel, "");
    const uses = new Map<string, RawHandler>();
    for (const [use, handler] of Object.entries(this.#handlers)) {
      const fanout = `${this.#prefix}.workflow.handler.${use}.process`;
      await channel.assertExchange(fanout, "fanout", { durable: true });
      await channel.bindQueue(own.queue, fanout, "");
      uses.set(fanout, handler);
      if (handler.enumerate === undefined) continue;
      const queue = `${this.#prefix}.workflow.handler.${use}.enumerate`;
      await channel.assertQueue(queue, { durable: true });
      await channel.consume(queue, (message) => {
        if (message !== null) this.#enumerate(message, handler).catch(ofTheBroker);
      });
    }
    await channel.consume(
      own.queue,
      (message) => {
        if (message === null) return;
        const body = JSON.parse(message.content.toString()) as Body;
        const queue = String(body["task_queue"]);
        const handler = uses.get(message.fields.exchange);
        if (handler === undefined) this.#cancel(queue).catch(ofTheBroker);
        else {
          this.processes.push(body);
          if (handler.process !== undefined) this.#consume(queue, handler).catch(ofTheBroker);
        }
      },
      { noAck: true },
    );
  }

  async #cancel(queue: string): Promise<void> {
    this.cancelled.push(queue);
    const open = this.#queues.get(queue);
    this.#queues.delete(queue);
    // What it has not begun goes back with the channel; what it has begun is said all the same.
    await open?.channel.cancel(open.tag);
  }

  /** Each queue has a channel of its own: one that is gone by now closes no other. */
  async #consume(queue: string, handler: RawHandler): Promise<void> {
    if (this.#queues.has(queue) || this.#coming.has(queue)) return;
    this.#coming.add(queue);
    const channel = await this.#connection.createChannel();
    channel.on("error", ofTheBroker);
    channel.on("close", () => this.#queues.delete(queue));
    const tag = `raw-${process.pid}-${++consumers}`;
    this.#queues.set(queue, { channel, tag });
    this.#coming.delete(queue);
    await channel.prefetch(this.#prefetch);
    await channel.consume(
      queue,
      (message) => {
        // The queue was deleted: `process` comes again if there is more.
        if (message === null) this.#queues.delete(queue);
        else this.#process(message, channel, handler).catch(ofTheBroker);
      },
      { consumerTag: tag },
    );
  }

  async #enumerate(message: ConsumeMessage, handler: RawHandler): Promise<void> {
    const body = JSON.parse(message.content.toString()) as Body;
    const { workflow_id, phase, handler: name, task_queue, finished_queue, attempt, token } = body;
    let position = 0;
    for await (const data of handler.enumerate?.(body["input"], body) ?? []) {
      const item = { workflow_id, phase, handler: name, position: position++, data };
      this.#channel.sendToQueue(String(task_queue), Buffer.from(JSON.stringify(item)), { persistent: true });
    }
    await this.#channel.waitForConfirms();
    await this.say(`${this.#prefix}.workflow.handler.enumerated`, {
      ...{ workflow_id, phase, handler: name, task_queue, finished_queue, attempt, token },
      total: position,
    });
    this.#channel.ack(message);
  }

  async #process(message: ConsumeMessage, channel: Channel, handler: RawHandler): Promise<void> {
    const body = JSON.parse(message.content.toString()) as Body;
    const task = { data: body["data"], body, redelivered: message.fields.redelivered };
    this.seen.push(task);
    const { workflow_id, phase, handler: name, task: number, attempt, token } = body;
    const word = { workflow_id, phase, handler: name, task: number, attempt, token };
    let said: Body;
    try {
      said = { ...word, status: "done", result: (await handler.process?.(task)) ?? null };
    } catch (thrown) {
      const { message: text, fatal } = thrown as Error & { fatal?: boolean };
      said = { ...word, status: "failed", error: { name: "Error", message: text, fatal } };
    }
    await this.say(String(body["finished_queue"]), said);
    channel.ack(message);
  }
}

let consumers = 0;

/** Queues go when a visit is over, and tests break connections: what is left of it is delivered again. */
function ofTheBroker(thrown: unknown): void {
  if (!(thrown instanceof Error)) throw thrown;
}

/** An error that is not tried again. */
export function fatal(message: string): Error {
  return Object.assign(new Error(message), { fatal: true });
}
