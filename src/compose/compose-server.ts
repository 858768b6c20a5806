/** A node with its HTTP API. Apart from compose.ts, so that who runs Rondo in process neither loads nor sees the server. */

import type { ClusterNode } from "../cluster/cluster-node.ts";
import { PEER_PATH } from "../cluster/peers/peer-wire.ts";
import { packageRoot, readManifest } from "../package-root.ts";
import type { Rondo } from "../rondo/rondo.ts";
import { urlOf } from "../server/http/listen.ts";
import type { Metrics } from "../server/metrics.ts";
import type { ApiConfig, ApiExtension, ApiLimits } from "../server/parts.ts";
import type { RondoServer } from "../server/serve.ts";
import { systemClock } from "../std/clock.ts";
import { defined } from "../std/defined.ts";
import { SqliteStore } from "../store/sqlite/sqlite-store.ts";
import {
  type Assembled,
  assemble,
  isShared,
  type PartOptions,
  type StoreDecorator,
  UNDECORATED,
} from "./compose.ts";

export interface ServerOptions extends PartOptions {
  /** 127.0.0.1 by default; another address needs a token. */
  readonly host?: string;
  /** 7777 by default; 0: any that is free; null: only the directory's socket. */
  readonly port?: number | null;
  /** The address under which others reach this server. */
  readonly advertise?: string | null;
  /** Names that the server answers to, beside loopback and the advertised one. */
  readonly hosts?: readonly string[];
  /** RONDO_SECRET, which all nodes of a cluster share; by default the key that the store keeps. */
  readonly secret?: string | null;
  /** RONDO_ADMIN_TOKEN. */
  readonly adminToken?: string | null;
  readonly limits?: Partial<ApiLimits>;
  /** How long a node of a cluster is a member without renewing; 10 s by default. */
  readonly leaseMs?: number;
  /** Silence after which a remote attempt is lost. */
  readonly heartbeatMs?: number;
  /** How long what is over is kept: 30 days by default; 0: forever. */
  readonly retentionMs?: number;
  /** The effective configuration, for `GET /v1/config`. */
  readonly shown?: ApiConfig["settings"];
  /** Routes and pages that only this server has. */
  readonly extension?: ApiExtension;
}

const REMOTE = { claimLeaseMs: 30_000, suspectMs: 30_000, sweepMs: 10_000 };

/** Opens a node and serves its API. No user code runs in it unless its `rondo` is given some to serve. */
export async function openServer(options: ServerOptions = {}): Promise<RondoServer> {
  // Loaded here: who runs Rondo in process does not pay for the server.
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

/** A node of a cluster: it serves its API before it joins the others. */
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
    // However it is closed: the engine hands over at once, and what is served ends meanwhile.
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

/** A node in this process whose API can be served later, when it is worth it. */
export interface Owner {
  readonly rondo: Rondo;
  /** Serves the API of the node from now on; closing what it gives closes the node too. */
  serve(options: ServerOptions, metrics?: Metrics): Promise<RondoServer>;
}

/** Opens a node that workers of other processes may have had tasks of, and may have again. */
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

async function serveOwner(
  assembled: Assembled,
  options: ServerOptions,
  { metrics, node }: { readonly metrics?: Metrics | undefined; readonly node?: ClusterNode },
): Promise<RondoServer> {
  const [{ serveApi }, { Metrics }] = await Promise.all([
    import("../server/serve.ts"),
    import("../server/metrics.ts"),
  ]);
  const { store } = assembled;
  const files = store instanceof SqliteStore ? store : null;
  return serveApi({
    ...assembled,
    config: {
      host: options.host ?? "127.0.0.1",
      port: options.port === undefined ? 7_777 : options.port,
      directory: files?.directory ?? null,
      advertise: options.advertise ?? null,
      hosts: options.hosts ?? [],
      adminToken: options.adminToken ?? null,
      limits: options.limits ?? {},
      version: readManifest().version,
      settings: options.shown ?? [],
      pages: `${packageRoot}dist/dashboard`,
    },
    metrics: metrics ?? new Metrics(),
    heartbeatMs: options.heartbeatMs ?? 30_000,
    leaseMs: options.settings?.claimLeaseMs ?? REMOTE.claimLeaseMs,
    retentionMs: options.retentionMs ?? 30 * 86_400_000,
    announce: async (url) => files?.announce(url),
    ...defined({ extension: options.extension }),
    ...(node === undefined ? {} : clusterParts(node)),
    ...(files === null ? {} : { backup: (file: string) => files.backup(file) }),
  });
}

/** What the API of a node serves of its cluster. */
function clusterParts(node: ClusterNode) {
  return {
    peers: { path: PEER_PATH, answer: node.routes.answer.bind(node.routes) },
    ring: () => node.view(),
    otherNodes: node.others,
    nodeToken: node.workerToken,
    onMoved: (listener: () => void) => node.owners.onChange(listener),
    nodes: () => [node.url, ...node.owners.peers.map(({ url }) => url)].sort(),
  };
}
