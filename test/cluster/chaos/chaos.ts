/**
 * Chaos with real processes: three nodes, four workers and one PostgreSQL under a load of all kinds of workflows, while
 * something breaks every second. Then everything heals, and within a minute all that was acknowledged must have come
 * out right: nothing lost, nothing counted twice, nothing stuck, no row by whoever had lost the partition.
 */
import { cpSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { SeededRandom } from "../../../src/std/random.ts";
import { partitionOf } from "../../../src/store/partition-of.ts";
import { ClusterFixture } from "../../fixtures/cluster/cluster-processes-fixture.ts";
import type { ExecutionView } from "../../fixtures/faults/audit.ts";
import { PostgresServer } from "../../fixtures/store/postgres-server-fixture.ts";
import { Breaker } from "./breaker.ts";
import { readEpochs, watchEpochs } from "./epoch-watch.ts";
import { type Acknowledged, Load } from "./load.ts";

const FLOWS = fileURLToPath(new URL("flows.mjs", import.meta.url));
const [NODES, WORKERS] = [3, 4];
/** After the last fault, executions are stuck if none of them ends for this long. */
const STUCK_MS = 60_000;
/** The number of executions that are looked at together. */
const LOOKED_AT_TOGETHER = 20;
/** Starts that are not answered yet: more are not asked for. */
const OPEN_MAX = 40;

export interface ChaosOptions {
  readonly seed: string;
  readonly seconds: number;
  readonly leaseMs: number;
  /** Executions offered a second. */
  readonly rate: number;
  /** Where files are kept if something is wrong. */
  readonly keep?: string;
  readonly say: (line: string) => void;
}

/** What came of it; all is well if the lists are empty. */
export interface ChaosReport {
  readonly seed: string;
  readonly seconds: number;
  readonly leaseMs: number;
  readonly offered: number;
  readonly acknowledged: number;
  /** Attempts that user code began. */
  readonly attempts: number;
  /** How often each fault was done. */
  readonly faults: Readonly<Record<string, number>>;
  /** How often a partition was taken, and rows of journals that were looked at. */
  readonly taken: number;
  readonly rows: number;
  /** How long after the last fault everything was over. */
  readonly healedMs: number;
  /** By workflow: when the last of its executions ended, after the last fault. */
  readonly lastMs: Readonly<Record<string, number>>;
  /** What was acknowledged and is not there, or has come out otherwise. */
  readonly lost: readonly string[];
  readonly stuck: readonly unknown[];
  /** What the journal, the counts and the ledger do not agree on. */
  readonly miscounted: readonly string[];
  readonly staleRows: readonly unknown[];
  /** Anything else that must not be. */
  readonly wrong: readonly string[];
}

/** Whether nothing at all is wrong. */
export function isWell(report: ChaosReport): boolean {
  const { lost, stuck, miscounted, staleRows, wrong } = report;
  return [lost, stuck, miscounted, staleRows, wrong].every((list) => list.length === 0);
}

/** Runs it, and leaves nothing behind. */
export async function chaos(options: ChaosOptions): Promise<ChaosReport> {
  const server = await PostgresServer.make();
  try {
    const fixture = await ClusterFixture.open({
      nodes: NODES,
      server,
      leaseMs: options.leaseMs,
      flows: FLOWS,
    });
    try {
      const report = await new Chaos(fixture, server, options).run();
      if (!isWell(report) && options.keep !== undefined) keep(fixture, options.keep);
      return report;
    } finally {
      await fixture.close();
    }
  } finally {
    await server.remove();
  }
}

class Chaos {
  readonly #fixture: ClusterFixture;
  readonly #options: ChaosOptions;
  readonly #load: Load;
  readonly #breaker: Breaker;
  readonly #lastMs: Record<string, number> = {};

  constructor(fixture: ClusterFixture, server: PostgresServer, options: ChaosOptions) {
    const { seed, say, leaseMs } = options;
    this.#fixture = fixture;
    this.#options = options;
    this.#load = new Load(fixture, new SeededRandom(`${seed} load`));
    this.#breaker = new Breaker(fixture, new SeededRandom(`${seed} faults`), {
      server,
      workers: WORKERS,
      leaseMs,
      say: (line) => say(`${this.#load.acknowledged.size} acknowledged, ${line}`),
    });
  }

  async run(): Promise<ChaosReport> {
    const { say, seed, seconds, leaseMs } = this.#options;
    const { acknowledged } = this.#load;
    await watchEpochs(this.#fixture);
    for (let i = 0; i < WORKERS; i++) await this.#fixture.worker(["--capacity", "20"]);
    await this.#break();
    say("healing");
    await this.#breaker.heal();
    const healedAt = Date.now();
    const { lost, stuck } = await this.#collect(healedAt);
    const healedMs = Date.now() - healedAt;
    say(`${acknowledged.size} acknowledged, ${stuck.length} stuck, over ${healedMs} ms after the last fault`);
    const miscounted = stuck.length > 0 ? [] : await this.#audit();
    const { rows, taken, stale } = await readEpochs(this.#fixture);
    const wrong = [...this.#breaker.wrong, ...this.#load.wrong, ...(await this.#end())];
    const attempts = this.#fixture.ledger.find({ what: "begins" }).length;
    const { faults } = this.#breaker;
    const counts = { offered: this.#load.offered, acknowledged: acknowledged.size, attempts, rows, taken };
    return {
      ...{ seed, seconds, leaseMs, ...counts, faults, healedMs, lastMs: this.#lastMs },
      ...{ lost, stuck, miscounted, staleRows: stale, wrong },
    };
  }

  /** Load and faults, for as long as it was asked for. */
  async #break(): Promise<void> {
    const { seconds, rate } = this.#options;
    const startedAt = Date.now();
    let [broken, offered] = [0, 0];
    for (let passed = 0; passed < seconds * 1_000; passed = Date.now() - startedAt) {
      for (; offered < (passed / 1_000) * rate; offered++) if (this.#load.open < OPEN_MAX) this.#load.offer();
      for (; broken < Math.floor(passed / 1_000); broken++) this.#breaker.break();
      this.#breaker.look();
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /**
   * Waits until all that was acknowledged is over, and compares what came of it. Executions are stuck if none of them has
   * ended for a long time: how long the whole takes depends on the machine.
   */
  async #collect(healedAt: number): Promise<{ lost: string[]; stuck: unknown[] }> {
    const lost: string[] = [];
    const givingUp = setTimeout(() => this.#load.stop(), STUCK_MS);
    await this.#load.settled();
    clearTimeout(givingUp);
    const open = new Map(this.#load.acknowledged);
    const look = async ([id, { output }]: [string, Acknowledged]): Promise<void> => {
      const view = await this.#view(id, lost);
      if (view === null || view.finishedAt === null) return;
      open.delete(id);
      const lateMs = Math.max(0, view.finishedAt - healedAt);
      this.#lastMs[view.workflow] = Math.max(this.#lastMs[view.workflow] ?? 0, lateMs);
      if (view.status !== "done") lost.push(`${id} is ${view.status}: ${JSON.stringify(view.error)}`);
      else if (JSON.stringify(view.output) !== JSON.stringify(output))
        lost.push(`${id}: ${JSON.stringify(view.output)} instead of ${JSON.stringify(output)}`);
    };
    for (let movedAt = Date.now(); open.size > 0 && Date.now() < movedAt + STUCK_MS; ) {
      const before = open.size;
      const ids = [...open];
      // A few at a time: the nodes have other work.
      while (ids.length > 0) await Promise.all(ids.splice(0, LOOKED_AT_TOGETHER).map(look));
      if (open.size < before) movedAt = Date.now();
      this.#breaker.look();
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
    const stuck: unknown[] = [];
    for (const id of open.keys()) stuck.push(await this.#stuck(id));
    return { lost, stuck };
  }

  async #view(id: string, lost: string[]): Promise<(ExecutionView & { finishedAt: number | null }) | null> {
    const place = this.#fixture.nodes[id.length % NODES];
    if (place === undefined) throw new Error("there are no nodes");
    const answer = await this.#fixture.ask(place, "GET", `/v1/executions/${id}`);
    if (answer?.status === 404) lost.push(`${id} was acknowledged and is not there`);
    return answer?.status === 200 ? (answer.body as never) : null;
  }

  /** Everything that helps to see why. */
  async #stuck(id: string): Promise<unknown> {
    const told = await Promise.all(
      this.#fixture.nodes.map(async (place) => {
        const why = (await this.#fixture.ask(place, "GET", `/v1/executions/${id}/why`))?.body;
        return `${place.url}: ${(why as { why?: string } | undefined)?.why ?? "no answer"}`;
      }),
    );
    const rows = await this.#fixture.partitions();
    const owner = rows[partitionOf(id, rows.length)]?.url;
    const view = (await this.#fixture.insist("GET", `/v1/executions/${id}`)) as ExecutionView;
    return { id, workflow: view.workflow, owner, told, view };
  }

  async #audit(): Promise<string[]> {
    const noted = this.#fixture.noted();
    const miscounted: string[] = [];
    for (const id of this.#load.acknowledged.keys())
      miscounted.push(...(await this.#fixture.audit(id, noted)));
    return miscounted;
  }

  /** Everybody ends gracefully. */
  async #end(): Promise<string[]> {
    const nodes = this.#fixture.nodes.flatMap(({ process }) => process ?? []);
    const wrong: string[] = [];
    for (const one of [...this.#fixture.workers(), ...nodes]) {
      const { code } = await one.terminate();
      if (code !== 0)
        wrong.push(
          `${one.args.slice(0, 3).join(" ")} ended with ${code}:\n${one.lines.slice(-15).join("\n")}`,
        );
    }
    return wrong;
  }
}

/** What there is to read afterwards: the ledgers, and what every process said. */
function keep(fixture: ClusterFixture, folder: string): void {
  cpSync(fixture.folder, folder, { recursive: true, filter: (path) => !path.endsWith(".sock") });
  fixture.keepLines(folder);
}
