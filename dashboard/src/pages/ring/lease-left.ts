import { useRef } from "preact/hooks";
import { useNow } from "../../core/now.ts";

/** The rest of a lease: its time, its share of the longest one that was seen, and whether renewals are missing. */
export interface LeaseLeft {
  readonly ms: number;
  readonly share: number;
  /**
   * The colour of the rest. A lease is renewed after a third of its length, and the asked node's knowledge is at most as old,
   * so below a third a renewal was missed.
   */
  readonly tone: "ok" | "warn" | "bad";
}

/** The rest of a lease that ends at `until`, counted down every second; null if there is none. */
export function useLeaseLeft(until: number | null): LeaseLeft | null {
  const now = useNow();
  const longest = useRef(1);
  if (until === null) return null;
  const ms = Math.max(0, until - now);
  longest.current = Math.max(longest.current, ms);
  const share = ms / longest.current;
  return { ms, share, tone: share > 0.33 ? "ok" : share > 0.15 ? "warn" : "bad" };
}
