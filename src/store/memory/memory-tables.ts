/**
 * The store in plain maps, without promises. It is the reference in the differential tests, and the store of the simulator. As
 * an embedded store, one owner opens it after the other. In a cluster, nodes renew their leases, take partitions, and pass
 * their incarnation with each commit.
 * A simulated crash loses the newest commits that were not acknowledged, so each commit can be reverted until it is settled.
 * `settle(n)` makes the oldest n unsettled commits final (acknowledged); `lose(n)` reverts the newest n. `open()` is the
 * restart after a crash and settles the remaining commits. Every deletion settles them too, because deletions are durable at
 * once.
 */
import { assert } from "../../std/assert.ts";
import { type Random, randomHex, systemRandom } from "../../std/random.ts";
import { assertWritable, whyNotAtEnd } from "../check-write.ts";
import type { Hint, Membership } from "../cluster-store.ts";
import type { SyncStore } from "../derived-store.ts";
import { type FoundOrders, inAny } from "../found-orders.ts";
import { partitionOf } from "../partition-of.ts";
import { fits, type SearchWord } from "../search-terms.ts";
import {
  type Commit,
  type CommitVerdict,
  DAMAGED,
  type DeadLetterFilter,
  type Derived,
  type EndedRange,
  type Fence,
  type HeadFilter,
  isWaiting,
  type JournalRange,
  type JournalRow,
  type LoadedExecution,
  type LogRange,
  type MailboxMessage,
  type MailScan,
  type Ownership,
  type Page,
  type Partitions,
  type StatusCounts,
  type StoredDeadLetter,
  type StoredHead,
  type StoredLogRow,
  type StoredMailboxMessage,
  type StoredTimer,
  type StoreInfo,
  type TableFinding,
  type Timer,
  type TimerScan,
  type WorkScan,
  workKey,
} from "../store.ts";
import { compareText, MemoryDocuments } from "./memory-documents.ts";
import { EMBEDDED, MemoryOwnership, type Renewal } from "./memory-ownership.ts";
import { MemoryRecords, type Undo } from "./memory-records.ts";
import { type ExecutionRow, endOf, loadRow, newRow, nextRow } from "./memory-rows.ts";

/** The rows that a commit replaced, for reverting it (undefined for a row that it created), and the last order number before the commit. */
interface TakeBack {
  readonly rows: ReadonlyMap<string, ExecutionRow | undefined>;
  readonly lastOrder: number;
  readonly records: Undo;
}

export class MemoryTables extends MemoryDocuments implements SyncStore {
  readonly #generation: string;
  readonly #key: string;
  readonly #partitions: number;
  readonly #ownership: MemoryOwnership;
  #lastOrder = 0;
  #unsettled: TakeBack[] = [];
  /** Executions by id, in the order of creation. */
  readonly #executions = new Map<string, ExecutionRow>();
  readonly #records = new MemoryRecords();
  /** The functions that all nodes have registered to get hints. */
  readonly hinted = new Set<(hint: Hint) => void>();

  constructor(options: { random?: Random; partitions?: number } = {}) {
    super();
    const random = options.random ?? systemRandom;
    this.#generation = randomHex(random, 4);
    this.#key = randomHex(random, 8);
    this.#partitions = options.partitions ?? 1;
    this.#ownership = new MemoryOwnership(this.#generation, this.#partitions);
  }

  /** For an embedded store: settles all commits and begins the next epoch. */
  open(): StoreInfo {
    this.settle();
    return this.info(this.#ownership.openAll());
  }

  /** For an embedded store: ends the epoch of this fence; a call of a stale owner has no effect. */
  close(fence: Fence, options: { clean: boolean }): void {
    const whyNot = (partition: number) => this.#ownership.whyStale(fence, partition, EMBEDDED);
    if (this.#ownership.whyOtherGeneration(fence) !== null) return;
    const own = Object.keys(fence.epochs).map(Number);
    this.#ownership.release(
      EMBEDDED,
      own.filter((partition) => whyNot(partition) === null),
      options,
    );
  }

  info(owned: readonly Ownership[]): StoreInfo {
    return { generation: this.#generation, key: this.#key, partitions: this.#partitions, owned };
  }

  /** The incarnation that owns a partition, or owned it last; null if it was released. */
  ownerOf(partition: number): string | null {
    return this.#ownership.ownerOf(partition);
  }

  epochOf(partition: number): number {
    return this.#ownership.epochOf(partition);
  }

  /** Renews the lease of a node of a cluster. The caller passes the incarnation of its last renewal. */
  renew(renewal: Renewal, now: number): Membership {
    this.settle();
    return this.#ownership.renew(renewal, now);
  }

  take(incarnation: string, partitions: readonly number[], now: number): Ownership[] {
    this.settle();
    return this.#ownership.take(incarnation, partitions, now);
  }

  release(incarnation: string, partitions: readonly number[], options: { clean: boolean }): void {
    this.settle();
    this.#ownership.release(incarnation, partitions, options);
  }

  leave(incarnation: string, options: { clean: boolean }): void {
    this.settle();
    this.#ownership.release(incarnation, null, options);
    this.#ownership.forget(incarnation);
  }

  post(messages: readonly MailboxMessage[]): void {
    this.settle();
    this.#records.post(messages);
  }

  /** The number of commits that can still be lost. */
  get unsettled(): number {
    return this.#unsettled.length;
  }

  /** Makes the oldest unsettled commits final, all of them by default. */
  settle(count = this.#unsettled.length): void {
    this.#unsettled = this.#unsettled.slice(count);
  }

  /** Reverts the newest unsettled commits. */
  lose(count: number): void {
    assert(count <= this.#unsettled.length, "only commits that are not settled can be reverted");
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

  commit(commit: Commit, owner: string = EMBEDDED): CommitVerdict {
    const { touched, refused } = this.#check(commit, owner);
    const another = this.#ownership.whyOtherGeneration(commit.fence);
    if (another !== null || (touched.size > 0 && refused.size === touched.size)) {
      const [why] = refused.values();
      return { kind: "fenced", why: another ?? why ?? "", partitions: sorted(touched) };
    }
    const exists = this.#write(commit, touched, refused);
    return { kind: "ok", exists, fenced: sorted(refused.keys()) };
  }

  load(ids: readonly string[], options: { foldVersion?: number } = {}): (LoadedExecution | null)[] {
    return ids.map((id) => {
      const row = this.#executions.get(id);
      return row === undefined ? null : loadRow(row, options.foldVersion);
    });
  }

  readJournal(range: JournalRange): JournalRow[] {
    const { from, to = Infinity, rowsMax = Infinity, charsMax = Infinity, chains = false } = range;
    const found: JournalRow[] = [];
    let chars = 0;
    for (const { entry, chain } of this.#executions.get(range.execution)?.journal ?? []) {
      if (entry.seq + entry.count <= from) continue;
      if (entry.seq > to || found.length >= rowsMax || chars >= charsMax) break;
      found.push(chains ? { ...entry, chain } : entry);
      chars += entry.body.length;
    }
    return found;
  }

  scanWork(options: WorkScan): StoredHead[] {
    const byPair = new Map<string, StoredHead[]>();
    for (const { head } of this.#executions.values()) {
      if (head.want !== "work" || !isOneOf(options.partitions, head.partition)) continue;
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

  scanTimers(options: TimerScan): StoredTimer[] {
    const found: (StoredTimer & { order: number })[] = [];
    for (const [execution, row] of this.#executions) {
      if (!isOneOf(options.partitions, row.head.partition)) continue;
      for (const [timer, due] of row.timers)
        if (due <= options.until && due >= (options.from ?? 0))
          found.push({ execution, timer, due, order: row.head.order });
    }
    return found
      .sort((a, b) => a.due - b.due || a.order - b.order || compareText(a.timer, b.timer))
      .slice(0, options.max)
      .map(({ execution, timer, due }) => ({ execution, timer, due }));
  }

  listHeads(filter: HeadFilter, options: Page): StoredHead[] {
    const fields = Object.entries(filter) as [keyof HeadFilter, string | undefined][];
    return Array.from(this.#executions.values(), ({ head }) => head)
      .filter((head) => head.order < (options.before ?? Infinity))
      .filter((head) => fields.every(([field, value]) => value === undefined || head[field] === value))
      .reverse()
      .slice(0, options.max);
  }

  scanMail(options: MailScan): StoredMailboxMessage[] {
    const isWanted = (to: string) => isOneOf(options.partitions, this.#partitionOf(to));
    return this.#records.scanMail(options, isWanted);
  }

  readLogs(range: LogRange): StoredLogRow[] {
    return this.#records.readLogs(range);
  }

  listDeadLetters(filter: DeadLetterFilter, page: Page): StoredDeadLetter[] {
    return this.#records.listDeadLetters(filter, page);
  }

  dropDeadLetter(order: number, tasks: readonly number[] | null): void {
    this.settle();
    this.#records.dropDeadLetter(order, tasks);
  }

  countHeads({ project, workflow }: Omit<HeadFilter, "status">): StatusCounts {
    const counts: Record<string, number> = {};
    for (const { head } of this.#executions.values())
      if ((project ?? head.project) === head.project && (workflow ?? head.workflow) === head.workflow)
        counts[head.status] = (counts[head.status] ?? 0) + 1;
    return counts;
  }

  countWaiting({ project, workflow }: Omit<HeadFilter, "status">): number {
    let count = 0;
    for (const { head } of this.#executions.values())
      if ((project ?? head.project) === head.project && (workflow ?? head.workflow) === head.workflow)
        count += Number(isWaiting(head));
    return count;
  }

  listEnded({ finishedBefore, finishedFrom = 0, status: wanted, max }: EndedRange): string[] {
    return [...this.#executions.values()]
      .flatMap(({ head: { id, order, want, status, finishedAt: at } }) =>
        at === null || want !== "nothing" || at >= finishedBefore || at < finishedFrom
          ? []
          : { id, order, at, status },
      )
      .filter(({ status }) => (wanted ?? status) === status)
      .sort((a, b) => a.at - b.at || a.order - b.order)
      .slice(0, max)
      .map(({ id }) => id);
  }

  purge(ids: readonly string[], owner: string = EMBEDDED): void {
    this.settle();
    for (const id of ids) {
      if (this.#ownership.ownerOf(this.#partitionOf(id)) !== owner) continue;
      const head = this.#executions.get(id)?.head;
      if (head === undefined || head.finishedAt === null || head.want !== "nothing") continue;
      this.#executions.delete(id);
      this.#records.purge(id);
    }
  }

  trimJournal(execution: string, before: number): void {
    this.settle();
    const row = this.#executions.get(execution);
    if (row === undefined) return;
    const journal = row.journal.filter(({ entry }) => entry.seq + entry.count > before);
    this.#executions.set(execution, { ...row, journal });
  }

  findOrders(word: SearchWord, { before, max }: { before: number; max: number }): FoundOrders {
    const fitting = this.listHeads({}, { before, max: Infinity }).filter((head) => fits(head, word));
    return inAny([{ orders: fitting.map(({ order }) => order), floor: 0 }], max);
  }

  headsOf(orders: readonly number[]): StoredHead[] {
    const heads = this.listHeads({}, { before: null, max: Infinity });
    const byOrder = new Map(heads.map((head) => [head.order, head]));
    return orders.flatMap((order) => byOrder.get(order) ?? []);
  }

  /** There is no index: searches read all heads. */
  indexSome(): boolean {
    return false;
  }

  indexedTo(): number {
    return Number.MAX_SAFE_INTEGER;
  }

  clearIndex(): void {}

  putDerived({ head, timers, opened, end }: Derived): boolean {
    const row = this.#executions.get(head.id);
    if (row === undefined || (end !== null && row.end !== end)) return false;
    const kept = new Map(row.timers);
    if (timers !== null) {
      for (const timer of row.timers.keys()) if (!timer.startsWith("~")) kept.delete(timer);
      for (const { timer, due } of timers) kept.set(timer, due);
    }
    const put = { head: { ...head, order: row.head.order }, timers: kept, opened: opened ?? row.opened };
    this.#executions.set(head.id, { ...row, ...put });
    return true;
  }

  timersOf(execution: string): Timer[] {
    const timers = [...(this.#executions.get(execution)?.timers ?? [])];
    return timers.map(([timer, due]) => ({ timer, due })).sort((a, b) => (a.timer < b.timer ? -1 : 1));
  }

  dropDamaged(execution: string, message: MailboxMessage | null): boolean {
    this.settle();
    if (this.#executions.get(execution)?.head.status !== DAMAGED) return false;
    this.#executions.delete(execution);
    this.#records.purge(execution);
    this.#records.dropMailTo(execution);
    if (message !== null) this.#records.post([message]);
    return true;
  }

  /** This store keeps no counters or indexes, so the audit finds nothing wrong in them. */
  auditTables(): readonly TableFinding[] {
    return [];
  }

  #partitionOf(execution: string): number {
    return partitionOf(execution, this.#partitions);
  }

  /** Returns the partitions that a commit touches, and which of them are refused, with the reasons. */
  #check({ fence, writes, mailTaken = [] }: Commit, owner: string) {
    const touched = new Set<number>();
    const refused = new Map<number, string>();
    const touch = (partition: number): void => {
      if (touched.has(partition)) return;
      touched.add(partition);
      // @plant store does not fence writes
      const why = this.#ownership.whyStale(fence, partition, owner);
      if (why !== null) refused.set(partition, why);
    };
    const ends = new Map<string, number>();
    for (const write of writes) {
      const { execution: id } = write;
      const partition = this.#partitionOf(id);
      assertWritable(write, partition);
      touch(partition);
      const end = ends.get(id) ?? this.#executions.get(id)?.end ?? null;
      if (write.create && end !== null) continue;
      const why = write.create ? null : whyNotAtEnd(write, end);
      if (why !== null && !refused.has(partition)) refused.set(partition, why);
      ends.set(id, endOf(write) ?? end ?? 0);
    }
    for (const id of mailTaken) {
      const to = this.#records.receiverOf(id);
      if (to !== null) touch(this.#partitionOf(to));
    }
    return { touched, refused };
  }

  /** Applies the writes that are not refused. Returns the ids of executions that should have been created but existed already. */
  #write(
    { writes, mailTaken = [] }: Commit,
    touched: ReadonlySet<number>,
    refused: ReadonlyMap<number, string>,
  ): string[] {
    const exists: string[] = [];
    const records: Undo = [];
    const rows = new Map<string, ExecutionRow | undefined>();
    this.#unsettled.push({ rows, lastOrder: this.#lastOrder, records });
    for (const write of writes) {
      const { execution: id } = write;
      const partition = this.#partitionOf(id);
      if (refused.has(partition)) continue;
      const row = this.#executions.get(id);
      if (write.create && row !== undefined) {
        exists.push(id);
        continue;
      }
      const epoch = this.#ownership.epochOf(partition);
      const next = row === undefined ? newRow(write, ++this.#lastOrder, epoch) : nextRow(row, write, epoch);
      if (!rows.has(id)) rows.set(id, row);
      this.#executions.set(id, next);
      this.#records.store(next.head, write, records);
    }
    for (const id of mailTaken) {
      const to = this.#records.receiverOf(id);
      const partition = to === null ? -1 : this.#partitionOf(to);
      if (touched.has(partition) && !refused.has(partition)) this.#records.take(id, records);
    }
    return exists;
  }
}

function isOneOf(partitions: Partitions, partition: number): boolean {
  return partitions === null || partitions.includes(partition);
}

function sorted(partitions: Iterable<number>): number[] {
  return [...partitions].sort((a, b) => a - b);
}
