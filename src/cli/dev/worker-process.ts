/** The worker of `rondo dev`: a process of its own, replaced when files change, the old one drained. */
import { type ChildProcess, spawn } from "node:child_process";
import { packageRoot } from "../../package-root.ts";

export interface WorkerSpec {
  readonly files: readonly string[];
  /** How the worker finds the server. */
  readonly args: readonly string[];
}

/** A worker that was started; `ready` answers whether it came so far as to serve. */
export class WorkerProcess {
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
