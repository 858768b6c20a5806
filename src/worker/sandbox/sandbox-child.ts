/** The worker's side of one sandbox process: starts it in a jail, splits its output into lines, and kills it. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Order } from "./child/messages.ts";
import type { Jail } from "./jail.ts";

/** The listener for the output of a sandbox process. Each attempt has its own listener. */
export interface ChildListener {
  /** Called with each line of output; null for a line that was too long. */
  line(line: string | null): void;
  /** Called when the process has ended. No other call follows. */
  ended(why: string): void;
}

export interface ChildOptions {
  readonly jail: Jail;
  readonly memoryBytes: number;
  readonly lineBytesMax: number;
}

const NEWLINE = 10;
const STDERR_CHARS = 2_000;
const PAGE_BYTES = 4_096;

export class SandboxChild {
  /** Resolves when the sandbox process has ended. */
  readonly ended: Promise<void>;
  listener: ChildListener | null = null;
  isAlive = true;
  /** Whether the process was killed or has ended, so that it cannot be used again. */
  isSpent = false;
  readonly #process: ChildProcess;
  /** A pipe without data. While it is open, the sandbox knows that this worker process lives. */
  readonly #life: Socket | undefined;
  readonly #lineBytesMax: number;
  readonly #folder: string;
  #parts: Buffer[] = [];
  #partBytes = 0;
  #stderr = "";

  constructor({ jail, memoryBytes, lineBytesMax }: ChildOptions) {
    this.#lineBytesMax = lineBytesMax;
    this.#folder = mkdtempSync(join(tmpdir(), "rondo-script-"));
    const folder = this.#folder;
    const { file, args } = jail.command(folder, memoryBytes);
    // The sandbox has its own process group, so that the jail's helper and the sandbox process are killed together.
    this.#process = spawn(file, [...args, ...inheritedFds()], {
      cwd: folder,
      env: {},
      stdio: ["pipe", "pipe", "pipe", "pipe"],
      detached: true,
    });
    this.#life = this.#process.stdio[3] as Socket | undefined;
    // The pipe breaks when the sandbox process ends. That is expected, so the error is ignored.
    this.#life?.on("error", () => {});
    this.#process.on("exit", () => this.#life?.destroy());
    this.#process.stdout?.on("data", (chunk: Buffer) => this.#read(chunk));
    this.#process.stderr?.on("data", (chunk: Buffer) => {
      this.#stderr = (this.#stderr + chunk.toString()).slice(-STDERR_CHARS);
    });
    // A write to a process that has just died fails. The error is ignored, because the "close" event reports the end.
    this.#process.stdin?.on("error", () => {});
    this.ended = new Promise((resolve) => {
      const end = (why: string): void => {
        if (!this.isAlive) return;
        this.isAlive = false;
        this.isSpent = true;
        rmSync(folder, { recursive: true, force: true });
        this.listener?.ended(why);
        resolve();
      };
      this.#process.on("error", (error) => end(`the sandbox process could not be started: ${error.message}`));
      this.#process.on("close", (code, signal) => end(this.#whyEnded(code, signal)));
    });
  }

  /** The id of the started process: the sandbox process itself, or in a jail the helper that waits for it. */
  get pid(): number | undefined {
    return this.#process.pid;
  }

  send(order: Order): void {
    this.#process.stdin?.write(`${JSON.stringify(order)}\n`);
  }

  kill(): void {
    const { pid } = this.#process;
    this.isSpent = true;
    if (!this.isAlive || pid === undefined) return;
    const inner = childOf(pid);
    if (inner !== null) killQuietly(inner);
    killQuietly(-pid);
    // The folder is deleted at once, because the worker process may end before the "close" event.
    rmSync(this.#folder, { recursive: true, force: true });
  }

  /** Sets whether the sandbox process keeps this worker process alive. */
  hold(held: boolean): void {
    const { stdin, stdout, stderr } = this.#process;
    const parts = [this.#process, stdin, stdout, stderr, this.#life] as (ChildProcess | Socket | null)[];
    for (const part of parts) {
      if (held) part?.ref();
      else part?.unref();
    }
  }

  /** Returns the resident memory of the sandbox process; null if the system does not provide it. */
  residentBytes(): number | null {
    const { pid } = this.#process;
    if (pid === undefined) return null;
    const pages = readQuietly(`/proc/${childOf(pid) ?? pid}/statm`)?.split(" ")[1];
    return pages === undefined ? null : Number(pages) * PAGE_BYTES;
  }

  #read(chunk: Buffer): void {
    let rest = chunk;
    for (let end = rest.indexOf(NEWLINE); end >= 0; end = rest.indexOf(NEWLINE)) {
      const line = Buffer.concat([...this.#parts, rest.subarray(0, end)]).toString();
      this.#parts = [];
      this.#partBytes = 0;
      rest = rest.subarray(end + 1);
      this.listener?.line(line);
    }
    if (rest.length === 0) return;
    this.#partBytes += rest.length;
    if (this.#partBytes <= this.#lineBytesMax) this.#parts.push(rest);
    else this.listener?.line(null);
  }

  #whyEnded(code: number | null, signal: string | null): string {
    const how = signal === null ? `with code ${String(code)}` : `by ${signal}`;
    const said = this.#stderr.trim();
    return said === "" ? `the sandbox process ended ${how}` : `the sandbox process ended ${how}: ${said}`;
  }
}

function killQuietly(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // The process has ended already.
  }
}

/** Returns the open files that a new process would inherit. The sandbox process closes them before it reports that it is ready. */
function inheritedFds(): string[] {
  const marked = 0o2000000;
  return (listQuietly("/proc/self/fd") ?? []).filter((fd) => {
    const flags = /^flags:\s+(\d+)/m.exec(readQuietly(`/proc/self/fdinfo/${fd}`) ?? "")?.[1];
    return Number(fd) > 2 && flags !== undefined && (Number.parseInt(flags, 8) & marked) === 0;
  });
}

function listQuietly(path: string): string[] | null {
  try {
    return readdirSync(path);
  } catch {
    // This system is not Linux.
    return null;
  }
}

/**
 * Returns the id of the first child process of a process; null if there is none. In a jail, the helper has exactly one child
 * process: the sandbox.
 */
function childOf(pid: number): number | null {
  const listed = readQuietly(`/proc/${pid}/task/${pid}/children`)?.trim() ?? "";
  return listed === "" ? null : Number(listed.split(" ")[0]);
}

function readQuietly(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch {
    // This system is not Linux, or the process has just ended.
    return null;
  }
}
