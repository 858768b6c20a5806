/** What every worker is told about the queues of one handler of a visit: where they are, and that they are over. */
import type { CancelConsumerMessage } from "../../protocol/amqp-wire.ts";
import type { BrokerNames, VisitPlace } from "../names.ts";
import type { Publisher } from "../publisher.ts";
import type { BrokerSettings } from "../settings.ts";
import { processBody, type SignedRollCall, type VisitFacts } from "../write-message.ts";

/** Inputs that are larger are told less often. */
const LARGE_INPUT_CHARS = 65_536;
const LARGE_EVERY = 12;

let messages = 0;

export class VisitAnnouncer {
  readonly #place: VisitPlace;
  readonly #facts: VisitFacts;
  readonly #parts: {
    readonly names: BrokerNames;
    readonly publisher: Publisher;
    readonly settings: BrokerSettings;
  };
  #said = 0;

  constructor(
    place: VisitPlace,
    facts: VisitFacts,
    parts: { readonly names: BrokerNames; readonly publisher: Publisher; readonly settings: BrokerSettings },
  ) {
    this.#place = place;
    this.#facts = facts;
    this.#parts = parts;
  }

  /** The next word is said, however large it is. */
  begin(): void {
    this.#said = 0;
  }

  /**
   * Where the tasks are; `lone`: and those that go alone. Calls `rollCall` when it says so, for the roll call that workers
   * are to answer.
   */
  process(lone: boolean, rollCall: () => SignedRollCall | null): void {
    const { names, publisher, settings } = this.#parts;
    const every = this.#facts.input.length > LARGE_INPUT_CHARS ? LARGE_EVERY : 1;
    if (this.#said++ % every !== 0) return;
    const call = rollCall();
    for (const alone of lone ? [false, true] : [false])
      publisher.publish({
        exchange: names.process(this.#facts.use),
        key: "",
        id: `process~${++messages}`,
        body: processBody(this.#place, this.#facts, names, { alone, rollCall: call }),
        // Somebody may have deleted the exchange, which breaks the connection: it is made again before the next word.
        isRepeated: true,
        expirationMs: settings.broadcastMs * 3 * every,
      });
  }

  /** Nobody is to consume them any more. */
  cancel(reason: NonNullable<CancelConsumerMessage["reason"]>, lone: boolean): void {
    const { names, publisher, settings } = this.#parts;
    for (const queue of [names.tasks(this.#place), ...(lone ? [names.alone(this.#place)] : [])]) {
      const message: CancelConsumerMessage = { task_queue: queue, reason };
      publisher.publish({
        exchange: names.cancelConsumer,
        key: "",
        id: `cancel~${++messages}`,
        body: Buffer.from(JSON.stringify(message)),
        expirationMs: settings.broadcastMs * 12,
      });
    }
  }
}
