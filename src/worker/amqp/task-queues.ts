/** The task queues that this worker consumes, each with a share of the worker's capacity as its prefetch. */

import type { BrokerSession } from "../../net/amqp/connection.ts";
import { Consumer } from "../../net/amqp/consumer.ts";
import type { Delivery } from "../../net/amqp/delivery.ts";
import type { ProcessMessage } from "../../protocol/amqp-wire.ts";
import { TransientMap } from "../../std/transient-map.ts";

export interface TaskQueue {
  readonly use: string;
  readonly message: ProcessMessage;
  /** The execution's input as JSON text. */
  readonly input: string;
}

export interface TaskQueuesOptions {
  readonly capacity: number;
  readonly heldOf: (name: string) => number;
  readonly onDelivery: (queue: TaskQueue, delivery: Delivery) => void;
  readonly onBug: (thrown: unknown) => void;
}

interface Open extends TaskQueue {
  readonly consumer: Consumer;
  /** The number of deliveries at the last announcement of the queue. `idle` counts the announcements in a row without a new delivery. */
  seen: number;
  idle: number;
}

export class TaskQueues {
  readonly #options: TaskQueuesOptions;
  readonly #open = new TransientMap<string, Open>();
  /** Queues that the worker does not consume any more, but whose deliveries it may still acknowledge. */
  readonly #ended = new Map<string, Consumer>();
  #session: BrokerSession | null = null;
  #isStopped = false;

  constructor(options: TaskQueuesOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#open.size;
  }

  /** Whether the worker consumes this queue or is about to. */
  has(name: string): boolean {
    return !this.#isStopped && this.#open.has(name);
  }

  attach(session: BrokerSession): void {
    this.#session = session;
    const known = [...this.#open.values()];
    this.#open.clear();
    this.#ended.clear();
    for (const queue of known) this.add(queue);
  }

  detach(): void {
    this.#session = null;
  }

  /** Consumes a task queue; replaces its consumer if that consumer seems stale. */
  add({ use, message, input }: TaskQueue): void {
    const name = message.task_queue;
    if (this.#isStopped) return;
    const known = this.#open.get(name);
    if (known !== undefined) {
      if (!this.#isStale(name, known)) return;
      this.#open.delete(name);
      known.consumer.close().catch(this.#options.onBug);
    }
    const session = this.#session;
    if (session === null) return;
    const consumer = new Consumer(
      {
        prepare: async () => name,
        prefetch: () => this.#shareOf(message),
        onDelivery: (delivery) => this.#options.onDelivery(queue, delivery),
      },
      // The queue does not exist: the visit is over, or the queue is lost. After a loss the engine declares the queue again and
      // announces it.
      () => this.#end(name, queue),
    );
    const queue = { use, message, input, consumer, seen: 0, idle: known?.idle ?? 0 };
    this.#open.set(name, queue);
    consumer.open(session).catch(this.#options.onBug);
    this.#renewShares();
  }

  remove(name: string): void {
    const queue = this.#open.get(name);
    if (queue === undefined) return;
    queue.consumer.cancel().catch(this.#options.onBug);
    this.#end(name, queue);
  }

  /** Called when the worker holds no attempt of this queue any more. Closes the queue's channel if the queue is not consumed. */
  release(name: string): void {
    const consumer = this.#ended.get(name);
    if (consumer === undefined) return;
    this.#ended.delete(name);
    consumer.close().catch(this.#options.onBug);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(Array.from(this.#open.values(), ({ consumer }) => consumer.cancel()));
  }

  /**
   * Whether a consumer seems stale. After a quorum queue was declared again, its consumer may get no deliveries. So an idle
   * consumer is replaced, at increasing intervals.
   */
  #isStale(name: string, queue: Open): boolean {
    const isIdle = this.#options.heldOf(name) === 0 && queue.seen === queue.consumer.deliveries;
    queue.seen = queue.consumer.deliveries;
    queue.idle = isIdle ? queue.idle + 1 : 0;
    return queue.idle > 1 && Number.isInteger(Math.log2(queue.idle));
  }

  #end(name: string, queue: Open): void {
    if (this.#open.get(name) !== queue) return;
    this.#open.delete(name);
    this.#ended.set(name, queue.consumer);
    if (this.#options.heldOf(name) === 0) this.release(name);
    this.#renewShares();
  }

  #shareOf({ prefetch }: ProcessMessage): number {
    const share = Math.max(1, Math.ceil(this.#options.capacity / Math.max(1, this.#open.size)));
    return prefetch === undefined ? share : Math.max(1, Math.min(share, prefetch));
  }

  /** Changes the prefetch of queues whose share of the capacity has at least doubled or halved. */
  #renewShares(): void {
    if (this.#isStopped) return;
    for (const { consumer, message } of this.#open.values()) {
      const share = this.#shareOf(message);
      const has = consumer.prefetch;
      if (has > 0 && (has >= share * 2 || has * 2 <= share)) consumer.renew().catch(this.#options.onBug);
    }
  }
}
