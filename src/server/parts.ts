/** What the API is built over. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { OwnershipView } from "../cluster/ownership/ownership-io.ts";
import type { RingView } from "../cluster/ring/io.ts";
import type { StateEntry, StatePlace } from "../commands/state/state-store.ts";
import type { TopicGuard } from "../commands/topic-guard.ts";
import type { EnginePort } from "../engine/engine-port.ts";
import type { BrokerView } from "../protocol/broker-view.ts";
import type { Rondo } from "../rondo/rondo.ts";
import type { Schedules } from "../schedule/schedules.ts";
import type { Clock } from "../std/clock.ts";
import type { Random } from "../std/random.ts";
import type { Rejection } from "../std/rejection.ts";
import type { Store } from "../store/store.ts";
import type { Metrics } from "./metrics.ts";
import type { OtherNodes } from "./other-nodes.ts";
import type { Route } from "./route.ts";
import type { Definitions } from "./services/definitions.ts";
import type { ExecutionStarter } from "./services/start-executions.ts";

/** Bounds of what is taken from one client. */
export interface ApiLimits {
  /** The largest body of a request; what workers send may be four times as large. */
  readonly bodyBytes: number;
  /** Most keys in a body. */
  readonly bodyKeys: number;
  /** Requests a second, per token or peer address; twice as many at once. */
  readonly requestsPerSecond: number;
  /** How long the headers, the whole request, and the answer may take. */
  readonly headerMs: number;
  readonly requestMs: number;
  readonly answerMs: number;
  readonly connections: number;
  /** Open streams, bytes given to one before it has taken those before, and how long it may take none. */
  readonly streams: number;
  readonly streamBytes: number;
  readonly streamStallMs: number;
}

export const DEFAULT_API_LIMITS: ApiLimits = {
  bodyBytes: 4_194_304,
  bodyKeys: 200_000,
  requestsPerSecond: 5_000,
  headerMs: 10_000,
  requestMs: 60_000,
  answerMs: 60_000,
  connections: 10_000,
  streams: 2_000,
  streamBytes: 65_536,
  streamStallMs: 30_000,
};

/** A setting as `GET /v1/config` shows it. */
export interface ShownSetting {
  readonly name: string;
  readonly value: unknown;
  /** Where it came from: a flag, the environment, a file, the default. */
  readonly origin: string;
  readonly isSecret?: boolean;
}

export interface ApiConfig {
  readonly host: string;
  /** 0: any that is free; null: only the directory's socket. */
  readonly port: number | null;
  /** The store's directory, where the socket is; null: there is none. */
  readonly directory: string | null;
  /** The address under which others reach this server. */
  readonly advertise: string | null;
  readonly hosts: readonly string[];
  /** RONDO_ADMIN_TOKEN. */
  readonly adminToken: string | null;
  /** What differs from the default. */
  readonly limits: Partial<ApiLimits>;
  readonly version: string;
  readonly settings: readonly ShownSetting[];
  /** The folder with the dashboard's files; null or one that is not there: no dashboard. */
  readonly pages: string | null;
}

/** Routes and pages of one server alone, such as the demo's. */
export interface ApiExtension {
  readonly routes: readonly Route[];
  /** First parts of addresses that the dashboard has pages for, besides its usual ones. */
  readonly pages: readonly string[];
}

/** What other nodes ask of this one: everything below this path is theirs. */
export interface PeerPort {
  readonly path: string;
  answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<PeerAnswer>;
}

/** What is to be written; `streamed`: it is being written. */
export type PeerAnswer =
  | { readonly kind: "json"; readonly status: 200; readonly body: unknown }
  | { readonly kind: "streamed" }
  | Rejection;

/** A cluster as one node sees it. */
export interface ClusterShown {
  readonly ring: RingView;
  /** What only this node's own clock gives a meaning to is not shown. */
  readonly ownership: Omit<OwnershipView, "mayActUntil" | "nodes" | "stableSince">;
}

/** What the API asks about post-operations. */
export interface PostOpPort {
  /** What is kept at a place; null: nothing is. */
  readState(place: StatePlace): Promise<StateEntry | null | Rejection>;
  /** Why nothing can be kept at a place, as far as it and the settings tell; null: it may be. */
  refusalOf(place: StatePlace): Promise<Rejection | null>;
}

export interface ApiParts {
  readonly engine: EnginePort;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly rondo: Rondo;
  readonly config: ApiConfig;
  readonly metrics: Metrics;
  readonly definitions: Definitions;
  readonly starts: ExecutionStarter;
  readonly schedules: Schedules;
  readonly postOps: PostOpPort;
  /** Which topics may be used. */
  readonly topics: TopicGuard;
  /** Routes of other parts: workers. */
  readonly routes: readonly Route[];
  /** What this server has beyond what every server has. */
  readonly extension?: ApiExtension;
  /** Faults and bugs that a request ran into, and that its client is told of in general words only. */
  readonly onFault: (fault: Error) => void;
  /** Writes a copy of the whole store to a file that is not there yet; left out: this store cannot. */
  readonly backup?: (file: string) => Promise<void>;
  /** In a cluster: answers what other nodes ask. */
  readonly peers?: PeerPort;
  /** In a cluster: asks the other nodes what only they know, and answers the same. Left out: there are none. */
  readonly otherNodes?: OtherNodes;
  /** In a cluster: what the workers inside other nodes show. */
  readonly nodeToken?: string;
  /** In a cluster: how it is. Left out: this server is alone. */
  readonly ring?: () => ClusterShown;
  /** How the broker stands; left out, or null: there is none. */
  readonly broker?: { readonly view: BrokerView } | null;
  /** Tells those who come second to the store where this server listens. */
  readonly announce?: (url: string) => Promise<void>;
}
