/**
 * The worker of a process that is itself a node: does tasks of the other nodes whose code is hosted here, so that code
 * which only this process has is reached from all of them. What is this node's own, the worker inside it does; but an
 * attempt that another node gave out goes on when its execution moves to this one.
 */
import { type HostedPart, withChildren } from "../handler-code.ts";
import type { ScriptOptions } from "../script-runner.ts";
import { WorkerLane, type WorkerLaneOptions } from "./worker-lane.ts";

/** `token` is what nodes know each other's workers by; `worker` is to be this process's own, and no other's. */
export interface ServeClusterOptions
  extends Pick<
    WorkerLaneOptions,
    "name" | "capacity" | "version" | "clock" | "random" | "secrets" | "onLog" | "onTrouble" | "onBug"
  > {
  readonly worker: string;
  /** The URL of the node that this process is. */
  readonly own: string;
  readonly token: string;
  /** Without it, no scripts of other nodes are run here. */
  readonly scripts?: ScriptOptions;
}

export interface ClusterWorker {
  /** Attempts of other nodes under way. */
  readonly held: number;
  /** Hosts code for the other nodes, with that of the workflows that it starts as children. */
  host(workflows: readonly HostedPart[]): void;
  /** Runs scripts of the other nodes too, from now on. */
  hostScripts(): void;
  /** The other nodes that are alive now: sessions come and go with them. */
  nodes(urls: readonly string[]): void;
  /** Ends gracefully. */
  stop(graceMs: number): Promise<void>;
}

/** Begins with the first code that is hosted, at the nodes that it is told of. */
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
      code.become(peers);
    },
    hostScripts() {
      if (scripts === undefined || scriptLane !== null) return;
      const names = { name: `${options.name}-scripts`, worker: `${options.worker}-scripts` };
      scriptLane = laneOf({ ...shared, ...names, scripts, capacity: scripts.atOnce });
      scriptLane.become(peers);
    },
    nodes(urls) {
      peers = [...urls];
      if (hosted.size > 0) code.become(peers);
      scriptLane?.become(peers);
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
    onDropped: (attempt, why) => options.onTrouble(`${attempt} was not taken: ${why.message}`),
  });
  lane.start();
  return lane;
}
