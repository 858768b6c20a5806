/**
 * The store port over a directory with a SQLite database. The database lives in a thread of its own, so that the
 * engine goes on while a commit waits for the disk; this file is the engine's side: it checks and packs commits,
 * sends calls, matches answers, and ends the process when the disk can no longer be trusted.
 */
import { mkdirSync, realpathSync } from "node:fs";
import { resolve } from "node:path";
import { Worker } from "node:worker_threads";
import type { Entry } from "../../kernel/journal-entry.ts";
import { assert, Bug } from "../../std/assert.ts";
import { assertWritable } from "../check-write.ts";
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
import { claimInProcess, releaseInProcess } from "./directory-lock.ts";
import { DiskFailed, faultOf, fromReport } from "./faults.ts";
import { packWrites } from "./packed-commit.ts";
import type { Call, Reply, ThreadData } from "./thread-messages.ts";

export interface SqliteStoreOptions {
  /** Made, for its owner only, if it does not exist. */
  readonly directory: string;
  /** Called when the disk failed while writing. The process must end; by default it does, with code 70. */
  readonly onFatal?: (error: StoreFault) => void;
}

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** The store of a directory; its `open` takes ownership. */
export function openSqliteStore(options: SqliteStoreOptions): SqliteStore {
  return new SqliteStore(options);
}

/** A store on the local disk, owned by one process. */
export class SqliteStore implements Store {
  readonly #options: SqliteStoreOptions;
  #thread: StoreThread | null = null;

  constructor(options: SqliteStoreOptions) {
    this.#options = options;
  }

  async open(): Promise<StoreInfo> {
    assert(this.#thread === null, "a store is opened once");
    const directory = makeDirectory(this.#options.directory);
    claimInProcess(directory);
    const thread = new StoreThread(directory, this.#options.onFatal ?? endProcess);
    try {
      const info = await thread.call<StoreInfo>({ kind: "open", startedAt: Date.now() });
      thread.isOpen = true;
      this.#thread = thread;
      return info;
    } catch (error) {
      await thread.end();
      releaseInProcess(directory);
      throw error;
    }
  }

  /** Tells processes that come second where this one listens. */
  async announce(listening: string): Promise<void> {
    await this.#call({ kind: "announce", listening });
  }

  async commit({ fence, writes }: Commit): Promise<CommitVerdict> {
    for (const write of writes) assertWritable(write);
    return this.#call({ kind: "commit", fence, writes: packWrites(writes) });
  }

  async load(
    ids: readonly string[],
    options: { foldVersion?: number } = {},
  ): Promise<readonly (LoadedExecution | null)[]> {
    return this.#call({ kind: "load", ids, options });
  }

  async readJournal(range: JournalRange): Promise<readonly Entry[]> {
    return this.#call({ kind: "readJournal", range });
  }

  async scanWork(options: {
    after: Readonly<Record<string, number>>;
    each: number;
  }): Promise<readonly StoredHead[]> {
    return this.#call({ ...options, kind: "scanWork" });
  }

  async scanTimers(options: { until: number; max: number }): Promise<readonly StoredTimer[]> {
    return this.#call({ ...options, kind: "scanTimers" });
  }

  async listHeads(
    filter: HeadFilter,
    options: { before: number | null; max: number },
  ): Promise<readonly StoredHead[]> {
    return this.#call({ kind: "listHeads", filter, options });
  }

  async putDefinition(name: string, hash: string, body: string): Promise<void> {
    await this.#call({ kind: "putDefinition", name, hash, body });
  }

  async getDefinition(
    by: { hash: string } | { newestOf: string },
  ): Promise<{ hash: string; body: string } | null> {
    return this.#call({ kind: "getDefinition", by });
  }

  async close(options: { clean: boolean }): Promise<void> {
    const thread = this.#thread;
    if (thread === null) return;
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

  async #call<T>(call: Call): Promise<T> {
    if (this.#thread === null)
      throw new StoreFault("the store is not open", { retryable: false, nothingWritten: true });
    return this.#thread.call<T>(call);
  }
}

/** The thread and the calls it has not answered. It keeps the process alive only while there are some. */
class StoreThread {
  readonly directory: string;
  isOpen = false;
  isDead = false;
  readonly #worker: Worker;
  readonly #ended: Promise<void>;
  readonly #onFatal: (error: StoreFault) => void;
  readonly #waiting: Waiting[] = [];

  constructor(directory: string, onFatal: (error: StoreFault) => void) {
    this.directory = directory;
    this.#onFatal = onFatal;
    const workerData: ThreadData = { directory };
    this.#worker = new Worker(threadFile(), { workerData, execArgv: [] });
    this.#worker.on("message", (reply: Reply) => this.#take(reply));
    this.#worker.on("error", (cause) => this.#die(cause));
    this.#ended = new Promise((resolve) => {
      this.#worker.on("exit", () => {
        if (this.#waiting.length > 0) this.#die("it ended");
        resolve();
      });
    });
    this.#worker.unref();
  }

  call<T>(call: Call): Promise<T> {
    if (this.isDead) return Promise.reject(new DiskFailed("the store's thread is dead"));
    if (this.#waiting.length === 0) this.#worker.ref();
    this.#worker.postMessage(call);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve: resolve as Waiting["resolve"], reject });
    });
  }

  /** Resolves when the thread is gone, and with it every handle on the files. */
  end(): Promise<void> {
    this.#worker.ref();
    return this.#ended;
  }

  #take(reply: Reply): void {
    if (reply.kind === "broken") {
      const error = fromReport(reply.report);
      if (error instanceof DiskFailed) this.#onFatal(error);
      else if (error instanceof Bug) this.#die(error);
      return;
    }
    const waiting = this.#waiting.shift();
    assert(waiting !== undefined, "every answer has its call");
    if (this.#waiting.length === 0) this.#worker.unref();
    if (reply.kind === "done") {
      waiting.resolve(reply.value);
      return;
    }
    const error = fromReport(reply.report);
    if (error instanceof DiskFailed) this.#onFatal(error);
    waiting.reject(error);
  }

  #die(cause: unknown): void {
    this.isDead = true;
    const error = new DiskFailed(`the store's thread died (${String(cause)})`, cause);
    for (const { reject } of this.#waiting.splice(0)) reject(error);
    if (this.isOpen) this.#onFatal(error);
  }
}

function makeDirectory(path: string): string {
  const directory = resolve(path);
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
    return realpathSync(directory);
  } catch (error) {
    throw faultOf(error, { file: directory, writing: true });
  }
}

/** Node cannot run a .ts file in a thread everywhere, so from source the built thread is used. */
function threadFile(): URL {
  const beside = new URL("./thread.js", import.meta.url);
  if (!import.meta.url.endsWith(".ts")) return beside;
  return new URL(beside.href.replace(/\/src\/store\/sqlite\/thread\.js$/, "/dist/store/sqlite/thread.js"));
}

function endProcess(error: StoreFault): void {
  process.stderr.write(`rondo: ${error.message}\n`);
  process.exit(70);
}
