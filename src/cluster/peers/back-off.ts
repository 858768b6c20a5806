import type { Random } from "../../std/random.ts";

const MIN_MS = 50;
const MAX_MS = 1_000;

/** How long to wait before a node is asked again, after so many times in vain: from 50 ms to 1 s, with jitter. */
export function backOffMs(tries: number, random: Random): number {
  const most = Math.min(MAX_MS, MIN_MS * 2 ** Math.min(tries, 10));
  return Math.round(most * (0.5 + random.u32() / 8_589_934_592));
}
