/**
 * Opens a node with its HTTP API. It is a separate module, so that programs that run Rondo in process do not load the server.
 */
import type { ClusterNode } from "../cluster/cluster-node.ts";
import type { RingSettings } from "../cluster/ring/settings.ts";
import type { StatePlace } from "../commands/state/state-store.ts";
import { TopicRegistry } from "../commands/topic-registry.ts";
import type { AlertsGiven } from "../config/alert-settings.ts";
import { packageRoot, readManifest } from "../package-root.ts";
import type { BrokerRequestMode } from "../protocol/broker-requests.ts";
import type { Rondo } from "../rondo/rondo.ts";
import type { AttachedApi } from "../rondo/rondo-parts.ts";
import { urlOf } from "../server/http/listen.ts";
import type { Metrics } from "../server/metrics.ts";
import type { AlertParts, ApiConfig, ApiExtension, ApiLimits, ApiParts } from "../server/parts.ts";
import type { RondoServer } from "../server/serve.ts";
import { systemClock } from "../std/clock.ts";
import { defined } from "../std/defined.ts";
import { unwrap } from "../std/rejection.ts";
import { SqliteStore } from "../store/sqlite/sqlite-store.ts";
import type { TestApiParts } from "../testing/process-run.ts";
import {
  type Assembled,
  assemble,
  isShared,
  type PartOptions,
  type StoreDecorator,
  UNDECORATED,
} from "./compose.ts";
import { topicGuard } from "./compose-broker.ts";

export interface ServerOptions extends Omit<PartOptions, "server"> {
  /** The address to listen on; 127.0.0.1 by default. Other addresses need a token. */
  readonly host?: string;
  /** The port; 7777 by default. 0 is any free port; null listens only on the socket in the store's directory. */
  readonly port?: number | null;
  /** The address at which other nodes and clients reach this server. */
  readonly advertise?: string | null;
  /** Host names that requests may use, in addition to loopback names and the advertised one. */
  readonly hosts?: readonly string[];
  /** The origins of web pages on other sites that may use the API with a token; none by default. */
  readonly cors?: ApiConfig["cors"];
  /** RONDO_SECRET, the same on all nodes of a cluster; by default the key in the store. */
  readonly secret?: string | null;
  /** RONDO_ADMIN_TOKEN, a token with all rights. */
  readonly adminToken?: string | null;
  readonly limits?: Partial<ApiLimits>;
  /** Which requests over the broker the server accepts; `trusted` by default. */
  readonly brokerRequests?: BrokerRequestMode;
  /** How long a node of a cluster stays a member without renewing its lease; 10 s by default. */
  readonly leaseMs?: number;
  /** Settings of the ring of a cluster that differ from the default. */
  readonly ring?: Partial<RingSettings>;
  /** How long a remote worker may be silent before its attempts count as lost. */
  readonly heartbeatMs?: number;
  /** How long ended executions are kept; 30 days by default, 0 for ever. */
  readonly retentionMs?: number;
  /** Rules and targets of alerts. Programs can be set only in these options, not over the API. */
  readonly alerts?: AlertsGiven;
  /** How long ids of events are remembered; 7 days by default. */
  readonly eventsKeptMs?: number;
  /** The sources of signed webhooks that become events, by name. */
  readonly webhooks?: ApiConfig["webhooks"];
  /** The effective configuration, for `GET /v1/config`. */
  readonly shown?: ApiConfig["settings"];
  /** Additional routes and pages of this server. */
  readonly extension?: ApiExtension;
}

const REMOTE = { claimLeaseMs: 30_000, suspectMs: 30_000, sweepMs: 10_000 };

/** Opens a node and serves its API. It runs no user code unless workflows are given to its `rondo`. */
export async function openServer(options: ServerOptions = {}): Promise<RondoServer> {
  // The server is imported here, so that programs that run Rondo in process do not load it.
  const [{ Metrics, withMetrics }] = await Promise.all([
    import("../server/metrics.ts"),
    import("../server/serve.ts"),
  ]);
  const named = options.store ?? "file:.rondo";
  const clock = options.clock ?? systemClock({ hold: true });
  const metrics = new Metrics();
  const decorator: StoreDecorator = (store) => withMetrics(store, metrics, clock);
  if (isShared(named)) return openNode(options, metrics, decorator);
  const opened = await openOwner({ ...options, clock, decorator });
  try {
    return await opened.serve(options, metrics);
  } catch (thrown) {
    await opened.rondo.close({ graceMs: 0 });
    throw thrown;
  }
}

/** Opens a node of a cluster. The node serves its API before it joins the other nodes. */
async function openNode(
  options: ServerOptions,
  metrics: Metrics,
  decorator: StoreDecorator,
): Promise<RondoServer> {
  const [{ assembleCluster, holdPort }, { withVersionLog }] = await Promise.all([
    import("./compose-cluster.ts"),
    import("../server/services/version-log.ts"),
  ]);
  const host = options.host ?? "127.0.0.1";
  const asked = options.port ?? 7_777;
  const held = asked === 0 ? await holdPort(host) : null;
  const port = held?.port ?? asked;
  const { claimLeaseMs, sweepMs, suspectMs } = REMOTE;
  const silenceMs = options.heartbeatMs ?? suspectMs;
  const assembling = assembleCluster({
    ...options,
    store: options.store as string,
    url: options.advertise ?? urlOf(host, port),
    decorator: (store, clock) => withVersionLog(decorator(store, clock), clock),
    settings: { claimLeaseMs, sweepMs, heartbeatMs: silenceMs, suspectMs: silenceMs, ...options.settings },
  });
  try {
    await assembling;
  } finally {
    await held?.release();
  }
  const { node, ...assembled } = await assembling;
  try {
    const server = await serveOwner(assembled, { ...options, port }, { metrics, node });
    let closed: Promise<void> | null = null;
    let graceMs: number | undefined;
    // However the node is closed, the engine hands over its partitions at once, while open requests are still answered.
    node.beforeLeave = () => server.quiesce();
    node.onLeave = () => server.close(defined({ graceMs }));
    node.start();
    return {
      ...server,
      close(how = {}) {
        graceMs = how.graceMs;
        closed ??= assembled.rondo.close(how);
        return closed;
      },
    };
  } catch (thrown) {
    await assembled.rondo.close({ graceMs: 0 });
    throw thrown;
  }
}

/** A node in this process. Its API can be served later. */
export interface Owner {
  readonly rondo: Rondo;
  /** Starts to serve the node's API. Closing the returned server closes the node too. */
  serve(options: ServerOptions, metrics?: Metrics): Promise<RondoServer>;
}

/** Opens a node that may have remote workers: workers in other processes may still hold its tasks, and may claim more. */
export async function openOwner(
  options: PartOptions & Pick<ServerOptions, "heartbeatMs"> & { readonly decorator?: StoreDecorator },
): Promise<Owner> {
  if (isShared(options.store)) {
    const server = await openServer({ ...options, port: 0 });
    return { rondo: server.rondo, serve: async () => server };
  }
  const [{ mayRunRemotely }, { withVersionLog }] = await Promise.all([
    import("../server/remote-mark.ts"),
    import("../server/services/version-log.ts"),
  ]);
  const { decorator = UNDECORATED } = options;
  const { claimLeaseMs, sweepMs } = REMOTE;
  const suspectMs = options.heartbeatMs ?? REMOTE.suspectMs;
  const assembled = await assemble({
    ...options,
    decorator: (store, clock) => withVersionLog(decorator(store, clock), clock),
    settings: { claimLeaseMs, sweepMs, heartbeatMs: suspectMs, ...options.settings },
    settingsFor: async (info, store) => ((await mayRunRemotely(store, info)) ? { suspectMs } : {}),
  });
  return { rondo: assembled.rondo, serve: (more, metrics) => serveOwner(assembled, more, { metrics }) };
}

/** Opens the API for requests of the program itself. The API does not listen, and no ended executions are purged. */
export async function openSilently(
  assembled: Omit<Assembled, "postOps"> & Pick<ApiParts, "postOps">,
): Promise<AttachedApi> {
  await serveOwner(assembled, { port: null, retentionMs: 0 }, { isSilent: true });
  return assembled.rondo.api();
}

/** Opens the API of a Rondo under test, in virtual time. */
export async function openForTest(parts: TestApiParts): Promise<AttachedApi> {
  const registry = new TopicRegistry(parts.store);
  const topics = topicGuard({}, registry, () => null);
  // In a test, every fault of the API is a bug, so it is thrown.
  const onFault = (fault: Error): void => {
    throw fault;
  };
  const postOps = {
    readState: parts.postOps.readState.bind(parts.postOps),
    refusalOf: async (place: StatePlace) => parts.postOps.refusalOf(place),
  };
  return openSilently({ ...parts, postOps, topics, onFault, broker: null });
}

async function serveOwner(
  assembled: Omit<Assembled, "postOps"> & Pick<ApiParts, "postOps">,
  options: ServerOptions,
  {
    metrics,
    node,
    isSilent = false,
  }: {
    readonly metrics?: Metrics | undefined;
    readonly node?: ClusterNode;
    /** Whether the API listens nowhere, not even on the socket in the store's directory. */
    readonly isSilent?: boolean;
  },
): Promise<RondoServer> {
  const [{ serveApi }, { Metrics }] = await Promise.all([
    import("../server/serve.ts"),
    import("../server/metrics.ts"),
  ]);
  const { store } = assembled;
  const files = !isSilent && store instanceof SqliteStore ? store : null;
  return serveApi({
    ...assembled,
    config: {
      host: options.host ?? "127.0.0.1",
      port: options.port === undefined ? 7_777 : options.port,
      directory: files?.directory ?? null,
      advertise: options.advertise ?? null,
      hosts: options.hosts ?? [],
      cors: options.cors ?? { origins: [] },
      adminToken: options.adminToken ?? null,
      limits: options.limits ?? {},
      brokerRequests: options.brokerRequests ?? "trusted",
      webhooks: options.webhooks ?? {},
      version: readManifest().version,
      settings: options.shown ?? [],
      pages: `${packageRoot()}dist/dashboard`,
    },
    metrics: metrics ?? new Metrics(),
    heartbeatMs: options.heartbeatMs ?? 30_000,
    leaseMs: options.settings?.claimLeaseMs ?? REMOTE.claimLeaseMs,
    retentionMs: options.retentionMs ?? 30 * 86_400_000,
    eventsKeptMs: options.eventsKeptMs,
    announce: async (url) => files?.announce(url),
    alerts: await alertParts(options),
    ...defined({ extension: options.extension }),
    ...(node === undefined ? {} : clusterParts(node)),
    ...(files === null ? {} : { backup: (file: string) => files.backup(file) }),
  });
}

/** Alerts use the same guard of outgoing requests, and the same secrets, as broadcasts. */
async function alertParts({
  alerts,
  allowTargets = [],
  webhookSecrets = [],
}: ServerOptions): Promise<AlertParts> {
  const [{ AllowList }, { GuardedHttp }, { WebhookSecrets }] = await Promise.all([
    import("../net/guard/allow-list.ts"),
    import("../net/guard/guarded-http.ts"),
    import("../commands/post-ops/webhook-secrets.ts"),
  ]);
  return {
    targets: alerts?.targets ?? {},
    rules: (alerts?.rules ?? []).map(({ after, ...rule }) => ({ ...rule, afterMs: after })),
    guard: new GuardedHttp({ allow: unwrap(AllowList.parse(allowTargets)) }),
    secrets: unwrap(WebhookSecrets.parse(webhookSecrets)),
  };
}

/** The parts of a cluster node that its API uses. */
function clusterParts(node: ClusterNode) {
  return {
    peers: { path: node.routes.path, answer: node.routes.answer.bind(node.routes) },
    ring: () => node.view(),
    otherNodes: node.others,
    nodeToken: node.workerToken,
    onMoved: (listener: () => void) => node.owners.onChange(listener),
    nodes: () => [node.url, ...node.owners.peers.map(({ url }) => url)].sort(),
  };
}
