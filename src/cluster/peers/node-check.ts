/**
 * Checks that a node may join: no other living node has its URL, and all nodes have the same secret. Otherwise the configuration is
 * wrong, and later some partitions could not be reached by any node. The store keeps a hash of the first node's secret. A node with
 * another secret is refused if an older living node refuses its signature. If there is no such node, all nodes were stopped to change the
 * secret, and the oldest of the starting nodes stores the new one.
 */
import type { MemberNode, Membership } from "../../store/cluster-store.ts";
import type { Store } from "../../store/store.ts";

const KIND = "cluster-secret";
/**
 * How long a node with another secret waits for older nodes to renew their leases. Living nodes renew every 3 s. If none has by then, this
 * node stores its own secret.
 */
const DEAD_MS = 3_500;

export interface NodeCheckOptions {
  readonly store: Pick<Store, "swapDocument" | "getDocument" | "putDocument">;
  readonly generation: string;
  readonly url: string;
  /** A hash of the cluster's secret. Nodes compare the hashes. */
  readonly check: string;
  /** Asks the node at a URL whether it refuses this node's signature. Returns false also if that node cannot be reached. */
  readonly isRefusedBy: (url: string) => Promise<boolean>;
  readonly onFault: (fault: Error) => void;
}

export class NodeCheck {
  readonly #options: NodeCheckOptions;
  #secretDiffers: boolean;
  /** Whether an older node refused this node's signature. */
  #isRefused = false;
  /** When another secret than this node's was first seen in the store; null if there was none. */
  #differsSince: number | null = null;
  /** The end of each other node's lease when that node was first seen, by incarnation. */
  readonly #seen = new Map<string, number>();

  private constructor(options: NodeCheckOptions, secretDiffers: boolean) {
    this.#options = options;
    this.#secretDiffers = secretDiffers;
  }

  /** Compares the hash of this node's secret with the stored one. */
  static async open(options: NodeCheckOptions): Promise<NodeCheck> {
    const { store, check, generation } = options;
    const isFirst = await store.swapDocument(KIND, generation, { was: null, body: check });
    return new NodeCheck(options, !isFirst && (await store.getDocument(KIND, generation)) !== check);
  }

  /** Returns why this node may not be a member of the cluster; null if it may. */
  check({ incarnation, nodes, now }: Membership): string | null {
    const own = nodes.find((node) => node.incarnation === incarnation);
    if (own === undefined) return null;
    const others = nodes.filter((node) => node !== own);
    const there = new Set(others.map((other) => other.incarnation));
    for (const gone of this.#seen.keys()) if (!there.has(gone)) this.#seen.delete(gone);
    const older = others.filter((other) => isYounger(own, other));
    const alive = older.filter((other) => this.#isAlive(other));
    const twin = alive.find(({ url }) => url === this.#options.url);
    if (twin !== undefined)
      return `another node is alive at ${twin.url}: give this node an address of its own (--port, RONDO_ADVERTISE)`;
    if (!this.#secretDiffers) return null;
    this.#differsSince ??= now;
    if (this.#isRefused && alive.length > 0)
      return "this node has another RONDO_SECRET than the other nodes: give all nodes the same one";
    const isOldest = older.length === 0 || (alive.length === 0 && now - this.#differsSince >= DEAD_MS);
    if (isOldest) this.#replace();
    else this.#track(this.#compare(older));
    return null;
  }

  /** Whether a node has renewed its lease since it was first seen. The lease of a killed process does not change. */
  #isAlive({ incarnation, leaseUntil }: MemberNode): boolean {
    const first = this.#seen.get(incarnation) ?? leaseUntil;
    this.#seen.set(incarnation, first);
    return leaseUntil > first;
  }

  /** Stores the hash of this node's secret as that of the cluster. Only the oldest node does so. */
  #replace(): void {
    const { store, check, generation } = this.#options;
    this.#secretDiffers = false;
    this.#track(store.putDocument(KIND, generation, check));
  }

  /** Compares the stored secret again, because the oldest node may have stored it in the meantime. If it differs, asks the older nodes. */
  async #compare(older: readonly MemberNode[]): Promise<void> {
    const { store, check, generation, isRefusedBy } = this.#options;
    this.#secretDiffers = (await store.getDocument(KIND, generation)) !== check;
    if (!this.#secretDiffers) return;
    const refused = await Promise.all(older.map(({ url }) => isRefusedBy(url)));
    this.#isRefused = refused.includes(true);
  }

  #track(work: Promise<void>): void {
    work.catch((thrown: unknown) => {
      this.#secretDiffers = true;
      this.#options.onFault(thrown as Error);
    });
  }
}

function isYounger(own: MemberNode, other: MemberNode): boolean {
  return own.since === other.since ? own.incarnation > other.incarnation : own.since > other.since;
}
