/**
 * The store port over a directory with a SQLite database. The database runs in a thread of its own (store-thread.ts). The class
 * in this file checks and packs commits, and ends the process when the disk can no longer be trusted.
 */
import { realpathSync } from "node:fs";
import { resolve } from "node:path";
import { assert } from "../../std/assert.ts";
import { makeDirectory } from "../../std/make-directory.ts";
import { RondoError, reject } from "../../std/rejection.ts";
import { assertWritable } from "../check-write.ts";
import { DerivedStore, type StoreMethod } from "../derived-store.ts";
import { unpackLog } from "../packed-log.ts";
import { SearchIndexer } from "../search-indexer.ts";
import {
  type Commit,
  type CommitVerdict,
  type LogRange,
  type MailboxMessage,
  type Store,
  type StoredDefinition,
  type StoredLogRow,
  StoreFault,
  type StoreInfo,
  type TableFinding,
} from "../store.ts";
import type { ThreadMethods } from "./directory-store.ts";
import { faultOf } from "./faults.ts";
import { reserveFile } from "./files/copy-database.ts";
import { claimInProcess, releaseInProcess } from "./files/directory-lock.ts";
import { packWrites } from "./packed-commit.ts";
import { StoreThread } from "./store-thread.ts";

/** The most executions in one transaction of a purge. */
const FORGOTTEN_AT_ONCE = 100;
/** The most definitions that are cached. The other limit is the length of a cached definition, in characters. */
const DEFINITIONS_MAX = 100;
const DEFINITION_CHARS_MAX = 100_000;

export interface SqliteStoreOptions {
  /** The directory of the store. If it does not exist, it is created so that only its owner can read it. */
  readonly directory: string;
  /** Called when the disk failed while writing. The process must end; by default it exits with code 70. */
  readonly onFatal?: (error: StoreFault) => void;
}

export function openSqliteStore(options: SqliteStoreOptions): SqliteStore {
  if ("Deno" in globalThis)
    throw new RondoError(
      reject(
        "invalid_input",
        "a store in a directory does not work in Deno, whose threads differ from those of Node",
        {
          path: "store",
          hint: 'use Node or Bun, or in Deno "memory:", "postgres://..." or connect({ url })',
        },
      ),
    );
  return new SqliteStore(options);
}

/** A store on the local disk, owned by one process. */
export class SqliteStore extends DerivedStore implements Store {
  readonly #options: SqliteStoreOptions;
  #thread: StoreThread | null = null;
  readonly #indexer = new SearchIndexer(this);
  /**
   * A cache of the newest definitions, by name. Every start over HTTP needs one, and only this process writes the store. A
   * write replaces the whole map, so a read that is under way fills the old map and not the new one.
   */
  #newest = new Map<string, StoredDefinition>();
  #onUnwritable: (fault: Error | null) => void = () => undefined;

  constructor(options: SqliteStoreOptions) {
    super();
    this.#options = options;
  }

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
      const info = await thread.call("open", { pid: process.pid, startedAt: Date.now() });
      thread.opened();
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

  /** Publishes where this process listens, for processes that find the directory in use. */
  async announce(listening: string): Promise<void> {
    await this.#call("announce", listening);
  }

  override async commit({ fence, writes, mailTaken = [] }: Commit): Promise<CommitVerdict> {
    for (const write of writes) assertWritable(write, 0);
    return this.#call("commit", fence, packWrites(writes), mailTaken);
  }

  override async readLogs(range: LogRange): Promise<readonly StoredLogRow[]> {
    return (await this.#call("readLogs", range)).map(unpackLog);
  }

  override async getDefinition(
    by: { hash: string } | { newestOf: string },
  ): Promise<StoredDefinition | null> {
    if ("hash" in by) return this.#call("getDefinition", by);
    const newest = this.#newest;
    const { newestOf: name } = by;
    const known = newest.get(name);
    if (known !== undefined) return known;
    const found = await this.#call("getDefinition", by);
    if (found === null || found.body.length > DEFINITION_CHARS_MAX) return found;
    newest.set(name, found);
    if (newest.size > DEFINITIONS_MAX) newest.delete(newest.keys().next().value as string);
    return found;
  }

  override async putDefinition(name: string, hash: string, body: string): Promise<void> {
    this.#newest = new Map();
    return this.#call("putDefinition", name, hash, body);
  }

  override async dropDefinition(name: string, hash: string): Promise<void> {
    this.#newest = new Map();
    return this.#call("dropDefinition", name, hash);
  }

  override async purge(ids: readonly string[]): Promise<void> {
    for (let from = 0; from < ids.length; )
      from += await this.#call("forget", ids.slice(from, from + FORGOTTEN_AT_ONCE));
    while (await this.#call("sweep"));
    while (await this.#call("shrink"));
  }

  override async dropDamaged(execution: string, message: MailboxMessage | null): Promise<boolean> {
    const isDropped = await this.#call("dropDamaged", execution, message);
    while (await this.#call("sweep"));
    return isDropped;
  }

  override async auditTables({ repair }: { readonly repair: boolean }): Promise<readonly TableFinding[]> {
    // Rebuilding the search index is cheaper than comparing it.
    if (repair) await this.clearIndex();
    if (repair) this.#newest = new Map();
    return this.#call("auditTables", { repair });
  }

  /** Writes a consistent, durable copy of the store to a new file, for `restoreBackup`. Commits wait meanwhile. */
  async backup(file: string): Promise<void> {
    const path = resolve(file);
    const release = reserveFile(path);
    try {
      await this.#call("backup", path);
    } catch (error) {
      release();
      throw error;
    }
  }

  async close(options: { clean: boolean }): Promise<void> {
    const thread = this.#thread;
    if (thread === null) return;
    this.#indexer.stop();
    // Calls after this point are refused, because the thread would never answer them.
    this.#thread = null;
    try {
      if (!thread.isDead) await thread.call("close", { clean: options.clean });
    } catch (error) {
      this.#thread = thread;
      throw error;
    }
    await thread.end();
    releaseInProcess(thread.directory);
  }

  /**
   * Returns pages to the file system that were free when the file was opened. Faults of the store are not reported, because
   * commits report them.
   */
  async #shrinkBehind(): Promise<void> {
    try {
      while (this.#thread !== null && (await this.#call("shrink")));
    } catch (thrown) {
      if (!(thrown instanceof StoreFault)) throw thrown;
    }
  }

  protected override answer(method: StoreMethod, args: readonly unknown[]): unknown {
    // Methods that the thread does not have under the same name are overridden in this class.
    return this.#call(method as keyof ThreadMethods, ...(args as never));
  }

  async #call<M extends keyof ThreadMethods>(
    method: M,
    ...args: Parameters<ThreadMethods[M]>
  ): Promise<ReturnType<ThreadMethods[M]>> {
    if (this.#thread === null)
      throw new StoreFault("the store is not open", { retryable: false, nothingWritten: true });
    return this.#thread.call(method, ...args);
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
