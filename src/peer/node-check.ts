/**
 * Whether a node may be the member that it says it is: nobody else is alive at its URL, and all nodes have the same secret.
 * Both are mistakes of set-up that would otherwise show themselves as partitions that nobody can reach.
 *
 * The secret of a generation is the one that came first. Where it was changed, with all nodes stopped, the oldest of those
 * that start has the new one noted, and the others find it there.
 */
import type { MemberNode, Membership } from "../store/cluster-store.ts";
import type { Store } from "../store/store.ts";

const KIND = "cluster-secret";
/** How long the oldest node has to note a secret that was changed. */
const NOTED_MS = 4_000;

export interface NodeCheckOptions {
  readonly store: Pick<Store, "swapDocument" | "getDocument" | "putDocument">;
  readonly generation: string;
  readonly url: string;
  /** Stands for the secret, and does not tell it. */
  readonly check: string;
  readonly onFault: (fault: Error) => void;
}

export class NodeCheck {
  readonly #options: NodeCheckOptions;
  #secretDiffers: boolean;
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
    const older = others.filter((other) => isYounger(own, other) && this.#isAlive(other));
    const twin = older.find(({ url }) => url === this.#options.url);
    if (twin !== undefined)
      return `another node is alive at ${twin.url}: give this one an address of its own (--port, RONDO_ADVERTISE)`;
    if (!this.#secretDiffers) return null;
    this.#differsSince ??= now;
    if (older.length > 0 && now - this.#differsSince >= NOTED_MS)
      return "this node was given another RONDO_SECRET than the nodes that are there: give all of them the same one";
    if (others.every((other) => isYounger(other, own))) this.#replace();
    else this.#compare();
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

  /** The oldest node may have noted the same secret meanwhile. */
  #compare(): void {
    const { store, check, generation } = this.#options;
    this.#track(
      store.getDocument(KIND, generation).then((noted) => {
        this.#secretDiffers = noted !== check;
      }),
    );
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
