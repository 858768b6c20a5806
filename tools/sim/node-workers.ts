/**
 * A simulated node's side of the worker protocol: who is registered there in this life of the process, and which nodes it
 * names, as the real server does. It knows no more of the cluster than its last look at the store.
 */
import type { Input } from "../../src/engine/io.ts";
import type { Serves } from "../../src/protocol/work.ts";

/** What a worker registers as. */
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
  /** Runs later, if the process lives that long. */
  readonly later: (ms: number, run: () => void) => void;
}

/** A worker that has not claimed for so long gets nothing. */
const SILENT_MS = 2_000;

export class NodeWorkers {
  readonly #options: NodeWorkersOptions;
  /** How often each registered worker has claimed. */
  readonly #claims = new Map<string, number>();
  #nodes: readonly string[];

  constructor(options: NodeWorkersOptions) {
    this.#options = options;
    this.#nodes = [options.url];
  }

  /** The process has begun: nobody is registered. */
  open(): void {
    this.#claims.clear();
    this.#nodes = [this.#options.url];
  }

  /** The store names these nodes as alive. */
  heard(urls: readonly string[]): void {
    this.#nodes = [...new Set([this.#options.url, ...urls])].toSorted();
  }

  /** Registers a worker; gives the nodes. */
  register({ worker, serves, capacity, asks }: SimRegistration): readonly string[] {
    this.#options.toEngine({ kind: "worker-joined", worker, serves, capacity, local: false, asks });
    this.#claims.set(worker, this.#claims.get(worker) ?? 0);
    return this.#nodes;
  }

  /** A claim of a worker; gives the nodes, or null: it is not registered. */
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
