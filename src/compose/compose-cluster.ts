/** Assembles a node of a cluster, for a store that several processes share. Loaded only for such a store. */
import { type AddressInfo, createServer } from "node:net";
import { ClusterNode } from "../cluster/cluster-node.ts";
import type { RingSettings } from "../cluster/ring/settings.ts";
import { readManifest } from "../package-root.ts";
import type { Elsewhere } from "../rondo/rondo-parts.ts";
import { defined } from "../std/defined.ts";
import { newExecutionId } from "../std/id.ts";
import { toError } from "../std/to-error.ts";
import { StoreClock } from "../store/store-clock.ts";
import { loggedBy } from "../worker/attempt-place.ts";
import { serveCluster } from "../worker/http/serve-cluster.ts";
import {
  type Assembled,
  assembleOn,
  CAPACITY,
  type PartOptions,
  type SharedParts,
  type StoreDecorator,
  scriptsOf,
  sharedParts,
  UNDECORATED,
} from "./compose.ts";
import { engineSettings } from "./compose-broker.ts";
import { openPostOps } from "./compose-post-ops.ts";

export interface ClusterOptions extends PartOptions {
  /** The URL of the database. */
  readonly store: string;
  /** The address at which the other nodes reach this node. */
  readonly url: string;
  /** RONDO_SECRET, the same on all nodes; null to use the key in the store. */
  readonly secret?: string | null;
  /** How long this node stays a member without renewing its lease. */
  readonly leaseMs?: number;
  readonly ring?: Partial<RingSettings>;
  readonly decorator?: StoreDecorator;
}

/** Assembles a node. The node has not joined the cluster yet. */
export async function assembleCluster(
  given: ClusterOptions,
): Promise<Assembled & { readonly node: ClusterNode }> {
  // The worker for this node and the worker for other nodes share the list of middleware.
  const options = { middleware: [], ...given };
  const { PostgresStore } = await import("../store/postgres/postgres-store.ts");
  const shared = sharedParts(options);
  const named = new PostgresStore({
    url: options.store,
    nodeUrl: options.url,
    onLine: shared.onFaultLine,
    ...defined({ leaseMs: options.leaseMs }),
  });
  // If no clock is given, the node uses the time of the store.
  const storeClock = options.clock === undefined ? new StoreClock(shared.clock) : null;
  const parts = storeClock === null ? shared : { ...shared, clock: storeClock };
  const { decorator = UNDECORATED } = options;
  const store = parts.watched(decorator(storeClock?.setBy(named) ?? named, parts.clock));
  const postOps = await openPostOps(options, { ...parts, store });
  const node = await ClusterNode.open({
    ...parts,
    store,
    postOps,
    url: options.url,
    secret: options.secret ?? null,
    ...defined({ settings: engineSettings(options), leaseMs: options.leaseMs, ring: options.ring }),
  });
  const elsewhere = workerFor(node, options, parts);
  return {
    ...(await assembleOn(
      node.engine,
      { ...options, store, postOps, elsewhere, otherNodes: node.others },
      parts,
    )),
    node,
  };
}

/** A worker in this process that claims tasks of the other live nodes. */
function workerFor(node: ClusterNode, options: ClusterOptions, parts: SharedParts): Elsewhere {
  const { clock, random, onFault, onStop } = parts;
  const { onLog, secrets } = options;
  const id = `node-${newExecutionId(clock.now(), random).slice(3)}`;
  const worker = serveCluster({
    name: nameOf(node.url),
    worker: id,
    own: node.url,
    token: node.workerToken,
    capacity: options.capacity ?? CAPACITY,
    version: readManifest().version,
    clock,
    random,
    scripts: scriptsOf(options.unsafeNoJail === true),
    onLog: (grant, item, logged) => onLog?.(loggedBy(grant, item, logged)),
    // The ring detects that a node is unreachable, so the worker only logs the reason.
    onTrouble: (what) =>
      what === null
        ? undefined
        : onFault(new Error(`the worker of this node cannot claim tasks of other nodes: ${what}`)),
    onBug: (thrown) => onStop(toError(thrown)),
    ...defined({ secrets, middleware: options.middleware }),
  });
  node.owners.onChange(() => worker.nodes(node.owners.peers.map(({ url }) => url)));
  return worker;
}

/** The worker name of a node: its URL, with only the characters that names allow. */
function nameOf(url: string): string {
  return `node-${url.replace(/^\w+:\/+/, "").replace(/[^A-Za-z0-9_.-]+/g, "-")}`.slice(0, 60);
}

/** A free port that stays reserved until `release` is called. Until then, connections to the port are closed at once. */
interface HeldPort {
  readonly port: number;
  release(): Promise<void>;
}

/** Reserves a free port. */
export function holdPort(host: string): Promise<HeldPort> {
  return new Promise((resolve, fail) => {
    const server = createServer((socket) => socket.destroy());
    server.on("error", fail);
    server.listen(0, host, () => {
      const { port } = server.address() as AddressInfo;
      resolve({ port, release: () => new Promise((released) => server.close(() => released())) });
    });
  });
}
