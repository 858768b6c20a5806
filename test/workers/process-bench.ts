/**
 * A server in the test's process, workers in processes of their own (the built CLI), in a folder of their own. What
 * tasks do is told by files in that folder: `ran.txt` has a line for each begin, and a task that holds waits for `go`.
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { openServer } from "../../src/compose/compose-server.ts";
import type { Settings } from "../../src/engine/settings.ts";
import type { Event, EventKind } from "../../src/kernel/event.ts";
import { decodeEntry } from "../../src/kernel/journal/journal-entry.ts";
import type { RondoServer } from "../../src/server/serve.ts";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { CliProcess, folder } from "../cli/cli-process.ts";

/** Heartbeats and leases in these tests: short, so that losses come soon. */
const SETTINGS: Partial<Settings> = { claimLeaseMs: 3_000, sweepMs: 50 };

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
      log("holds " + task.id);
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
  readonly store: MemoryStore;
  readonly folder: string;

  private constructor(server: RondoServer, store: MemoryStore, path: string) {
    this.server = server;
    this.store = store;
    this.folder = path;
  }

  static async open(settings: Partial<Settings> = {}): Promise<ProcessBench> {
    const store = new MemoryStore();
    const server = await openServer({
      store,
      port: 0,
      settings: { ...SETTINGS, ...settings },
      onStop: (reason) => {
        throw reason;
      },
    });
    onTestFinished(() => server.close({ graceMs: 0 }));
    return new ProcessBench(server, store, folder({ "flow.mjs": FLOW }));
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
    const handle = await this.server.rondo.start("w", input);
    return handle.id;
  }

  /** Resolves with its end. */
  async end(id: string): Promise<string> {
    for await (const event of this.server.rondo.execution(id).events())
      if (event.kind === "workflow.finished") return String(event["status"]);
    return "open";
  }

  /** Resolves when something of this kind is in the journal. */
  async event(id: string, kind: EventKind): Promise<void> {
    await this.#seen(
      (look) => this.server.engine.watch(id, look),
      async () => (await this.events(id, kind)).length > 0,
    );
  }

  /** Resolves when a line with this text is stored. */
  async logged(id: string, text: string): Promise<void> {
    await this.#seen(
      (look) => this.server.engine.watchLogs(id, look),
      async () => {
        const rows = await this.store.readLogs({ execution: id, after: 0, rowsMax: 1_000 });
        return rows.some(({ lines }) => lines.some((line) => line.text === text));
      },
    );
  }

  /** All events of a kind so far. */
  async events<K extends EventKind>(id: string, kind: K): Promise<Extract<Event, { kind: K }>[]> {
    const entries = await this.store.readJournal({ execution: id, from: 1 });
    return entries
      .flatMap((entry) => decodeEntry(entry))
      .map(({ event }) => event)
      .filter((event): event is Extract<Event, { kind: K }> => event.kind === kind);
  }

  /** How often each task was settled, in the order of tasks. */
  async settled(id: string): Promise<number[]> {
    const counts: number[] = [];
    for (const { tasks } of await this.events(id, "tasks.settled"))
      for (const task of tasks) counts[task] = (counts[task] ?? 0) + 1;
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

  /** Looks now and after every change, until it is there. */
  async #seen(watch: (look: () => void) => () => void, isThere: () => Promise<boolean>): Promise<void> {
    let wake: () => void = () => {};
    const unwatch = watch(() => wake());
    for (;;) {
      const changed = new Promise<void>((resolve) => {
        wake = resolve;
      });
      if (await isThere()) break;
      await changed;
    }
    unwatch();
  }

  async #metric(label: string): Promise<number> {
    const text = await (await fetch(`${this.server.url}/metrics`)).text();
    return text
      .split("\n")
      .filter((line) => /_count\{|_total\{/.test(line) && line.includes(label))
      .reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  }
}
