/** Grants that wait for a commit: after an unclean stop, what may have run before starts only once that is journaled. */
import type { GrantItem } from "../../protocol/work.ts";
import type { HeldGrant, Slot } from "../cache/slot.ts";
import { mayBegin, noteBegun } from "../limits/permits.ts";
import type { NodeState } from "../node-state.ts";
import { ENUMERATION } from "./lease.ts";

/** The grant goes out, as far as its leases still stand; the rest is taken back. */
export function giveHeld(node: NodeState, slot: Slot, held: HeldGrant, isCommitted: boolean): void {
  const { worker, grant } = held;
  const queue = slot.handlerQueue(grant);
  if (queue === undefined) return;
  // Whoever leaves gives out nothing more: the next owner would wait for what its worker may not get.
  const mayGive = !node.closing && !slot.tenure.isYielding && slot.execution?.open === true;
  const isThere = isCommitted && mayGive && node.roster.workers.has(worker);
  const items: GrantItem[] = [];
  for (const item of grant.items) {
    const { number, attempt, claim } = item;
    const lease = queue.leases.get(number);
    if (lease === undefined || lease.attempt !== attempt || lease.claim !== claim) continue;
    const isRecorded = number === ENUMERATION || queue.state.tasks.startOf(number)?.attempt === attempt;
    // Under a rate it starts now, and not when it was taken.
    if (isThere && isRecorded && mayBegin(node, slot, queue, lease)) {
      noteBegun(node, slot, queue, lease);
      items.push(item);
    } else {
      node.endLease(queue, lease);
      if (number !== ENUMERATION) queue.giveBack(number);
    }
  }
  if (items.length > 0) node.emit({ kind: "grant", worker, grant: { ...grant, items } });
}
