/** Executions come into memory: their state from a snapshot and rows, and what a former owner may have left open. */
import type { Execution } from "../kernel/execution.ts";
import { UnknownVersion } from "../kernel/journal-entry.ts";
import type { Plan } from "../kernel/plan.ts";
import { restore } from "../kernel/replay.ts";
import type { LoadedExecution } from "../store/store.ts";
import { takeOver } from "./hand-over.ts";
import type { HandlerDesk } from "./handler-desk.ts";
import type { NodeState } from "./node-state.ts";
import { restoreOutbox } from "./outbox.ts";
import type { Slot } from "./slot.ts";

/** Makes the slot what was loaded; else gives why that cannot be. */
export function restoreSlot(node: NodeState, slot: Slot, loaded: LoadedExecution, plan: Plan): string | null {
  let execution: Execution;
  try {
    const { events: reads, fold } = node.settings.vocabulary;
    const snapshot = loaded.snapshot?.foldVersion === fold ? loaded.snapshot.body : null;
    execution = restore(slot.id, plan, { snapshot, entries: loaded.entries, reads });
  } catch (thrown) {
    if (!(thrown instanceof UnknownVersion)) throw thrown;
    return thrown.message;
  }
  node.declareRestored(plan, execution);
  slot.execution = execution;
  slot.wasLoaded = true;
  slot.chain = loaded.chain;
  slot.opened = { ...loaded.opened };
  if (node.settings.outbox) restoreOutbox(slot);
  slot.rowsSinceSnapshot = loaded.entries.length;
  slot.want = loaded.head.want;
  slot.storedWant = loaded.head.want;
  slot.headKey = `${loaded.head.status}/${loaded.head.phase}/${loaded.head.want}`;
  // Whether a retry row exists is not known; the next commit sets it right.
  const mayHaveRow = loaded.head.want === "time" || execution.postops.size > 0 || execution.draining;
  slot.retryRow = mayHaveRow ? -1 : 0;
  slot.refreshDesks();
  for (const desk of slot.desks)
    desk.carefulBelow = Math.max(desk.carefulBelow, slot.opened[carefulMark(desk)] ?? 0);
  const suspects = node.suspects.get(slot.id);
  node.suspects.delete(slot.id);
  if (suspects !== undefined || loaded.epoch <= slot.tenure.uncleanEpoch) suspect(node, slot, suspects);
  takeOver(node, slot);
  return null;
}

/** Leases of a former owner may be open: recorded starts are lost, the rest starts carefully, after the wait. */
function suspect(node: NodeState, slot: Slot, handlers?: readonly string[]): void {
  const { settings } = node;
  const { openedAt } = slot.tenure;
  slot.suspect = true;
  for (const desk of slot.desks) {
    if (desk.state.finished || desk.state.plan.waits) continue;
    const isChildren = desk.state.plan.mode === "workflow" && desk.state.plan.enumerateUse === null;
    if (!isChildren) {
      desk.carefulBelow = Math.max(desk.carefulBelow, desk.offeredEnd);
      slot.carefulMarks[carefulMark(desk)] = desk.carefulBelow;
    }
    // The others were judged before it was let go of, be it without a commit that says how careful to be.
    if (handlers !== undefined && !handlers.includes(desk.key)) {
      desk.suspectsJudged = true;
      continue;
    }
    if (isChildren) continue;
    if (settings.suspectMs > 0)
      // From the opening on: whoever has been silent for so long since then is lost, however late it is loaded.
      desk.suspectUntil = openedAt + Math.max(settings.suspectMs, node.heartbeatMs(desk.state.plan));
  }
}

/** The mark that keeps tasks careful beyond the epoch after an unclean stop. */
function carefulMark(desk: HandlerDesk): string {
  return `${desk.markName}?`;
}
