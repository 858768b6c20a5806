/** The parts of the bridge that handlers of visits and enumerations at the broker use. */
import type { Channel, ConsumeMessage } from "amqplib";
import type { EnginePort } from "../../engine/engine-port.ts";
import type { Clock } from "../../std/clock.ts";
import type { BrokerSession } from "../broker-link.ts";
import type { BrokerNames, VisitPlace } from "../names.ts";
import type { Publisher } from "../publisher.ts";
import type { BrokerSettings } from "../settings.ts";
import type { QueueMender } from "./queue-mender.ts";
import type { QueueRegistry } from "./queue-registry.ts";
import type { VisitQueues } from "./visit-queues.ts";

export interface BridgeParts {
  /** The name under which the engine knows the broker. */
  readonly worker: string;
  readonly engine: EnginePort;
  readonly names: BrokerNames;
  readonly publisher: Publisher;
  readonly mender: QueueMender;
  readonly book: QueueRegistry;
  readonly settings: BrokerSettings;
  readonly clock: Clock;
  /** For how long nothing was heard since then, as far as something could be. */
  readonly silentMs: (heardAt: number) => number;
  readonly session: () => BrokerSession | null;
  readonly onFault: (fault: Error) => void;
}

export interface VisitParts extends BridgeParts {
  /** Whether the one task of this place waits here, and is not to be found at the broker. */
  readonly isUnpublished: (place: VisitPlace) => boolean;
  /** A message in the finished queue. */
  readonly onWord: (message: ConsumeMessage, channel: Channel, desk: VisitQueues) => void;
}
