/** A node of a cluster: Rondo over a store that many processes share. Loaded only where the store is such a one. */

import { type AddressInfo, createServer } from "node:net";
import { ClusterNode } from "../cluster/cluster-node.ts";
import { readManifest } from "../package-root.ts";
import type { Elsewhere } from "../rondo/rondo.ts";
import { defined } from "../std/defined.ts";
import { newExecutionId } from "../std/id.ts";
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
  /** Where the other nodes reach this one. */
  readonly url: string;
  /** RONDO_SECRET: what all nodes were given; null: the key that the store keeps. */
  readonly secret?: string | null;
  /** How long this node is a member without renewing. */
  readonly leaseMs?: number;
  readonly decorator?: StoreDecorator;
}

/** Puts the parts of a node together. It has not joined the others yet. */
export async function assembleCluster(
  options: ClusterOptions,
): Promise<Assembled & { readonly node: ClusterNode }> {
  const { PostgresStore } = await import("../store/postgres/postgres-store.ts");
  const named = new PostgresStore({
    url: options.store,
    nodeUrl: options.url,
    ...defined({ leaseMs: options.leaseMs }),
  });
  const shared = sharedParts(options);
  // The store's clock, unless a clock was given.
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
    ...defined({ settings: engineSettings(options), leaseMs: options.leaseMs }),
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

/** The worker of this process for the other nodes, at those that are alive. */
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
    onLog: (grant, item, level, said) => onLog?.({ ...loggedBy(grant, item), level, parts: said }),
    // A node that cannot be reached is looked at by the ring: what is left to say is why.
    onTrouble: (what) => (what === null ? undefined : onFault(new Error(`work for other nodes: ${what}`))),
    onBug: (thrown) => onStop(thrown instanceof Error ? thrown : new Error(String(thrown))),
    ...defined({ secrets }),
  });
  node.owners.onChange(() => worker.nodes(node.owners.peers.map(({ url }) => url)));
  return worker;
}

/** A worker's name for a node: where it is, in the letters that names have. */
function nameOf(url: string): string {
  return `node-${url.replace(/^\w+:\/+/, "").replace(/[^A-Za-z0-9_.-]+/g, "-")}`.slice(0, 60);
}

/** A port that nobody has, nor gets before it is released: until then the node's own address is only a name. */
interface HeldPort {
  readonly port: number;
  release(): Promise<void>;
}

/** Takes a free port. */
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
