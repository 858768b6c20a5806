/** A node of a cluster: Rondo over a store that many processes share. Loaded only where the store is such a one. */
import { createServer } from "node:net";
import { type Assembled, assembleOn, type OpenOptions, sharedParts } from "./compose.ts";
import { ClusterNode } from "./peer/cluster-node.ts";
import { defined } from "./std/defined.ts";
import type { ClusterStore } from "./store/cluster-store.ts";

export interface ClusterOptions extends OpenOptions {
  /** The URL of the database. */
  readonly store: string;
  /** Where the other nodes reach this one. */
  readonly url: string;
  /** RONDO_SECRET: what all nodes were given; null: the key that the store keeps. */
  readonly secret?: string | null;
  /** How long this node is a member without renewing. */
  readonly leaseMs?: number;
  /** Sees the store before it is opened. */
  readonly onStore?: (store: ClusterStore) => void;
}

/** Puts the parts of a node together. It has not joined the others yet. */
export async function assembleCluster(
  options: ClusterOptions,
): Promise<Assembled & { readonly node: ClusterNode }> {
  const { PostgresStore } = await import("./store/postgres/postgres-store.ts");
  const store = new PostgresStore({
    url: options.store,
    nodeUrl: options.url,
    ...defined({ leaseMs: options.leaseMs }),
  });
  options.onStore?.(store);
  const parts = sharedParts(options);
  const node = await ClusterNode.open({
    ...parts,
    store,
    url: options.url,
    secret: options.secret ?? null,
    ...defined({ settings: options.settings, leaseMs: options.leaseMs }),
  });
  return { ...(await assembleOn(node.engine, { ...options, store }, parts)), node };
}

/** A port that nobody listens at. */
export function freePort(host: string): Promise<number> {
  return new Promise((resolve, fail) => {
    const server = createServer();
    server.on("error", fail);
    server.listen(0, host, () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}
