/**
 * The invariants of limits after each turn of a node: held permits belong to open attempts, and nothing waits at a limit
 * that has room.
 */
import type { Lease } from "../../../src/engine/leases/lease.ts";
import { waitersAt } from "../../../src/engine/limits/limits.ts";
import type { NodeState } from "../../../src/engine/node-state.ts";

/** The violated invariant; null: all hold. */
export function brokenLimit(node: NodeState): string | null {
  const held = new Map<string, number>();
  const count = (permits: readonly string[]) => {
    for (const permit of permits) held.set(permit, (held.get(permit) ?? 0) + 1);
  };
  for (const slot of node.slots.values())
    for (const queue of slot.allQueues) for (const lease of queue.leases.values()) count(lease.permits);
  for (const leases of node.handedOver.values()) for (const { permits } of leases) count(permits);
  for (const { permits, isEnded } of node.unconfirmed.keys()) if (isEnded === true) count(permits);
  for (const name of node.limits.leaving()) count([name]);
  for (const [name, limit] of node.limits.states()) {
    const attempts = held.get(name) ?? 0;
    if (limit.window === null && limit.held !== attempts)
      return `limit ${name}: ${limit.held} permits are held, and ${attempts} attempts are open`;
    if (waitersAt(limit) > 0 && !node.closing && node.limits.hasRoom(name, node.now))
      return `limit ${name}: ${waitersAt(limit)} wait, and there is room`;
  }
  return null;
}

/** The number of open attempts under each limit, in the given executions. */
export function openUnder(
  { slots, limits }: NodeState,
  isOf: (execution: string) => boolean,
): Map<string, { open: number; max: number }> {
  const under = new Map<string, { open: number; max: number }>();
  for (const slot of slots.values()) {
    if (slot.tenure.isOver || !isOf(slot.id)) continue;
    for (const queue of slot.allQueues)
      for (const { permits, reported } of queue.leases.values()) {
        if (reported) continue;
        for (const name of permits) {
          const { max = Number.POSITIVE_INFINITY } = limits.find(name) ?? {};
          under.set(name, { open: (under.get(name)?.open ?? 0) + 1, max });
        }
      }
  }
  return under;
}

/** Adoptions are noticed after the turn in which they happen. */
const SLACK_MS = 100;

/**
 * Why an attempt must not have been adopted now: its start says which owner held it last, and its permits came back a heartbeat
 * after the end of that owner. Null: it may be adopted.
 */
export function lateAdoption(node: NodeState, lease: Lease, execution: string): string | null {
  const slot = node.slots.get(execution);
  const queue = slot?.allQueues.find(({ leases }) => leases.get(lease.task) === lease);
  const start = queue?.state.tasks.startOf(lease.task);
  if (slot === undefined || queue === undefined || start?.epoch === undefined) return null;
  const heldIn = Math.max(start.epoch, lease.epoch);
  const end = slot.tenure.uncleanEnds.find(({ epoch }) => epoch >= heldIn);
  if (end === undefined || start.attempt !== lease.attempt) return null;
  const lateMs = node.now - end.at - Math.max(node.settings.suspectMs, node.heartbeatMs(queue.state.plan));
  return lateMs > SLACK_MS
    ? `${execution}#${lease.task}: adopted ${lateMs} ms after its permits came back`
    : null;
}
