/** One node of a cluster as a pure machine, for tests of who owns what. */

import { OwnershipNode } from "../../../src/cluster/ownership/ownership.ts";
import type {
  OwnershipInput,
  OwnershipOutput,
  OwnershipSettings,
} from "../../../src/cluster/ownership/ownership-io.ts";
import { LEASE_MS, type Membership } from "../../../src/store/cluster-store.ts";

export const PARTITIONS = 8;

export const ALL = Array.from({ length: PARTITIONS }, (_, partition) => partition);

export const A = "http://a";

export const B = "http://b";

type Row = Membership["partitions"][number];

/** A node at http://a, and what the store would say. */
export class Bench {
  readonly node: OwnershipNode;
  now = 1_000;
  readonly rows: Row[] = ALL.map((partition) => ({ partition, owner: null, epoch: 0 }));
  /** Incarnation -> URL; a1 is the node itself. */
  nodes: Record<string, string> = { a1: A };
  own = "a1";
  /** What versions nodes read, if not the second. */
  reads: Record<string, number> = {};
  /** What is left of the others' leases. */
  othersMs = 9_000;

  constructor(settings: Partial<OwnershipSettings> = {}) {
    this.node = new OwnershipNode(settings);
  }

  input(input: OwnershipInput): OwnershipOutput[] {
    this.node.input(input, this.now);
    return this.node.advance(this.now);
  }

  tick(ms: number): OwnershipOutput[] {
    this.now += ms;
    return this.input({ kind: "tick" });
  }

  membership(): Membership {
    const now = 50_000_000 + this.now;
    const nodes = Object.entries(this.nodes).map(([incarnation, url]) => ({
      url,
      incarnation,
      since: 0,
      reads: this.reads[incarnation] ?? 2,
      leaseUntil: now + (incarnation === this.own ? LEASE_MS : this.othersMs),
    }));
    return { now, incarnation: this.own, leaseUntil: now + LEASE_MS, nodes, partitions: [...this.rows] };
  }

  /** The answer of a renewal, asked some time ago. */
  renewed(agoMs = 0): OwnershipOutput[] {
    return this.input({ kind: "membership", membership: this.membership(), askedAt: this.now - agoMs });
  }

  set(partitions: readonly number[], owner: string | null, epoch: number): void {
    for (const partition of partitions) this.rows[partition] = { partition, owner, epoch };
  }

  /** The store lets the node have these. */
  taken(partitions: readonly number[], epoch: number): OwnershipOutput[] {
    this.set(partitions, this.own, epoch);
    const owned = partitions.map((partition) => ({ partition, epoch, uncleanEpoch: 0 }));
    return this.input({ kind: "taken", owned });
  }

  /** Time passes with a renewal every 3 s. */
  peace(ms: number): OwnershipOutput[] {
    const outputs: OwnershipOutput[] = [];
    for (let left = ms; left > 0; left -= 3_000) {
      outputs.push(...this.tick(3_000).filter(({ kind }) => kind !== "renew"), ...this.renewed());
    }
    return outputs;
  }

  /** Joined, with everything. */
  static alone(settings: Partial<OwnershipSettings> = {}): Bench {
    const bench = new Bench(settings);
    bench.tick(0);
    bench.renewed();
    bench.taken(ALL, 1);
    return bench;
  }

  /** The same, after http://b has joined and members have been the same for a while. */
  static beside(settings: Partial<OwnershipSettings> = {}): Bench {
    const bench = Bench.alone(settings);
    bench.nodes = { a1: A, b1: B };
    return bench;
  }

  get owned(): number[] {
    return this.node.view().owned.map(({ partition }) => partition);
  }
}
