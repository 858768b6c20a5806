/** Sweeps the leases of remote workers: claims that never started are requeued, and silent attempts are declared lost. */
import type { Slot } from "../cache/slot.ts";
import type { HandlerQueue } from "../dispatch/handler-queue.ts";
import type { NodeState } from "../node-state.ts";
import { ENUMERATION, type Lease } from "./lease.ts";
import { recordConfirmed, requestStop } from "./report-intake.ts";

/**
 * Checks all leases of remote workers. Returns the executions whose claims have lapsed, or null if there are no leases of remote
 * workers.
 */
export function sweepLeases(node: NodeState): Slot[] | null {
  let isWatching = false;
  const lapsed: Slot[] = [];
  for (const slot of node.slots.values()) {
    for (const queue of slot.queues) {
      const silent: Lease[] = [];
      const asked: Lease[] = [];
      for (const lease of queue.leases.values()) {
        if (lease.local || lease.reported || lease.queued) continue;
        isWatching = true;
        if (lease.until > node.now) continue;
        // @plant lost before its worker is asked
        const canAsk =
          lease.startedAt > 0 && !lease.asked && node.roster.workers.get(lease.worker)?.canBeAsked === true;
        (canAsk ? asked : silent).push(lease);
      }
      if (asked.length > 0) ask(node, slot, queue, asked);
      if (silent.length > 0) lose(node, slot, queue, silent);
      if (silent.some((lease) => lease.startedAt === 0)) lapsed.push(slot);
    }
  }
  return isWatching ? lapsed : null;
}

/** Extends all leases by the time by which the clock was set forward, since workers were not silent in that time. */
export function extendLeases(node: NodeState, ms: number): void {
  node.tenures.extend(ms);
  for (const [execution, { handlers, droppedAt, until }] of node.suspects)
    node.suspects.set(execution, {
      handlers,
      droppedAt: droppedAt === null ? null : droppedAt + ms,
      until: until + ms,
    });
  for (const slot of node.slots.values()) {
    if (slot.droppedAt !== null) slot.droppedAt += ms;
    for (const queue of slot.queues) {
      for (const lease of queue.leases.values()) {
        lease.until += ms;
        lease.dueAt += ms;
        if (lease.confirmBy !== undefined) lease.confirmBy += ms;
      }
      if (queue.suspectUntil > 0) queue.suspectUntil += ms;
      if (queue.lostAt > 0) queue.lostAt += ms;
      queue.adoptable = queue.adoptable.map(({ epoch, at }) => ({ epoch, at: at + ms }));
    }
  }
}

/** Asks workers about silent attempts before these are declared lost. The question extends each lease once. */
function ask(node: NodeState, slot: Slot, queue: HandlerQueue, silent: readonly Lease[]): void {
  const place = queue.placeIn(slot.id);
  for (const lease of silent) {
    lease.asked = true;
    lease.until = node.now + node.settings.askMs;
    const { task, attempt, claim, epoch, worker } = lease;
    node.emit({
      kind: "ask-worker",
      worker,
      attempts: [{ ...place, epoch, attempts: [{ task, attempt, claim }] }],
    });
  }
}

/**
 * Declares adopted attempts lost that the quota servers of their limits have not confirmed in time. From now on, those servers may
 * grant the permits to other nodes.
 */
export function loseUnconfirmed(node: NodeState, slot: Slot, queue: HandlerQueue): void {
  if (node.unconfirmed.size === 0) return;
  recordConfirmed(node);
  const late = [...queue.leases.values()].filter(
    ({ confirmBy, reported }) => confirmBy !== undefined && !reported && confirmBy <= node.now,
  );
  for (const lease of late) {
    node.unconfirmed.delete(lease);
    lease.confirmBy = undefined;
  }
  if (late.length > 0) lose(node, slot, queue, late);
}

function lose(node: NodeState, slot: Slot, queue: HandlerQueue, silent: readonly Lease[]): void {
  const place = { ...queue.place, round: queue.visit.round };
  const lost: Lease[] = [];
  for (const lease of silent) {
    // Makes the sweeper ignore the lease from now on, because its claim has ended or its loss is being journaled.
    lease.until = Number.POSITIVE_INFINITY;
    if (lease.startedAt === 0) {
      requestStop(node, slot, { queue, lease }, "lost");
      node.lapse(slot, queue, lease);
    } else if (lease.task === ENUMERATION) {
      node.enqueueMessage(slot, {
        kind: "enumeration.lost",
        ...place,
        attempt: lease.attempt,
        worker: lease.worker,
      });
    } else lost.push(lease);
  }
  if (lost.length === 0) return;
  const attempts = lost.map(({ task, attempt, worker }) => ({ task, attempt, worker }));
  node.enqueueMessage(slot, { kind: "lost", ...place, attempts });
}
