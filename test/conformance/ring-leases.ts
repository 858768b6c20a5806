/** The rows of a store that ring nodes share in a test: who is a member until when, and who has which partition. */
import { hashText } from "../../src/std/random.ts";
import { LEASE_MS, type Membership } from "../../src/store/cluster-store.ts";

const STABLE_MS = 10_000;

interface Lease {
  readonly url: string;
  readonly incarnation: string;
  readonly leaseUntil: number;
  readonly since: number;
  readonly reads: number;
}

export class RingLeases {
  readonly #leases = new Map<string, Lease>();
  readonly #owners: (string | null)[];
  readonly #epochs: number[];
  #changedAt: number;
  #membersBefore = "";

  constructor(partitions: number, now: number) {
    this.#owners = Array.from({ length: partitions }, () => null);
    this.#epochs = Array.from({ length: partitions }, () => 0);
    this.#changedAt = now;
  }

  isOwner(incarnation: string, partition: number): boolean {
    return this.#owners[partition] === incarnation;
  }

  /** A member is none any more, and what it had is free. */
  leave(incarnation: string): void {
    this.#leases.delete(incarnation);
    this.#owners.forEach((owner, p) => {
      if (owner === incarnation) this.#owners[p] = null;
    });
  }

  /** What a node reads of all. */
  membership(incarnation: string, now: number): Membership {
    return {
      now,
      incarnation,
      leaseUntil: this.#leases.get(incarnation)?.leaseUntil ?? 0,
      nodes: this.#live(now).toSorted((a, b) => (a.url < b.url ? -1 : 1)),
      partitions: this.#owners.map((owner, partition) => ({
        partition,
        owner,
        epoch: this.#epochs[partition] as number,
      })),
    };
  }

  /** Renews a lease, then does what ownership would do: what a node has from then on, and what of it is new. */
  renew(
    { url, incarnation, joinedAt }: { url: string; incarnation: string; joinedAt: number },
    now: number,
  ): { owned: Set<number>; taken: number[] } {
    this.#leases.set(incarnation, {
      url,
      incarnation,
      leaseUntil: now + LEASE_MS,
      since: joinedAt,
      reads: 2,
    });
    const live = this.#live(now).map(({ incarnation: one }) => one);
    const isStable = now - this.#changedAt >= STABLE_MS;
    const taken: number[] = [];
    this.#owners.forEach((owner, p) => {
      const isFree = owner === null || !live.includes(owner);
      const belongsHere = pickOwner(p, live) === incarnation;
      if (isFree && belongsHere) {
        this.#owners[p] = incarnation;
        this.#epochs[p] = (this.#epochs[p] as number) + 1;
        taken.push(p);
      } else if (owner === incarnation && isStable && !belongsHere) this.#owners[p] = null;
    });
    const owned = new Set(this.#owners.flatMap((owner, p) => (owner === incarnation ? [p] : [])));
    return { owned, taken };
  }

  #live(now: number): Lease[] {
    const live = [...this.#leases.values()].filter(({ leaseUntil }) => leaseUntil > now);
    const members = live.map(({ incarnation }) => incarnation).join();
    if (members !== this.#membersBefore) this.#changedAt = now;
    this.#membersBefore = members;
    return live;
  }
}

function pickOwner(partition: number, incarnations: readonly string[]): string | null {
  let best: string | null = null;
  let most = -1;
  for (const incarnation of incarnations) {
    const score = hashText(`${partition}/${incarnation}`);
    if (score > most) [best, most] = [incarnation, score];
  }
  return best;
}
