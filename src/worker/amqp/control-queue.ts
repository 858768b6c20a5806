/**
 * The queue that a worker declares for itself and binds to the fanouts of control messages. Bindings are declared again
 * now and then, since somebody may have deleted an exchange.
 */
import type { Channel } from "amqplib";
import { FANOUT } from "../../protocol/amqp-wire.ts";
import type { Clock } from "../../std/clock.ts";
import { KeptConsumer, type KeptConsumerOptions } from "./kept-consumer.ts";

export interface ControlQueueOptions extends Pick<KeptConsumerOptions, "clock" | "onNote" | "answered"> {
  readonly clock: Clock;
  readonly fanouts: () => Iterable<string>;
  readonly onDelivery: KeptConsumerOptions["onDelivery"];
}

/** Control messages that may be unacknowledged at a time. */
const PREFETCH = 100;
const REBIND_MS = 15_000;

export class ControlQueue extends KeptConsumer {
  readonly #clock: Clock;
  readonly #bound: { at: { readonly channel: Channel; readonly queue: string } | null };
  readonly #bind: (channel: Channel, queue: string) => Promise<void>;
  #stopRebinding: (() => void) | null = null;

  constructor(options: ControlQueueOptions) {
    const bound: { at: { channel: Channel; queue: string } | null } = { at: null };
    const bind = async (channel: Channel, queue: string): Promise<void> => {
      for (const fanout of options.fanouts()) {
        await channel.assertExchange(fanout, "fanout", FANOUT);
        await channel.bindQueue(queue, fanout, "");
      }
    };
    super({
      ...options,
      prefetch: () => PREFETCH,
      prepare: async (channel) => {
        const { queue } = await channel.assertQueue("", { exclusive: true, autoDelete: true });
        bound.at = { channel, queue };
        await bind(channel, queue);
        return queue;
      },
    });
    this.#clock = options.clock;
    this.#bound = bound;
    this.#bind = bind;
  }

  /** Declares the bindings again every few seconds, until `stop`. */
  keepBound(): void {
    this.#stopRebinding = this.#clock.after(REBIND_MS, () => {
      const { at } = this.#bound;
      // A channel that breaks here is noticed by its consumer.
      if (at !== null) this.#bind(at.channel, at.queue).catch(() => {});
      this.keepBound();
    });
  }

  override detach(): void {
    this.#bound.at = null;
    super.detach();
  }

  override async stop(): Promise<void> {
    this.#stopRebinding?.();
    await super.stop();
  }
}
