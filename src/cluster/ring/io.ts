/** Inputs and outputs of a ring node. Each request has a number, and its answer has the same number. */
import type { Membership } from "../../store/cluster-store.ts";
import type { StoredTimer } from "../../store/store.ts";
import type { RingState } from "./ring-map.ts";
import type { NotedDeath } from "./suspects.ts";
import type { MailHint, TimerName, Token } from "./token.ts";
import type { Lateness, TimerScan } from "./watch.ts";

export type RingInput =
  | { readonly kind: "members"; readonly membership: Membership }
  | { readonly kind: "owned"; readonly partitions: readonly number[] }
  /** This node has stored mail for a partition. */
  | ({ readonly kind: "hint" } & MailHint)
  | { readonly kind: "timers-set"; readonly timers: readonly StoredTimer[] }
  /** Commits of this node have fired or cleared these timers. `due` is the time for which each timer was set. */
  | { readonly kind: "timers-ended"; readonly timers: readonly StoredTimer[] }
  | { readonly kind: "token"; readonly from: string; readonly token: Token }
  | { readonly kind: "token-posted"; readonly post: number }
  | { readonly kind: "token-failed"; readonly post: number }
  /** The full state of another node; null if it did not answer. */
  | { readonly kind: "state"; readonly ask: number; readonly state: RingState | null }
  /** The scanned timers; null if the scan failed. */
  | { readonly kind: "timers-scanned"; readonly timers: readonly StoredTimer[] | null }
  /** The owner has answered that these timers are no longer set. */
  | { readonly kind: "timers-over"; readonly timers: readonly TimerName[] }
  /** This node is about to stop. */
  | { readonly kind: "leaving" };

export type RingOutput =
  | { readonly kind: "post-token"; readonly post: number; readonly to: string; readonly token: Token }
  | { readonly kind: "ask-state"; readonly ask: number; readonly to: string }
  /** Asks for the members to be read from the store: the ring noticed a change that the store may know already. */
  | { readonly kind: "read-members"; readonly why: string }
  /** There is mail in these partitions of this node. */
  | { readonly kind: "scan-mailbox"; readonly partitions: readonly number[] }
  | ({ readonly kind: "scan-timers" } & TimerScan)
  /** A notice about overdue timers, for the owner of their partitions; null if the owner is not known. */
  | { readonly kind: "timer-due"; readonly to: string | null; readonly timers: readonly StoredTimer[] };

export interface RingView {
  readonly url: string;
  readonly hash: string;
  /** The nodes of the cluster, in the order of the ring. */
  readonly nodes: readonly {
    readonly url: string;
    readonly incarnation: string;
    readonly partitions: number;
    /** The hash of the node's map that was received last; null if none was received yet. */
    readonly hash: string | null;
    readonly agrees: boolean;
    readonly suspect: boolean;
    /** When the node's lease ends if it is not renewed, as of the last read of the store; null if that is not known. */
    readonly leaseUntil: number | null;
    /** The nodes that watch the timers of the listed node, itself included. */
    readonly clockworkers: readonly string[];
  }[];
  readonly token: {
    readonly epoch: number;
    readonly number: number;
    readonly maker: string;
    readonly members: readonly string[];
    /** The node that has the token now, as far as this node knows. */
    readonly at: string;
    readonly seenAt: number;
  } | null;
  readonly cycle: {
    readonly count: number;
    readonly lastMs: number | null;
    readonly averageMs: number | null;
  };
  /** The number of tokens that this node made, and the number of outdated tokens that it received. */
  readonly made: number;
  readonly dropped: number;
  /** The number of entries that wait for the token: partitions with hints, and changes of timers. */
  readonly queued: { readonly hints: number; readonly timers: number };
  /** The number of entries in the token when it last passed this node. */
  readonly carried: { readonly hints: number; readonly timers: number };
  readonly watch: {
    readonly executors: readonly string[];
    readonly partitions: number;
    readonly timers: number;
    readonly lateness: Lateness;
  };
  readonly deaths: readonly NotedDeath[];
}
