/**
 * The task queues that this worker consumes: those that `process` told of, until `cancel.consumer` or their end. Of all
 * of them together it has about as much as it may do at a time: each has a share, at least one, and when the number of
 * queues changes much the shares are dealt anew.
 */
import type { ChannelModel } from "amqplib";
import type { ProcessMessage } from "../../protocol/amqp-wire.ts";
import { Consumer, type Delivery } from "./consumer.ts";

export interface TaskQueue {
  /** The wire name of the handler. */
  readonly use: string;
  readonly message: ProcessMessage;
  /** The execution's input as JSON text. */
  readonly input: string;
}

export interface TaskQueuesOptions {
  readonly capacity: number;
  /** How many attempts out of a queue are held. */
  readonly heldOf: (name: string) => number;
  readonly onDelivery: (queue: TaskQueue, delivery: Delivery) => void;
  readonly answered: <T>(work: Promise<T>) => Promise<T>;
  readonly onBug: (thrown: unknown) => void;
}

interface Open extends TaskQueue {
  readonly consumer: Consumer;
  /** Deliveries when `process` came last, and how often in a row there was nothing since. */
  seen: number;
  idle: number;
}

export class TaskQueues {
  readonly #options: TaskQueuesOptions;
  readonly #open = new Map<string, Open>();
  /** No longer consumed; what came out of them may still be acknowledged. */
  readonly #ended = new Map<string, Consumer>();
  #connection: ChannelModel | null = null;
  #isStopped = false;

  constructor(options: TaskQueuesOptions) {
    this.#options = options;
  }

  /** How many it consumes. */
  get size(): number {
    return this.#open.size;
  }

  /** Whether it consumes this one, or is about to. */
  has(name: string): boolean {
    return !this.#isStopped && this.#open.has(name);
  }

  /** There is a connection: what is known is consumed over it. */
  attach(connection: ChannelModel): void {
    this.#connection = connection;
    const known = [...this.#open.values()];
    this.#open.clear();
    this.#ended.clear();
    for (const queue of known) this.add(queue);
  }

  detach(): void {
    this.#connection = null;
  }

  /** Consumes a queue; if it does already, it looks whether that is still so. */
  add({ use, message, input }: TaskQueue): void {
    const name = message.task_queue;
    if (this.#isStopped) return;
    const known = this.#open.get(name);
    if (known !== undefined) {
      if (!this.#isStale(name, known)) return;
      this.#open.delete(name);
      known.consumer.close().catch(this.#options.onBug);
    }
    const connection = this.#connection;
    if (connection === null) return;
    const consumer = new Consumer({
      answered: this.#options.answered,
      prepare: async () => name,
      prefetch: () => this.#shareOf(message),
      onDelivery: (delivery) => this.#options.onDelivery(queue, delivery),
      // Its end, or its loss: in that case `process` comes again.
      onGone: () => this.#end(name, queue),
    });
    const queue = { use, message, input, consumer, seen: 0, idle: known?.idle ?? 0 };
    this.#open.set(name, queue);
    consumer.open(connection).catch(this.#options.onBug);
    this.#deal();
  }

  /** Consumes it no more. */
  remove(name: string): void {
    const queue = this.#open.get(name);
    if (queue === undefined) return;
    queue.consumer.cancel().catch(this.#options.onBug);
    this.#end(name, queue);
  }

  /** Nothing out of this queue is open any more: its channel is not needed, unless it is consumed. */
  release(name: string): void {
    const consumer = this.#ended.get(name);
    if (consumer === undefined) return;
    this.#ended.delete(name);
    consumer.close().catch(this.#options.onBug);
  }

  /** Consumes none any more. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(Array.from(this.#open.values(), ({ consumer }) => consumer.cancel()));
  }

  /**
   * A quorum queue that was deleted and made again under the same name at once can have a consumer that gets nothing:
   * one that has been idle for long is replaced, less often the longer it is.
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
    this.#deal();
  }

  #shareOf({ prefetch }: ProcessMessage): number {
    const share = Math.max(1, Math.ceil(this.#options.capacity / Math.max(1, this.#open.size)));
    return prefetch === undefined ? share : Math.max(1, Math.min(share, prefetch));
  }

  /** A share that is off by half is put right. */
  #deal(): void {
    if (this.#isStopped) return;
    for (const { consumer, message } of this.#open.values()) {
      const share = this.#shareOf(message);
      const has = consumer.prefetch;
      if (has > 0 && (has >= share * 2 || has * 2 <= share)) consumer.renew().catch(this.#options.onBug);
    }
  }
}
