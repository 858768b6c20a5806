/**
 * The store in plain maps, without promises: the oracle that the other adapters are compared with, and what the
 * simulator uses directly. Rows are never changed, only replaced, so a commit that is refused leaves no trace.
 *
 * A crash loses a suffix of the commits that were not acknowledged: each commit can be taken back until it is
 * settled. `settle(n)` makes the oldest n unsettled commits final (acknowledged), `lose(n)` takes the newest n
 * back; then `open()` is the restart, and makes what is left final.
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
  type StoredHead,
  type StoredTimer,
  type StoreInfo,
  workKey,
} from "../store.ts";

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
  readonly #definitions = new Map<string, string>();
  readonly #newestOf = new Map<string, string>();

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
      const { rows, lastOrder } = this.#unsettled.pop() as TakeBack;
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
    let order = this.#lastOrder;
    for (const write of commit.writes) {
      assertWritable(write);
      const row = staged.get(write.execution) ?? this.#executions.get(write.execution);
      if (write.create) {
        if (row === undefined) staged.set(write.execution, newRow(write, ++order, this.#epoch));
        else exists.push(write.execution);
        continue;
      }
      const why = whyNotAtEnd(write, row?.end ?? null);
      if (row === undefined || why !== null) return { kind: "fenced", why: why ?? "" };
      staged.set(write.execution, nextRow(row, write, this.#epoch));
    }
    const rows = new Map<string, ExecutionRow | undefined>();
    for (const id of staged.keys()) rows.set(id, this.#executions.get(id));
    this.#unsettled.push({ rows, lastOrder: this.#lastOrder });
    for (const [id, row] of staged) this.#executions.set(id, row);
    this.#lastOrder = order;
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
          compare(a as StoredHead, b as StoredHead, "project") ||
          compare(a as StoredHead, b as StoredHead, "workflow"),
      )
      .flat();
  }

  scanTimers(options: { until: number; max: number }): StoredTimer[] {
    const found: (StoredTimer & { order: number })[] = [];
    for (const [execution, row] of this.#executions)
      for (const [timer, due] of row.timers)
        if (due <= options.until) found.push({ execution, timer, due, order: row.head.order });
    return found
      .sort((a, b) => a.due - b.due || a.order - b.order || compare(a, b, "timer"))
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

  putDefinition(name: string, hash: string, body: string): void {
    if (!this.#definitions.has(hash)) this.#definitions.set(hash, body);
    this.#newestOf.set(name, hash);
  }

  getDefinition(by: { hash: string } | { newestOf: string }): { hash: string; body: string } | null {
    const hash = "hash" in by ? by.hash : this.#newestOf.get(by.newestOf);
    const body = hash === undefined ? undefined : this.#definitions.get(hash);
    return hash === undefined || body === undefined ? null : { hash, body };
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

/** By code points, as databases do in their binary order. */
function compare<F extends string>(a: Record<F, string>, b: Record<F, string>, field: F): number {
  return a[field] === b[field] ? 0 : Buffer.compare(Buffer.from(a[field]), Buffer.from(b[field]));
}

function hex(random: Random, words: number): string {
  return Array.from({ length: words }, () => random.u32().toString(16).padStart(8, "0")).join("");
}
