/**
 * The store port over `MemoryTables`. Nothing is durable beyond the process; a new store over the same tables is a
 * restart, and after it this one is a stale owner.
 */
import type { Entry } from "../../kernel/journal-entry.ts";
import {
  type Commit,
  type CommitVerdict,
  type HeadFilter,
  type JournalRange,
  type LoadedExecution,
  type Store,
  type StoredHead,
  type StoredTimer,
  StoreFault,
  type StoreInfo,
} from "../store.ts";
import { MemoryTables } from "./memory-tables.ts";

/** A store in memory: for tests, and for work that may be lost with the process. */
export class MemoryStore implements Store {
  readonly #tables: MemoryTables;
  #info: StoreInfo | null = null;

  constructor(tables: MemoryTables = new MemoryTables()) {
    this.#tables = tables;
  }

  async open(): Promise<StoreInfo> {
    this.#info = this.#tables.open();
    return this.#info;
  }

  async commit(commit: Commit): Promise<CommitVerdict> {
    const verdict = this.#opened().commit(commit);
    this.#tables.settle();
    return verdict;
  }

  async load(
    ids: readonly string[],
    options: { foldVersion?: number } = {},
  ): Promise<readonly (LoadedExecution | null)[]> {
    return this.#opened().load(ids, options);
  }

  async readJournal(range: JournalRange): Promise<readonly Entry[]> {
    return this.#opened().readJournal(range);
  }

  async scanWork(options: {
    after: Readonly<Record<string, number>>;
    each: number;
  }): Promise<readonly StoredHead[]> {
    return this.#opened().scanWork(options);
  }

  async scanTimers(options: { until: number; max: number }): Promise<readonly StoredTimer[]> {
    return this.#opened().scanTimers(options);
  }

  async listHeads(
    filter: HeadFilter,
    options: { before: number | null; max: number },
  ): Promise<readonly StoredHead[]> {
    return this.#opened().listHeads(filter, options);
  }

  async putDefinition(name: string, hash: string, body: string): Promise<void> {
    this.#opened().putDefinition(name, hash, body);
  }

  async getDefinition(
    by: { hash: string } | { newestOf: string },
  ): Promise<{ hash: string; body: string } | null> {
    return this.#opened().getDefinition(by);
  }

  async close(options: { clean: boolean }): Promise<void> {
    if (this.#info === null) return;
    this.#tables.close(this.#info.fence, options);
    this.#info = null;
  }

  #opened(): MemoryTables {
    if (this.#info === null)
      throw new StoreFault("the store is not open", { retryable: false, nothingWritten: true });
    return this.#tables;
  }
}
