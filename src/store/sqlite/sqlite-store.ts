/**
 * The store port over a directory with a SQLite database. The database lives in a thread of its own, so that the
 * engine goes on while a commit waits for the disk (store-thread.ts); this file is the engine's side: it checks and
 * packs commits, and ends the process when the disk can no longer be trusted.
 */
import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import { assert } from "../../std/assert.ts";
import { makeDirectory } from "../../std/make-directory.ts";
import { assertDocumentKey, assertWritable } from "../check-write.ts";
import type { FoundOrders } from "../found-orders.ts";
import { type PackedLogRow, unpackLog } from "../packed-log.ts";
import { SearchIndexer } from "../search-indexer.ts";
import type { SearchWord } from "../search-terms.ts";
import {
  type Commit,
  type CommitVerdict,
  type Derived,
  type HeadFilter,
  type JournalRange,
  type JournalRow,
  type LoadedExecution,
  type MailboxMessage,
  type Partitions,
  type StatusCounts,
  type Store,
  type StoredDeadLetter,
  type StoredDocument,
  type StoredHead,
  type StoredLogRow,
  type StoredMailboxMessage,
  type StoredTimer,
  StoreFault,
  type StoreInfo,
  type Swap,
  type TableFinding,
} from "../store.ts";
import { reserveFile } from "./copy-database.ts";
import { claimInProcess, releaseInProcess } from "./directory-lock.ts";
import { faultOf } from "./faults.ts";
import { packWrites } from "./packed-commit.ts";
import { StoreThread } from "./store-thread.ts";
import type { Call } from "./thread-messages.ts";

/** Executions that one transaction of a purge forgets. */
const FORGOTTEN_AT_ONCE = 100;

export interface SqliteStoreOptions {
  /** Made, for its owner only, if it does not exist. */
  readonly directory: string;
  /** Called when the disk failed while writing. The process must end; by default it does, with code 70. */
  readonly onFatal?: (error: StoreFault) => void;
}

/** The store of a directory; its `open` takes ownership. */
export function openSqliteStore(options: SqliteStoreOptions): SqliteStore {
  return new SqliteStore(options);
}

/** A store on the local disk, owned by one process. */
export class SqliteStore implements Store {
  readonly #options: SqliteStoreOptions;
  #thread: StoreThread | null = null;
  readonly #indexer = new SearchIndexer(this);
  #onUnwritable: (fault: Error | null) => void = () => undefined;

  constructor(options: SqliteStoreOptions) {
    this.#options = options;
  }

  /** Where it is, as it was named. */
  get directory(): string {
    return this.#options.directory;
  }

  async open(): Promise<StoreInfo> {
    assert(this.#thread === null, "a store is opened once");
    const directory = openDirectory(this.#options.directory);
    claimInProcess(directory);
    const thread = new StoreThread(directory, {
      onFatal: this.#options.onFatal ?? endProcess,
      onFiles: (fault) => this.#onUnwritable(fault),
    });
    try {
      const info = await thread.call<StoreInfo>({ kind: "open", startedAt: Date.now() });
      thread.isOpen = true;
      this.#thread = thread;
      this.#indexer.start();
      void this.#shrinkBehind();
      return info;
    } catch (error) {
      await thread.end();
      releaseInProcess(directory);
      throw error;
    }
  }

  onUnwritable(listener: (fault: Error | null) => void): void {
    this.#onUnwritable = listener;
  }

  /** Tells processes that come second where this one listens. */
  async announce(listening: string): Promise<void> {
    await this.#call({ kind: "announce", listening });
  }

  async commit({ fence, writes, lettersTaken }: Commit): Promise<CommitVerdict> {
    for (const write of writes) assertWritable(write, 0);
    const call: Call = { kind: "commit", fence, writes: packWrites(writes) };
    if (lettersTaken === undefined || lettersTaken.length === 0) return this.#call(call);
    return this.#call({ ...call, lettersTaken });
  }

  async load(
    ids: readonly string[],
    options: { foldVersion?: number } = {},
  ): Promise<readonly (LoadedExecution | null)[]> {
    return this.#call({ kind: "load", ids, options });
  }

  async readJournal(range: JournalRange): Promise<readonly JournalRow[]> {
    return this.#call({ kind: "readJournal", range });
  }

  async scanWork(options: {
    after: Readonly<Record<string, number>>;
    each: number;
    partitions: Partitions;
  }): Promise<readonly StoredHead[]> {
    return this.#scan({ ...options, kind: "scanWork" });
  }

  async scanTimers(options: {
    from?: number;
    until: number;
    max: number;
    partitions: Partitions;
  }): Promise<readonly StoredTimer[]> {
    return this.#scan({ ...options, kind: "scanTimers" });
  }

  async listHeads(
    filter: HeadFilter,
    options: { before: number | null; max: number },
  ): Promise<readonly StoredHead[]> {
    return this.#call({ kind: "listHeads", filter, options });
  }

  async findOrders(word: SearchWord, options: { before: number; max: number }): Promise<FoundOrders> {
    return this.#call({ kind: "findOrders", word, options });
  }

  async headsOf(orders: readonly number[]): Promise<readonly StoredHead[]> {
    return this.#call({ kind: "headsOf", orders });
  }

  async indexSome(): Promise<boolean> {
    return this.#call({ kind: "indexSome" });
  }

  async clearIndex(): Promise<void> {
    await this.#call({ kind: "clearIndex" });
  }

  async scanLetters(options: {
    after: number;
    max: number;
    partitions: Partitions;
  }): Promise<readonly StoredMailboxMessage[]> {
    return this.#scan({ ...options, kind: "scanLetters" });
  }

  async readLogs(options: {
    execution: string;
    after: number;
    rowsMax: number;
  }): Promise<readonly StoredLogRow[]> {
    return (await this.#call<PackedLogRow[]>({ ...options, kind: "readLogs" })).map(unpackLog);
  }

  async listDeadLetters(
    filter: { readonly project?: string; readonly workflow?: string; readonly execution?: string },
    options: { before: number | null; max: number },
  ): Promise<readonly StoredDeadLetter[]> {
    return this.#call({ kind: "listDeadLetters", filter, options });
  }

  async dropDeadLetter(order: number, tasks: readonly number[] | null): Promise<void> {
    await this.#call({ kind: "dropDeadLetter", order, tasks });
  }

  async countHeads(filter: Omit<HeadFilter, "status">): Promise<StatusCounts> {
    return this.#call({ kind: "countHeads", filter });
  }

  async listEnded(options: { finishedBefore: number; max: number }): Promise<readonly string[]> {
    return this.#call({ ...options, kind: "listEnded" });
  }

  /** In many small transactions, so that commits come in between. */
  async purge(ids: readonly string[]): Promise<void> {
    for (let from = 0; from < ids.length; )
      from += await this.#call<number>({ kind: "forget", ids: ids.slice(from, from + FORGOTTEN_AT_ONCE) });
    while (await this.#call<boolean>({ kind: "sweep" }));
    while (await this.#call<boolean>({ kind: "shrink" }));
  }

  async putDerived(derived: Derived): Promise<boolean> {
    return this.#call({ kind: "putDerived", derived });
  }

  async timersOf(execution: string): Promise<readonly { timer: string; due: number }[]> {
    return this.#call({ kind: "timersOf", execution });
  }

  async dropDamaged(execution: string, letter: MailboxMessage | null): Promise<boolean> {
    const isDropped = await this.#call<boolean>({ kind: "dropDamaged", execution, letter });
    while (await this.#call<boolean>({ kind: "sweep" }));
    return isDropped;
  }

  async auditTables({ repair }: { readonly repair: boolean }): Promise<readonly TableFinding[]> {
    // The search index is made anew: that is cheaper than comparing it.
    if (repair) await this.clearIndex();
    return this.#call({ kind: "auditTables", repair });
  }

  async putDocument(kind: string, id: string, body: string | null): Promise<void> {
    assertDocumentKey(kind, id);
    await this.#call({ kind: "putDocument", of: kind, id, body });
  }

  async swapDocument(kind: string, id: string, swap: Swap): Promise<boolean> {
    assertDocumentKey(kind, id);
    return this.#call({ kind: "swapDocument", of: kind, id, swap });
  }

  async getDocument(kind: string, id: string): Promise<string | null> {
    return this.#call({ kind: "getDocument", of: kind, id });
  }

  async listDocuments(
    kind: string,
    options: { after?: string; before?: string; descending?: boolean; max: number },
  ): Promise<readonly StoredDocument[]> {
    return this.#call({ kind: "listDocuments", of: kind, options });
  }

  async putDefinition(name: string, hash: string, body: string): Promise<void> {
    await this.#call({ kind: "putDefinition", name, hash, body });
  }

  async dropDefinition(name: string, hash: string): Promise<void> {
    await this.#call({ kind: "dropDefinition", name, hash });
  }

  async getDefinition(
    by: { hash: string } | { newestOf: string },
  ): Promise<{ hash: string; body: string } | null> {
    return this.#call({ kind: "getDefinition", by });
  }

  async listDefinitions(options: {
    after: string;
    max: number;
  }): Promise<readonly { name: string; hash: string }[]> {
    return this.#call({ ...options, kind: "listDefinitions" });
  }

  /**
   * Writes a consistent copy of the whole store to a new file, durable when this resolves; commits wait meanwhile.
   * `restoreBackup` turns it into a store again.
   */
  async backup(file: string): Promise<void> {
    const path = resolve(file);
    const release = reserveFile(path);
    try {
      await this.#call({ kind: "backup", file: path });
    } catch (error) {
      release();
      throw error;
    }
  }

  async close(options: { clean: boolean }): Promise<void> {
    const thread = this.#thread;
    if (thread === null) return;
    this.#indexer.stop();
    // From here on calls are refused: behind the thread's last call they would wait for ever.
    this.#thread = null;
    try {
      if (!thread.isDead) await thread.call({ kind: "close", clean: options.clean });
    } catch (error) {
      this.#thread = thread;
      throw error;
    }
    await thread.end();
    releaseInProcess(thread.directory);
  }

  /** Room that was free when the file was opened is given back while others go on. If the store fails, commits say so. */
  async #shrinkBehind(): Promise<void> {
    try {
      while (this.#thread !== null && (await this.#call<boolean>({ kind: "shrink" })));
    } catch (thrown) {
      if (!(thrown instanceof StoreFault)) throw thrown;
    }
  }

  /** There is one partition, so a scan is about everything or about nothing. */
  async #scan<T>({ partitions, ...call }: Call & { readonly partitions: Partitions }): Promise<T[]> {
    return partitions?.includes(0) === false ? [] : this.#call<T[]>(call);
  }

  async #call<T>(call: Call): Promise<T> {
    if (this.#thread === null)
      throw new StoreFault("the store is not open", { retryable: false, nothingWritten: true });
    return this.#thread.call<T>(call);
  }
}

function openDirectory(path: string): string {
  try {
    return realpathSync(makeDirectory(path, 0o700));
  } catch (error) {
    throw faultOf(error, { file: resolve(path), writing: true });
  }
}

function endProcess(error: StoreFault): void {
  process.stderr.write(`rondo: ${error.message}\n`);
  process.exit(70);
}
