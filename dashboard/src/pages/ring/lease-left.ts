import { useRef } from "preact/hooks";
import type { Ring, RingNode } from "../../api/shapes.ts";
import { useNow } from "../../core/now.ts";

/** The rest of a lease: its time, its share of the longest one that was seen, and whether renewals are missing. */
export interface LeaseLeft {
  readonly ms: number;
  readonly share: number;
  readonly tone: "ok" | "warn" | "bad";
}

/**
 * The rest of a lease that ends at `until`, counted down every second; null if there is none. The page's knowledge is some
 * seconds old, so a short rest alone means nothing: renewals are missing if the node does not answer (`isAway`), or if the
 * lease has ended.
 */
export function useLeaseLeft(until: number | null, isAway: boolean): LeaseLeft | null {
  const now = useNow();
  const longest = useRef(1);
  if (until === null) return null;
  const ms = Math.max(0, until - now);
  longest.current = Math.max(longest.current, ms);
  return { ms, share: ms / longest.current, tone: ms === 0 ? "bad" : isAway ? "warn" : "ok" };
}

/** Whether the node does not answer: this node found out, or another one reported its death. */
export function isSilent({ deaths }: Ring, { suspect, incarnation }: RingNode): boolean {
  return suspect || deaths.some((death) => death.incarnation === incarnation);
}
