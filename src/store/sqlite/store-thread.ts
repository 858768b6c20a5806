/** The engine's side of the store's thread: sends calls, matches replies by their order, reports failures of the disk. */
import { Worker } from "node:worker_threads";
import { assert, Bug } from "../../std/assert.ts";
import { compiledFile } from "../../std/compiled-file.ts";
import type { StoreFault } from "../store.ts";
import type { ThreadMethods } from "./directory-store.ts";
import { DiskFailed, type FaultReport, fromReport } from "./faults.ts";

export type Call = readonly [method: keyof ThreadMethods, ...args: unknown[]];

/** A message of the store's thread. Replies come in the order of the calls, so a reply needs no id. */
export type Reply =
  | { readonly kind: "done"; readonly value: unknown }
  | { readonly kind: "failed"; readonly report: FaultReport }
  /** Says that maintenance between two calls failed. This message is no reply to a call. */
  | { readonly kind: "broken"; readonly report: FaultReport }
  /** Says that the store's files were moved away, or are in their places again (null). This message is no reply to a call. */
  | { readonly kind: "files"; readonly report: FaultReport | null };

export interface ThreadData {
  readonly directory: string;
  /** Shared memory of one 32-bit word, which the thread sets when it has closed the store. */
  readonly closed: SharedArrayBuffer;
}

/** How long the exit of the process waits until the store is closed. */
const EXIT_WAIT_MS = 5_000;

/** The threads whose stores are open. */
const open = new Set<StoreThread>();
let listens = false;

/**
 * Closes all open stores when the process exits, for example after an uncaught error. Otherwise SQLite would close the file
 * when the thread is torn down, which removes the write-ahead log. The next owner could not tell this from a lost log.
 */
function closeAtExit(thread: StoreThread): void {
  open.add(thread);
  if (listens) return;
  listens = true;
  process.on("exit", () => {
    for (const one of open) one.closeNow();
  });
}

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** The store's thread and the calls that it has not answered. It keeps the process alive only while a call is open. */
export class StoreThread {
  readonly directory: string;
  #isOpen = false;
  isDead = false;
  /** Whether the disk has failed. If it has, the store is not closed at exit. */
  #hasFailed = false;
  readonly #closed = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  readonly #worker: Worker;
  readonly #ended: Promise<void>;
  readonly #onFatal: (error: StoreFault) => void;
  readonly #onFiles: (fault: Error | null) => void;
  readonly #waiting: Waiting[] = [];

  constructor(
    directory: string,
    listeners: { onFatal: (error: StoreFault) => void; onFiles: (fault: Error | null) => void },
  ) {
    this.directory = directory;
    this.#onFatal = listeners.onFatal;
    this.#onFiles = listeners.onFiles;
    const workerData: ThreadData = { directory, closed: this.#closed };
    this.#worker = new Worker(compiledFile("./thread.js", import.meta.url), { workerData, execArgv: [] });
    this.#worker.on("message", (reply: Reply) => this.#onReply(reply));
    this.#worker.on("error", (cause) => this.#die(cause));
    this.#ended = new Promise((resolve) => {
      this.#worker.on("exit", () => {
        open.delete(this);
        if (this.#waiting.length > 0) this.#die("it ended");
        resolve();
      });
    });
    this.#worker.unref();
  }

  /** Called when the thread has opened the store. */
  opened(): void {
    this.#isOpen = true;
    closeAtExit(this);
  }

  /** Blocks the process until the store is closed, uncleanly. The process is exiting, so there is no other way to wait for the thread. */
  closeNow(): void {
    if (this.isDead || this.#hasFailed) return;
    this.#worker.postMessage(["close", { clean: false }] satisfies Call);
    Atomics.wait(new Int32Array(this.#closed), 0, 0, EXIT_WAIT_MS);
  }

  call<M extends keyof ThreadMethods>(
    method: M,
    ...args: Parameters<ThreadMethods[M]>
  ): Promise<ReturnType<ThreadMethods[M]>> {
    if (this.isDead) return Promise.reject(new DiskFailed("the store's thread is dead"));
    if (this.#waiting.length === 0) this.#worker.ref();
    this.#worker.postMessage([method, ...args] satisfies Call);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve: resolve as Waiting["resolve"], reject });
    });
  }

  /** Resolves when the thread has ended and its file handles are closed. */
  end(): Promise<void> {
    this.#worker.ref();
    return this.#ended;
  }

  #onReply(reply: Reply): void {
    if (reply.kind === "files") return this.#onFiles(reply.report === null ? null : fromReport(reply.report));
    if (reply.kind === "broken") {
      const error = fromReport(reply.report);
      if (error instanceof DiskFailed) this.#fail(error);
      else if (error instanceof Bug) this.#die(error);
      return;
    }
    const waiting = this.#waiting.shift();
    assert(waiting !== undefined, "every reply belongs to a call");
    if (this.#waiting.length === 0) this.#worker.unref();
    if (reply.kind === "done") {
      waiting.resolve(reply.value);
      return;
    }
    const error = fromReport(reply.report);
    if (error instanceof DiskFailed) this.#fail(error);
    waiting.reject(error);
  }

  #die(cause: unknown): void {
    this.isDead = true;
    const error = new DiskFailed(`the store's thread died (${String(cause)})`, cause);
    for (const { reject } of this.#waiting.splice(0)) reject(error);
    if (this.#isOpen) this.#onFatal(error);
  }

  #fail(error: DiskFailed): void {
    this.#hasFailed = true;
    this.#onFatal(error);
  }
}
