/**
 * Keeps one worker running. It has the newest version of the user's files that can be loaded.
 * 1. A change starts a new worker; once it serves, the former worker is drained.
 * 2. If the new worker cannot load the files, it prints the reason and ends, and the former worker keeps running.
 * 3. If files change during a replacement, another replacement follows. A worker that dies is started again, with exponential back-off.
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

  /** Replaces the worker. Resolves when the new worker serves or has failed. */
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

  /** Drains all workers. */
  async close(): Promise<void> {
    this.#isClosing = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#current !== null) this.#drain(this.#current);
    await Promise.all([...this.#draining].map((worker) => worker.ended));
  }

  /** Kills all workers. */
  kill(): void {
    for (const worker of [this.#current, ...this.#draining]) worker?.kill();
  }

  async #replaceOnce(): Promise<void> {
    const before = this.#current;
    const worker = new WorkerProcess(this.#spec);
    if (!(await worker.ready)) {
      const stays =
        before === null ? "loading is tried again after the next change" : "the former worker stays";
      if (!this.#isClosing) printLine(`rondo dev: the changed files cannot be loaded; ${stays}`);
      return;
    }
    if (this.#isClosing) return this.#drain(worker);
    this.#current = worker;
    void worker.ended.then(() => this.#died(worker));
    if (before !== null) {
      printLine("rondo dev: the new version is served; the former worker ends after its running tasks");
      this.#drain(before);
    }
  }

  #drain(worker: WorkerProcess): void {
    this.#draining.add(worker);
    void worker.drain().then(() => this.#draining.delete(worker));
  }

  /** Called when a worker ended by itself, because of the user's code. Starts another worker after a delay. */
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
  /** Command-line arguments by which the worker finds the server. */
  readonly args: readonly string[];
}

/** A started worker process; `ready` resolves with whether it serves. */
class WorkerProcess {
  readonly ready: Promise<boolean>;
  readonly ended: Promise<void>;
  readonly #child: ChildProcess;

  constructor({ files, args }: WorkerSpec) {
    // The worker process inherits the stdout and stderr of this process.
    this.#child = spawn(process.execPath, [`${packageRoot()}bin/rondo.js`, "worker", ...files, ...args], {
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

  /** Stops the worker gracefully: running tasks may finish, and no new tasks begin. */
  drain(): Promise<void> {
    this.#child.kill("SIGTERM");
    return this.ended;
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }
}
