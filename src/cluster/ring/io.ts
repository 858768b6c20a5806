/**
 * What goes into a ring node and what comes out of it: the contract between the deterministic machine and its driver.
 * What is asked for carries a number, and the answer repeats it.
 */
import type { Membership } from "../../store/cluster-store.ts";
import type { StoredTimer } from "../../store/store.ts";
import type { RingState } from "./ring-map.ts";
import type { NotedDeath } from "./suspects.ts";
import type { MailHint, TimerName, Token } from "./token.ts";
import type { Lateness, TimerScan } from "./watch.ts";

export type RingInput =
  /** The store was read, for whatever reason. */
  | { readonly kind: "members"; readonly membership: Membership }
  /** All partitions that this node has. */
  | { readonly kind: "owned"; readonly partitions: readonly number[] }
  /** This node put letters into the inbox of a partition. */
  | ({ readonly kind: "hint" } & MailHint)
  /** Commits of this node set these timers. */
  | { readonly kind: "timers-set"; readonly timers: readonly StoredTimer[] }
  /** Commits of this node fired or cleared these timers; `due` is when each would have been. */
  | { readonly kind: "timers-ended"; readonly timers: readonly StoredTimer[] }
  | { readonly kind: "token"; readonly from: string; readonly token: Token }
  | { readonly kind: "token-posted"; readonly post: number }
  | { readonly kind: "token-failed"; readonly post: number }
  /** The full state that was asked for; null: there was no answer. */
  | { readonly kind: "state"; readonly ask: number; readonly state: RingState | null }
  /** null: the scan failed. */
  | { readonly kind: "timers-scanned"; readonly timers: readonly StoredTimer[] | null }
  /** The owner was told that these are due, and answered that they are over. */
  | { readonly kind: "timers-over"; readonly timers: readonly TimerName[] }
  /** This node is about to stop. */
  | { readonly kind: "leaving" };

export type RingOutput =
  | { readonly kind: "post-token"; readonly post: number; readonly to: string; readonly token: Token }
  | { readonly kind: "ask-state"; readonly ask: number; readonly to: string }
  /** The ring noticed something that the store may know already. */
  | { readonly kind: "read-members"; readonly why: string }
  /** There are letters in these partitions of this node. */
  | { readonly kind: "scan-mailbox"; readonly partitions: readonly number[] }
  | ({ readonly kind: "scan-timers" } & TimerScan)
  /** Timers past due, to be told to the owner of their partitions; null: it is not known. */
  | { readonly kind: "timer-due"; readonly to: string | null; readonly timers: readonly StoredTimer[] };

/** A ring as one node sees it. */
export interface RingView {
  readonly url: string;
  readonly hash: string;
  /** In order. */
  readonly nodes: readonly {
    readonly url: string;
    readonly incarnation: string;
    readonly partitions: number;
    /** Hash of its map as it was last heard; null: not heard yet. */
    readonly hash: string | null;
    readonly agrees: boolean;
    readonly suspect: boolean;
    /** When its lease ends if it does not renew it, as the store last said; null: not known. */
    readonly leaseUntil: number | null;
    /** Who watches its timers. */
    readonly clockworkers: readonly string[];
  }[];
  readonly token: {
    readonly epoch: number;
    readonly number: number;
    readonly maker: string;
    readonly members: readonly string[];
    /** Who has it, as far as is known here. */
    readonly at: string;
    readonly seenAt: number;
  } | null;
  readonly cycle: {
    readonly count: number;
    readonly lastMs: number | null;
    readonly averageMs: number | null;
  };
  /** Tokens that were made anew here, and those that came and were old. */
  readonly made: number;
  readonly dropped: number;
  /** Waiting for the token to come: partitions with hints, words on timers. */
  readonly queued: { readonly hints: number; readonly timers: number };
  /** What was aboard when the token was last here. */
  readonly carried: { readonly hints: number; readonly timers: number };
  readonly watch: {
    /** Executors whose timers are watched here. */
    readonly executors: readonly string[];
    readonly partitions: number;
    readonly timers: number;
    readonly lateness: Lateness;
  };
  readonly deaths: readonly NotedDeath[];
}
