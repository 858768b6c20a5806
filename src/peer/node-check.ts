/**
 * Whether a node may be the member that it says it is: nobody else is alive at its URL, and all nodes have the same secret.
 * Both are mistakes of set-up that would otherwise show themselves as partitions that nobody can reach.
 */
import type { MemberNode, Membership } from "../store/cluster-store.ts";
import type { Store } from "../store/store.ts";

const KIND = "cluster-secret";
const ID = "check";

export interface NodeCheckOptions {
  readonly store: Pick<Store, "swapDocument" | "getDocument" | "putDocument">;
  readonly url: string;
  /** Stands for the secret, and does not tell it. */
  readonly check: string;
  readonly onFault: (fault: Error) => void;
}

export class NodeCheck {
  readonly #options: NodeCheckOptions;
  #secretDiffers: boolean;
  /** Until when leases ran of others at the same URL, by incarnation. */
  readonly #seen = new Map<string, number>();

  private constructor(options: NodeCheckOptions, secretDiffers: boolean) {
    this.#options = options;
    this.#secretDiffers = secretDiffers;
  }

  /** Compares the secret with that of whoever was there before. */
  static async open(options: NodeCheckOptions): Promise<NodeCheck> {
    const { store, check } = options;
    const isFirst = await store.swapDocument(KIND, ID, { was: null, body: check });
    return new NodeCheck(options, !isFirst && (await store.getDocument(KIND, ID)) !== check);
  }

  /** What is wrong with being a member; null: nothing. */
  look({ incarnation, nodes }: Membership): string | null {
    const own = nodes.find((node) => node.incarnation === incarnation);
    const others = nodes.filter((node) => node.incarnation !== incarnation);
    if (own === undefined) return null;
    if (this.#secretDiffers && others.length > 0)
      return "this node was given another RONDO_SECRET than the nodes that are there: give all of them the same one";
    if (this.#secretDiffers) this.#replace();
    for (const other of others) {
      if (other.url !== this.#options.url) continue;
      const before = this.#seen.get(other.incarnation) ?? other.leaseUntil;
      this.#seen.set(other.incarnation, other.leaseUntil);
      // What a killed process left behind does not renew.
      if (other.leaseUntil > before && isYounger(own, other))
        return `another node is alive at ${other.url}: give this one an address of its own (--port, RONDO_ADVERTISE)`;
    }
    return null;
  }

  /** Nobody else is there: from now on this secret is the cluster's. */
  #replace(): void {
    const { store, check, onFault } = this.#options;
    this.#secretDiffers = false;
    store.putDocument(KIND, ID, check).catch((thrown: unknown) => {
      this.#secretDiffers = true;
      onFault(thrown as Error);
    });
  }
}

function isYounger(own: MemberNode, other: MemberNode): boolean {
  return own.since === other.since ? own.incarnation > other.incarnation : own.since > other.since;
}
