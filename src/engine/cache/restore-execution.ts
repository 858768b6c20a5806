/** Restores a slot from the store: its state from a snapshot and rows, and leases that a former owner left open. */
import type { Plan } from "../../kernel/definition/plan.ts";
import { Execution } from "../../kernel/execution.ts";
import { type Damage, DamagedData, damageOf, WRONG_CHECKSUM } from "../../kernel/journal/damage.ts";
import { charsIn, decodeEntry, UnknownVersion } from "../../kernel/journal/journal-entry.ts";
import { replay } from "../../kernel/journal/replay.ts";
import { readSnapshot, snapshotKey } from "../../kernel/journal/snapshot.ts";
import { sealState } from "../../std/seal.ts";
import { DAMAGED, type LoadedExecution, type StoredHead } from "../../store/store.ts";
import { headKeyOf } from "../commit/execution-write.ts";
import type { HandlerQueue } from "../dispatch/handler-queue.ts";
import { restoreSent } from "../dispatch/sent-commands.ts";
import { enumerationMark } from "../leases/lease-granter.ts";
import { restoreHandedOver } from "../leases/lease-handover.ts";
import { restoreOutbox } from "../mailbox/outbox.ts";
import type { NodeState } from "../node-state.ts";
import { uncleanEndFrom } from "../partitions/tenures.ts";
import type { Slot } from "./slot.ts";

export type Unreadable =
  | { readonly kind: "newer"; readonly why: string }
  | {
      readonly kind: "damaged";
      readonly damage: Damage;
      /** The state of the execution before the damaged row; null if no event can be read. */
      readonly readable: Execution | null;
    };

/** Restores the slot from the store; the result says why that failed. */
export function restoreSlot(
  node: NodeState,
  slot: Slot,
  loaded: LoadedExecution,
  plan: Plan,
): Unreadable | null {
  const execution = fold(node, slot.id, loaded, plan);
  if ("kind" in execution) return execution;
  node.declareRestored(execution.plan, execution);
  slot.execution = execution;
  slot.wasLoaded = true;
  slot.stepFirst = slot.queue.length;
  slot.chain = loaded.chain;
  slot.opened = { ...loaded.opened };
  if (node.settings.outbox) restoreOutbox(slot);
  slot.rowsSinceSnapshot = loaded.entries.length;
  slot.charsSinceSnapshot = charsIn(loaded.entries);
  slot.snapshotChars = loaded.snapshot?.body.length ?? 0;
  slot.want = loaded.head.want;
  slot.storedWant = loaded.head.want;
  slot.headKey = headKeyOf(loaded.head);
  // Whether the store has a retry row for the execution is unknown; the next commit corrects that.
  const mayHaveRow = loaded.head.want === "time" || execution.postops.size > 0 || execution.draining;
  slot.retryRow = mayHaveRow ? -1 : 0;
  slot.refreshQueues();
  for (const queue of slot.queues)
    queue.carefulBelow = Math.max(queue.carefulBelow, slot.opened[carefulMark(queue)] ?? 0);
  const suspects = node.suspects.get(slot.id);
  node.suspects.delete(slot.id);
  // An epoch in the future is damaged data. Then it is unknown which attempts were open.
  const { uncleanEpoch, epoch } = slot.tenure;
  // @plant suspects treated as clean after a takeover
  const isSuspect = loaded.epoch <= uncleanEpoch || loaded.epoch > epoch;
  // The leases of a damaged execution were dropped, and its attempts may still run.
  const isMended = loaded.head.status === DAMAGED;
  slot.droppedAt ??= suspects?.droppedAt ?? (isMended ? node.now : null);
  if (suspects !== undefined || isSuspect || isMended)
    suspect(node, slot, {
      committedIn: Math.min(loaded.epoch, uncleanEpoch),
      handlers: suspects?.handlers ?? null,
      isOurs: typeof suspects?.droppedAt === "number",
    });
  restoreHandedOver(node, slot);
  restoreSent(node, slot);
  return null;
}

/**
 * Replays the loaded journal rows of an execution. An error in the replay means that its stored data is damaged or of a newer
 * version.
 */
function fold(node: NodeState, id: string, loaded: LoadedExecution, plan: Plan): Execution | Unreadable {
  const { events: reads, fold: version } = node.settings.vocabulary;
  const taken = loaded.snapshot?.foldVersion === version ? loaded.snapshot : null;
  // @plant damaged journal read up to the damage 2
  let readable: Execution | null = null;
  try {
    if (taken !== null && sealState(taken.body, snapshotKey(id, taken.seq)) === "broken")
      throw new DamagedData({ table: "snapshots", execution: id, row: taken.seq, why: WRONG_CHECKSUM });
    const execution = taken === null ? new Execution(id, plan) : readSnapshot(id, plan, taken.body);
    for (const entry of loaded.entries) {
      replay(execution, [entry], { reads });
      if (execution.seq > 0) readable = execution;
    }
    if (execution.seq > 0) return execution;
    throw new DamagedData({ table: "journal", execution: id, row: 1, why: "it is missing" });
  } catch (thrown) {
    // @plant damaged data stops the node
    if (thrown instanceof UnknownVersion) return { kind: "newer", why: thrown.message };
    // @plant damaged journal read up to the damage
    const row = (readable?.seq ?? taken?.seq ?? 0) + 1;
    const damage = damageOf(thrown, { table: "journal", execution: id, row });
    return { kind: "damaged", damage: { ...damage, execution: id }, readable };
  }
}

/** The hash of the definition in the first event, or in the head if that event cannot be read. */
export function hashInJournal({ head, entries }: LoadedExecution): string {
  const [first] = entries;
  if (first?.seq !== 1) return head.hash;
  try {
    const event = decodeEntry(first)[0]?.event;
    return event?.kind === "created" ? event.hash : head.hash;
  } catch (thrown) {
    if (thrown instanceof DamagedData || thrown instanceof UnknownVersion) return head.hash;
    throw thrown;
  }
}

interface Suspicion {
  /** The last epoch in which the execution was committed. */
  readonly committedIn: number;
  /** The names of the handlers whose leases are checked; null for all handlers. */
  readonly handlers: readonly string[] | null;
  /** Whether this owner itself dropped the leases, so that attempts of its own process may still run too. */
  readonly isOurs: boolean;
}

/**
 * Handles open leases of a former owner. Attempts with a recorded start are lost if they send no heartbeat in time after the
 * last owner ended. Other tasks are leased again after that time, from then on with recorded starts.
 */
function suspect(node: NodeState, slot: Slot, { committedIn, handlers, isOurs }: Suspicion): void {
  const { settings } = node;
  const { tenure, droppedAt } = slot;
  slot.suspect = true;
  for (const queue of slot.queues) {
    if (queue.state.finished || queue.state.plan.waits) continue;
    const isChildren = queue.state.plan.mode === "workflow" && queue.state.plan.enumerateUse === null;
    const unclean = uncleanEndFrom(tenure, tenure.uncleanEpoch);
    const last = droppedAt === null ? unclean : { epoch: tenure.epoch, at: droppedAt };
    const free =
      node.roster.queued === null && droppedAt === null
        ? uncleanEndFrom(tenure, freeSince(slot, queue, committedIn))
        : last;
    if (!isChildren) {
      // @plant suspects started unrecorded
      queue.carefulBelow = Math.max(queue.carefulBelow, queue.offeredEnd);
      slot.carefulMarks[carefulMark(queue)] = queue.carefulBelow;
      slot.carefulMarks[freeEpochMark(queue)] = free.epoch;
      slot.carefulMarks[freeBelowMark(queue)] = queue.carefulBelow;
    }
    // Skips the other handlers: their leases were checked before the slot was evicted.
    if (handlers !== null && !handlers.includes(queue.key)) {
      queue.suspectsJudged = true;
      continue;
    }
    if (isChildren || (settings.suspectMs === 0 && !isOurs)) continue;
    const silenceMs = Math.max(settings.suspectMs, node.heartbeatMs(queue.state.plan));
    queue.lostAt = last.at + silenceMs;
    queue.adoptable = tenure.uncleanEnds
      .filter(({ epoch }) => epoch <= tenure.uncleanEpoch)
      .map(({ epoch, at }) => ({ epoch, at: at + silenceMs }));
    const { sealed, enumeration } = queue.state;
    const isEnumerating = !sealed && slot.opened[enumerationMark(queue)] === enumeration.ended + 1;
    queue.suspectUntil = isEnumerating ? queue.lostAt : free.at + silenceMs;
  }
}

/**
 * The last epoch in which tasks of the handler may have been leased without a recorded start. The owner that took over after an
 * unclean end stores this epoch as a mark, with the number of tasks that the mark covers. Without the mark, or if more tasks may have
 * been leased since, the result is the epoch of the last commit.
 */
function freeSince(slot: Slot, queue: HandlerQueue, committedIn: number): number {
  const epoch = slot.opened[freeEpochMark(queue)];
  const below = slot.opened[freeBelowMark(queue)] ?? 0;
  return epoch === undefined || queue.offeredEnd > below ? committedIn : Math.min(epoch, committedIn);
}

/** The name of the mark that says: starts of tasks of this handler are recorded before the tasks are leased, in later epochs too. */
function carefulMark(queue: HandlerQueue): string {
  return `${queue.markName}?`;
}

/**
 * Whether the `want` of a stored head matches the state of its execution. With a wrong `want`, scans for work would never load the
 * execution.
 */
export function canWant({ execution }: Slot, { want }: StoredHead): boolean {
  return want === "time" || want === (execution?.ended === true ? "nothing" : "work");
}

/** The name of the mark with the last epoch in which tasks were leased without a recorded start. */
function freeEpochMark(queue: HandlerQueue): string {
  return `${queue.markName}?epoch`;
}

/** The name of the mark with the number below which tasks are covered by `freeEpochMark`. */
function freeBelowMark(queue: HandlerQueue): string {
  return `${queue.markName}?below`;
}
