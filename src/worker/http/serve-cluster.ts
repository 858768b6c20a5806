/** The worker inside a node of a cluster. It runs tasks of the other nodes whose code is hosted in this process. */
import { type HostedPart, withChildren } from "../handler-code.ts";
import type { ScriptOptions } from "../script-runner.ts";
import type { NetworkWorkerOptions } from "../worker.ts";
import { WorkerLane, type WorkerLaneOptions } from "./worker-lane.ts";

/** Options of the worker. `token` authenticates workers of nodes to each other; `worker` must be unique to this process. */
export interface ServeClusterOptions
  extends Omit<NetworkWorkerOptions, "workflows">,
    Pick<WorkerLaneOptions, "version"> {
  readonly worker: string;
  readonly own: string;
  readonly token: string;
  /** The options of scripts. Without them, this worker runs no scripts of other nodes. */
  readonly scripts?: ScriptOptions;
}

export interface ClusterWorker {
  readonly held: number;
  /** Hosts code for the other nodes, including the workflows that it starts as children. */
  host(workflows: readonly HostedPart[]): void;
  /** Runs scripts of the other nodes from now on. */
  hostScripts(): void;
  /** Sets the URLs of the other live nodes. The worker opens and ends sessions accordingly. */
  nodes(urls: readonly string[]): void;
  stop(graceMs: number): Promise<void>;
}

/** Makes the worker. It starts when the first code is hosted, and works for the nodes that `nodes` sets. */
export function serveCluster(options: ServeClusterOptions): ClusterWorker {
  const { scripts, ...shared } = options;
  const code = laneOf(shared);
  const hosted = new Set<HostedPart>();
  let scriptLane: WorkerLane | null = null;
  let peers: readonly string[] = [];
  return {
    get held() {
      return code.held + (scriptLane?.held ?? 0);
    },
    host(workflows) {
      const fresh = withChildren(workflows).filter((workflow) => !hosted.has(workflow));
      if (fresh.length === 0) return;
      for (const workflow of fresh) hosted.add(workflow);
      code.host(fresh);
      code.setNodes(peers);
    },
    hostScripts() {
      if (scripts === undefined || scriptLane !== null) return;
      const names = { name: `${options.name}-scripts`, worker: `${options.worker}-scripts` };
      scriptLane = laneOf({ ...shared, ...names, scripts, capacity: scripts.atOnce });
      scriptLane.setNodes(peers);
    },
    nodes(urls) {
      peers = [...urls];
      if (hosted.size > 0) code.setNodes(peers);
      scriptLane?.setNodes(peers);
    },
    async stop(graceMs) {
      await Promise.all([code.stop(graceMs), scriptLane?.stop(graceMs)]);
    },
  };
}

function laneOf(options: ServeClusterOptions): WorkerLane {
  const lane = new WorkerLane({
    ...options,
    addresses: [],
    workflows: [],
    spool: null,
    url: () => null,
    onRegistered: () => {},
    onDrain: () => {},
    onDropped: (attempt, why) =>
      options.onTrouble(`the node refused the report of the attempt ${attempt}: ${why.message}`),
  });
  lane.start();
  return lane;
}
