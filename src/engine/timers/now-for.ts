import type { Clock } from "../../std/clock.ts";
import type { EngineNode } from "../node.ts";

/** The time for a node, which is told first if the clock was set forward: that is not silence of workers. */
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
