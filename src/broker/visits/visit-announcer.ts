/** Announces the queues of one handler of a visit to every worker: their names, and when to stop consuming them. */
import type { CancelConsumerMessage } from "../../protocol/amqp-wire.ts";
import type { BridgeParts } from "../bridge-parts.ts";
import type { VisitPlace } from "../names.ts";
import { processBody, type SignedRollCall, type VisitFacts } from "../write-message.ts";

/** If the input in an announcement is larger than this, the announcement is sent less often. */
const LARGE_INPUT_CHARS = 65_536;
const LARGE_EVERY = 12;

let messages = 0;

export class VisitAnnouncer {
  readonly #place: VisitPlace;
  readonly #facts: VisitFacts;
  readonly #parts: Pick<BridgeParts, "names" | "publisher" | "settings">;
  #announced = 0;

  constructor(
    place: VisitPlace,
    facts: VisitFacts,
    parts: Pick<BridgeParts, "names" | "publisher" | "settings">,
  ) {
    this.#place = place;
    this.#facts = facts;
    this.#parts = parts;
  }

  /** Makes the next announcement due at once, however large the input is. */
  reset(): void {
    this.#announced = 0;
  }

  /** Announces the queue of tasks (with `lone`, the queue of lone tasks), with the roll call that `rollCall` returns. */
  announce(lone: boolean, rollCall: () => SignedRollCall | null): void {
    const { names, publisher, settings } = this.#parts;
    const every = this.#facts.input.length > LARGE_INPUT_CHARS ? LARGE_EVERY : 1;
    if (this.#announced++ % every !== 0) return;
    const call = rollCall();
    for (const alone of lone ? [false, true] : [false])
      publisher.publish({
        exchange: names.process(this.#facts.use),
        key: "",
        id: `process~${++messages}`,
        body: processBody(this.#place, this.#facts, names, { alone, rollCall: call }),
        // If the exchange was deleted, publishing to it would break the connection. So the exchange is declared before each announcement.
        isRepeated: true,
        expirationMs: settings.broadcastMs * 3 * every,
      });
  }

  /** Tells every worker to stop consuming the queues. */
  cancel(reason: NonNullable<CancelConsumerMessage["reason"]>, lone: boolean): void {
    const { names } = this.#parts;
    for (const queue of [names.tasks(this.#place), ...(lone ? [names.alone(this.#place)] : [])])
      publishCancel(this.#parts, { task_queue: queue, reason });
  }
}

/** Publishes `cancel.consumer`, which every worker gets. */
export function publishCancel(
  { names, publisher, settings }: Pick<BridgeParts, "names" | "publisher" | "settings">,
  message: CancelConsumerMessage,
): void {
  publisher.publish({
    exchange: names.cancelConsumer,
    key: "",
    id: `cancel~${++messages}`,
    body: Buffer.from(JSON.stringify(message)),
    expirationMs: settings.broadcastMs * 12,
  });
}
