/** Workers come, ask for work, give claims back, and go. */
import type { Beat } from "../../protocol/work.ts";
import type { Slot } from "../cache/slot.ts";
import type { JoinOptions } from "../io.ts";
import { isSameAttempt } from "../leases/lease.ts";
import { endHold } from "../leases/lease-granter.ts";
import type { NodeState } from "../node-state.ts";
import { RosterEntry } from "./worker-roster.ts";

/** A worker joins, be it again: it holds what it held. */
export function workerJoined(node: NodeState, input: JoinOptions & { readonly worker: string }): void {
  const entry = new RosterEntry(input.worker, input);
  for (const slot of node.slots.values()) {
    for (const queue of slot.allQueues) {
      for (const lease of queue.leases.values()) {
        if (lease.worker !== input.worker || lease.reported) continue;
        entry.held++;
        if (entry.queued) entry.queues.add(`${slot.id}/${queue.key}`);
      }
    }
  }
  workerLeft(node, input.worker);
  node.roster.join(entry);
  offerSingles(node);
}

/** Notes how much a worker asks for; true: what nobody served before may be served now. */
export function workerClaims(
  node: NodeState,
  id: string,
  { max, why }: { readonly max: number; readonly why?: string },
): boolean {
  const worker = node.roster.workers.get(id);
  if (worker === undefined) return false;
  const isNew = worker.fallback && worker.wanted === 0 && max > 0;
  worker.wanted = max;
  worker.why = why ?? null;
  return isNew;
}

/** Claims that nobody has begun are pending again; gives the executions that they were of. */
export function workerReleases(node: NodeState, worker: string, beats: readonly Beat[]): readonly Slot[] {
  const touched = new Set<Slot>();
  for (const beat of beats) {
    const slot = node.slots.get(beat.execution);
    const queue = slot?.handlerQueue(beat);
    if (slot === undefined || queue === undefined || queue.visit.round !== beat.round) continue;
    for (const { task, attempt, claim } of beat.attempts) {
      const lease = queue.leases.get(task);
      if (lease === undefined || lease.reported || lease.worker !== worker) continue;
      if (!isSameAttempt(lease, attempt, claim, beat.epoch)) continue;
      node.lapse(slot, queue, lease);
      touched.add(slot);
    }
  }
  return [...touched];
}

/** A worker goes; true: work that it kept from others, since it enumerates, may be given out now. */
export function workerLeft(node: NodeState, id: string): boolean {
  const worker = node.roster.workers.get(id);
  if (worker !== undefined) endHold(node, worker);
  node.roster.leave(id, node.now);
  const enumerated = worker?.serves.some(({ enumerates }) => enumerates === true) === true;
  if (enumerated) offerSingles(node);
  return enumerated;
}

/** Offers the tasks again that were kept from a worker because it enumerates. */
function offerSingles(node: NodeState): void {
  for (const slot of node.slots.values())
    if (slot.queues.some(({ state }) => state.needsSingleCode)) node.offerAll(slot);
}
