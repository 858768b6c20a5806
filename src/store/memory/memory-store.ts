/**
 * The store port over `MemoryTables`. Nothing is durable beyond the process; a new store over the same tables is a
 * restart, and after it this one is a stale owner.
 */
import { type FoundOrders, inAny } from "../found-orders.ts";
import { fits, type SearchWord } from "../search-terms.ts";
import {
  type Commit,
  type CommitVerdict,
  type Derived,
  fenceOf,
  type HeadFilter,
  type JournalRange,
  type JournalRow,
  type LoadedExecution,
  type MailboxMessage,
  type Partitions,
  type StatusCounts,
  type Store,
  type StoredDeadLetter,
  type StoredHead,
  type StoredLogRow,
  type StoredMailboxMessage,
  type StoredTimer,
  StoreFault,
  type StoreInfo,
  type Swap,
  type TableFinding,
} from "../store.ts";
import { MemoryTables } from "./memory-tables.ts";

/** A store in memory: for tests, and for work that may be lost with the process. */
export class MemoryStore implements Store {
  readonly #tables: MemoryTables;
  #info: StoreInfo | null = null;
  protected isOpen = false;

  constructor(tables: MemoryTables = new MemoryTables()) {
    this.#tables = tables;
  }

  async open(): Promise<StoreInfo> {
    this.#info = this.#tables.open();
    this.isOpen = true;
    return this.#info;
  }

  async commit(commit: Commit): Promise<CommitVerdict> {
    const verdict = this.opened().commit(commit);
    this.#tables.settle();
    return verdict;
  }

  async load(
    ids: readonly string[],
    options: { foldVersion?: number } = {},
  ): Promise<readonly (LoadedExecution | null)[]> {
    return this.opened().load(ids, options);
  }

  async readJournal(range: JournalRange): Promise<readonly JournalRow[]> {
    return this.opened().readJournal(range);
  }

  async scanWork(options: {
    after: Readonly<Record<string, number>>;
    each: number;
    partitions: Partitions;
  }): Promise<readonly StoredHead[]> {
    return this.opened().scanWork(options);
  }

  async scanTimers(options: {
    from?: number;
    until: number;
    max: number;
    partitions: Partitions;
  }): Promise<readonly StoredTimer[]> {
    return this.opened().scanTimers(options);
  }

  async listHeads(
    filter: HeadFilter,
    options: { before: number | null; max: number },
  ): Promise<readonly StoredHead[]> {
    return this.opened().listHeads(filter, options);
  }

  async findOrders(word: SearchWord, { before, max }: { before: number; max: number }): Promise<FoundOrders> {
    const fitting = this.opened()
      .listHeads({}, { before, max: Number.MAX_SAFE_INTEGER })
      .filter((head) => fits(head, word));
    return inAny([{ orders: fitting.map(({ order }) => order), floor: 0 }], max);
  }

  async headsOf(orders: readonly number[]): Promise<readonly StoredHead[]> {
    const heads = this.opened().listHeads({}, { before: null, max: Number.MAX_SAFE_INTEGER });
    const byOrder = new Map(heads.map((head) => [head.order, head]));
    return orders.flatMap((order) => byOrder.get(order) ?? []);
  }

  /** It has no index. */
  async indexSome(): Promise<boolean> {
    return false;
  }

  async clearIndex(): Promise<void> {}

  async scanLetters(options: {
    after: number;
    max: number;
    partitions: Partitions;
  }): Promise<readonly StoredMailboxMessage[]> {
    return this.opened().scanLetters(options);
  }

  async readLogs(options: {
    execution: string;
    after: number;
    rowsMax: number;
  }): Promise<readonly StoredLogRow[]> {
    return this.opened().readLogs(options);
  }

  async listDeadLetters(
    filter: { readonly project?: string; readonly workflow?: string; readonly execution?: string },
    options: { before: number | null; max: number },
  ): Promise<readonly StoredDeadLetter[]> {
    return this.opened().listDeadLetters(filter, options);
  }

  async dropDeadLetter(order: number, tasks: readonly number[] | null): Promise<void> {
    this.opened().dropDeadLetter(order, tasks);
  }

  async countHeads(filter: Omit<HeadFilter, "status">): Promise<StatusCounts> {
    return this.opened().countHeads(filter);
  }

  async listEnded(options: { finishedBefore: number; max: number }): Promise<readonly string[]> {
    return this.opened().listEnded(options);
  }

  async purge(ids: readonly string[]): Promise<void> {
    this.opened().purge(ids);
  }

  async putDerived(derived: Derived): Promise<boolean> {
    const tables = this.opened();
    tables.settle();
    return tables.repairs.putDerived(derived);
  }

  async timersOf(execution: string): Promise<readonly { timer: string; due: number }[]> {
    return this.opened().repairs.timersOf(execution);
  }

  async dropDamaged(execution: string, letter: MailboxMessage | null): Promise<boolean> {
    const tables = this.opened();
    tables.settle();
    return tables.repairs.dropDamaged(execution, letter);
  }

  /** Counts and the like are never kept here, but counted. */
  async auditTables(): Promise<readonly TableFinding[]> {
    return [];
  }

  async putDocument(kind: string, id: string, body: string | null): Promise<void> {
    this.opened().putDocument(kind, id, body);
  }

  async swapDocument(kind: string, id: string, swap: Swap): Promise<boolean> {
    return this.opened().swapDocument(kind, id, swap);
  }

  async getDocument(kind: string, id: string): Promise<string | null> {
    return this.opened().getDocument(kind, id);
  }

  async listDocuments(
    kind: string,
    options: { after?: string; before?: string; descending?: boolean; max: number },
  ): Promise<readonly { id: string; body: string }[]> {
    return this.opened().listDocuments(kind, options);
  }

  async putDefinition(name: string, hash: string, body: string): Promise<void> {
    this.opened().putDefinition(name, hash, body);
  }

  async dropDefinition(name: string, hash: string): Promise<void> {
    this.opened().dropDefinition(name, hash);
  }

  async getDefinition(
    by: { hash: string } | { newestOf: string },
  ): Promise<{ hash: string; body: string } | null> {
    return this.opened().getDefinition(by);
  }

  async listDefinitions(options: {
    after: string;
    max: number;
  }): Promise<readonly { name: string; hash: string }[]> {
    return this.opened().listDefinitions(options);
  }

  async close(options: { clean: boolean }): Promise<void> {
    if (this.#info === null) return;
    this.#tables.close(fenceOf(this.#info), options);
    this.#info = null;
    this.isOpen = false;
  }

  protected opened(): MemoryTables {
    if (!this.isOpen)
      throw new StoreFault("the store is not open", { retryable: false, nothingWritten: true });
    return this.#tables;
  }
}
