/** The parts and settings that the HTTP API is built from. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { OwnershipView } from "../cluster/ownership/ownership-io.ts";
import type { RingView } from "../cluster/ring/io.ts";
import type { WebhookSecrets } from "../commands/post-ops/webhook-secrets.ts";
import type { StateEntry, StatePlace } from "../commands/state/state-store.ts";
import type { TopicGuard } from "../commands/topic-guard.ts";
import type { EnginePort } from "../engine/engine-port.ts";
import type { GuardedHttp } from "../net/guard/guarded-http.ts";
import type { BrokerRequestMode, RequestPort } from "../protocol/broker-requests.ts";
import type { BrokerView } from "../protocol/broker-view.ts";
import type { Rondo } from "../rondo/rondo.ts";
import type { Schedules } from "../schedule/schedules.ts";
import type { Clock } from "../std/clock.ts";
import type { Random } from "../std/random.ts";
import type { Rejection } from "../std/rejection.ts";
import type { Store } from "../store/store.ts";
import type { AlertRule } from "./alerts/alert.ts";
import type { AlertTarget } from "./alerts/alert-sender.ts";
import type { CorsSettings } from "./http/cors.ts";
import type { Metrics } from "./metrics.ts";
import type { OtherNodes } from "./other-nodes.ts";
import type { Route } from "./route.ts";
import type { Definitions } from "./services/definitions.ts";
import type { ExecutionStarter } from "./services/start-executions.ts";

/** Limits that protect the server from a single client. */
export interface ApiLimits {
  /** The largest body of a request. Events and heartbeats of workers have a fixed limit of 16 MiB and a million keys. */
  readonly bodyBytes: number;
  /** The most keys in the JSON body of a request. */
  readonly bodyKeys: number;
  /** The most requests a second, per token or client address; twice as many in a burst. */
  readonly requestsPerSecond: number;
  /** Time limits for receiving the headers, for receiving the whole request, and for the answer. */
  readonly headerMs: number;
  readonly requestMs: number;
  readonly answerMs: number;
  readonly connections: number;
  /** The most open streams, the most unread bytes of a stream, and how long the client of a stream may read nothing. */
  readonly streams: number;
  readonly streamBytes: number;
  readonly streamStallMs: number;
}

export const DEFAULT_API_LIMITS: ApiLimits = {
  bodyBytes: 4_194_304,
  bodyKeys: 200_000,
  requestsPerSecond: 20_000,
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
  /** Where the setting comes from: a flag, the environment, a file, or the default. */
  readonly origin: string;
  readonly isSecret?: boolean;
}

/** A sender of signed webhooks (Standard Webhooks). */
export interface WebhookSource {
  /** The secrets with which the source signs: `whsec_` and base64, or another text. */
  readonly secrets: readonly string[];
  /** The project of the events; `default` by default. */
  readonly project?: string;
}

export interface ApiConfig {
  readonly host: string;
  /** The TCP port; 0 for any free port; null for the directory's socket only. */
  readonly port: number | null;
  /** The store's directory, which contains the unix socket; null if the store has no directory. */
  readonly directory: string | null;
  /** The address at which other machines reach this server. */
  readonly advertise: string | null;
  readonly hosts: readonly string[];
  /** The origins of web pages on other sites that may use the API. */
  readonly cors: CorsSettings;
  /** The environment variable RONDO_ADMIN_TOKEN. */
  readonly adminToken: string | null;
  /** API limits that differ from the default. */
  readonly limits: Partial<ApiLimits>;
  /** Which requests over the broker the server accepts. */
  readonly brokerRequests: BrokerRequestMode;
  /** The sources of signed webhooks that become events, by name. */
  readonly webhooks: Readonly<Record<string, WebhookSource>>;
  readonly version: string;
  readonly settings: readonly ShownSetting[];
  /** The folder with the built dashboard. If it is null or missing, the server has no dashboard. */
  readonly pages: string | null;
}

/** Additional routes and pages of one server, for example of the demo. */
export interface ApiExtension {
  readonly routes: readonly Route[];
  /** First path segments of additional dashboard pages. */
  readonly pages: readonly string[];
}

/** Handles requests of other nodes below one path prefix. */
export interface PeerPort {
  readonly path: string;
  answer(incoming: IncomingMessage, outgoing: ServerResponse): Promise<PeerAnswer>;
}

/** The answer to a request of another node; `streamed` if the handler writes the answer itself. */
export type PeerAnswer =
  | { readonly kind: "json"; readonly status: 200; readonly body: unknown }
  | { readonly kind: "streamed" }
  | Rejection;

/** The cluster as one node sees it. */
export interface ClusterShown {
  readonly ring: RingView;
  /** The node's ownership of partitions, without times of its own clock. */
  readonly ownership: Omit<OwnershipView, "mayActUntil" | "nodes" | "stableSince">;
}

/** Post-operations, as far as the API uses them. */
export interface PostOpPort {
  /** Reads the value of a key from a state store; null if there is none. */
  readState(place: StatePlace): Promise<StateEntry | null | Rejection>;
  /** Returns why no value can be stored under a key of a state store, judged by store, key and settings; null if one can. */
  refusalOf(place: StatePlace): Promise<Rejection | null>;
}

/** Alerts as the operator configured them. */
export interface AlertParts {
  readonly targets: Readonly<Record<string, AlertTarget>>;
  readonly rules: readonly Omit<AlertRule, "createdAt">[];
  /** Checks and sends outgoing requests. */
  readonly guard: Pick<GuardedHttp, "refusalOf" | "send">;
  readonly secrets: WebhookSecrets;
}

/** The broker, as the API uses it. */
export interface BrokerPort {
  readonly view: BrokerView;
  /** Consumes the requests of clients. Returns a function that stops consuming. */
  serveRequests(port: RequestPort): () => Promise<void>;
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
  /** The rules that decide which project may use which topic. */
  readonly topics: TopicGuard;
  /** Routes of the worker protocol. */
  readonly routes: readonly Route[];
  /** Additional routes of this server. */
  readonly extension?: ApiExtension;
  /** Called with faults and bugs during a request. The client gets a general message only. */
  readonly onFault: (fault: Error) => void;
  /** Writes a copy of the whole store to a new file; missing if the store cannot. */
  readonly backup?: (file: string) => Promise<void>;
  /** In a cluster: handles requests of other nodes. */
  readonly peers?: PeerPort;
  /** In a cluster: asks the other nodes; missing without other nodes. */
  readonly otherNodes?: OtherNodes;
  /** In a cluster: the token of workers inside other nodes. */
  readonly nodeToken?: string;
  /** In a cluster: returns the state of the ring. Missing for a single server. */
  readonly ring?: () => ClusterShown;
  readonly alerts: AlertParts;
  /** The broker; missing or null without one. */
  readonly broker?: BrokerPort | null;
  /** Publishes the address of this server to processes that open the same store. */
  readonly announce?: (url: string) => Promise<void>;
}
