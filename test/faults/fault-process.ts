/** A process of the built CLI that is to be killed, stopped and looked at. Knows nothing of the test runner. */
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const RONDO = fileURLToPath(new URL("../../bin/rondo.js", import.meta.url));
const LINES_MAX = 5_000;

export interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
}

export class FaultProcess {
  readonly ended: Promise<Exit>;
  readonly args: readonly string[];
  readonly #child: ChildProcess;
  readonly #lines: string[] = [];
  #exit: Exit | null = null;
  #isTerminated = false;
  #wake = new Set<() => void>();

  constructor(
    args: readonly string[],
    options: { readonly cwd: string; readonly env: Record<string, string>; readonly program?: string },
  ) {
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("RONDO_"));
    this.args = args;
    this.#child = spawn(process.execPath, [options.program ?? RONDO, ...args], {
      cwd: options.cwd,
      env: { ...Object.fromEntries(inherited), ...options.env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      let rest = "";
      stream?.setEncoding("utf8").on("data", (text: string) => {
        const lines = `${rest}${text}`.split("\n");
        rest = lines.pop() ?? "";
        this.#lines.push(...lines);
        if (this.#lines.length > LINES_MAX) this.#lines.splice(0, LINES_MAX / 2);
        this.#look();
      });
    }
    this.ended = new Promise((resolve) => {
      this.#child.on("close", (code, signal) => {
        this.#exit = { code, signal };
        resolve(this.#exit);
        this.#look();
      });
    });
  }

  get pid(): number {
    return this.#child.pid ?? -1;
  }

  get hasEnded(): boolean {
    return this.#exit !== null;
  }

  /** It had no chance to tidy up. */
  get wasKilled(): boolean {
    return this.#exit?.signal === "SIGKILL";
  }

  /** It was asked to end. */
  get wasTerminated(): boolean {
    return this.#isTerminated;
  }

  /** How it ended; null: it runs. */
  get exit(): Exit | null {
    return this.#exit;
  }

  /** What it said last, on either stream. */
  get lines(): readonly string[] {
    return this.#lines;
  }

  /** The first line that fits; throws if the process ends without it. */
  async line(pattern: RegExp): Promise<string> {
    for (;;) {
      const found = this.#lines.find((line) => pattern.test(line));
      if (found !== undefined) return found;
      if (this.#exit !== null)
        throw new Error(
          `${this.args.join(" ")} ended (${JSON.stringify(this.#exit)}) without ${pattern}:\n${this.#lines.join("\n")}`,
        );
      await new Promise<void>((resolve) => this.#wake.add(resolve));
    }
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** kill -9, and waits until it is gone. */
  async kill(): Promise<void> {
    this.#child.kill("SIGCONT");
    this.#child.kill("SIGKILL");
    await this.ended;
  }

  /** SIGTERM; resolves with how it ended. */
  async terminate(): Promise<Exit> {
    this.#isTerminated = true;
    this.#child.kill("SIGTERM");
    return this.ended;
  }

  /** Its resident memory in MB; 0: it is gone. */
  get rssMb(): number {
    if (this.hasEnded) return 0;
    const kilobytes = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${this.pid}/status`, "utf8"))?.[1];
    return Number(kilobytes ?? 0) / 1_024;
  }

  #look(): void {
    const waiting = this.#wake;
    this.#wake = new Set();
    for (const wake of waiting) wake();
  }
}
