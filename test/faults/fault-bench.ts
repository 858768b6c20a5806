/**
 * A whole system to break: the real server on a directory, at a port that it keeps over its lives; real workers; a client
 * that remembers what it was told is done; a ledger of what user code did. When all faults are over, `settle` demands
 * that nothing is lost, nothing counted twice, and nothing left behind.
 */
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "../../tools/bench/free-ports.ts";
import { audit, type ExecutionView, type JournalEvent } from "./audit.ts";
import { FaultProcess } from "./fault-process.ts";
import { Ledger, type Noted } from "./ledger.ts";
import { until } from "./until.ts";

const FLOWS = fileURLToPath(new URL("flows.mjs", import.meta.url));

export interface FaultBenchOptions {
  /** `rondo.config.json`, beside the short times that these tests have. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** How long an execution may take to end. */
  readonly patienceMs?: number;
}

export interface WorkerOptions {
  /** Where it finds the server: a proxy, perhaps. */
  readonly url?: string;
  readonly args?: readonly string[];
  /** Of the workflows that it registers. */
  readonly heartbeat?: string;
}

/** The input of `tasks` and `brisk`. */
export interface TasksInput {
  readonly tasks: number;
  readonly steps?: readonly string[];
  /** By task: where it stops at a gate (`begin`, `in-<step>`, `after-<step>`, `end`). */
  readonly hold?: Readonly<Record<number, readonly string[]>>;
  readonly log?: boolean;
  /** Attempts but the first have a step of their own. */
  readonly again?: boolean;
  /** The enumeration stops at the gate `enumerate` of task -1, after its first task. */
  readonly parts?: boolean;
  /** Characters that are added to each result. */
  readonly pad?: number;
}

/** A start that was acknowledged, and what must come out of it. */
interface Acknowledged {
  readonly output: unknown;
}

/** The server's own memory may not grow over this, whatever is done to it. */
const RSS_MB_MAX = 400;

export class FaultBench {
  readonly folder: string;
  readonly url: string;
  readonly ledger: Ledger;
  readonly processes: FaultProcess[] = [];
  /** Starts that the server has said are made. */
  readonly acknowledged = new Map<string, Acknowledged>();
  /** The most memory that the server was seen to have. */
  rssMbMax = 0;
  #server: FaultProcess | null = null;
  readonly #port: number;
  readonly #patienceMs: number;
  #ids = 0;

  private constructor(folder: string, port: number, { patienceMs = 40_000 }: FaultBenchOptions) {
    this.folder = folder;
    this.#patienceMs = patienceMs;
    this.#port = port;
    this.url = `http://127.0.0.1:${port}`;
    this.ledger = new Ledger(join(folder, "ledger.ndjson"));
  }

  /** A bench with a server that runs. */
  static async open(options: FaultBenchOptions = {}): Promise<FaultBench> {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), "rondo-faults-")));
    for (const name of ["gates", "tmp"]) mkdirSync(join(folder, name));
    const config = { heartbeat: "2s", claimLease: "2s", sweep: "100ms", ...options.config };
    writeFileSync(join(folder, "rondo.config.json"), JSON.stringify(config));
    const bench = new FaultBench(folder, await freePort(), options);
    await bench.startServer();
    return bench;
  }

  get server(): FaultProcess {
    if (this.#server === null) throw new Error("no server runs");
    return this.#server;
  }

  /** Starts the server on its directory and port; resolves when it listens. */
  async startServer(): Promise<void> {
    const server = this.#spawn(["start", "--port", String(this.#port), "--json"]);
    await server.line(/^\{"url":/);
    this.#server = server;
  }

  /** kill -9, and a new life. */
  async restartServer(): Promise<void> {
    await this.killServer();
    await this.startServer();
  }

  async killServer(): Promise<void> {
    this.measure();
    await this.server.kill();
  }

  /** SIGTERM; demands that it ends well, and leaves no socket. */
  async stopServer(): Promise<void> {
    this.measure();
    const exit = await this.server.terminate();
    if (exit.code !== 0) throw new Error(`the server ended with ${JSON.stringify(exit)}`);
    const left = readdirSync(join(this.folder, ".rondo")).filter((name) => name.endsWith(".sock"));
    if (left.length > 0) throw new Error(`the server left ${left.join()}`);
  }

  /** Starts `rondo worker`. */
  hire(options: WorkerOptions = {}): FaultProcess {
    const { url = this.url, args = [], heartbeat = "2s" } = options;
    return this.#spawn(["worker", FLOWS, "--url", url, ...args], { HEARTBEAT: heartbeat });
  }

  /** Starts `rondo worker`; resolves when it is registered. */
  async worker(options: WorkerOptions = {}): Promise<FaultProcess> {
    const worker = this.hire(options);
    await worker.line(/^worker .* serves /);
    return worker;
  }

  /** The workers that run. */
  workers(): FaultProcess[] {
    return this.processes.filter((one) => one.args[0] === "worker" && !one.hasEnded);
  }

  /** All workers end gracefully; throws if one does not. */
  async dismiss(): Promise<void> {
    for (const worker of this.workers()) {
      const exit = await worker.terminate();
      if (exit.code !== 0)
        throw new Error(
          `a worker ended with ${JSON.stringify(exit)}:\n${worker.lines.slice(-20).join("\n")}`,
        );
    }
  }

  /** Which tasks of an execution began, as `<task>#<attempt>`, sorted. */
  begun(execution: string): string[] {
    return this.ledger
      .find({ what: "begins", execution })
      .map(({ key, attempt }) => `${key?.split("/").at(-1)}#${attempt}`)
      .sort();
  }

  /** Opens a gate that code waits at: for all attempts, or for one. */
  openGate(execution: string, task: number, where: string, attempt?: number): void {
    const name = `${execution}.${task}.${where}${attempt === undefined ? "" : `.${attempt}`}`;
    writeFileSync(join(this.folder, "gates", name), "");
  }

  /** Starts an execution, asking until it is acknowledged; gives its id. `output` is what must come of it. */
  async start(workflow: string, input: unknown, output: unknown, id = `e${++this.#ids}`): Promise<string> {
    await this.insist("POST", "/v1/executions", { workflow, input, id });
    this.acknowledged.set(id, { output });
    return id;
  }

  /** Starts a phase of tasks; `brisk` ones are lost after a short silence. */
  startTasks(input: TasksInput, workflow: "tasks" | "brisk" = "tasks"): Promise<string> {
    return this.start(workflow, input, null);
  }

  /** Sends a signal, asking until it is acknowledged. */
  async signal(id: string, name: string, data: unknown): Promise<void> {
    await this.insist("POST", `/v1/executions/${id}/signals`, { name, data, id: `${id}-${name}` });
  }

  /** Resolves with the execution once it is over. */
  async ended(id: string): Promise<ExecutionView> {
    let view: (ExecutionView & { readonly finishedAt: number | null }) | null = null;
    await until(
      `${id} ends`,
      async () => {
        const got = await this.ask("GET", `/v1/executions/${id}`);
        view = got?.status === 200 ? (got.body as typeof view) : null;
        return typeof view?.finishedAt === "number";
      },
      {
        limitMs: this.#patienceMs,
        state: async () => ({ view, why: await this.ask("GET", `/v1/executions/${id}/why`) }),
      },
    );
    return view as unknown as ExecutionView;
  }

  /** The whole journal. */
  async events(id: string): Promise<JournalEvent[]> {
    const events: JournalEvent[] = [];
    let cursor = "";
    do {
      const path = `/v1/executions/${id}/events?detail=full&limit=1000${cursor}`;
      const { data, next } = (await this.insist("GET", path)) as {
        data: JournalEvent[];
        next: string | null;
      };
      events.push(...data);
      cursor = next === null ? "" : `&cursor=${encodeURIComponent(next)}`;
    } while (cursor !== "");
    return events;
  }

  /** Events of a kind, without the prefix. */
  async eventsOf(id: string, kind: string): Promise<JournalEvent[]> {
    return (await this.events(id)).filter((event) => event.kind === `workflow.${kind}`);
  }

  /** Resolves when so many events of a kind are in the journal. */
  async journaled(id: string, kind: string, count = 1): Promise<void> {
    await until(`${count} ${kind} of ${id}`, async () => (await this.eventsOf(id, kind)).length >= count, {
      state: () => this.events(id),
    });
  }

  /** Asks until there is an answer that is no refusal for now; throws on any other refusal. */
  async insist(method: string, path: string, body?: unknown): Promise<unknown> {
    let answer: unknown = null;
    await until(`${method} ${path} is answered`, async () => {
      const got = await this.ask(method, path, body);
      if (got === null || got.status === 503) return false;
      if (got.status >= 300) throw new Error(`${method} ${path}: ${got.status} ${JSON.stringify(got.body)}`);
      answer = got.body;
      return true;
    });
    return answer;
  }

  /** Asks once; null: no answer came. */
  async ask(method: string, path: string, body?: unknown): Promise<{ status: number; body: unknown } | null> {
    try {
      const answer = await fetch(`${this.url}${path}`, {
        method,
        signal: AbortSignal.timeout(20_000),
        ...(body === undefined
          ? {}
          : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
      });
      return { status: answer.status, body: await answer.json() };
    } catch {
      // The server is not there now, or died in the middle: that is what these tests do to it.
      return null;
    }
  }

  /** Notes how much memory the server has. */
  measure(): void {
    this.rssMbMax = Math.max(this.rssMbMax, this.server.rssMb);
  }

  /** Everything that was acknowledged must end as it should; gives what is wrong. */
  async wrongs(): Promise<string[]> {
    const wrong: string[] = [];
    for (const [id, { output }] of this.acknowledged) {
      const view = await this.ended(id);
      if (view.status !== "done") wrong.push(`${id} is ${view.status}: ${JSON.stringify(view.error)}`);
      if (JSON.stringify(view.output) !== JSON.stringify(output))
        wrong.push(`${id}: ${JSON.stringify(view.output)} instead of ${JSON.stringify(output)}`);
    }
    const noted = new Map<string, Noted[]>();
    for (const one of this.ledger.all()) noted.set(one.execution, [...(noted.get(one.execution) ?? []), one]);
    for (const id of this.acknowledged.keys()) wrong.push(...(await this.#audit(id, noted)));
    this.measure();
    if (this.rssMbMax > RSS_MB_MAX) wrong.push(`the server had ${Math.round(this.rssMbMax)} MB`);
    return wrong;
  }

  /** Audits an execution and its children. */
  async #audit(id: string, noted: ReadonlyMap<string, readonly Noted[]>): Promise<string[]> {
    const [view, events] = [await this.ended(id), await this.events(id)];
    const wrong = audit(view, events, noted.get(id) ?? []);
    const children = events.filter(({ kind }) => kind === "workflow.child.started");
    for (const { child } of children) wrong.push(...(await this.#audit(String(child), noted)));
    return wrong;
  }

  /** Ends all processes gracefully; gives what is wrong with that. */
  async stop(): Promise<string[]> {
    const wrong: string[] = [];
    await this.dismiss();
    if (!this.server.hasEnded) await this.stopServer();
    const left = processesIn(this.folder);
    if (left.length > 0) wrong.push(`still running: ${left.join("; ")}`);
    // Who was killed could not tidy up; but no socket of it may be left.
    const wasKilled = this.processes.some((one) => one.args[0] === "worker" && one.wasKilled);
    const files = readdirSync(join(this.folder, "tmp"), { recursive: true, withFileTypes: true });
    const wrongFiles = files.filter((file) => !wasKilled || file.isSocket()).map(({ name }) => name);
    if (wrongFiles.length > 0) wrong.push(`left in the folder for temporary files: ${wrongFiles.join()}`);
    return wrong;
  }

  /** Whatever is left goes. */
  async close(): Promise<void> {
    await Promise.all(this.processes.filter(({ hasEnded }) => !hasEnded).map((one) => one.kill()));
    rmSync(this.folder, { recursive: true, force: true });
  }

  #spawn(args: readonly string[], env: Record<string, string> = {}): FaultProcess {
    const started = new FaultProcess(args, {
      cwd: this.folder,
      env: { FAULTS: this.folder, TMPDIR: join(this.folder, "tmp"), ...env },
    });
    this.processes.push(started);
    return started;
  }
}

/** Processes that work in a folder. */
function processesIn(folder: string): string[] {
  return readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      const isThere = readlinkSync(`/proc/${pid}/cwd`).startsWith(folder);
      return isThere ? [`${pid} ${readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ")}`] : [];
    } catch {
      // It has gone meanwhile.
      return [];
    }
  });
}
