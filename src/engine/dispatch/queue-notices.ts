/** What a worker that passes work on to queues is told of executions, besides its grants. */
import type { ReportPlace } from "../../protocol/work.ts";
import type { Slot } from "../cache/slot.ts";
import type { NodeState } from "../node-state.ts";
import type { HandlerQueue } from "./handler-queue.ts";

/** Paused, failing or cancelled: what waits in queues is not to begin. */
export function withdrawQueued(node: NodeState, slot: Slot): void {
  const worker = node.roster.queued?.id;
  if (worker === undefined) return;
  const why = slot.execution?.draining === true ? "cancelled" : "paused";
  for (const desk of slot.desks) {
    if (desk.openLeases === 0) continue;
    const isThere = [...desk.leases.values()].some(({ queued }) => queued);
    if (isThere) node.emit({ kind: "withdraw", worker, from: placeOf(slot, desk), why });
  }
}

/** The visit of a handler is over. */
export function notifyClosed(node: NodeState, slot: Slot, desk: HandlerQueue): void {
  const { queued } = node.roster;
  if (queued === null) return;
  queued.desks.delete(`${slot.id}/${desk.key}`);
  node.emit({ kind: "desk-closed", worker: queued.id, desk: placeOf(slot, desk) });
}

function placeOf(slot: Slot, desk: HandlerQueue): ReportPlace {
  const { epoch } = slot.tenure;
  const { round } = desk;
  return { ...desk.visit.place(desk.state.plan.name), execution: slot.id, round, epoch };
}
