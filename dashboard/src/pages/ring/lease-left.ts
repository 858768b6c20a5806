import { useRef } from "preact/hooks";
import { useNow } from "../../core/now.ts";

/** What is left of a lease: how long, which share of the longest that was seen, and whether renewals are missed. */
export interface LeaseLeft {
  readonly ms: number;
  readonly share: number;
  /**
   * A lease is renewed after a third of its length, and what the node that is asked knows of it is as old at most: below a
   * third, a renewal was missed.
   */
  readonly tone: "ok" | "warn" | "bad";
}

/** Of a lease until then, counted down every second; null: there is none. */
export function useLeaseLeft(until: number | null): LeaseLeft | null {
  const now = useNow();
  const longest = useRef(1);
  if (until === null) return null;
  const ms = Math.max(0, until - now);
  longest.current = Math.max(longest.current, ms);
  const share = ms / longest.current;
  return { ms, share, tone: share > 0.33 ? "ok" : share > 0.15 ? "warn" : "bad" };
}
