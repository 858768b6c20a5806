/**
 * Keeps one worker at work on the newest version of the files that loads:
 * 1. a change starts a new worker; once it serves, the one before is drained;
 * 2. one that does not come so far has told why, and the one before stays;
 * 3. a change that comes meanwhile is taken next; a worker that dies by itself is started again, later each time.
 */

import { type ChildProcess, spawn } from "node:child_process";
import { packageRoot } from "../../package-root.ts";
import { BackOff } from "../../std/back-off.ts";
import { showDuration } from "../../std/duration.ts";
import { printLine } from "../output/print.ts";

const RETRY = { minMs: 1_000, maxMs: 30_000 } as const;

export class WorkerKeeper {
  readonly #spec: WorkerSpec;
  #current: WorkerProcess | null = null;
  readonly #draining = new Set<WorkerProcess>();
  #isReplacing = false;
  #isWanted = false;
  #isClosing = false;
  readonly #backOff = new BackOff(RETRY);
  #timer: NodeJS.Timeout | null = null;

  constructor(spec: WorkerSpec) {
    this.#spec = spec;
  }

  /** Has a new worker take over. Resolves when that is settled, one way or the other. */
  async replace(): Promise<void> {
    this.#isWanted = true;
    if (this.#isReplacing) return;
    this.#isReplacing = true;
    try {
      while (this.#isWanted && !this.#isClosing) {
        this.#isWanted = false;
        await this.#replaceOnce();
      }
    } finally {
      this.#isReplacing = false;
    }
  }

  /** Drains all there are. */
  async close(): Promise<void> {
    this.#isClosing = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#current !== null) this.#drain(this.#current);
    await Promise.all([...this.#draining].map((worker) => worker.ended));
  }

  /** Ends all there are, at once. */
  kill(): void {
    for (const worker of [this.#current, ...this.#draining]) worker?.kill();
  }

  async #replaceOnce(): Promise<void> {
    const before = this.#current;
    const worker = new WorkerProcess(this.#spec);
    if (!(await worker.ready)) {
      const stays = before === null ? "the next change is tried" : "the worker of before stays";
      if (!this.#isClosing) printLine(`rondo dev: this version does not load; ${stays}`);
      return;
    }
    if (this.#isClosing) return this.#drain(worker);
    this.#current = worker;
    void worker.ended.then(() => this.#died(worker));
    if (before !== null) {
      printLine("rondo dev: the new version serves; the worker of before ends what it runs");
      this.#drain(before);
    }
  }

  #drain(worker: WorkerProcess): void {
    this.#draining.add(worker);
    void worker.drain().then(() => this.#draining.delete(worker));
  }

  /** It ended without being told to: the user's code took it down. */
  #died(worker: WorkerProcess): void {
    if (worker !== this.#current || this.#isClosing) return;
    this.#current = null;
    const ms = this.#backOff.next();
    printLine(`rondo dev: the worker has ended; another is started in ${showDuration(ms)}`);
    this.#timer = setTimeout(() => void this.replace(), ms);
  }
}

interface WorkerSpec {
  readonly files: readonly string[];
  /** How the worker finds the server. */
  readonly args: readonly string[];
}

/** A worker that was started; `ready` answers whether it came so far as to serve. */
class WorkerProcess {
  readonly ready: Promise<boolean>;
  readonly ended: Promise<void>;
  readonly #child: ChildProcess;

  constructor({ files, args }: WorkerSpec) {
    // What it says is the user's code's to say: it goes where ours goes.
    this.#child = spawn(process.execPath, [`${packageRoot}bin/rondo.js`, "worker", ...files, ...args], {
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    const exited = new Promise<void>((resolve) => {
      this.#child.once("exit", () => resolve());
      this.#child.once("error", () => resolve());
    });
    this.ended = exited;
    this.ready = new Promise((resolve) => {
      this.#child.on("message", (message) => {
        if ((message as { kind?: unknown } | null)?.kind === "ready") resolve(true);
      });
      void exited.then(() => resolve(false));
    });
  }

  get pid(): number | undefined {
    return this.#child.pid;
  }

  /** Has it end gracefully: what runs may end, nothing new begins. */
  drain(): Promise<void> {
    this.#child.kill("SIGTERM");
    return this.ended;
  }

  /** Ends it at once. */
  kill(): void {
    this.#child.kill("SIGKILL");
  }
}
