import type { Clock } from "../../std/clock.ts";
import type { EngineNode } from "../node.ts";

/**
 * Returns a function that gives the current time to a node. If the clock was set forward, it first notifies the node, so that the
 * skipped time does not count as silence of workers.
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
