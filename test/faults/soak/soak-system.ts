/**
 * The system of a soak: one embedded server, or three nodes over a PostgreSQL of its own, with real workers. One node and one
 * worker are the survivors: they are not killed, so that their memory and descriptors can be measured over the whole time.
 */
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { Agent } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type pg from "pg";
import { freePorts } from "../../../tools/bench/free-ports.ts";
import { queryAt } from "../../../tools/bench/postgres/query-at.ts";
import { forward } from "../../../tools/demo/harm/forward.ts";
import type { ExecutionView, JournalEvent } from "../../fixtures/faults/audit.ts";
import { FaultProcess } from "../../fixtures/faults/fault-process-fixture.ts";
import type { Noted } from "../../fixtures/faults/ledger.ts";
import { PostgresServer } from "../../fixtures/store/postgres-server-fixture.ts";
import { until } from "../../fixtures/until.ts";

export type SoakStore = "embedded" | "postgres";

const FLOWS = fileURLToPath(new URL("flows.mjs", import.meta.url));
const HEAP_PROBE = fileURLToPath(new URL("heap-probe.mjs", import.meta.url));
const HEARTBEAT = "5s";
export const LEASE_MS = 6_000;
/** How long ended executions are kept: longer than a round, so that each is audited before it is purged. */
const RETENTION_MIN = 8;
/** How long a request or an execution may take on a busy machine with faults. */
const PATIENCE_MS = 300_000;
/** How long a process may take to end after SIGTERM. */
const TERMINATE_MS = 120_000;
const DATABASE = "soak";

/** A request. */
interface Asked {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  /** The idempotency key. */
  readonly key?: string;
  readonly accept?: string;
  readonly patienceMs?: number;
}

type Answer = { readonly status: number; readonly body: unknown } | null;

/** A node that keeps its port over its lives. */
export interface Place {
  readonly url: string;
  readonly port: number;
  process: FaultProcess;
}

export class SoakSystem {
  readonly store: SoakStore;
  readonly folder: string;
  readonly nodes: readonly Place[];
  /** Workers that run or have just ended. */
  workers: FaultProcess[] = [];
  readonly database: PostgresServer | null;
  readonly #agent = new Agent({ keepAlive: true });
  #asked = 0;
  #rounds = 0;

  private constructor(store: SoakStore, ports: readonly number[], database: PostgresServer | null) {
    this.store = store;
    this.database = database;
    this.folder = realpathSync(mkdtempSync(join(tmpdir(), "rondo-soak-")));
    for (const name of ["gates", "payments", "tmp", "tmp-survivors"]) mkdirSync(join(this.folder, name));
    const config = {
      ...{ heartbeat: HEARTBEAT, claimLease: HEARTBEAT, sweep: "200ms", retention: `${RETENTION_MIN}m` },
      limits: { headerMs: 1_000, requestMs: 3_000, streamStallMs: 1_000 },
      ...(store === "postgres" ? { lease: `${LEASE_MS}ms` } : {}),
    };
    writeFileSync(join(this.folder, "rondo.config.json"), JSON.stringify(config));
    this.nodes = ports.map((port, i) => ({
      url: `http://127.0.0.1:${port}`,
      port,
      process: this.#spawnNode(port, i === 0),
    }));
  }

  /** A system whose nodes listen. */
  static async open(store: SoakStore): Promise<SoakSystem> {
    const database = store === "postgres" ? await PostgresServer.make() : null;
    try {
      if (database !== null) await queryAt(database.url, `CREATE DATABASE ${DATABASE}`);
      const system = new SoakSystem(store, await freePorts(store === "postgres" ? 3 : 1), database);
      try {
        await Promise.all(system.nodes.map(({ process }) => process.line(LISTENS)));
        return system;
      } catch (thrown) {
        await system.close();
        throw thrown;
      }
    } catch (thrown) {
      await database?.remove();
      throw thrown;
    }
  }

  /** The node that is not killed. */
  get survivor(): Place {
    return this.nodes[0] as Place;
  }

  /** Starts a node again; resolves when it listens. */
  async restart(place: Place): Promise<void> {
    place.process = this.#spawnNode(place.port, place === this.survivor);
    await place.process.line(LISTENS);
  }

  /** Starts a worker that finds the nodes at these URLs; resolves when it is registered. */
  async hire(urls: readonly string[], args: readonly string[], isSurvivor = false): Promise<FaultProcess> {
    const worker = this.#spawn(["worker", FLOWS, "--url", urls.join(), ...args], isSurvivor);
    this.workers = [...this.workers.filter(({ hasEnded }) => !hasEnded), worker];
    await worker.line(/^worker .* serves /);
    return worker;
  }

  /** Runs one statement in the database of the nodes. */
  query<Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<Row[]> {
    return queryAt<Row>(this.#storeUrl, sql, values);
  }

  get #storeUrl(): string {
    if (this.database === null) throw new Error("an embedded store has no URL");
    return this.database.url.replace(/\/postgres$/, `/${DATABASE}`);
  }

  /** Asks one node once; null: no complete answer came, because the node is away or died, or the patience is over. */
  async ask(url: string, { method, path, body, key, accept, patienceMs = 20_000 }: Asked): Promise<Answer> {
    const text = Buffer.from(body === undefined ? "" : JSON.stringify(body));
    const headers = {
      ...(body === undefined
        ? {}
        : { "content-type": "application/json", "content-length": String(text.length) }),
      ...(key === undefined ? {} : { "idempotency-key": key }),
      ...(accept === undefined ? {} : { accept }),
    };
    try {
      const signal = AbortSignal.timeout(patienceMs);
      const answer = await forward(new URL(url), this.#agent, { method, path, headers, body: text, signal });
      const isJson = answer.headers["content-type"]?.includes("json") === true;
      return { status: answer.status, body: isJson ? JSON.parse(answer.body.toString()) : null };
    } catch {
      return null;
    }
  }

  /** Asks one node after the other until one answers; throws on a refusal. */
  async insist(method: string, path: string, body?: unknown, key?: string): Promise<unknown> {
    const { status, body: got } = await this.answer({
      ...{ method, path, body },
      ...(key === undefined ? {} : { key }),
    });
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(got)}`);
    return got;
  }

  /** Asks one node after the other until one answers with a status that is no request to try again. */
  async answer(asked: Asked): Promise<NonNullable<Answer>> {
    let answer: Answer = null;
    await until(
      `${asked.method} ${asked.path} is answered`,
      async () => {
        const place = this.nodes[this.#asked++ % this.nodes.length] as Place;
        answer = await this.ask(place.url, asked);
        return answer !== null && !AGAIN.includes(answer.status);
      },
      { limitMs: PATIENCE_MS, state: () => answer },
    );
    return answer as unknown as NonNullable<Answer>;
  }

  /** Resolves with the execution when it has ended. */
  async ended(id: string): Promise<ExecutionView> {
    let view: (ExecutionView & { readonly finishedAt: number | null }) | null = null;
    await until(
      `${id} ends`,
      async () => {
        view = (await this.insist("GET", `/v1/executions/${encodeURIComponent(id)}`)) as typeof view;
        return typeof view?.finishedAt === "number";
      },
      {
        limitMs: PATIENCE_MS,
        state: async () => [await this.insist("GET", `/v1/executions/${encodeURIComponent(id)}/why`), view],
      },
    );
    return view as unknown as ExecutionView;
  }

  /** The whole journal of an execution. */
  events(id: string): Promise<JournalEvent[]> {
    return this.pages<JournalEvent>(`/v1/executions/${encodeURIComponent(id)}/events?detail=full&limit=1000`);
  }

  /** All items of a list. */
  async pages<Item>(path: string): Promise<Item[]> {
    const items: Item[] = [];
    for (let cursor = ""; ; ) {
      const page = (await this.insist("GET", `${path}${cursor}`)) as { data: Item[]; next: string | null };
      items.push(...page.data);
      if (page.next === null) return items;
      cursor = `&cursor=${encodeURIComponent(page.next)}`;
    }
  }

  /** Takes the lines that user code has noted since the last call, by execution. */
  takeLedger(): ReadonlyMap<string, readonly Noted[]> {
    const [path, taken] = ["ledger.ndjson", `ledger-${++this.#rounds}.ndjson`].map((name) =>
      join(this.folder, name),
    ) as [string, string];
    const noted = new Map<string, Noted[]>();
    if (!existsSync(path)) return noted;
    renameSync(path, taken);
    for (const line of readFileSync(taken, "utf8").split("\n")) {
      if (line === "") continue;
      const one = JSON.parse(line) as Noted;
      noted.set(one.execution, [...(noted.get(one.execution) ?? []), one]);
    }
    rmSync(taken);
    return noted;
  }

  /** Runs a command of the CLI at the survivor; resolves with its exit code and its output. */
  async cli(
    args: readonly string[],
  ): Promise<{ readonly code: number | null; readonly lines: readonly string[] }> {
    const command = this.#spawn([...args, "--url", this.survivor.url], false);
    const { code } = await command.ended;
    return { code, lines: command.lines };
  }

  /** Measures the survivors, their files and the store. */
  async measure(worker: FaultProcess): Promise<Record<string, number>> {
    const node = this.survivor.process;
    const measured: Record<string, number> = {
      "node heap MB": await this.#heapMb(node),
      "worker heap MB": await this.#heapMb(worker),
      "node RSS MB": node.rssMb,
      "worker RSS MB": worker.rssMb,
      "node descriptors": descriptors(node.pid),
      "worker descriptors": descriptors(worker.pid),
      "files of survivors": filesIn(join(this.folder, "tmp-survivors")).length,
      "files of spools": filesIn(join(this.folder, "spool")).length,
    };
    if (this.database === null) {
      const files = filesIn(join(this.folder, ".rondo"));
      measured["store files"] = files.length;
      measured["store MB"] = files.reduce((sum, { size }) => sum + size, 0) / 1_048_576;
    } else {
      const [row] = await this.query<{ connections: string; bytes: string }>(
        `SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) AS connections,
          pg_database_size(current_database()) AS bytes`,
      );
      measured["connections"] = Number(row?.connections);
      measured["store MB"] = Number(row?.bytes) / 1_048_576;
    }
    return measured;
  }

  /** The memory that a survivor uses after a garbage collection: heaps of all threads, and buffers outside of them. */
  async #heapMb(one: FaultProcess): Promise<number> {
    const path = this.#heapFile(one.args);
    rmSync(path, { force: true });
    one.signal("SIGUSR2");
    await until(`${describe(one)} writes its heap`, () => existsSync(path), {
      limitMs: PATIENCE_MS,
      state: () => [one.exit, ...one.lines.slice(-20)],
    });
    const { heapUsed, external, threads } = JSON.parse(readFileSync(path, "utf8")) as {
      readonly heapUsed: number;
      readonly external: number;
      readonly threads: readonly number[];
    };
    return threads.reduce((sum, bytes) => sum + bytes, heapUsed + external) / 1_048_576;
  }

  /** The file into which a survivor writes the size of its heap. */
  #heapFile([verb]: readonly string[]): string {
    return join(this.folder, `heap-${verb}`);
  }

  /** Ends all processes gracefully; returns those that did not end well. */
  async stop(): Promise<string[]> {
    const wrong: string[] = [];
    for (const one of this.#running()) {
      try {
        await terminate(one);
      } catch (thrown) {
        wrong.push(String(thrown));
      }
    }
    return wrong;
  }

  /** Kills all processes at once, and removes all files, because this process ends. */
  kill(): void {
    for (const one of this.#running()) one.signal("SIGKILL");
    this.database?.kill();
    for (const path of [this.folder, this.database?.place ?? this.folder])
      rmSync(path, { recursive: true, force: true });
  }

  /** Kills all processes that are left, and removes all files. */
  async close(): Promise<void> {
    await Promise.all(this.#running().map((one) => one.kill()));
    this.#agent.destroy();
    await this.database?.remove();
    rmSync(this.folder, { recursive: true, force: true });
  }

  #running(): FaultProcess[] {
    return [...this.workers, ...this.nodes.map(({ process }) => process)].filter(({ hasEnded }) => !hasEnded);
  }

  #spawnNode(port: number, isSurvivor: boolean): FaultProcess {
    const env = this.database === null ? {} : { RONDO_STORE: this.#storeUrl };
    return this.#spawn(["start", "--port", String(port), "--json"], isSurvivor, env);
  }

  #spawn(args: readonly string[], isSurvivor: boolean, env: Record<string, string> = {}): FaultProcess {
    const files = join(this.folder, isSurvivor ? "tmp-survivors" : "tmp");
    const options = `${process.env.NODE_OPTIONS ?? ""} --import=${HEAP_PROBE}`;
    const probe = { HEAP_PROBE: this.#heapFile(args), NODE_OPTIONS: options };
    return new FaultProcess(args, {
      cwd: this.folder,
      env: { FAULTS: this.folder, TMPDIR: files, HEARTBEAT, ...env, ...(isSurvivor ? probe : {}) },
    });
  }
}

/** Unavailable; and too slow, as requests are that a node received before it was frozen. */
const AGAIN = [503, 408];
const LISTENS = /^\{"url":/;

/** The command and its first arguments. */
function describe(one: FaultProcess): string {
  return one.args.slice(0, 3).join(" ");
}

/** SIGTERM; throws if the process does not end well, or not at all. */
export async function terminate(one: FaultProcess): Promise<void> {
  const ended = one.terminate();
  await until(`${describe(one)} ends after SIGTERM`, () => one.hasEnded, {
    limitMs: TERMINATE_MS,
    state: () => one.lines.slice(-20),
  });
  const { code } = await ended;
  if (code !== 0) throw new Error(`${describe(one)} ended with ${code}: ${one.lines.slice(-20).join("\n")}`);
}

function descriptors(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

/** The files in a folder and below. A file may be removed meanwhile. */
function filesIn(folder: string): { readonly size: number }[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true, encoding: "utf8" }).flatMap((name) => {
    const found = lstatSync(join(folder, name), { throwIfNoEntry: false });
    return found === undefined || found.isDirectory() ? [] : [{ size: found.size }];
  });
}
