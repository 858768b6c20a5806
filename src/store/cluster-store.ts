/**
 * The store port for a cluster. A node is a member while its lease runs, by the store's clock. A partition has one owner; it
 * is free when it was released or when the lease of its owner has expired. Taking a partition begins a new epoch, which is a
 * fencing token: the store refuses further writes of the former owner.
 */
import type { MailboxMessage, Ownership, Store } from "./store.ts";

export const LEASE_MS = 10_000;

/** The time for which the store keeps when the lease of a former node ended. */
export const ENDED_MS = 600_000;

export interface MemberNode {
  readonly url: string;
  /** Identifies one membership. A node whose lease has expired joins again with a new incarnation. */
  readonly incarnation: string;
  readonly leaseUntil: number;
  /** When the node joined with this incarnation. */
  readonly since: number;
  /** The newest version of events that the node can read. */
  readonly reads: number;
}

/** The members of the cluster and the owners of partitions at one moment of the store's clock. */
export interface Membership {
  /** The store's clock, in whole milliseconds. */
  readonly now: number;
  /** The incarnation of this node. `leaseUntil` is the end of its lease. */
  readonly incarnation: string;
  readonly leaseUntil: number;
  /** Nodes whose lease has not expired, in the order of their URLs. */
  readonly nodes: readonly MemberNode[];
  /** When the leases of nodes ended that have left in the last ten minutes (`ENDED_MS`), by incarnation. */
  readonly ended: Readonly<Record<string, number>>;
  /** All partitions, by number; the lease of a partition's owner may have expired. */
  readonly partitions: readonly {
    readonly partition: number;
    readonly owner: string | null;
    readonly epoch: number;
  }[];
}

/** A notification that there may be work: new mailbox messages in these partitions, or changes of members or owners. */
export type Hint =
  | { readonly kind: "mail"; readonly partitions: readonly number[] }
  | { readonly kind: "members" };

export interface ClusterStore extends Store {
  /** The store's clock, in whole milliseconds. */
  now(): Promise<number>;
  /**
   * Joins the cluster, or renews the lease. After its lease has expired, the node joins as a new incarnation, which owns
   * nothing.
   */
  renew(): Promise<Membership>;
  /**
   * Takes those of the given partitions that are free or belong to this node already, each in a new epoch. Takes nothing if the
   * node is not a member of the cluster.
   */
  take(partitions: readonly number[]): Promise<readonly Ownership[]>;
  /** Releases those of the given partitions that this node owns. `clean` means that no task of them is leased to a worker. */
  release(partitions: readonly number[], options: { clean: boolean }): Promise<void>;
  leave(options: { clean: boolean }): Promise<void>;
  /** Stores mailbox messages outside of commits: messages to a partition whose owner could not be reached. */
  post(messages: readonly MailboxMessage[]): Promise<void>;
  /** Calls `callback` with hints of other nodes. Hints can be late, repeated or lost. */
  onHint(callback: (hint: Hint) => void): void;
}
