/** The sweep: claims that never started go back; attempts that went silent are lost. */

import type { Slot } from "../cache/slot.ts";
import type { HandlerQueue } from "../dispatch/handler-queue.ts";
import type { NodeState } from "../node-state.ts";
import { ENUMERATION, type Lease } from "./lease.ts";
import { requestStop } from "./report-intake.ts";

/** Looks at all leases of remote workers; gives the executions whose claims lapsed, null if there are no such leases. */
export function sweepLeases(node: NodeState): Slot[] | null {
  let isWatching = false;
  const lapsed: Slot[] = [];
  for (const slot of node.slots.values()) {
    for (const desk of slot.desks) {
      const silent: Lease[] = [];
      const asked: Lease[] = [];
      for (const lease of desk.leases.values()) {
        if (lease.local || lease.reported || lease.queued) continue;
        isWatching = true;
        if (lease.until > node.now) continue;
        // @plant lost before its worker is asked
        const canAsk =
          lease.startedAt > 0 && !lease.asked && node.roster.workers.get(lease.worker)?.canBeAsked === true;
        (canAsk ? asked : silent).push(lease);
      }
      if (asked.length > 0) ask(node, slot, desk, asked);
      if (silent.length > 0) lose(node, slot, desk, silent);
      if (silent.some((lease) => lease.startedAt === 0)) lapsed.push(slot);
    }
  }
  return isWatching ? lapsed : null;
}

/** Whoever was heard of in time has as much of it left as before the clock was set forward. */
export function extendLeases(node: NodeState, ms: number): void {
  node.tenures.extend(ms);
  for (const slot of node.slots.values()) {
    for (const desk of slot.desks) {
      for (const lease of desk.leases.values()) {
        lease.until += ms;
        lease.dueAt += ms;
      }
      if (desk.suspectUntil > 0) desk.suspectUntil += ms;
      if (desk.lostAt > 0) desk.lostAt += ms;
    }
  }
}

/** Before the verdict the workers are asked; that gives the attempts a little time, once. */
function ask(node: NodeState, slot: Slot, desk: HandlerQueue, silent: readonly Lease[]): void {
  const place = { ...desk.visit.place(desk.state.plan.name), execution: slot.id, round: desk.visit.round };
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
 * Adopted attempts that the homes of their limits have not confirmed in time are lost: from now on the homes give the
 * permits of their first owner to others.
 */
export function loseUnconfirmed(node: NodeState, slot: Slot, desk: HandlerQueue): void {
  if (node.unconfirmed.size === 0 || desk.suspectUntil > node.now) return;
  const late = [...desk.leases.values()].filter((lease) => lease.isUnconfirmed === true && !lease.reported);
  for (const lease of late) node.unconfirmed.delete(lease);
  if (late.length > 0) lose(node, slot, desk, late);
}

function lose(node: NodeState, slot: Slot, desk: HandlerQueue, silent: readonly Lease[]): void {
  const place = { ...desk.visit.place(desk.state.plan.name), round: desk.visit.round };
  const lost: Lease[] = [];
  for (const lease of silent) {
    // From now on it is not looked at again: its claim is over, or its loss is on the way to the journal.
    lease.until = Number.POSITIVE_INFINITY;
    if (lease.startedAt === 0) {
      requestStop(node, slot, { desk, lease }, "lost");
      node.lapse(slot, desk, lease);
    } else if (lease.task === ENUMERATION) {
      node.enqueue(slot, {
        kind: "message",
        message: { kind: "enumeration.lost", ...place, attempt: lease.attempt, worker: lease.worker },
        request: null,
      });
    } else lost.push(lease);
  }
  if (lost.length === 0) return;
  const attempts = lost.map(({ task, attempt, worker }) => ({ task, attempt, worker }));
  node.enqueue(slot, { kind: "message", message: { kind: "lost", ...place, attempts }, request: null });
}
