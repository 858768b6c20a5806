/**
 * Audits one execution of a store: the whole journal, in bounded pieces, against its own chain hash, against what the node
 * shows and against what lists show. A journal that is broken is not given to the node, which would rightly stop at it.
 */
import { decodeEntry } from "../kernel/journal-entry.ts";
import type { ExecutionView } from "../kernel/view.ts";
import { isRejection, type Rejection } from "../std/rejection.ts";
import type { JournalRow, LoadedExecution, Store } from "../store/store.ts";
import { type Audit, Auditor } from "./auditor.ts";
import { ChainCheck } from "./chain-check.ts";

const PIECE = { rowsMax: 64, charsMax: 1_048_576, chains: true };
/** A node may be a moment behind what it has stored. */
const LOOKS_MAX = 20;

/** What is read of a store. Without definitions, runs of scripts are checked by their order only. */
type AuditedStore = Pick<Store, "readJournal" | "load"> & Partial<Pick<Store, "getDefinition">>;

/** Reads and counts; nothing is changed. `inspect` gives what the node shows. */
export async function auditExecution(
  store: AuditedStore,
  id: string,
  inspect: () => Promise<ExecutionView | Rejection>,
): Promise<Audit | Rejection> {
  const reading = new Reading(store, id);
  await reading.learn();
  await reading.readTo(Number.MAX_SAFE_INTEGER);
  if (reading.end === 0)
    reading.auditor.find("chain", 0, "there is an execution of this name, and no journal of it");
  // Before the node is asked, which may bring a head up to date.
  const [loaded] = await store.load([id]);
  if (loaded !== null && loaded !== undefined && endOf(loaded) === reading.end)
    reading.auditor.compareHead(loaded.head);
  let view: ExecutionView | null = null;
  for (let look = 0; look < LOOKS_MAX && reading.auditor.isWhole; look++) {
    const shown = await inspect();
    if (isRejection(shown)) return shown;
    view = shown;
    if (view.revision >= reading.end) break;
  }
  if (view !== null) await reading.readTo(view.revision);
  return reading.auditor.end(view);
}

class Reading {
  readonly auditor: Auditor;
  readonly #store: AuditedStore;
  readonly #execution: string;
  readonly #chain = new ChainCheck();
  /** The last event that was read. */
  end = 0;

  constructor(store: AuditedStore, execution: string) {
    this.#store = store;
    this.#execution = execution;
    this.auditor = new Auditor(execution);
  }

  /** Reads the definition that the execution was created with; without one its runs are checked by their order only. */
  async learn(): Promise<void> {
    const [first] = await this.#store.readJournal({ execution: this.#execution, from: 1, to: 1, rowsMax: 1 });
    const found = first === undefined ? null : await this.#store.getDefinition?.({ hash: hashOf(first) });
    if (found) this.auditor.know(found.body);
  }

  async readTo(to: number): Promise<void> {
    while (this.end < to) {
      const range = { execution: this.#execution, from: this.end + 1, to, ...PIECE };
      const rows = await this.#store.readJournal(range);
      if (rows.length === 0) return;
      for (const row of rows) this.#take(row);
    }
  }

  #take(row: JournalRow): void {
    this.end = row.seq + row.count - 1;
    if (!this.#chain.take(row)) this.auditor.find("chain", row.seq, CHANGED);
    try {
      for (const recorded of decodeEntry(row)) this.auditor.take(recorded);
    } catch (thrown) {
      this.auditor.find("chain", row.seq, `the row cannot be read: ${(thrown as Error).message}`);
      this.auditor.skipTo(this.end);
    }
  }
}

/** The hash of the definition that a journal's first row names; empty: the row cannot be read, which is a finding later. */
function hashOf(first: JournalRow): string {
  try {
    const created = decodeEntry(first)[0]?.event;
    return created?.kind === "created" ? created.hash : "";
  } catch {
    return "";
  }
}

const CHANGED =
  "the row, or one right before it, is not the one that was written: its chain hash does not fit";

function endOf({ snapshot, entries }: LoadedExecution): number {
  const last = entries.at(-1);
  return last === undefined ? (snapshot?.seq ?? 0) : last.seq + last.count - 1;
}
