/**
 * What goes into an `OwnershipNode` and what comes out of it. All times are of the node's own monotonic clock. Of the
 * calls to the store (`renew`, `take`, `release`, `leave`) one is under way at a time, and each has one answer. A call
 * that failed is over: it has had its effect, or never will.
 */
import { LEASE_MS, type MemberNode, type Membership } from "../../store/cluster-store.ts";
import type { Ownership } from "../../store/store.ts";

export type OwnershipInput =
  /** The answer of `renew`, with the time when it was asked: the lease runs from then on at the earliest. */
  | { readonly kind: "membership"; readonly membership: Membership; readonly askedAt: number }
  /** The answer of `take`. */
  | { readonly kind: "taken"; readonly owned: readonly Ownership[] }
  /** The answer of `release`. */
  | { readonly kind: "released" }
  /** The answer of `leave`. */
  | { readonly kind: "has-left" }
  /** The call under way failed; nobody knows whether it had its effect. */
  | { readonly kind: "call-failed" }
  /** The engine has nothing under way any more in the partitions of this `yield`, and has left what is to be left. */
  | { readonly kind: "yielded"; readonly yield: number }
  /** The engine could not, or not cleanly: they go as they are. */
  | { readonly kind: "yield-failed"; readonly yield: number }
  /** A write of the engine was refused: these partitions are somebody else's, or in another state than it thinks. */
  | { readonly kind: "fenced"; readonly partitions: readonly number[] }
  /** The engine found what it cannot read there: a newer node is to have them, if there is one. */
  | { readonly kind: "unreadable"; readonly partitions: readonly number[] }
  /** Nodes or partitions may have moved. */
  | { readonly kind: "hinted" }
  /** Hand everything over and be gone. */
  | { readonly kind: "leave" }
  | { readonly kind: "tick" };

export type OwnershipOutput =
  | { readonly kind: "renew" }
  | { readonly kind: "take"; readonly partitions: readonly number[] }
  | { readonly kind: "release"; readonly partitions: readonly number[]; readonly clean: boolean }
  /** Gives back the rest, not clean, and ends the membership. */
  | { readonly kind: "leave" }
  /** The engine is to let these go, and to say `yielded` with this number. */
  | { readonly kind: "yield"; readonly yield: number; readonly partitions: readonly number[] }
  | { readonly kind: "engine-taken"; readonly owned: readonly Ownership[] }
  /** The engine is to drop these at once, and write nothing. */
  | { readonly kind: "engine-lost"; readonly partitions: readonly number[]; readonly why: string }
  /** The node's lease runs from now on; it does not any more, for all that the node can know. */
  | { readonly kind: "may-grant" }
  | { readonly kind: "stop-granting" }
  /** The last word: everything was given back, or is not this node's any more. */
  | { readonly kind: "left" };

/** How a node stands in its cluster, for display. */
export interface OwnershipView {
  /** `joining`: its lease does not run, or is in doubt. */
  readonly status: "joining" | "member" | "leaving" | "left";
  readonly incarnation: string | null;
  /** Until when it may act, by its own monotonic clock. */
  readonly mayActUntil: number;
  /** Members as of the last renewal, and since when they are the same. */
  readonly nodes: readonly MemberNode[];
  readonly stableSince: number;
  readonly owned: readonly { readonly partition: number; readonly epoch: number }[];
  /** Of these, those that are being handed over. */
  readonly yielding: readonly number[];
  /** Where each partition belongs, and who had it as of the last renewal, by URL. */
  readonly places: readonly string[];
  readonly owners: readonly (string | null)[];
}

/** The numbers that ownership runs by. */
export interface OwnershipSettings {
  readonly renewMs: number;
  /** How much of a lease counts: clocks may differ in speed by the rest. */
  readonly leaseShare: number;
  /** How long members must have been the same before a partition is moved for the sake of its place. */
  readonly stableMs: number;
  /** How many partitions are handed over at a time. */
  readonly yieldMax: number;
  /** A partition that nobody has had for so long is taken by whoever sees it, wherever it belongs. */
  readonly orphanMs: number;
  /** How long it is kept then, unless members change. */
  readonly orphanKeepMs: number;
  /** Hints make a node renew no sooner than this after the last time. */
  readonly hintGapMs: number;
}

export const OWNERSHIP_SETTINGS: OwnershipSettings = {
  renewMs: 3_000,
  leaseShare: 0.95,
  stableMs: 10_000,
  yieldMax: 32,
  orphanMs: 15_000,
  orphanKeepMs: 300_000,
  hintGapMs: 100,
};

/** The numbers for a lease of another length: what is waited for is in proportion to it. */
export function settingsForLease(leaseMs: number): Partial<OwnershipSettings> {
  const { renewMs, stableMs, orphanMs } = OWNERSHIP_SETTINGS;
  const share = leaseMs / LEASE_MS;
  return { renewMs: renewMs * share, stableMs: stableMs * share, orphanMs: orphanMs * share };
}
