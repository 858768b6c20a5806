/**
 * `rondo start` and `rondo worker` as separate processes, as users run them, over a store in the scenario's directory. Measures
 * their CPU time and memory.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { packageRoot } from "../../../src/package-root.ts";
import { cpuMsOf, peakRssMbOf } from "../process-cpu.ts";
import type { Bench } from "../scenario.ts";

const CLI = `${packageRoot()}bin/rondo.js`;
const WORKFLOWS = fileURLToPath(new URL("./workflows.js", import.meta.url));
const READY_MS = 30_000;
const STOP_MS = 30_000;

export class RondoProcess {
  readonly #child: ChildProcess;
  readonly #name: string;
  readonly #exited: Promise<unknown>;

  private constructor(name: string, bench: Bench, args: readonly string[]) {
    const profile = [
      "--cpu-prof",
      "--cpu-prof-interval",
      "500",
      "--cpu-prof-dir",
      join(bench.directory, name),
    ];
    this.#name = name;
    // The part of the scenario runs with the Node flags of the container image, if any. The processes get the same ones.
    const flags = [...process.execArgv, ...(bench.isProfiled ? profile : [])];
    this.#child = spawn(process.execPath, [...flags, CLI, ...args], {
      cwd: bench.directory,
      env: Object.fromEntries(Object.entries(process.env).filter(([key]) => !key.startsWith("RONDO_"))),
      stdio: ["ignore", "pipe", 2, "ipc"],
    });
    this.#exited = once(this.#child, "exit");
  }

  /**
   * Starts a server, over a store in the scenario's directory if none is named; resolves with its address when it is ready.
   */
  static async server(
    bench: Bench,
    store = `file:${join(bench.directory, "store")}`,
    more: readonly string[] = [],
  ): Promise<{ server: RondoProcess; url: string }> {
    const args = ["start", "--store", store, "--port", "0", "--json", ...more];
    const server = new RondoProcess("server", bench, args);
    const line = await server.#ready(server.#firstLine());
    return { server, url: (JSON.parse(line) as { url: string }).url };
  }

  /** Starts a worker for the bench's workflows; resolves when it is ready. */
  static async worker(
    bench: Bench,
    url: string,
    capacity: number,
    workflows = WORKFLOWS,
  ): Promise<RondoProcess> {
    const worker = new RondoProcess("worker", bench, [
      "worker",
      workflows,
      "--url",
      url,
      "--capacity",
      String(capacity),
    ]);
    await worker.#ready(worker.#readyMessage());
    return worker;
  }

  /** Starts a worker over the broker. */
  static async brokerWorker(
    bench: Bench,
    { url, broker, capacity }: { url: string; broker: string; capacity: number },
    workflows = WORKFLOWS,
  ): Promise<RondoProcess> {
    const at = ["--url", url, "--broker", broker, "--capacity", String(capacity)];
    const worker = new RondoProcess("worker", bench, ["worker", workflows, ...at]);
    await worker.#ready(worker.#readyMessage());
    return worker;
  }

  /** The CPU time so far, of all threads, in milliseconds. */
  cpuMs(): number {
    return cpuMsOf(this.#child.pid);
  }

  peakRssMb(): number {
    return peakRssMbOf(this.#child.pid);
  }

  /** Sends a signal, without waiting for its effect. */
  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Stops the process gracefully; kills it if that takes too long. */
  async stop(): Promise<void> {
    this.#child.kill("SIGTERM");
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), STOP_MS);
    await this.#exited;
    clearTimeout(timer);
  }

  async #firstLine(): Promise<string> {
    const lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream });
    const [line] = (await once(lines, "line")) as [string];
    return line;
  }

  async #readyMessage(): Promise<string> {
    for (;;) {
      const [message] = (await once(this.#child, "message")) as [{ kind?: unknown } | null];
      if (message?.kind === "ready") return "ready";
    }
  }

  /** Resolves with the line that shows that the process is ready; throws if it ends before that or takes too long. */
  async #ready(ready: Promise<string>): Promise<string> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<null>((resolve) => {
      timer = setTimeout(() => resolve(null), READY_MS);
    });
    const said = await Promise.race([ready, late, this.#exited.then(() => null)]);
    clearTimeout(timer);
    if (said !== null) return said;
    this.#child.kill("SIGKILL");
    throw new Error(`the ${this.#name} did not start to serve in time`);
  }
}

/** Stops processes in the given order, even after errors. */
export async function stopAll(processes: readonly (RondoProcess | null)[]): Promise<void> {
  for (const one of processes) await one?.stop();
}
