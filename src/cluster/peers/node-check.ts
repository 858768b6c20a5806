/**
 * Whether a node may be the member that it says it is: nobody else is alive at its URL, and all nodes have the same secret.
 * Both are mistakes of set-up that would otherwise show themselves as partitions that nobody can reach.
 *
 * The secret of a generation is the one that came first. A node with another one is a stranger if an older node that is
 * alive says so. Else all nodes were stopped and the secret was changed: the oldest of those that start has it noted.
 */
import type { MemberNode, Membership } from "../../store/cluster-store.ts";
import type { Store } from "../../store/store.ts";

const KIND = "cluster-secret";
/** Who has not renewed its lease for so long is dead: nodes renew every 3 s. */
const DEAD_MS = 3_500;

export interface NodeCheckOptions {
  readonly store: Pick<Store, "swapDocument" | "getDocument" | "putDocument">;
  readonly generation: string;
  readonly url: string;
  /** Stands for the secret, and does not tell it. */
  readonly check: string;
  /** Asks the node at a URL whether it refuses this one's signature; false also if it cannot be reached. */
  readonly isRefusedBy: (url: string) => Promise<boolean>;
  readonly onFault: (fault: Error) => void;
}

export class NodeCheck {
  readonly #options: NodeCheckOptions;
  #secretDiffers: boolean;
  /** An older node says so, too. */
  #isRefused = false;
  /** When that was first seen among others. */
  #differsSince: number | null = null;
  /** Until when the leases of others ran when they were first seen, by incarnation. */
  readonly #seen = new Map<string, number>();

  private constructor(options: NodeCheckOptions, secretDiffers: boolean) {
    this.#options = options;
    this.#secretDiffers = secretDiffers;
  }

  /** Compares the secret with that of whoever was there before. */
  static async open(options: NodeCheckOptions): Promise<NodeCheck> {
    const { store, check, generation } = options;
    const isFirst = await store.swapDocument(KIND, generation, { was: null, body: check });
    return new NodeCheck(options, !isFirst && (await store.getDocument(KIND, generation)) !== check);
  }

  /** What is wrong with being a member; null: nothing. */
  look({ incarnation, nodes, now }: Membership): string | null {
    const own = nodes.find((node) => node.incarnation === incarnation);
    if (own === undefined) return null;
    const others = nodes.filter((node) => node !== own);
    const there = new Set(others.map((other) => other.incarnation));
    for (const gone of this.#seen.keys()) if (!there.has(gone)) this.#seen.delete(gone);
    const older = others.filter((other) => isYounger(own, other));
    const alive = older.filter((other) => this.#isAlive(other));
    const twin = alive.find(({ url }) => url === this.#options.url);
    if (twin !== undefined)
      return `another node is alive at ${twin.url}: give this one an address of its own (--port, RONDO_ADVERTISE)`;
    if (!this.#secretDiffers) return null;
    this.#differsSince ??= now;
    if (this.#isRefused && alive.length > 0)
      return "this node was given another RONDO_SECRET than the nodes that are there: give all of them the same one";
    const isOldest = older.length === 0 || (alive.length === 0 && now - this.#differsSince >= DEAD_MS);
    if (isOldest) this.#replace();
    else this.#track(this.#compare(older));
    return null;
  }

  /** Whether another node has renewed its lease since it was first seen: what a killed process left behind does not. */
  #isAlive({ incarnation, leaseUntil }: MemberNode): boolean {
    const first = this.#seen.get(incarnation) ?? leaseUntil;
    this.#seen.set(incarnation, first);
    return leaseUntil > first;
  }

  /** This is the oldest node: from now on its secret is the cluster's. */
  #replace(): void {
    const { store, check, generation } = this.#options;
    this.#secretDiffers = false;
    this.#track(store.putDocument(KIND, generation, check));
  }

  /** The oldest node may have noted the same secret meanwhile; if not, older ones are asked. */
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
