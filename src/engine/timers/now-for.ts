import type { Clock } from "../../std/clock.ts";
import type { EngineNode } from "../node.ts";

/**
 * The current time for a node. If the clock was set forward, the node is notified first: that time is not silence of workers.
 */
export function nowFor(node: EngineNode, clock: Clock): () => number {
  let seen = clock.stepped?.() ?? 0;
  return () => {
    const now = clock.now();
    const ms = (clock.stepped?.() ?? 0) - seen;
    if (ms > 0) {
      seen += ms;
      node.input({ kind: "clock-stepped", ms }, now);
    }
    return now;
  };
}
