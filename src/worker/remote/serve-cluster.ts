/**
 * The worker of a process that is itself a node: does tasks of the other nodes whose code is hosted here, so that code
 * which only this process has is reached from all of them. What is this node's own, the worker inside it does.
 */
import { type HostedPart, withChildren } from "../handler-code.ts";
import { WorkerLane, type WorkerLaneOptions } from "./worker-lane.ts";

/** `headers` has to prove to the other nodes that one of them asks; `worker` is to be this process's own, and no other's. */
export interface ServeClusterOptions
  extends Pick<
    WorkerLaneOptions,
    "name" | "capacity" | "version" | "clock" | "random" | "secrets" | "onLog" | "onTrouble" | "onBug"
  > {
  readonly worker: string;
  readonly headers: NonNullable<WorkerLaneOptions["headers"]>;
}

export interface ClusterWorker {
  /** Attempts of other nodes under way. */
  readonly held: number;
  /** Hosts code for the other nodes, with that of the workflows that it starts as children. */
  host(...workflows: readonly HostedPart[]): void;
  /** The other nodes that are alive now: sessions come and go with them. */
  nodes(urls: readonly string[]): void;
  /** Ends gracefully. */
  stop(graceMs: number): Promise<void>;
}

/** Begins with the first code that is hosted, at the nodes that it is told of. */
export function serveCluster(options: ServeClusterOptions): ClusterWorker {
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
  const hosted = new Set<HostedPart>();
  let peers: readonly string[] = [];
  lane.start();
  return {
    get held() {
      return lane.held;
    },
    host(...workflows) {
      const fresh = withChildren(workflows).filter((workflow) => !hosted.has(workflow));
      if (fresh.length === 0) return;
      for (const workflow of fresh) hosted.add(workflow);
      lane.host(fresh);
      lane.become(peers);
    },
    nodes(urls) {
      peers = [...urls];
      if (hosted.size > 0) lane.become(peers);
    },
    stop: (graceMs) => lane.stop(graceMs),
  };
}
