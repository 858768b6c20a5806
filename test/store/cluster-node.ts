/** Nodes over one store, for what it promises them: each with what it owns, writing under its fence. */
import { onTestFinished } from "vitest";
import type { ClusterStore, Hint } from "../../src/store/cluster-store.ts";
import { partitionOf } from "../../src/store/partition-of.ts";
import { type ExecutionWrite, fenceOf, type Ownership, type StoreInfo } from "../../src/store/store.ts";
import { headOf, start } from "./example-writes.ts";

export const PARTITIONS = 4;

export interface Cluster {
  makeStore(url: string): ClusterStore;
  /** Lets the lease of this incarnation end now. */
  lapse(incarnation: string): Promise<void>;
  /** Resolves when hints that are on their way have come. */
  hintsCome(seen: readonly Hint[], count: number): Promise<void>;
}

/** An execution's id in each partition. */
export const IN = Array.from({ length: PARTITIONS }, (_, partition) => {
  for (let n = 0; ; n++) if (partitionOf(`e${n}`, PARTITIONS) === partition) return `e${n}`;
});

/** The id of an execution of this partition. */
export const idIn = (partition: number): string => IN[partition] as string;

/** A write that creates the execution of a partition. */
export function startIn(partition: number, parts: Partial<ExecutionWrite> = {}): ExecutionWrite {
  return start(idIn(partition), { head: headOf(idIn(partition), { partition }), ...parts });
}

/** A node: its store, and what it owns. */
export class Node {
  readonly store: ClusterStore;
  incarnation = "";
  #info: StoreInfo = { generation: "", key: "", partitions: 0, owned: [] };

  private constructor(store: ClusterStore) {
    this.store = store;
  }

  static async join(cluster: Cluster, url: string): Promise<Node> {
    const node = new Node(cluster.makeStore(url));
    node.#info = await node.store.open();
    onTestFinished(() => node.store.close({ clean: false }));
    await node.renew();
    return node;
  }

  get info(): StoreInfo {
    return this.#info;
  }

  async renew() {
    const membership = await this.store.renew();
    this.incarnation = membership.incarnation;
    return membership;
  }

  async take(partitions: readonly number[]): Promise<readonly Ownership[]> {
    const taken = await this.store.take(partitions);
    const others = this.#info.owned.filter(
      (own) => !taken.some(({ partition }) => partition === own.partition),
    );
    this.#info = { ...this.#info, owned: [...others, ...taken] };
    return taken;
  }

  commit(writes: readonly ExecutionWrite[], mailTaken?: readonly string[]) {
    return this.store.commit({
      fence: fenceOf(this.#info),
      writes,
      ...(mailTaken === undefined ? {} : { mailTaken }),
    });
  }

  /** The ids of all letters that are not taken. */
  async letters(): Promise<readonly string[]> {
    return (await this.store.scanMail({ after: 0, max: 9, partitions: null })).map(({ id }) => id);
  }
}
