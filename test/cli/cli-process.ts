/** Real processes of the built CLI (dist/), in folders outside of the package. Waits for lines, never for times. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, onTestFinished } from "vitest";

const built = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

export interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ProcessOptions {
  readonly cwd: string;
  readonly stdin?: string | Uint8Array;
  readonly env?: Readonly<Record<string, string>>;
  readonly nodeArgs?: readonly string[];
  /** It is not killed with the test: whoever starts it kills it. */
  readonly outlivesTest?: boolean;
}

/** A process under way; it is killed with the test if it still runs then. */
export class CliProcess {
  readonly ended: Promise<Ended>;
  readonly #child: ChildProcess;
  #stdout = "";
  #stderr = "";
  #hasEnded = false;
  #waiting: {
    pattern: RegExp;
    nth: number;
    found: (line: string) => void;
    failed: (error: Error) => void;
  }[] = [];

  constructor(script: string, args: readonly string[], options: ProcessOptions) {
    const env = Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !name.startsWith("RONDO_")),
    );
    this.#child = spawn(process.execPath, [...(options.nodeArgs ?? []), built(script), ...args], {
      cwd: options.cwd,
      env: { ...env, ...options.env },
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#child.stdin?.end(options.stdin ?? "");
    this.#child.stdout?.on("data", (data: Buffer) => {
      this.#stdout += data.toString();
      this.#look();
    });
    this.#child.stderr?.on("data", (data: Buffer) => {
      this.#stderr += data.toString();
      this.#look();
    });
    this.ended = new Promise((resolve) => {
      this.#child.on("close", (code, signal) => {
        this.#hasEnded = true;
        for (const waiting of this.#waiting.splice(0))
          waiting.failed(new Error(`ended before ${waiting.pattern}:\n${this.#stdout}${this.#stderr}`));
        resolve({ code, signal, stdout: this.#stdout, stderr: this.#stderr });
      });
    });
    if (options.outlivesTest !== true) onTestFinished(() => void this.#child.kill("SIGKILL"));
  }

  /** The first line, on either stream, that fits; or the n-th. */
  line(pattern: RegExp, nth = 1): Promise<string> {
    return new Promise((found, failed) => {
      this.#waiting.push({ pattern, nth, found, failed });
      this.#look();
      if (this.#hasEnded) failed(new Error(`ended already:\n${this.#stdout}${this.#stderr}`));
    });
  }

  /** How many lines that fit have come so far. */
  lines(pattern: RegExp): number {
    return this.#lines().filter((line) => pattern.test(line)).length;
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  #lines(): string[] {
    return `${this.#stdout}\n${this.#stderr}`.split("\n");
  }

  #look(): void {
    const lines = this.#lines();
    this.#waiting = this.#waiting.filter(({ pattern, nth, found }) => {
      const line = lines.filter((candidate) => pattern.test(candidate))[nth - 1];
      if (line !== undefined) found(line);
      return line === undefined;
    });
  }
}

/** Starts `rondo ...`. */
export function startCli(args: readonly string[], options: ProcessOptions): CliProcess {
  return new CliProcess("bin/rondo.js", args, options);
}

/** Runs `rondo ...` to its end. */
export function cli(args: readonly string[], options: ProcessOptions): Promise<Ended> {
  return startCli(args, options).ended;
}

/** A server on the folder's `.rondo`, at a port of its own. */
export interface ServerProcess {
  readonly url: string;
  readonly socket: string;
  readonly process: CliProcess;
}

/** Starts `rondo start`; resolved when it listens. */
export async function startServer(
  options: ProcessOptions & { args?: readonly string[] },
): Promise<ServerProcess> {
  const process = startCli(["start", "--port", "0", "--json", ...(options.args ?? [])], options);
  const { url, socket } = JSON.parse(await process.line(/^\{"url":/)) as { url: string; socket: string };
  return { url, socket, process };
}

/** A server for all tests of a file, in a folder with these files. To be called outside of them. */
export function fileServer(files: Readonly<Record<string, string>> = {}): () => ServerProcess & {
  readonly cwd: string;
} {
  let server: (ServerProcess & { readonly cwd: string }) | null = null;
  beforeAll(async () => {
    const cwd = newFolder(files);
    server = { cwd, ...(await startServer({ cwd, outlivesTest: true })) };
  });
  afterAll(async () => {
    if (server === null) return;
    server.process.kill("SIGKILL");
    await server.process.ended;
    rmSync(server.cwd, { recursive: true, force: true });
  });
  return () => {
    if (server === null) throw new Error("the server has not been started");
    return server;
  };
}

/** The values of lines of JSON. */
export function jsonLines<T>(text: string): T[] {
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as T);
}

/** A new folder with these files, gone when the test is over. */
export function folder(files: Readonly<Record<string, string>> = {}): string {
  const path = newFolder(files);
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

function newFolder(files: Readonly<Record<string, string>>): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), "rondo-cli-")));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(path, name)), { recursive: true });
    writeFileSync(join(path, name), text);
  }
  return path;
}
