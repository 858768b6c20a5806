/**
 * Deletes queues that exist and cannot be used: RabbitMQ killed at the wrong moment leaves a queue without a process, and
 * consuming it fails until it is deleted. Only an empty queue without consumers that failed twice in a row is deleted
 * (docs/decisions/020).
 */
import { BrokerFault, toFault } from "./broker-fault.ts";
import type { BrokerSession, QueueCounts } from "./connection.ts";

const FAILURES_MAX = 2;
const NAMES_MAX = 1_000;
const INTERNAL_ERROR = 541;
/** The reply code for a missing queue. RabbitMQ also sends it for a queue that it lists but cannot find. */
const NOT_FOUND = 404;

export class QueueRepair {
  /** The number of failures in a row, by queue. */
  readonly #failures = new Map<string, number>();
  readonly #onFault: (fault: Error) => void;

  constructor(onFault: (fault: Error) => void) {
    this.#onFault = onFault;
  }

  /** Runs `work`, which declares or consumes the given queues. Queues that failed too often are deleted first. */
  async open<T>(session: BrokerSession, queues: readonly string[], work: () => Promise<T>): Promise<T> {
    for (const queue of queues) await this.removeBroken(session, queue);
    try {
      const done = await work();
      for (const queue of queues) this.note(session, queue, null);
      return done;
    } catch (thrown) {
      for (const queue of queues) this.note(session, queue, toFault(thrown));
      throw thrown;
    }
  }

  /** Counts the messages of a queue. A queue that does not answer counts as failed. */
  counts(session: BrokerSession, queue: string): Promise<QueueCounts | null> {
    return this.open(session, [queue], () => session.counts(queue));
  }

  /** Counts a failure of a queue if the queue may be the cause. `fault` null means that the queue works, and resets the count. */
  note(session: BrokerSession, queue: string, fault: BrokerFault | null): void {
    const failures = (this.#failures.get(queue) ?? 0) + 1;
    const code = fault === null ? null : (fault.code ?? session.code);
    const isOfQueue = fault?.isSilent === true || code === INTERNAL_ERROR || code === NOT_FOUND;
    if (fault !== null && !isOfQueue) return;
    this.#failures.delete(queue);
    if (fault === null) return;
    this.#failures.set(queue, failures);
    const [oldest] = this.#failures.keys();
    if (this.#failures.size > NAMES_MAX && oldest !== undefined) this.#failures.delete(oldest);
  }

  async removeBroken(session: BrokerSession, queue: string): Promise<void> {
    if ((this.#failures.get(queue) ?? 0) >= FAILURES_MAX) await this.remove(session, queue);
  }

  /** Deletes a queue, unless it has messages or consumers. */
  async remove(session: BrokerSession, queue: string): Promise<void> {
    this.#failures.delete(queue);
    const counts = await session.counts(queue).catch((thrown: unknown) => {
      const fault = toFault(thrown);
      if (!fault.isSilent) throw fault;
      return null;
    });
    if (counts !== null && counts.ready + counts.consumers > 0) return;
    await session.withChannel((channel) => channel.deleteQueue(queue));
    this.#onFault(new BrokerFault(`the queue ${queue} could not be used: it is deleted and declared again`));
  }
}
