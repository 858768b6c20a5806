import type { Clock } from "../../std/clock.ts";
import type { EngineNode } from "../node.ts";

/** The time for a node. It is told first if the clock was set forward: that is no silence of anybody's. */
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
