/**
 * The invariants of limits after each turn of a node: held permits belong to open attempts, and nothing waits at a limit
 * that has room.
 */
import type { NodeState } from "../node-state.ts";

/** The violated invariant; null: all hold. */
export function brokenLimit(node: NodeState): string | null {
  const held = new Map<string, number>();
  const count = (permits: readonly string[]) => {
    for (const permit of permits) held.set(permit, (held.get(permit) ?? 0) + 1);
  };
  for (const slot of node.slots.values())
    for (const queue of slot.allQueues) for (const lease of queue.leases.values()) count(lease.permits);
  for (const leases of node.handedOver.values()) for (const { permits } of leases) count(permits);
  for (const name of node.limits.leaving()) count([name]);
  for (const [name, limit] of node.limits.states()) {
    const attempts = held.get(name) ?? 0;
    if (limit.window === null && limit.held !== attempts)
      return `limit ${name}: ${limit.held} permits are held, and ${attempts} attempts are open`;
    if (limit.queue.size > 0 && !node.closing && node.limits.hasRoom(name, node.now))
      return `limit ${name}: ${limit.queue.size} wait, and there is room`;
  }
  return null;
}
