/** Inputs and outputs of an `OwnershipNode`, by the node's monotonic clock. One call to the store is under way at a time. */
import { LEASE_MS, type MemberNode, type Membership } from "../../store/cluster-store.ts";
import type { Ownership } from "../../store/store.ts";

export type OwnershipInput =
  /** The answer to `renew`, with the time at which the request was sent. The lease does not begin before that time. */
  | { readonly kind: "membership"; readonly membership: Membership; readonly askedAt: number }
  | { readonly kind: "taken"; readonly owned: readonly Ownership[] }
  | { readonly kind: "released" }
  | { readonly kind: "has-left" }
  /** A call to the store failed. The store may or may not have carried it out. */
  | { readonly kind: "call-failed" }
  /** The engine has stopped serving the partitions of the `yield` with this number, and has written everything for the next owner. */
  | { readonly kind: "yielded"; readonly yield: number }
  /** The engine could not hand over the partitions cleanly, so they are released as unclean. */
  | { readonly kind: "yield-failed"; readonly yield: number }
  /** The store refused a write of the engine, because another node owns these partitions or their state differs. */
  | { readonly kind: "fenced"; readonly partitions: readonly number[] }
  /** The engine found data in these partitions that it cannot read. A node of a newer version should own them. */
  | { readonly kind: "unreadable"; readonly partitions: readonly number[] }
  /** A hint arrived that members or owners may have changed. */
  | { readonly kind: "hinted" }
  /** A request to hand over all partitions and leave the cluster. */
  | { readonly kind: "leave" }
  | { readonly kind: "tick" };

export type OwnershipOutput =
  | { readonly kind: "renew" }
  | { readonly kind: "take"; readonly partitions: readonly number[] }
  | { readonly kind: "release"; readonly partitions: readonly number[]; readonly clean: boolean }
  /** Releases the remaining partitions as unclean and ends the membership. */
  | { readonly kind: "leave" }
  /** The engine must stop serving these partitions and answer `yielded` with this number. */
  | { readonly kind: "yield"; readonly yield: number; readonly partitions: readonly number[] }
  | { readonly kind: "engine-taken"; readonly owned: readonly Ownership[] }
  /** The engine must drop these partitions at once, without a write. */
  | { readonly kind: "engine-lost"; readonly partitions: readonly number[]; readonly why: string }
  /** `may-grant`: the node's lease has begun. `stop-granting`: the node's lease may have ended. */
  | { readonly kind: "may-grant" }
  | { readonly kind: "stop-granting" }
  /** The node has left: it owns no partition any more. */
  | { readonly kind: "left" };

export interface OwnershipView {
  /** The status of the node; `joining` means that the lease has not begun, or may have ended. */
  readonly status: "joining" | "member" | "leaving" | "left";
  readonly incarnation: string | null;
  /** Until when the node may act as an owner, by its own monotonic clock. */
  readonly mayActUntil: number;
  /** The members of the cluster as of the last renewal, and since when they are unchanged. */
  readonly nodes: readonly MemberNode[];
  readonly stableSince: number;
  readonly owned: readonly { readonly partition: number; readonly epoch: number }[];
  /** The partitions that the node is handing over. */
  readonly yielding: readonly number[];
  /** For each partition: the URL of the node to which it is assigned, and the URL of its owner as of the last renewal. */
  readonly places: readonly string[];
  readonly owners: readonly (string | null)[];
}

export interface OwnershipSettings {
  readonly renewMs: number;
  /** The share of a lease during which the node acts as an owner. The rest is a margin for clocks of different speed. */
  readonly leaseShare: number;
  /** How long the members must be unchanged before a partition moves to the node that it is assigned to. */
  readonly stableMs: number;
  /** The most partitions that are handed over at the same time. */
  readonly yieldMax: number;
  /** After this time without an owner, any node may take a partition, even if it is assigned to another node. */
  readonly orphanMs: number;
  /** How long a node keeps a partition that it took although it is assigned to another node, unless the members change. */
  readonly orphanKeepMs: number;
  /** The shortest time between two renewals of the lease that are caused by hints. */
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

/** Makes the settings for a lease of another length; all waits are in proportion to it. */
export function settingsForLease(leaseMs: number): Partial<OwnershipSettings> {
  const { renewMs, stableMs, orphanMs } = OWNERSHIP_SETTINGS;
  const share = leaseMs / LEASE_MS;
  return { renewMs: renewMs * share, stableMs: stableMs * share, orphanMs: orphanMs * share };
}
