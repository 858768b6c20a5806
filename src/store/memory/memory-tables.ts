/**
 * The store in plain maps, without promises: the oracle that the other adapters are compared with, and what the
 * simulator uses directly. Rows are never changed, only replaced, so a commit that is refused leaves no trace.
 *
 * A crash loses a suffix of the commits that were not acknowledged: each commit can be taken back until it is
 * settled. `settle(n)` makes the oldest n unsettled commits final (acknowledged), `lose(n)` takes the newest n
 * back; then `open()` is the restart, and makes what is left final. So does whatever forgets: it is durable, and
 * then so is what was written before it.
 */
import type { Entry } from "../../kernel/journal-entry.ts";
import { assert } from "../../std/assert.ts";
import { type Random, systemRandom } from "../../std/random.ts";
import { assertWritable, whyNotAtEnd, whyStale } from "../check-write.ts";
import {
  type Commit,
  type CommitVerdict,
  type ExecutionWrite,
  type Fence,
  type HeadFilter,
  type JournalRange,
  type LoadedExecution,
  type Snapshot,
  type StoredDeadLetter,
  type StoredHead,
  type StoredLetter,
  type StoredLogRow,
  type StoredTimer,
  type StoreInfo,
  workKey,
} from "../store.ts";
import { compareText, MemoryDocuments } from "./memory-documents.ts";
import { MemoryRecords, type Undo } from "./memory-records.ts";

interface JournalRow {
  readonly entry: Entry;
  /** The chain hash after this row; null inside of a write. */
  readonly chain: string | null;
}

interface ExecutionRow {
  readonly head: StoredHead;
  readonly journal: readonly JournalRow[];
  /** Sequence number of the last event. */
  readonly end: number;
  readonly chain: string;
  readonly timers: ReadonlyMap<string, number>;
  readonly opened: Readonly<Record<string, number>>;
  readonly snapshot: Snapshot | null;
  readonly epoch: number;
}

/** The rows that a commit replaced (undefined: it created them), and the last order number before it. */
interface TakeBack {
  readonly rows: ReadonlyMap<string, ExecutionRow | undefined>;
  readonly lastOrder: number;
  /** Letters, logs and dead letters. */
  readonly records: Undo;
}

/** Fields of a head that no later write changes; databases rely on it and do not write them again. */
const FIXED = ["id", "partition", "workflow", "hash", "project", "createdAt"] as const;

/** The tables of one store. Survives its users: opening again is a restart. */
export class MemoryTables {
  readonly #generation: string;
  readonly #key: string;
  #epoch = 0;
  #uncleanEpoch = 0;
  #clean = true;
  #lastOrder = 0;
  #unsettled: TakeBack[] = [];
  /** By id, in the order of creation. */
  readonly #executions = new Map<string, ExecutionRow>();
  readonly #records = new MemoryRecords();
  readonly #documents = new MemoryDocuments();

  constructor(options: { random?: Random } = {}) {
    const random = options.random ?? systemRandom;
    this.#generation = hex(random, 4);
    this.#key = hex(random, 8);
  }

  /** Begins the next epoch. What was committed and not lost is final from here on. */
  open(): StoreInfo {
    this.settle();
    if (!this.#clean) this.#uncleanEpoch = this.#epoch;
    this.#epoch++;
    this.#clean = false;
    return { fence: this.#fence(), uncleanEpoch: this.#uncleanEpoch, key: this.#key, partitions: 1 };
  }

  /** Ends the epoch of this fence; a stale owner ends nothing. */
  close(fence: Fence, options: { clean: boolean }): void {
    if (whyStale(fence, this.#fence()) === null) this.#clean = options.clean;
  }

  /** Commits that can still be lost. */
  get unsettled(): number {
    return this.#unsettled.length;
  }

  /** Makes the oldest unsettled commits final, all of them by default. */
  settle(count = this.#unsettled.length): void {
    this.#unsettled = this.#unsettled.slice(count);
  }

  /** Takes the newest unsettled commits back, as if they had never been made. */
  lose(count: number): void {
    assert(count <= this.#unsettled.length, "only unsettled commits can be lost");
    for (let i = 0; i < count; i++) {
      const { rows, lastOrder, records } = this.#unsettled.pop() as TakeBack;
      for (const takeBack of records.reverse()) takeBack();
      for (const [id, row] of rows) {
        if (row === undefined) this.#executions.delete(id);
        else this.#executions.set(id, row);
      }
      this.#lastOrder = lastOrder;
    }
  }

  /** All writes or none; see the port. */
  commit(commit: Commit): CommitVerdict {
    const stale = whyStale(commit.fence, this.#fence());
    if (stale !== null) return { kind: "fenced", why: stale };
    const staged = new Map<string, ExecutionRow>();
    const exists: string[] = [];
    const written: ExecutionWrite[] = [];
    let order = this.#lastOrder;
    for (const write of commit.writes) {
      assertWritable(write);
      const row = staged.get(write.execution) ?? this.#executions.get(write.execution);
      if (write.create) {
        if (row === undefined) {
          staged.set(write.execution, newRow(write, ++order, this.#epoch));
          written.push(write);
        } else exists.push(write.execution);
        continue;
      }
      const why = whyNotAtEnd(write, row?.end ?? null);
      if (row === undefined || why !== null) return { kind: "fenced", why: why ?? "" };
      staged.set(write.execution, nextRow(row, write, this.#epoch));
      written.push(write);
    }
    const rows = new Map<string, ExecutionRow | undefined>();
    for (const id of staged.keys()) rows.set(id, this.#executions.get(id));
    const records: Undo = [];
    this.#unsettled.push({ rows, lastOrder: this.#lastOrder, records });
    for (const [id, row] of staged) this.#executions.set(id, row);
    this.#lastOrder = order;
    for (const write of written)
      this.#records.store((staged.get(write.execution) as ExecutionRow).head, write, records);
    for (const id of commit.lettersTaken ?? []) this.#records.take(id, records);
    return { kind: "ok", exists };
  }

  load(ids: readonly string[], options: { foldVersion?: number } = {}): (LoadedExecution | null)[] {
    return ids.map((id) => {
      const row = this.#executions.get(id);
      if (row === undefined) return null;
      const snapshot = validSnapshot(row, options.foldVersion);
      const entries = row.journal
        .filter(({ entry }) => entry.seq > (snapshot?.seq ?? 0))
        .map(({ entry }) => entry);
      const { head, chain, opened, epoch } = row;
      return { head, snapshot, entries, chain, opened, epoch };
    });
  }

  readJournal(range: JournalRange): Entry[] {
    const { from, to = Infinity, rowsMax = Infinity, charsMax = Infinity } = range;
    const found: Entry[] = [];
    let chars = 0;
    for (const { entry } of this.#executions.get(range.execution)?.journal ?? []) {
      if (entry.seq + entry.count <= from) continue;
      if (entry.seq > to || found.length >= rowsMax || chars >= charsMax) break;
      found.push(entry);
      chars += entry.body.length;
    }
    return found;
  }

  scanWork(options: { after: Readonly<Record<string, number>>; each: number }): StoredHead[] {
    const byPair = new Map<string, StoredHead[]>();
    for (const { head } of this.#executions.values()) {
      if (head.want !== "work") continue;
      const key = workKey(head.project, head.workflow);
      if (head.order <= (options.after[key] ?? 0)) continue;
      const pair = byPair.get(key) ?? [];
      if (pair.length < options.each) pair.push(head);
      byPair.set(key, pair);
    }
    const pairs = [...byPair.values()].filter((heads) => heads.length > 0);
    return pairs
      .sort(
        ([a], [b]) =>
          compareText((a as StoredHead).project, (b as StoredHead).project) ||
          compareText((a as StoredHead).workflow, (b as StoredHead).workflow),
      )
      .flat();
  }

  scanTimers(options: { from?: number; until: number; max: number }): StoredTimer[] {
    const found: (StoredTimer & { order: number })[] = [];
    for (const [execution, row] of this.#executions)
      for (const [timer, due] of row.timers)
        if (due <= options.until && due >= (options.from ?? 0))
          found.push({ execution, timer, due, order: row.head.order });
    return found
      .sort((a, b) => a.due - b.due || a.order - b.order || compareText(a.timer, b.timer))
      .slice(0, options.max)
      .map(({ execution, timer, due }) => ({ execution, timer, due }));
  }

  listHeads(filter: HeadFilter, options: { before: number | null; max: number }): StoredHead[] {
    const fields = Object.entries(filter) as [keyof HeadFilter, string | undefined][];
    return [...this.#executions.values()]
      .map(({ head }) => head)
      .filter((head) => head.order < (options.before ?? Infinity))
      .filter((head) => fields.every(([field, value]) => value === undefined || head[field] === value))
      .reverse()
      .slice(0, options.max);
  }

  scanLetters(options: { after: number; max: number }): StoredLetter[] {
    return this.#records.scanLetters(options);
  }

  readLogs(options: { execution: string; after: number; rowsMax: number }): StoredLogRow[] {
    return this.#records.readLogs(options);
  }

  listDeadLetters(
    filter: { readonly project?: string; readonly workflow?: string; readonly execution?: string },
    options: { before: number | null; max: number },
  ): StoredDeadLetter[] {
    return this.#records.listDeadLetters(filter, options);
  }

  dropDeadLetter(order: number, tasks: readonly number[] | null): void {
    this.settle();
    this.#records.dropDeadLetter(order, tasks);
  }

  listEnded(options: { finishedBefore: number; max: number }): string[] {
    return [...this.#executions.values()]
      .flatMap(({ head: { id, order, finishedAt: at } }) => (at === null ? [] : { id, order, at }))
      .filter(({ at }) => at < options.finishedBefore)
      .sort((a, b) => a.at - b.at || a.order - b.order)
      .slice(0, options.max)
      .map(({ id }) => id);
  }

  purge(ids: readonly string[]): void {
    this.settle();
    for (const id of ids) {
      const finishedAt = this.#executions.get(id)?.head.finishedAt ?? null;
      if (finishedAt === null) continue;
      this.#executions.delete(id);
      this.#records.purge(id);
    }
  }

  putDocument(kind: string, id: string, body: string | null): void {
    this.#documents.put(kind, id, body);
  }

  getDocument(kind: string, id: string): string | null {
    return this.#documents.get(kind, id);
  }

  listDocuments(
    kind: string,
    options: { after?: string; before?: string; descending?: boolean; max: number },
  ): { id: string; body: string }[] {
    return this.#documents.list(kind, options);
  }

  putDefinition(name: string, hash: string, body: string): void {
    this.#documents.putDefinition(name, hash, body);
  }

  getDefinition(by: { hash: string } | { newestOf: string }): { hash: string; body: string } | null {
    return this.#documents.getDefinition(by);
  }

  listDefinitions(options: { after: string; max: number }): { name: string; hash: string }[] {
    return this.#documents.listDefinitions(options);
  }

  #fence(): Fence {
    return { generation: this.#generation, epoch: this.#epoch };
  }
}

function newRow(write: ExecutionWrite, order: number, epoch: number): ExecutionRow {
  assert(write.head !== null, "a created execution has a head");
  const head = { ...write.head, order };
  const empty = { journal: [], end: 0, chain: "", timers: new Map<string, number>(), opened: {} };
  return nextRow({ head, snapshot: null, epoch, ...empty }, write, epoch);
}

function nextRow(row: ExecutionRow, write: ExecutionWrite, epoch: number): ExecutionRow {
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
    end: last === undefined ? row.end : last.seq + last.count - 1,
    chain: last === undefined ? row.chain : write.chain,
    timers,
    opened: { ...row.opened, ...write.opened },
    snapshot: write.snapshot ?? row.snapshot,
    epoch,
  };
}

/** The snapshot, if it is of the version asked for and the journal has its chain hash at its sequence number. */
function validSnapshot(
  { snapshot, journal }: ExecutionRow,
  foldVersion: number | undefined,
): Snapshot | null {
  if (snapshot === null || snapshot.foldVersion !== (foldVersion ?? snapshot.foldVersion)) return null;
  const row = journal.find(({ entry }) => entry.seq + entry.count - 1 === snapshot.seq);
  return row?.chain === snapshot.chain ? snapshot : null;
}

function hex(random: Random, words: number): string {
  return Array.from({ length: words }, () => random.u32().toString(16).padStart(8, "0")).join("");
}
