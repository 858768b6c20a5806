/**
 * The store port over `MemoryTables`. A new store over the same tables is like a restart: the earlier store is then a stale
 * owner.
 */
import { callMethod, DerivedStore, type StoreMethod } from "../derived-store.ts";
import {
  type Commit,
  type CommitVerdict,
  fenceOf,
  type Store,
  StoreFault,
  type StoreInfo,
} from "../store.ts";
import { MemoryTables } from "./memory-tables.ts";

export class MemoryStore extends DerivedStore implements Store {
  readonly #tables: MemoryTables;
  #info: StoreInfo | null = null;
  protected isOpen = false;

  constructor(tables: MemoryTables = new MemoryTables()) {
    super();
    this.#tables = tables;
  }

  async open(): Promise<StoreInfo> {
    this.#info = this.#tables.open();
    this.isOpen = true;
    return this.#info;
  }

  override async commit(commit: Commit): Promise<CommitVerdict> {
    const verdict = this.opened().commit(commit);
    this.#tables.settle();
    return verdict;
  }

  async close(options: { readonly clean: boolean }): Promise<void> {
    if (this.#info === null) return;
    this.#tables.close(fenceOf(this.#info), options);
    this.#info = null;
    this.isOpen = false;
  }

  protected override answer(method: StoreMethod, args: readonly unknown[]): unknown {
    return callMethod(this.opened(), method, args);
  }

  protected opened(): MemoryTables {
    if (!this.isOpen)
      throw new StoreFault("the store is not open", { retryable: false, nothingWritten: true });
    return this.#tables;
  }
}
