/** Audits one execution: compares its journal with its chain hash, the state that the node shows, and stored data. */
import { createHash, type Hash } from "node:crypto";
import { readDefinition } from "../kernel/definition/read-definition.ts";
import { decodeEntry } from "../kernel/journal/journal-entry.ts";
import { GATE_PREFIX } from "../kernel/relay/relay.ts";
import type { ExecutionView } from "../kernel/view.ts";
import { isRejection, type Rejection } from "../std/rejection.ts";
import { partitionOf } from "../store/partition-of.ts";
import { DAMAGED, type JournalRow, type LoadedExecution, type Store } from "../store/store.ts";
import { type Audit, Auditor } from "./auditor.ts";
import { compareDerived } from "./derived.ts";

const PIECE = { rowsMax: 64, charsMax: 1_048_576, chains: true };
/** The most times that the auditor asks the node for its state. The node may be a moment behind the store, so the auditor asks again. */
const TRIES_MAX = 20;

/** The methods of a store that the auditor uses. If the store returns no definition, the auditor checks only the order of script runs. */
type AuditedStore = Pick<Store, "readJournal" | "load"> &
  Partial<Pick<Store, "getDefinition" | "timersOf" | "putDerived">>;

/**
 * Audits an execution. `inspect` returns the state that the node shows. With `repair`, the auditor rewrites derived data that differs
 * from the journal (head, timers, marks of opened pages); without `repair` it changes nothing.
 */
export async function auditExecution(
  store: AuditedStore,
  id: string,
  inspect: () => Promise<ExecutionView | Rejection>,
  options: { readonly repair?: boolean; readonly partitions?: number } = {},
): Promise<Audit | Rejection> {
  const reading = new Reading(store, id);
  const { auditor } = reading;
  await reading.readDefinitions();
  await reading.readTo(Number.MAX_SAFE_INTEGER);
  if (reading.end === 0) auditor.find("chain", 0, "the store has the head of this execution, but no journal");
  // The stored execution is read before the node is asked, because the node may update the stored head while it answers.
  const [loaded] = await store.load([id]);
  const timers = (await store.timersOf?.(id)) ?? null;
  const end = loaded === null || loaded === undefined ? -1 : endOf(loaded);
  let view: ExecutionView | null = null;
  for (let tries = 0; tries < TRIES_MAX && auditor.isWhole; tries++) {
    const shown = await inspect();
    if (isRejection(shown)) return shown;
    view = shown;
    if (view.revision >= reading.end || view.status === DAMAGED) break;
  }
  if (view?.status === DAMAGED) {
    auditor.find("damaged", 0, view.error?.message ?? "it is damaged");
    return auditor.end(null);
  }
  // The timers according to the journal, as of the time when the stored timers were read.
  const { timers: told, pages, newest } = auditor;
  const isStill = view !== null && view.revision === end && reading.end === end;
  if (!isStill && loaded && end === reading.end && loaded.head.status !== DAMAGED)
    auditor.compareHead(loaded.head);
  if (view !== null) await reading.readTo(view.revision);
  if (isStill && view !== null && loaded) {
    const partition =
      options.partitions === undefined ? loaded.head.partition : partitionOf(id, options.partitions);
    const stored = { head: loaded.head, timers: timers ?? told, opened: loaded.opened };
    const { derived, wrong } = compareDerived(stored, {
      view,
      hash: reading.hash === "" ? view.workflowHash : reading.hash,
      ...{ timers: told, pages, partition, newest },
    });
    const isPut = wrong.length > 0 && options.repair === true && (await store.putDerived?.(derived)) === true;
    for (const what of wrong) auditor.find("differs", 0, what, options.repair === true ? isPut : undefined);
  }
  return auditor.end(view);
}

class Reading {
  readonly auditor: Auditor;
  readonly #store: AuditedStore;
  readonly #execution: string;
  readonly #chain: ChainCheck;
  /** The number of the last event that was read. */
  end = 0;
  /** The hash of the definition with which the execution was created; empty if it cannot be read. */
  hash = "";

  constructor(store: AuditedStore, execution: string) {
    this.#store = store;
    this.#execution = execution;
    this.auditor = new Auditor(execution);
    this.#chain = new ChainCheck(execution);
  }

  /** Reads the definition of the execution. If there is none, the auditor checks only the order of script runs. */
  async readDefinitions(): Promise<void> {
    const [first] = await this.#store.readJournal({ execution: this.#execution, from: 1, to: 1, rowsMax: 1 });
    this.hash = first === undefined ? "" : hashOf(first);
    const found = first === undefined ? null : await this.#store.getDefinition?.({ hash: this.hash });
    if (!found) return;
    if (readDefinition(found.body, found.hash) !== null) this.auditor.addDefinition(found.body);
    else
      this.auditor.find(
        "damaged",
        0,
        `the stored definition ${found.hash.slice(0, 12)} was changed: its content does not match its hash`,
      );
  }

  async readTo(to: number): Promise<void> {
    while (this.end < to) {
      const range = { execution: this.#execution, from: this.end + 1, to, ...PIECE };
      const rows = await this.#store.readJournal(range);
      if (rows.length === 0) return;
      for (const row of rows) this.#readRow(row);
    }
  }

  #readRow(row: JournalRow): void {
    this.end = row.seq + row.count - 1;
    if (!this.#chain.check(row)) this.auditor.find("chain", row.seq, CHANGED);
    else if (row.damage !== undefined) this.auditor.find("chain", row.seq, row.damage);
    try {
      for (const recorded of decodeEntry(row)) this.auditor.apply(recorded);
    } catch (thrown) {
      this.auditor.find(
        "chain",
        row.seq,
        `this row of the journal cannot be read: ${(thrown as Error).message}`,
      );
      this.auditor.skipTo(this.end);
    }
  }
}

/** The hash of the definition in a journal's first row; empty if the row cannot be read, which is reported later. */
function hashOf(first: JournalRow): string {
  try {
    const created = decodeEntry(first)[0]?.event;
    return created?.kind === "created" ? created.hash : "";
  } catch {
    return "";
  }
}

const CHANGED =
  "the chain hash of this row does not match: this row or the one before it was changed after it was written";

function endOf({ snapshot, entries }: LoadedExecution): number {
  const last = entries.at(-1);
  return last === undefined ? (snapshot?.seq ?? 0) : last.seq + last.count - 1;
}

/** Recomputes the chain hash of a journal, to find rows that were changed, moved or removed. */
const HEX = 32;

class ChainCheck {
  #hash: Hash = createHash("sha256");
  /** Whether the first rows may have been deleted, because the journal of a gate was compacted. */
  #mayBeTrimmed: boolean;

  constructor(execution: string) {
    this.#mayBeTrimmed = execution.startsWith(GATE_PREFIX);
  }

  /** Checks the chain hash of the next row. Returns false if a row was changed since the last row that has a stored hash. */
  check({ seq, body, chain }: JournalRow): boolean {
    if (seq === 1) this.#mayBeTrimmed = false;
    this.#hash.update(`\n${seq} ${body}`);
    if (chain === null || chain === undefined) return true;
    // If the rows before the first one were deleted, the first row's hash cannot be checked.
    const made = this.#mayBeTrimmed ? chain : this.#hash.digest("hex").slice(0, HEX);
    this.#mayBeTrimmed = false;
    // The check continues from the stored hash, so that a changed row is reported once and not again for the row after it.
    this.#hash = createHash("sha256").update(chain);
    return made === chain;
  }
}
