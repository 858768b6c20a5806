/** The parts that all components of the broker bridge share. */
import type { EnginePort } from "../engine/engine-port.ts";
import type { BrokerSession } from "../net/amqp/connection.ts";
import type { DeadLetters } from "../net/amqp/dead-letters.ts";
import type { Publisher } from "../net/amqp/publisher.ts";
import type { QueueRepair } from "../net/amqp/queue-repair.ts";
import type { Clock } from "../std/clock.ts";
import type { Store } from "../store/store.ts";
import type { BrokerNames } from "./names.ts";
import type { BrokerSettings } from "./settings.ts";
import type { QueueRegistry } from "./visits/queue-registry.ts";

export interface BridgeParts {
  readonly worker: string;
  readonly engine: EnginePort;
  readonly store: Store;
  readonly names: BrokerNames;
  readonly publisher: Publisher;
  readonly repair: QueueRepair;
  readonly dead: DeadLetters;
  readonly queueRegistry: QueueRegistry;
  readonly settings: BrokerSettings;
  readonly clock: Clock;
  /** The milliseconds since `heardAt` in which no message came. The time in which the broker was unreachable or blocked does not count. */
  readonly silentMs: (heardAt: number) => number;
  /** The session at the broker; null if there is no connection. */
  readonly session: () => BrokerSession | null;
  readonly onFault: (fault: Error) => void;
}
