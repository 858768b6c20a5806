/** Owners of partitions and members of the cluster, in memory. Time is an argument, so a simulator can let leases expire. */
import { EVENT_VERSION } from "../../kernel/event.ts";
import { whyOtherGeneration, whyStale } from "../check-write.ts";
import { ENDED_MS, type MemberNode, type Membership } from "../cluster-store.ts";
import { type Fence, type Ownership, UNCLEAN_ENDS_MAX, type UncleanEnd } from "../store.ts";
import { compareText } from "./memory-documents.ts";

export const EMBEDDED = "embedded";

/** The request of a node to renew its lease or to join. `next` is its new incarnation if the current one has expired. */
export interface Renewal {
  readonly url: string;
  readonly incarnation: string | null;
  readonly next: string;
  readonly leaseMs: number;
  /** The newest version of events that the node can read; by default the newest version of this code. */
  readonly reads?: number;
}

interface PartitionRow {
  readonly partition: number;
  epoch: number;
  uncleanEpoch: number;
  clean: boolean;
  owner: string | null;
  /** When unclean epochs ended; null if the store does not record that. */
  ends: readonly UncleanEnd[] | null;
}

export class MemoryOwnership {
  readonly #generation: string;
  readonly #rows: readonly PartitionRow[];
  readonly #nodes = new Map<string, MemberNode>();
  /** When the leases of former members ended, by incarnation. */
  readonly #ended = new Map<string, number>();

  constructor(generation: string, partitions: number) {
    this.#generation = generation;
    this.#rows = Array.from({ length: partitions }, (_, partition) => ({
      partition,
      epoch: 0,
      uncleanEpoch: 0,
      clean: true,
      owner: null,
      ends: null,
    }));
  }

  /** Begins the next epoch of every partition. */
  openAll(): Ownership[] {
    return this.#rows.map((row) => begin(row, EMBEDDED, null));
  }

  whyOtherGeneration(fence: Fence): string | null {
    return whyOtherGeneration(fence, this.#generation);
  }

  whyStale(fence: Fence, partition: number, owner: string): string | null {
    const row = this.#rows[partition];
    if (row === undefined) return `there is no partition ${partition}`;
    const isReleased = row.owner !== owner && row.epoch === fence.epochs[partition];
    return whyStale(fence, partition, isReleased ? null : row.epoch);
  }

  ownerOf(partition: number): string | null {
    return this.#rows[partition]?.owner ?? null;
  }

  epochOf(partition: number): number {
    return this.#rows[partition]?.epoch ?? 0;
  }

  renew({ url, incarnation, next, leaseMs, reads = EVENT_VERSION }: Renewal, now: number): Membership {
    for (const { leaseUntil, incarnation: other } of this.#nodes.values())
      if (leaseUntil <= now) this.#remove(other, leaseUntil);
    for (const [other, at] of this.#ended) if (at <= now - ENDED_MS) this.#ended.delete(other);
    const known = incarnation === null ? undefined : this.#nodes.get(incarnation);
    const leaseUntil = now + leaseMs;
    const node =
      known === undefined
        ? { url, incarnation: next, since: now, leaseUntil, reads }
        : { ...known, leaseUntil };
    this.#nodes.set(node.incarnation, node);
    return {
      now,
      incarnation: node.incarnation,
      leaseUntil,
      nodes: [...this.#nodes.values()].sort(
        (a, b) => compareText(a.url, b.url) || compareText(a.incarnation, b.incarnation),
      ),
      ended: Object.fromEntries(Array.from(this.#ended, ([other, at]) => [other, Math.min(at, now)])),
      partitions: this.#rows.map(({ partition, owner, epoch }) => ({ partition, owner, epoch })),
    };
  }

  take(incarnation: string, partitions: readonly number[], now: number): Ownership[] {
    if (!this.#isMember(incarnation, now)) return [];
    return this.#rows
      .filter(({ partition }) => partitions.includes(partition))
      .filter(({ owner }) => owner === null || owner === incarnation || !this.#isMember(owner, now))
      .map((row) => begin(row, incarnation, this.#endOf(row.owner, now)));
  }

  release(owner: string, partitions: readonly number[] | null, options: { clean: boolean }): void {
    for (const row of this.#rows) {
      if (row.owner !== owner || partitions?.includes(row.partition) === false) continue;
      row.owner = null;
      row.clean = options.clean;
    }
  }

  forget(incarnation: string): void {
    const lapse = this.#nodes.get(incarnation)?.leaseUntil;
    if (lapse !== undefined) this.#remove(incarnation, lapse);
  }

  #remove(incarnation: string, lapse: number): void {
    this.#nodes.delete(incarnation);
    this.#ended.set(incarnation, lapse);
  }

  /** Returns when the lease of an owner ended; now if that is not known. */
  #endOf(owner: string | null, now: number): number {
    if (owner === null) return now;
    return Math.min(now, this.#nodes.get(owner)?.leaseUntil ?? this.#ended.get(owner) ?? now);
  }

  #isMember(incarnation: string, now: number): boolean {
    return (this.#nodes.get(incarnation)?.leaseUntil ?? 0) > now;
  }
}

/** Begins the next epoch of a partition. `endedAt` is when the last epoch ended; null if the store does not record that. */
function begin(row: PartitionRow, owner: string, endedAt: number | null): Ownership {
  if (!row.clean) {
    row.uncleanEpoch = row.epoch;
    if (endedAt !== null)
      row.ends = [...(row.ends ?? []), { epoch: row.epoch, at: endedAt }].slice(-UNCLEAN_ENDS_MAX);
  }
  row.epoch++;
  row.clean = false;
  row.owner = owner;
  const { partition, epoch, uncleanEpoch, ends } = row;
  if (ends === null && endedAt === null) return { partition, epoch, uncleanEpoch };
  return { partition, epoch, uncleanEpoch, uncleanEnds: ends ?? [], limitsStoredFrom: 1 };
}
