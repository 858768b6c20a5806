/**
 * A simulated node's side of the worker protocol: the workers that are registered at its present process, and the nodes that it
 * names, as in the real server. It knows the cluster only from its last read of the store.
 */
import type { Input } from "../../src/engine/io.ts";
import type { Serves } from "../../src/protocol/work.ts";

/** The registration of a worker. */
export interface SimRegistration {
  readonly worker: string;
  readonly serves: readonly Serves[];
  readonly capacity: number;
  readonly asks: boolean;
}

export interface NodeWorkersOptions {
  /** The node's own URL. */
  readonly url: string;
  readonly toEngine: (input: Input) => void;
  /** Runs something later, if the process lives that long. */
  readonly later: (ms: number, run: () => void) => void;
}

/** A worker that has not claimed for this long gets no work. */
const SILENT_MS = 2_000;

export class NodeWorkers {
  readonly #options: NodeWorkersOptions;
  /** The number of claims of each registered worker. */
  readonly #claims = new Map<string, number>();
  #nodes: readonly string[];

  constructor(options: NodeWorkersOptions) {
    this.#options = options;
    this.#nodes = [options.url];
  }

  /** Called when the process has begun: no worker is registered. */
  open(): void {
    this.#claims.clear();
    this.#nodes = [this.#options.url];
  }

  /** Called with the nodes that the store names as alive. */
  setNodes(urls: readonly string[]): void {
    this.#nodes = [...new Set([this.#options.url, ...urls])].toSorted();
  }

  /** Registers a worker; returns the nodes. */
  register({ worker, serves, capacity, asks }: SimRegistration): readonly string[] {
    this.#options.toEngine({ kind: "worker-joined", worker, serves, capacity, local: false, asks });
    this.#claims.set(worker, this.#claims.get(worker) ?? 0);
    return this.#nodes;
  }

  /** Handles a claim of a worker; returns the nodes, or null if the worker is not registered. */
  claim(worker: string, max: number): readonly string[] | null {
    const before = this.#claims.get(worker);
    if (before === undefined) return null;
    const { toEngine, later } = this.#options;
    this.#claims.set(worker, before + 1);
    toEngine({ kind: "worker-claims", worker, max });
    later(SILENT_MS, () => {
      if (this.#claims.get(worker) === before + 1) toEngine({ kind: "worker-claims", worker, max: 0 });
    });
    return this.#nodes;
  }
}
