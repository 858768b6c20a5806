/** The row of one execution in memory. Rows are never changed, only replaced. */
import type { Entry } from "../../kernel/journal/journal-entry.ts";
import { assert } from "../../std/assert.ts";
import type { ExecutionWrite, LoadedExecution, Snapshot, StoredHead } from "../store.ts";

interface JournalRow {
  readonly entry: Entry;
  /** The chain hash after this row; null if it is not the last row of its write. */
  readonly chain: string | null;
}

/** All data of an execution except its mailbox messages, logs and dead letters. */
export interface ExecutionRow {
  readonly head: StoredHead;
  readonly journal: readonly JournalRow[];
  readonly end: number;
  readonly chain: string;
  readonly timers: ReadonlyMap<string, number>;
  readonly opened: Readonly<Record<string, number>>;
  readonly snapshot: Snapshot | null;
  readonly epoch: number;
}

/** Fields of a head that no later write may change: database adapters do not write them again. */
const FIXED = ["id", "partition", "workflow", "hash", "project", "createdAt"] as const;

export function newRow(write: ExecutionWrite, order: number, epoch: number): ExecutionRow {
  assert(write.head !== null, "a created execution has a head");
  const head = { ...write.head, order };
  const empty = { journal: [], end: 0, chain: "", timers: new Map<string, number>(), opened: {} };
  return nextRow({ head, snapshot: null, epoch, ...empty }, write, epoch);
}

export function nextRow(row: ExecutionRow, write: ExecutionWrite, epoch: number): ExecutionRow {
  const { entries, head } = write;
  if (head !== null)
    for (const field of FIXED) assert(head[field] === row.head[field], `${field} is fixed at creation`);
  const timers = new Map(row.timers);
  for (const timer of write.timersCleared) timers.delete(timer);
  for (const { timer, due } of write.timersSet) timers.set(timer, due);
  const last = entries.at(-1);
  const added = entries.map((entry) => ({ entry, chain: entry === last ? write.chain : null }));
  return {
    head: head === null ? row.head : { ...head, tags: { ...head.tags }, order: row.head.order },
    journal: [...row.journal, ...added],
    end: endOf(write) ?? row.end,
    chain: last === undefined ? row.chain : write.chain,
    timers,
    opened: { ...row.opened, ...write.opened },
    snapshot: write.snapshot ?? row.snapshot,
    epoch,
  };
}

/** The sequence number of the last event of a write; undefined if the write has no events. */
export function endOf({ entries }: ExecutionWrite): number | undefined {
  const last = entries.at(-1);
  return last === undefined ? undefined : last.seq + last.count - 1;
}

export function loadRow(row: ExecutionRow, foldVersion: number | undefined): LoadedExecution {
  const snapshot = validSnapshot(row, foldVersion);
  const entries = row.journal
    .filter(({ entry }) => entry.seq > (snapshot?.seq ?? 0))
    .map(({ entry }) => entry);
  const { head, chain, opened, epoch } = row;
  return { head, snapshot, entries, chain, opened, epoch };
}

/** Returns the stored snapshot, if it has the requested version and matches the chain hash of the journal at its sequence number. */
function validSnapshot(
  { snapshot, journal }: ExecutionRow,
  foldVersion: number | undefined,
): Snapshot | null {
  if (snapshot === null || snapshot.foldVersion !== (foldVersion ?? snapshot.foldVersion)) return null;
  const row = journal.find(({ entry }) => entry.seq + entry.count - 1 === snapshot.seq);
  return row?.chain === snapshot.chain ? snapshot : null;
}
