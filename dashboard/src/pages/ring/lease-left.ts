import { useRef } from "preact/hooks";
import { useNow } from "../../core/now.ts";

/** What is left of a lease: how long, which share of the longest that was seen, and whether renewals are missed. */
export interface LeaseLeft {
  readonly ms: number;
  readonly share: number;
  /** Renewed three times in its length: below half of it, one was missed. */
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
  return { ms, share, tone: share > 0.5 ? "ok" : share > 0.25 ? "warn" : "bad" };
}
