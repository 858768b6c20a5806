/**
 * The store port for a cluster: one store, many nodes. A node is a member while its lease runs by the store's clock.
 * A partition has one owner; it is free when it was released or when its owner's lease has lapsed. Taking it begins
 * a new epoch, after which nothing that its former owner sends is written: that is what makes a stale node harmless,
 * whatever it believes. Adapters: postgres, and a double in memory for the simulator.
 */
import type { MailboxMessage, Ownership, Store } from "./store.ts";

/** How long a node is a member without renewing. */
export const LEASE_MS = 10_000;

/** A node as its lease says. */
export interface MemberNode {
  readonly url: string;
  /** Names one membership: a node whose lease has lapsed comes back as another. */
  readonly incarnation: string;
  readonly leaseUntil: number;
  /** When this incarnation joined. */
  readonly since: number;
  /** The version of events that it reads. */
  readonly reads: number;
}

/** Who is there, and who has what, at one moment of the store's clock. */
export interface Membership {
  /** The store's clock, in whole milliseconds. */
  readonly now: number;
  /** This node's own incarnation, and until when its lease runs. */
  readonly incarnation: string;
  readonly leaseUntil: number;
  /** Nodes whose lease runs, by URL. */
  readonly nodes: readonly MemberNode[];
  /** All partitions, by number; the owner may have lapsed. */
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

/** A store that many nodes share. */
export interface ClusterStore extends Store {
  /** The store's clock, in whole milliseconds. */
  now(): Promise<number>;
  /** Joins, or goes on being a member; after a lapse as a new incarnation, which owns nothing. */
  renew(): Promise<Membership>;
  /**
   * Takes those of the partitions that are free; each begins a new epoch. What is this node's own already is taken
   * anew, so that a call whose answer was lost can be repeated. A node that is no member takes nothing.
   */
  take(partitions: readonly number[]): Promise<readonly Ownership[]>;
  /** Gives back those of the partitions that are this node's own. `clean`: nothing is suspect after it. */
  release(partitions: readonly number[], options: { clean: boolean }): Promise<void>;
  /** Gives back all and is no member any more. */
  leave(options: { clean: boolean }): Promise<void>;
  /** Stores mailbox messages outside of commits: messages to a partition whose owner could not be reached. */
  post(messages: readonly MailboxMessage[]): Promise<void>;
  /** Calls back when another node says that there may be something to do. Hints can be late, repeated or lost. */
  onHint(callback: (hint: Hint) => void): void;
}
