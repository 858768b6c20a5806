/** Notices to the worker that forwards work to queues of a broker. */
import type { ReportPlace } from "../../protocol/work.ts";
import type { Slot } from "../cache/slot.ts";
import type { NodeState } from "../node-state.ts";
import type { HandlerQueue } from "./handler-queue.ts";

/** Withdraws work in broker queues of an execution that is paused, failing or cancelled. */
export function withdrawQueued(node: NodeState, slot: Slot): void {
  const worker = node.roster.queued?.id;
  if (worker === undefined) return;
  const why = slot.execution?.draining === true ? "cancelled" : "paused";
  for (const queue of slot.queues) {
    if (queue.openLeases === 0) continue;
    const isThere = [...queue.leases.values()].some(({ queued }) => queued);
    if (isThere) node.emit({ kind: "withdraw", worker, from: placeOf(slot, queue), why });
  }
}

export function notifyClosed(node: NodeState, slot: Slot, queue: HandlerQueue): void {
  const { queued } = node.roster;
  if (queued === null) return;
  queued.queues.delete(`${slot.id}/${queue.key}`);
  node.emit({ kind: "queue-closed", worker: queued.id, place: placeOf(slot, queue) });
}

function placeOf(slot: Slot, queue: HandlerQueue): ReportPlace {
  const { epoch } = slot.tenure;
  const { round } = queue;
  return { ...queue.place, execution: slot.id, round, epoch };
}
