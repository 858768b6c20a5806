/** Purges: executions that are over and not in use are forgotten. A load that is asked for later finds nothing. */
import type { NodeState } from "../node-state.ts";
import type { ExecutionCache } from "./execution-cache.ts";

/** Asks the store to forget these, as far as nothing of them is under way. */
export function purge(node: NodeState, cache: ExecutionCache, ids: readonly string[]): void {
  const free = ids.filter((id) => {
    if (node.tenures.of(id) === undefined) return false;
    const slot = node.slots.get(id);
    if (slot === undefined) return true;
    const isOver = slot.execution?.ended === true && slot.execution.postops.size === 0;
    const isIdle = slot.status === "clean" && slot.queue.length === 0 && isOver;
    if (isIdle) cache.evict(slot);
    return isIdle;
  });
  if (free.length === 0) return;
  cache.purging(free);
  node.emit({ kind: "purge", ids: free });
}
