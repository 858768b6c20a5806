/** Options of the bridge to a broker. */
import type { TopicRegistry } from "../commands/topic-registry.ts";
import type { EnginePort } from "../engine/engine-port.ts";
import type { Plan } from "../kernel/definition/plan.ts";
import type { Clock } from "../std/clock.ts";
import type { Random } from "../std/random.ts";
import type { Store } from "../store/store.ts";
import type { BrokerSettings } from "./settings.ts";

export interface AmqpBridgeOptions {
  /** `amqp://` or `amqps://`. */
  readonly url: string;
  readonly prefix: string;
  readonly engine: EnginePort;
  readonly store: Store;
  /** A definition by its hash; null: there is none that this version can read. */
  readonly planOf: (hash: string) => Promise<Plan | null>;
  readonly clock: Clock;
  readonly random: Random;
  /** The roles of topics. */
  readonly topicRegistry: Pick<TopicRegistry, "claim">;
  /** Patterns of queues that receipts may be consumed from although they have messages or consumers. */
  readonly receiptTopics: readonly string[];
  readonly settings?: Partial<BrokerSettings>;
  readonly onFault: (fault: Error) => void;
}
