/** Consumers with their own channels. A channel stays open after its consumer is cancelled, for acknowledgements. */
import type { Channel, ConsumeMessage } from "amqplib";
import { FANOUT } from "../../protocol/amqp-wire.ts";
import type { Clock } from "../../std/clock.ts";
import { every } from "../../std/within.ts";
import { type BrokerFault, toFault } from "./broker-fault.ts";
import type { BrokerSession } from "./connection.ts";
import { Delivery, Lane } from "./delivery.ts";
import type { QueueRepair } from "./queue-repair.ts";

export interface ConsumerOptions {
  /** Declares the queue and everything that it needs; returns the queue's name. */
  readonly prepare: (channel: Channel, session: BrokerSession) => Promise<string>;
  /** The most unacknowledged deliveries of the consumer. */
  readonly prefetch: () => number;
  readonly onDelivery: (delivery: Delivery) => void;
}

export class Consumer {
  readonly #options: ConsumerOptions;
  readonly #onGone: (why: string) => void;
  #lane: Lane | null = null;
  #queue = "";
  #tag: string | null = null;
  #isClosed = false;
  #prefetch = 0;
  deliveries = 0;

  /** `onGone` is called when the queue was deleted or its channel broke, but not when the session ends. */
  constructor(options: ConsumerOptions, onGone: (why: string) => void) {
    this.#options = options;
    this.#onGone = onGone;
  }

  get prefetch(): number {
    return this.#prefetch;
  }

  /** Starts to consume; returns the fault if that fails. */
  async open(session: BrokerSession): Promise<BrokerFault | null> {
    try {
      const channel = await session.openChannel();
      const lane = new Lane(channel);
      this.#lane = lane;
      channel.on("error", (error) => this.#gone(lane, error.message));
      this.#queue = await session.answered(this.#options.prepare(channel, session), "declaring a queue");
      await session.answered(this.#consume(lane), `consuming ${this.#queue}`);
      return null;
    } catch (thrown) {
      const fault = toFault(thrown);
      const lane = this.#lane;
      // If the channel broke, its error event calls `onGone`. If the broker did not answer, there is no such event.
      if (fault.isSilent && lane !== null) {
        lane.isOpen = false;
        lane.channel.close().catch(() => {});
        this.#gone(lane, fault.message);
      }
      return fault;
    }
  }

  /** Consumes again, with the prefetch that `options.prefetch` returns now. */
  async renew(): Promise<void> {
    const lane = this.#lane;
    const tag = this.#tag;
    if (lane === null || tag === null || !lane.isOpen) return;
    this.#tag = null;
    try {
      await lane.channel.cancel(tag);
      if (!this.#isClosed && lane.isOpen) await this.#consume(lane);
    } catch (thrown) {
      if (!(thrown instanceof Error)) throw thrown;
    }
  }

  /** Stops consuming; deliveries can still be acknowledged. */
  async cancel(): Promise<void> {
    const lane = this.#lane;
    const tag = this.#tag;
    this.#isClosed = true;
    this.#tag = null;
    if (lane === null || tag === null || !lane.isOpen) return;
    // An error is ignored: a cancel fails only if the channel is closed, and then its consumers have ended too.
    await lane.channel.cancel(tag).catch(() => {});
  }

  /** Closes the channel. The broker then delivers all unacknowledged messages again. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#lane?.flush();
    if (this.#lane?.isOpen === true) await this.#lane.channel.close().catch(() => {});
  }

  async #consume(lane: Lane): Promise<void> {
    this.#prefetch = this.#options.prefetch();
    await lane.channel.prefetch(this.#prefetch);
    const onMessage = (message: ConsumeMessage | null): void => {
      if (message === null) return this.#gone(lane, "the queue is gone");
      this.deliveries++;
      this.#options.onDelivery(new Delivery(message, this.#queue, lane));
    };
    const { consumerTag } = await lane.channel.consume(this.#queue, onMessage);
    this.#tag = consumerTag;
    if (this.#isClosed) await this.cancel();
  }

  #gone(lane: Lane, why: string): void {
    if (this.#lane !== lane) return;
    this.#tag = null;
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#onGone(why);
  }
}

export interface RecoveringConsumerOptions extends ConsumerOptions {
  /**
   * The name of a queue that is shared with other processes. A shared queue that fails repeatedly is deleted and declared
   * again. Null for other queues.
   */
  readonly queue: string | null;
  readonly repair: QueueRepair;
  readonly clock: Clock;
  /** Called if the queue has to be declared again. */
  readonly onNote: (what: string) => void;
}

const RETRY_MS = 500;

/** Consumes a queue in each session; a queue that was deleted is declared and consumed again. */
export class RecoveringConsumer {
  readonly #options: RecoveringConsumerOptions;
  #session: BrokerSession | null = null;
  #consumer: Consumer | null = null;

  constructor(options: RecoveringConsumerOptions) {
    this.#options = options;
  }

  get isAttached(): boolean {
    return this.#session !== null;
  }

  async attach(session: BrokerSession): Promise<void> {
    this.#session = session;
    await this.#open(session);
  }

  detach(): void {
    this.#session = null;
  }

  async stop(): Promise<void> {
    this.#session = null;
    await this.#consumer?.cancel();
  }

  async #open(session: BrokerSession): Promise<void> {
    const { clock, onNote, repair, queue } = this.#options;
    const prepare: ConsumerOptions["prepare"] = async (channel) => {
      if (queue !== null) await repair.removeBroken(session, queue);
      return this.#options.prepare(channel, session);
    };
    const consumer = new Consumer({ ...this.#options, prepare }, (why) => {
      if (this.#session !== session || this.#consumer !== consumer) return;
      onNote(`${queue ?? "the worker's own queue"} is declared again: ${why}`);
      clock.after(RETRY_MS, () => {
        if (this.#session === session) void this.#open(session);
      });
    });
    this.#consumer = consumer;
    const fault = await consumer.open(session);
    if (queue !== null) repair.note(session, queue, fault);
  }
}

export interface FanoutConsumerOptions
  extends Pick<RecoveringConsumerOptions, "clock" | "onNote" | "repair" | "prefetch" | "onDelivery"> {
  readonly fanouts: () => Iterable<string>;
}

const REBIND_MS = 15_000;

/** Consumes an exclusive queue bound to fanout exchanges, which are bound again at intervals in case one was deleted. */
export class FanoutConsumer extends RecoveringConsumer {
  readonly #stopRebinding: () => void;

  constructor(options: FanoutConsumerOptions) {
    let bound: { readonly channel: Channel; readonly queue: string } | null = null;
    const bind = async (channel: Channel, queue: string): Promise<void> => {
      for (const fanout of options.fanouts()) {
        await channel.assertExchange(fanout, "fanout", FANOUT);
        await channel.bindQueue(queue, fanout, "");
      }
    };
    super({
      ...options,
      queue: null,
      prepare: async (channel) => {
        const { queue } = await channel.assertQueue("", { exclusive: true, autoDelete: true });
        bound = { channel, queue };
        await bind(channel, queue);
        return queue;
      },
    });
    this.#stopRebinding = every(options.clock, REBIND_MS, () => {
      // If the binding breaks the channel, the consumer opens another channel.
      if (bound !== null && this.isAttached) bind(bound.channel, bound.queue).catch(() => {});
    });
  }

  override async stop(): Promise<void> {
    this.#stopRebinding();
    await super.stop();
  }
}
