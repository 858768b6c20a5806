/** Restores an execution from its stored parts: its snapshot, if it is valid, and the journal rows after the snapshot. */
import { apply } from "../apply.ts";
import type { Plan } from "../definition/plan.ts";
import { EVENT_VERSION } from "../event.ts";
import { Execution } from "../execution.ts";
import { DamagedData } from "./damage.ts";
import { decodeUpTo, type Entry, TRIMMED } from "./journal-entry.ts";
import { FOLD_VERSION, readSnapshot } from "./snapshot.ts";

/** The versions of stored data that a version of Rondo can read: events up to a version, and snapshots of one version of the fold. */
export interface Vocabulary {
  readonly events: number;
  readonly fold: number;
}

/** The versions of stored data that this version of Rondo can read. */
export const VOCABULARY: Vocabulary = { events: EVENT_VERSION, fold: FOLD_VERSION };

/**
 * Applies journal rows to an execution, up to and including the sequence number `to`. The journal of a gate can begin with the event
 * that has its whole state; older rows that are still there are skipped.
 */
export function replay(
  execution: Execution,
  entries: readonly Entry[],
  {
    to = Number.POSITIVE_INFINITY,
    reads = EVENT_VERSION,
  }: { readonly to?: number; readonly reads?: number } = {},
): Execution {
  for (const entry of entries) {
    const events = decodeUpTo(reads, entry);
    if (execution.seq === 0 && (entry.seq > 1 || entry.body === TRIMMED)) {
      if (events[0]?.event.kind !== "gate.carried") continue;
      execution.seq = entry.seq - 1;
    }
    if (entry.seq > execution.seq + 1) throw missing(execution);
    for (const recorded of events) {
      if (recorded.seq > to) return execution;
      if (recorded.seq > execution.seq) apply(execution, recorded);
    }
  }
  return execution;
}

/** Restores an execution from the text of a snapshot (or null) and the journal rows after it. */
export function restore(
  id: string,
  plan: Plan,
  parts: { snapshot: string | null; entries: readonly Entry[]; reads?: number },
): Execution {
  const execution =
    parts.snapshot === null ? new Execution(id, plan) : readSnapshot(id, plan, parts.snapshot);
  replay(execution, parts.entries, parts);
  if (execution.seq === 0) throw missing(execution);
  return execution;
}

function missing({ id, seq }: Execution): DamagedData {
  return new DamagedData({ table: "journal", execution: id, row: seq + 1, why: "it is missing" });
}
