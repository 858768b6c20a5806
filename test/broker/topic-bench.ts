/** For tests with topics: each has a broker of its own, and a channel to it as another system would have one. */
import type { Channel, ChannelModel } from "amqplib";
import { afterEach, beforeEach } from "vitest";
import { until } from "../faults/until.ts";
import { AmqpBench } from "./amqp-bench.ts";

/** A command as it stands in a topic. */
export interface Command {
  readonly cmd_metadata: { readonly rondo: Readonly<Record<string, unknown>> };
}

export class TopicBench {
  #bench: AmqpBench | null = null;
  #connection: ChannelModel | null = null;
  #channel: Channel | null = null;

  /** Opens it before each test of a file, and closes it after. */
  static forEach(): TopicBench {
    const topics = new TopicBench();
    beforeEach(() => topics.#open(), 180_000);
    afterEach(() => topics.#close());
    return topics;
  }

  get bench(): AmqpBench {
    return opened(this.#bench);
  }

  get channel(): Channel {
    return opened(this.#channel);
  }

  /** Puts a message into a queue. */
  say(queue: string, body: object): void {
    this.channel.sendToQueue(queue, Buffer.from(JSON.stringify(body)));
  }

  async consumers(queue: string): Promise<number> {
    return (await this.channel.checkQueue(queue)).consumerCount;
  }

  /** Takes the next command out of a topic. */
  async next(topic: string): Promise<Command> {
    await until(`a command is in ${topic}`, async () => (await this.bench.ready(topic)) > 0);
    const got = await this.channel.get(topic, { noAck: true });
    if (got === false) throw new Error(`there is none in ${topic}`);
    return JSON.parse(got.content.toString()) as Command;
  }

  async #open(): Promise<void> {
    this.#bench = await AmqpBench.make();
    this.#connection = await this.#bench.broker.connect();
    this.#channel = await this.#connection.createChannel();
  }

  async #close(): Promise<void> {
    await this.#connection?.close();
    await this.#bench?.close();
  }
}

function opened<T>(part: T | null): T {
  if (part === null) throw new Error("it is open only within a test");
  return part;
}
