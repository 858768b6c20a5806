/**
 * Queues that are there and of no use: RabbitMQ killed while it declares a quorum queue leaves a name without a process,
 * and a classic one can lose its own. Consuming such a queue ends the connection, or nothing is answered; that is so for
 * good, until it is deleted. What fails so twice in a row, is empty and has no consumers is deleted, and then made anew.
 */
import { INTERNAL_ERROR, NOT_FOUND, QueueDoubts } from "../../protocol/queue-doubts.ts";
import { BrokerFault, toFault } from "../broker-fault.ts";
import type { BrokerSession, QueueCounts } from "../broker-link.ts";

export class QueueMender {
  readonly #doubts = new QueueDoubts();
  readonly #onFault: (fault: Error) => void;

  constructor(onFault: (fault: Error) => void) {
    this.#onFault = onFault;
  }

  /** Declares and consumes these queues, by `work`; first those are deleted that have failed too often. */
  async open<T>(session: BrokerSession, queues: readonly string[], work: () => Promise<T>): Promise<T> {
    for (const queue of queues) if (this.#doubts.has(queue)) await this.remove(session, queue);
    try {
      const done = await work();
      for (const queue of queues) this.#doubts.clear(queue);
      return done;
    } catch (thrown) {
      if (isOfQueue(session, thrown)) for (const queue of queues) this.#doubts.failed(queue);
      throw thrown;
    }
  }

  /** Looks at a queue; one that does not answer has failed. */
  look(session: BrokerSession, queue: string): Promise<QueueCounts | null> {
    return this.open(session, [queue], () => session.look(queue));
  }

  /** Deletes a queue that nobody can use; where something is in it or somebody consumes it, it stays. */
  async remove(session: BrokerSession, queue: string): Promise<void> {
    this.#doubts.clear(queue);
    const counts = await session.look(queue).catch((thrown: unknown) => {
      const fault = toFault(thrown);
      if (!fault.isSilent) throw fault;
      return null;
    });
    if (counts !== null && counts.ready + counts.consumers > 0) return;
    await session.with((channel) => channel.deleteQueue(queue));
    this.#onFault(new BrokerFault(`the queue ${queue} could not be used: it is made anew`));
  }
}

/** Whether a failure may be the queue's, and not only the connection's. */
function isOfQueue(session: BrokerSession, thrown: unknown): boolean {
  const fault = toFault(thrown);
  const code = fault.code ?? session.code;
  return fault.isSilent || code === INTERNAL_ERROR || code === NOT_FOUND;
}
