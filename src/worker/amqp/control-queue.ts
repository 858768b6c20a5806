/**
 * The worker's own queue, which is bound to the fanouts of control messages. Bindings are declared again now and then, since
 * an exchange may have been deleted.
 */
import type { Channel } from "amqplib";
import { RecoveringConsumer, type RecoveringConsumerOptions } from "../../net/amqp/consumer.ts";
import { FANOUT } from "../../protocol/amqp-wire.ts";
import { every } from "../../std/within.ts";

type Shared = Pick<RecoveringConsumerOptions, "clock" | "onNote" | "repair" | "onDelivery">;

export interface ControlQueueOptions extends Shared {
  readonly fanouts: () => Iterable<string>;
}

/** Unacknowledged control messages. */
const PREFETCH = 100;
const REBIND_MS = 15_000;

export class ControlQueue extends RecoveringConsumer {
  readonly #stopRebinding: () => void;

  constructor(options: ControlQueueOptions) {
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
      prefetch: () => PREFETCH,
      prepare: async (channel) => {
        const { queue } = await channel.assertQueue("", { exclusive: true, autoDelete: true });
        bound = { channel, queue };
        await bind(channel, queue);
        return queue;
      },
    });
    this.#stopRebinding = every(options.clock, REBIND_MS, () => {
      // The consumer reopens a channel that breaks here.
      if (bound !== null && this.isAttached) bind(bound.channel, bound.queue).catch(() => {});
    });
  }

  override async stop(): Promise<void> {
    this.#stopRebinding();
    await super.stop();
  }
}
