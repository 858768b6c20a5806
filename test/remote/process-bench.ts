/**
 * A server in the test's process, workers in processes of their own (the built CLI), in a folder of their own. What
 * tasks do is told by files in that folder: `ran.txt` has a line for each begin, and a task that holds waits for `go`.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { RondoServer } from "../../src/api/serve.ts";
import { openServer } from "../../src/compose.ts";
import type { Settings } from "../../src/engine/settings.ts";
import type { PublicEvent } from "../../src/kernel/public-event.ts";
import { CliProcess, folder } from "../cli/cli-process.ts";

/** Heartbeats and leases in these tests: short, so that losses come soon. */
const SETTINGS: Partial<Settings> = { claimLeaseMs: 1_000, sweepMs: 50 };

const FLOW = `
import { appendFileSync, existsSync, watch } from "node:fs";
import { workflow } from "rondo";

async function goes(signal) {
  if (existsSync("go")) return;
  await new Promise((resolve) => {
    const watcher = watch(".", () => {
      if (!existsSync("go")) return;
      watcher.close();
      resolve();
    });
    if (existsSync("go")) resolve();
    signal.addEventListener("abort", resolve);
  });
}

export const w = workflow({ name: "w" }).phase("a", {
  enumerate: ({ input }) => Array.from({ length: input.tasks }, (_, id) => ({ id, hold: input.hold === true })),
  async process({ task, attempt, signal, log }) {
    appendFileSync("ran.txt", JSON.stringify({ pid: process.pid, id: task.id, attempt }) + "\\n");
    if (task.hold) {
      console.error("holds " + task.id);
      await goes(signal);
      log("goes on");
    }
    signal.throwIfAborted();
    return task.id;
  },
  heartbeat: process.env.HEARTBEAT ?? "30s",
});
`;

export interface Ran {
  readonly pid: number;
  readonly id: number;
  readonly attempt: number;
}

export class ProcessBench {
  readonly server: RondoServer;
  readonly folder: string;

  private constructor(server: RondoServer, path: string) {
    this.server = server;
    this.folder = path;
  }

  static async open(settings: Partial<Settings> = {}): Promise<ProcessBench> {
    const server = await openServer({
      store: "memory:",
      port: 0,
      settings: { ...SETTINGS, ...settings },
      onStop: (reason) => {
        throw reason;
      },
    });
    onTestFinished(() => server.close({ graceMs: 0 }));
    return new ProcessBench(server, folder({ "flow.mjs": FLOW }));
  }

  /** Starts `rondo worker flow.mjs`; resolves when it is registered. */
  async worker(
    options: { url?: string; args?: readonly string[]; heartbeat?: string } = {},
  ): Promise<CliProcess> {
    const { url = this.server.url, args = [], heartbeat } = options;
    const worker = new CliProcess("bin/rondo.js", ["worker", "flow.mjs", "--url", url, ...args], {
      cwd: this.folder,
      ...(heartbeat === undefined ? {} : { env: { HEARTBEAT: heartbeat } }),
    });
    await worker.line(/^worker .* serves /);
    return worker;
  }

  /** Starts an execution of so many tasks. */
  async start(input: { tasks: number; hold?: boolean }): Promise<string> {
    const handle = await this.server.rondo.start("w", input as never);
    return handle.id;
  }

  /** Resolves with its end. */
  async end(id: string): Promise<string> {
    for await (const event of this.server.rondo.execution(id).events())
      if (event.kind === "workflow.finished") return String(event["status"]);
    return "open";
  }

  /** Resolves when the journal has so many events of a kind. */
  async event(id: string, kind: string, count = 1): Promise<PublicEvent> {
    let seen = 0;
    for await (const event of this.server.rondo.execution(id).events({ detail: "full", follow: true }))
      if (event.kind === `workflow.${kind}` && ++seen === count) return event;
    throw new Error(`the journal ended before ${kind}`);
  }

  /** All events so far, of a kind. */
  async events(id: string, kind: string): Promise<PublicEvent[]> {
    const found: PublicEvent[] = [];
    const { revision } = await this.server.rondo.execution(id).status();
    for await (const event of this.server.rondo.execution(id).events({ detail: "full", follow: true })) {
      if (event.kind === `workflow.${kind}`) found.push(event);
      if (event.seq >= revision) break;
    }
    return found;
  }

  /** How often each task was settled, in the order of tasks. */
  async settled(id: string): Promise<number[]> {
    const counts: number[] = [];
    for (const event of await this.events(id, "tasks.settled"))
      for (const task of event["tasks"] as readonly number[]) counts[task] = (counts[task] ?? 0) + 1;
    return Array.from(counts, (count) => count ?? 0);
  }

  /** Tasks that hold go on. */
  go(): void {
    writeFileSync(join(this.folder, "go"), "");
  }

  /** What began, in order. */
  get ran(): Ran[] {
    const path = join(this.folder, "ran.txt");
    if (!existsSync(path)) return [];
    return readFileSync(path, "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Ran);
  }

  /** How many requests of a route there were; the label is its path in the table. */
  claims(): Promise<number> {
    return this.#metric('route="/v1/workers/{id}/claim"');
  }

  async #metric(label: string): Promise<number> {
    const text = await (await fetch(`${this.server.url}/metrics`)).text();
    return text
      .split("\n")
      .filter((line) => /_count\{|_total\{/.test(line) && line.includes(label))
      .reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  }
}
