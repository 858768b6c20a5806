/**
 * The engine's side of the store's thread: sends calls, matches answers in their order, and says when the disk can no
 * longer be trusted.
 */

import { Worker } from "node:worker_threads";
import { assert, Bug } from "../../std/assert.ts";
import { compiledFile } from "../../std/compiled-file.ts";
import type { StoreFault } from "../store.ts";
import { DiskFailed, fromReport } from "./faults.ts";
import type { Call, Reply, ThreadData } from "./thread-messages.ts";

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** The thread and the calls it has not answered. It keeps the process alive only while there are some. */
export class StoreThread {
  readonly directory: string;
  isOpen = false;
  isDead = false;
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
    const workerData: ThreadData = { directory };
    this.#worker = new Worker(compiledFile("./thread.js", import.meta.url), { workerData, execArgv: [] });
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
    if (reply.kind === "files") return this.#onFiles(reply.report === null ? null : fromReport(reply.report));
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
