/**
 * A real cluster to break: nodes (`rondo start`) over one PostgreSQL, each at a port that it keeps over its lives, real
 * workers that know all of them, and a ledger of what user code did. Whoever asks asks any node. Knows nothing of the
 * test runner.
 */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { partitionOf } from "../../../src/store/partition-of.ts";
import { freePorts } from "../../../tools/bench/free-ports.ts";
import { audit, type ExecutionView, type JournalEvent } from "../../faults/audit.ts";
import { FaultProcess } from "../../faults/fault-process.ts";
import { Ledger, type Noted } from "../../faults/ledger.ts";
import { until } from "../../faults/until.ts";
import type { PostgresServer } from "../../store/postgres-server.ts";

const FLOWS = fileURLToPath(new URL("../../faults/flows.mjs", import.meta.url));
const PARTITIONS = 256;
/** Long enough for a worker on a busy machine. */
const HEARTBEAT = "4s";

export interface ClusterBenchOptions {
  readonly nodes: number;
  readonly server: PostgresServer;
  /** How long a node is a member without renewing. */
  readonly leaseMs?: number;
  /** The workers' file. */
  readonly flows?: string;
  /** `rondo.config.json`, beside the short times that these tests have. */
  readonly config?: Readonly<Record<string, unknown>>;
  /** The number of nodes that are started at once; the others are started by the test. */
  readonly startedNodes?: number;
  /** The CLI program of the nodes: another version of Rondo. */
  readonly program?: string;
}

/** What a node answered; null: nothing came. */
export type Answer = { readonly status: number; readonly body: unknown } | null;

/** Who has a partition, as the database says. */
export interface PartitionRow {
  readonly partition: number;
  readonly epoch: number;
  /** The URL of its owner, if that is a member. */
  readonly url: string | null;
}

let benches = 0;

/** One place of the ring: a URL, and whoever lives there now. */
export class NodePlace {
  readonly url: string;
  readonly port: number;
  process: FaultProcess | null = null;
  /** The CLI program that the next node here runs; undefined: the one of this tree. */
  program: string | undefined;

  constructor(port: number, program?: string) {
    this.port = port;
    this.program = program;
    this.url = `http://127.0.0.1:${port}`;
  }

  get isUp(): boolean {
    return this.process !== null && !this.process.hasEnded;
  }

  /** The process; throws if none runs. */
  get running(): FaultProcess {
    if (this.process === null) throw new Error(`no node runs at ${this.url}`);
    return this.process;
  }
}

export class ClusterBench {
  readonly folder: string;
  readonly database: string;
  readonly nodes: readonly NodePlace[];
  readonly ledger: Ledger;
  readonly processes: FaultProcess[] = [];
  readonly server: PostgresServer;
  readonly #flows: string;
  #asked = 0;

  private constructor(folder: string, ports: readonly number[], options: ClusterBenchOptions) {
    this.folder = folder;
    this.server = options.server;
    this.#flows = options.flows ?? FLOWS;
    this.nodes = ports.map((port) => new NodePlace(port, options.program));
    this.ledger = new Ledger(join(folder, "ledger.ndjson"));
    this.database = `bench_${process.pid}_${++benches}`;
  }

  /** A cluster whose nodes are all up and share the partitions. */
  static async open(options: ClusterBenchOptions): Promise<ClusterBench> {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), "rondo-cluster-")));
    for (const name of ["gates", "tmp"]) mkdirSync(join(folder, name));
    const { leaseMs = 10_000, config } = options;
    const times = { lease: `${leaseMs}ms`, heartbeat: HEARTBEAT, claimLease: HEARTBEAT, sweep: "100ms" };
    writeFileSync(join(folder, "rondo.config.json"), JSON.stringify({ ...times, ...config }));
    const bench = new ClusterBench(folder, await freePorts(options.nodes), options);
    try {
      await bench.#onServer((client) => client.query(`CREATE DATABASE ${bench.database}`));
      const started = bench.nodes.slice(0, options.startedNodes);
      await Promise.all(started.map((node) => bench.startNode(node)));
      await bench.settled();
      return bench;
    } catch (thrown) {
      await bench.close();
      throw thrown;
    }
  }

  /** The database of this cluster. */
  get store(): string {
    return this.server.url.replace(/\/postgres$/, `/${this.database}`);
  }

  get urls(): readonly string[] {
    return this.nodes.map(({ url }) => url);
  }

  /** Starts a node at its place; resolves when it listens. */
  async startNode(place: NodePlace): Promise<void> {
    const args = ["start", "--port", String(place.port), "--json"];
    place.process = this.#spawn(args, { RONDO_STORE: this.store }, place.program);
    await place.process.line(/^\{"url":/);
  }

  /** Starts `rondo worker`, which is told of all nodes; resolves when it is registered. */
  async worker(args: readonly string[] = [], program?: string): Promise<FaultProcess> {
    const worker = this.hire(args, program);
    await worker.line(/^worker .* serves /);
    return worker;
  }

  /** Starts `rondo worker`. */
  hire(args: readonly string[] = [], program?: string): FaultProcess {
    const urls = this.urls.map((_, i) => this.urls[(i + this.processes.length) % this.urls.length]);
    return this.#spawn(["worker", this.#flows, "--url", urls.join(), ...args], {}, program);
  }

  /** The workers that run. */
  workers(): FaultProcess[] {
    return this.processes.filter((one) => one.args[0] === "worker" && !one.hasEnded);
  }

  /** Resolves when every partition has an owner that is up, and every node has some. */
  async settled(): Promise<void> {
    const up = this.nodes.filter(({ isUp }) => isUp).map(({ url }) => url);
    await until(
      `${up.length} nodes share the partitions`,
      async () => {
        const owners = new Set((await this.partitions()).map(({ url }) => url));
        return owners.size === up.length && up.every((url) => owners.has(url));
      },
      { state: () => this.partitions() },
    );
  }

  /** All partitions. */
  partitions(): Promise<readonly PartitionRow[]> {
    return this.query<PartitionRow>(
      `SELECT p.partition, p.epoch::int AS epoch, n.url FROM rondo.partitions p
        LEFT JOIN rondo.nodes n ON n.incarnation = p.owner AND n.lease_until > extract(epoch FROM clock_timestamp()) * 1000
        ORDER BY p.partition`,
    );
  }

  /** Ids of executions, one that each of the nodes has now. */
  async idsByNode(prefix: string): Promise<readonly string[]> {
    const rows = await this.partitions();
    return this.urls.map((url) => {
      for (let i = 0; ; i++) {
        const id = `${prefix}-${i}`;
        if (rows[partitionOf(id, PARTITIONS)]?.url === url) return id;
        if (i > 100_000) throw new Error(`${url} has no partition`);
      }
    });
  }

  /** Runs one statement in the cluster's database. */
  async query<Row extends pg.QueryResultRow>(sql: string, values: unknown[] = []): Promise<Row[]> {
    const client = new pg.Client(this.store);
    // The server may be stopped at any moment: the query says so.
    client.on("error", () => {});
    await client.connect();
    try {
      return (await client.query<Row>(sql, values)).rows;
    } finally {
      await client.end();
    }
  }

  /** Asks one node once. */
  async ask(place: NodePlace, method: string, path: string, body?: unknown): Promise<Answer> {
    try {
      const answer = await fetch(`${place.url}${path}`, {
        method,
        signal: AbortSignal.timeout(10_000),
        ...(body === undefined
          ? {}
          : { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
      });
      return { status: answer.status, body: await answer.json() };
    } catch {
      // The node is not there now, or died in the middle: that is what is done to it.
      return null;
    }
  }

  /** Asks one node after the other until there is an answer that is no refusal for now; throws on any other refusal. */
  insist(method: string, path: string, body?: unknown): Promise<unknown> {
    const next = (): NodePlace => this.nodes[this.#asked++ % this.nodes.length] as NodePlace;
    return this.#insist(next, { method, path, body });
  }

  /** The same of one node: it may be busy with becoming a member again. */
  insistAt(place: NodePlace, method: string, path: string, body?: unknown): Promise<unknown> {
    return this.#insist(() => place, { method, path, body });
  }

  async #insist(
    next: () => NodePlace,
    { method, path, body }: { method: string; path: string; body: unknown },
  ): Promise<unknown> {
    let answer: Answer = null;
    await until(
      `${method} ${path} is answered`,
      async () => {
        answer = await this.ask(next(), method, path, body);
        return answer !== null && answer.status !== 503;
      },
      { state: () => answer },
    );
    const { status, body: got } = answer as unknown as Exclude<Answer, null>;
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${JSON.stringify(got)}`);
    return got;
  }

  /** Starts an execution, at any node until it is acknowledged. */
  async start(workflow: string, input: unknown, id: string): Promise<string> {
    await this.insist("POST", "/v1/executions", { workflow, input, id });
    return id;
  }

  /** Resolves with the execution once it is over. */
  async ended(id: string, limitMs = 100_000): Promise<ExecutionView> {
    let view: (ExecutionView & { readonly finishedAt: number | null }) | null = null;
    await until(
      `${id} ends`,
      async () => {
        view = (await this.insist("GET", `/v1/executions/${id}`)) as typeof view;
        return typeof view?.finishedAt === "number";
      },
      { limitMs, state: async () => ({ view, why: await this.insist("GET", `/v1/executions/${id}/why`) }) },
    );
    return view as unknown as ExecutionView;
  }

  /** The whole journal, read at any nodes. */
  async events(id: string): Promise<JournalEvent[]> {
    const events: JournalEvent[] = [];
    let cursor = "";
    do {
      const path = `/v1/executions/${id}/events?detail=full&limit=1000${cursor}`;
      const page = (await this.insist("GET", path)) as { data: JournalEvent[]; next: string | null };
      events.push(...page.data);
      cursor = page.next === null ? "" : `&cursor=${encodeURIComponent(page.next)}`;
    } while (cursor !== "");
    return events;
  }

  /** Events of a kind, without the prefix. */
  async eventsOf(id: string, kind: string): Promise<JournalEvent[]> {
    return (await this.events(id)).filter((event) => event.kind === `workflow.${kind}`);
  }

  /** Audits an execution that is over, and its children: what the journal says, against what code noted. */
  async audit(id: string, noted: ReadonlyMap<string, readonly Noted[]> = this.noted()): Promise<string[]> {
    const [view, events] = [await this.ended(id), await this.events(id)];
    const wrong = audit(view, events, noted.get(id) ?? []);
    const children = events.filter(({ kind }) => kind === "workflow.child.started");
    for (const { child } of children) wrong.push(...(await this.audit(String(child), noted)));
    return wrong;
  }

  /** What user code noted, by execution. */
  noted(): ReadonlyMap<string, readonly Noted[]> {
    const byExecution = new Map<string, Noted[]>();
    for (const one of this.ledger.all()) {
      const list = byExecution.get(one.execution);
      if (list === undefined) byExecution.set(one.execution, [one]);
      else list.push(one);
    }
    return byExecution;
  }

  /** Opens a gate that code waits at: for all attempts, or for one. */
  openGate(execution: string, task: number, where: string, attempt?: number): void {
    const name = `${execution}.${task}.${where}${attempt === undefined ? "" : `.${attempt}`}`;
    writeFileSync(join(this.folder, "gates", name), "");
  }

  /** Writes what every process said into a folder. */
  keepLines(folder: string): void {
    for (const { args, pid, lines } of this.processes)
      writeFileSync(join(folder, `${args[0]}-${pid}.txt`), `${args.join(" ")}\n${lines.join("\n")}\n`);
  }

  /** Whatever is left goes. */
  async close(): Promise<void> {
    await Promise.all(this.processes.filter(({ hasEnded }) => !hasEnded).map((one) => one.kill()));
    if (this.server.isRunning)
      await this.#onServer((client) => client.query(`DROP DATABASE IF EXISTS ${this.database} WITH (FORCE)`));
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #onServer(run: (client: pg.Client) => Promise<unknown>): Promise<void> {
    const client = new pg.Client(this.server.url);
    client.on("error", () => {});
    await client.connect();
    try {
      await run(client);
    } finally {
      await client.end();
    }
  }

  #spawn(args: readonly string[], env: Record<string, string> = {}, program?: string): FaultProcess {
    const started = new FaultProcess(args, {
      cwd: this.folder,
      env: { FAULTS: this.folder, TMPDIR: join(this.folder, "tmp"), HEARTBEAT, ...env },
      ...(program === undefined ? {} : { program }),
    });
    this.processes.push(started);
    return started;
  }
}
