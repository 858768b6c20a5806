/** The parts of the bridge that handlers of visits and enumerations at the broker use. */
import type { EnginePort } from "../../engine/engine-port.ts";
import type { BrokerSession } from "../../net/amqp/connection.ts";
import type { Delivery } from "../../net/amqp/delivery.ts";
import type { Publisher } from "../../net/amqp/publisher.ts";
import type { QueueRepair } from "../../net/amqp/queue-repair.ts";
import type { Clock } from "../../std/clock.ts";
import type { BrokerNames, VisitPlace } from "../names.ts";
import type { BrokerSettings } from "../settings.ts";
import type { QueueRegistry } from "./queue-registry.ts";
import type { VisitQueues } from "./visit-queues.ts";

export interface BridgeParts {
  /** The name under which the engine knows the broker. */
  readonly worker: string;
  readonly engine: EnginePort;
  readonly names: BrokerNames;
  readonly publisher: Publisher;
  readonly repair: QueueRepair;
  readonly queueRegistry: QueueRegistry;
  readonly settings: BrokerSettings;
  readonly clock: Clock;
  /** Milliseconds of silence since then. Time without a connection, or with a blocked broker, does not count. */
  readonly silentMs: (heardAt: number) => number;
  readonly session: () => BrokerSession | null;
  readonly onFault: (fault: Error) => void;
}

export interface VisitParts extends BridgeParts {
  /** Whether the one task of this handler is held back, and so not at the broker. */
  readonly isUnpublished: (place: VisitPlace) => boolean;
  /** A message of the finished queue. */
  readonly onFinished: (delivery: Delivery, visit: VisitQueues) => void;
}
