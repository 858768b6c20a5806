/**
 * The store port for a cluster. A node is a member while its lease runs, by the store's clock. A partition has one owner; it
 * is free when it was released or when the lease of its owner has expired. Taking a partition begins a new epoch, which is a
 * fencing token: the store refuses further writes of the former owner.
 */
import type { MailboxMessage, Ownership, Store } from "./store.ts";

export const LEASE_MS = 10_000;

/** For how long the store reports when the lease of a former node ended. */
export const ENDED_MS = 600_000;

export interface MemberNode {
  readonly url: string;
  /** Identifies one membership: a node whose lease has expired joins again with another incarnation. */
  readonly incarnation: string;
  readonly leaseUntil: number;
  /** When this incarnation joined. */
  readonly since: number;
  /** The newest version of events that the node can read. */
  readonly reads: number;
}

/** Members and owners at one moment of the store's clock. */
export interface Membership {
  /** The store's clock, in whole milliseconds. */
  readonly now: number;
  /** The incarnation of this node, and the end of its lease. */
  readonly incarnation: string;
  readonly leaseUntil: number;
  /** Nodes whose lease has not expired, in the order of their URLs. */
  readonly nodes: readonly MemberNode[];
  /** When leases ended, by incarnation, of nodes that have left in the last ten minutes (`ENDED_MS`). */
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
   * Takes the free partitions among these, and takes own ones again, each in a new epoch. Takes nothing if the node is no
   * member.
   */
  take(partitions: readonly number[]): Promise<readonly Ownership[]>;
  /** Releases those of the partitions that this node owns. `clean` means that no lease is open in them. */
  release(partitions: readonly number[], options: { clean: boolean }): Promise<void>;
  leave(options: { clean: boolean }): Promise<void>;
  /** Stores mailbox messages outside of commits: messages to a partition whose owner could not be reached. */
  post(messages: readonly MailboxMessage[]): Promise<void>;
  /** Calls `callback` with hints of other nodes. Hints can be late, repeated or lost. */
  onHint(callback: (hint: Hint) => void): void;
}
