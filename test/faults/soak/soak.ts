/**
 * The soak: mixed load with faults over an embedded store or PostgreSQL, in rounds, by one seed. The seed decides what is done;
 * the timing is the machine's. After each round everything heals, all executions end and are audited, and the survivors are
 * measured. At the end retention must have emptied the store, and memory, files and descriptors must have been flat.
 */
import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "libsql";
import { SeededRandom } from "../../../src/std/random.ts";
import { processesIn } from "../../fixtures/faults/fault-fixture.ts";
import { until } from "../../fixtures/until.ts";
import { type Bound, judge, type Point, type Verdict } from "./flatness.ts";
import { RoundCheck, type Totals } from "./round-check.ts";
import { SoakFaults } from "./soak-faults.ts";
import { SoakLoad } from "./soak-load.ts";
import { type SoakStore, SoakSystem } from "./soak-system.ts";

export interface SoakOptions {
  readonly store: SoakStore;
  readonly seed: string;
  /** How long load and faults go on; a round that has begun is ended. 0: one round, and the store is not emptied. */
  readonly minutes: number;
  /** The most faults of a round. */
  readonly faultsPerRound?: number;
  /** A folder for the system's files and the output of its processes, written if something is wrong. */
  readonly keep?: string;
  /** Kills all processes of the system when it is aborted. */
  readonly interrupted?: AbortSignal;
  /** Called with a line after each round. */
  readonly say?: (line: string) => void;
}

/** The result of a soak. */
export interface SoakReport {
  readonly store: SoakStore;
  readonly seed: string;
  readonly minutes: number;
  readonly rounds: number;
  readonly totals: Totals;
  /** How often each fault was made. */
  readonly faults: Readonly<Record<string, number>>;
  /** Requests and streams of clients that only read. */
  readonly reads: number;
  /** By measurement. */
  readonly flatness: Readonly<Record<string, Verdict>>;
  readonly samples: Readonly<Record<string, readonly Point[]>>;
  /** The last lines of `rondo audit`: before retention emptied the store, and after. */
  readonly audits: readonly string[];
  /** What is wrong; empty if all is well. */
  readonly wrong: readonly string[];
}

const ROUND_MS = 40_000;
/** The part of the time in which the embedded server is killed. It then lives on, so that its memory can be measured. */
const KILLING_PART = 0.15;
/** How long retention may take to empty the store. */
const EMPTY_MS = 600_000;

const MEMORY: Bound = { kind: "slope", perHour: 20, share: 0.1 };
const BOUNDS: Readonly<Record<string, Bound>> = {
  "node RSS MB": MEMORY,
  "worker RSS MB": MEMORY,
  // After a burst of requests between nodes, idle connections stay open for a minute: up to 256 for each node. A leak raises
  // the floor.
  "node descriptors": { kind: "peak", slack: 12 + 2 * 256, share: 0, floor: 8 },
  "worker descriptors": { kind: "peak", slack: 12, share: 0 },
  "files of survivors": { kind: "peak", slack: 4, share: 0 },
  "files of spools": { kind: "peak", slack: 10, share: 0 },
  "store files": { kind: "peak", slack: 2, share: 0 },
  // The size of the store follows the load, which depends on the machine.
  "store MB": { kind: "peak", slack: 16, share: 0.5 },
  connections: { kind: "peak", slack: 6, share: 0 },
};
/** Tables that have rows for executions only. */
const EMPTIED = ["executions", "journal", "snapshots", "timers", "logs", "opened", "dead_letters", "search"];

/** Runs a soak, and leaves nothing behind. */
export async function soak(options: SoakOptions): Promise<SoakReport> {
  const system = await SoakSystem.open(options.store);
  options.interrupted?.addEventListener("abort", () => system.kill());
  try {
    const faults = await SoakFaults.open(system, new SeededRandom(`${options.seed} faults`));
    try {
      return await new Soak(options, system, faults).run();
    } finally {
      faults.close();
    }
  } finally {
    await system.close();
  }
}

class Soak {
  readonly #options: SoakOptions;
  readonly #system: SoakSystem;
  readonly #faults: SoakFaults;
  readonly #random: SeededRandom;
  readonly #load: SoakLoad;
  readonly #check: RoundCheck;
  readonly #samples: Record<string, Point[]> = {};
  readonly #audits: string[] = [];
  readonly #wrong: string[] = [];
  readonly #startedAt = Date.now();
  #rounds = 0;

  constructor(options: SoakOptions, system: SoakSystem, faults: SoakFaults) {
    this.#options = options;
    this.#system = system;
    this.#faults = faults;
    this.#random = new SeededRandom(`${options.seed} rounds`);
    this.#load = new SoakLoad(system, new SeededRandom(`${options.seed} load`));
    this.#check = new RoundCheck(system, this.#load);
  }

  async run(): Promise<SoakReport> {
    const { store, seed } = this.#options;
    try {
      await this.#runRounds();
      await this.#end();
    } catch (thrown) {
      this.#wrong.push(thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown));
    }
    const flatness: Record<string, Verdict> = {};
    for (const [name, points] of Object.entries(this.#samples)) {
      const verdict = judge(points, BOUNDS[name] ?? MEMORY);
      flatness[name] = verdict;
      if (!verdict.isFlat) this.#wrong.push(`${name}: ${verdict.why}`);
    }
    if (this.#wrong.length > 0) this.#keep();
    return {
      ...{ store, seed, minutes: round(this.#minute), rounds: this.#rounds },
      ...{ totals: this.#check.totals, faults: this.#faults.counts, reads: this.#load.reads },
      ...{ flatness, samples: this.#samples, audits: this.#audits, wrong: this.#wrong },
    };
  }

  get #minute(): number {
    return (Date.now() - this.#startedAt) / 60_000;
  }

  async #runRounds(): Promise<void> {
    const { minutes } = this.#options;
    await this.#load.schedule();
    do {
      this.#faults.mayKillServer = minutes === 0 || this.#minute < minutes * KILLING_PART;
      await this.#breakRound();
      await this.#checkRound();
      this.#rounds++;
      await this.#measure();
    } while (this.#minute < minutes && this.#wrong.length === 0);
  }

  /** Load and faults for one round. */
  async #breakRound(): Promise<void> {
    const { faultsPerRound = Number.POSITIVE_INFINITY } = this.#options;
    const endAt = Date.now() + ROUND_MS;
    for (let broken = 0; broken < faultsPerRound && Date.now() < endAt; broken++) {
      const batch = this.#random.between(2, 8);
      await Promise.all(Array.from({ length: batch }, () => this.#load.offer()));
      await this.#faults.pass(this.#random.between(1, 30));
      await this.#faults.break();
    }
  }

  async #checkRound(): Promise<void> {
    await this.#faults.heal();
    await this.#load.settled();
    this.#wrong.push(...(await this.#check.run()));
  }

  async #measure(): Promise<void> {
    const minute = this.#minute;
    const measured = await this.#system.measure(this.#faults.survivor);
    for (const [name, value] of Object.entries(measured)) {
      this.#samples[name] ??= [];
      this.#samples[name].push({ minute: round(minute), value: round(value) });
    }
    const { executions, tasks, lost, twice } = this.#check.totals;
    const shown = [
      "node heap MB",
      "node RSS MB",
      "worker heap MB",
      "worker RSS MB",
      "node descriptors",
      "store MB",
    ].map((name) => `${name} ${round(measured[name] ?? 0)}`);
    this.#options.say?.(
      `round ${this.#rounds}, minute ${round(minute)}: ${executions} executions, ${tasks} tasks, ` +
        `${lost} lost, ${twice} twice, ${this.#wrong.length} wrong; ${shown.join(", ")}`,
    );
  }

  /** Everything ends, is audited and is purged. */
  async #end(): Promise<void> {
    if (this.#system.database === null) {
      // The last recovery: the whole store is read by a new process.
      await this.#system.survivor.process.kill();
      await this.#system.restart(this.#system.survivor);
    }
    await this.#load.unschedule();
    await until("no execution runs", async () => {
      const open = await this.#system.insist("GET", "/v1/executions?status=running&limit=1");
      return (open as { data: unknown[] }).data.length === 0;
    });
    this.#wrong.push(...(await this.#check.run()));
    await this.#audit();
    if (this.#options.minutes > 0 && this.#wrong.length === 0) await this.#empty();
    this.#wrong.push(...(await this.#system.stop()));
    const left = processesIn(this.#system.folder);
    if (left.length > 0) this.#wrong.push(`still running: ${left.join("; ")}`);
    if (this.#options.minutes > 0 && this.#wrong.length === 0) await this.#countRows();
  }

  async #audit(): Promise<void> {
    const { code, lines } = await this.#system.cli(["audit"]);
    this.#audits.push(lines.at(-1) ?? "");
    if (code !== 0) this.#wrong.push(`rondo audit ended with ${code}: ${lines.slice(-20).join("\n")}`);
  }

  /** Waits until retention has purged all executions. */
  async #empty(): Promise<void> {
    this.#options.say?.("waiting until retention has emptied the store");
    const list = (path: string): Promise<unknown[]> => this.#system.pages<unknown>(`${path}?limit=100`);
    await until("the store is empty", async () => (await list("/v1/executions")).length === 0, {
      limitMs: EMPTY_MS,
      state: async () => (await list("/v1/executions")).slice(0, 3),
    });
    for (const path of ["/v1/timers", "/v1/dead-letters"]) {
      const left = await list(path);
      if (left.length > 0) this.#wrong.push(`${path} has ${left.length} left: ${JSON.stringify(left[0])}`);
    }
    await this.#audit();
  }

  /** No table has rows of executions that are gone. */
  async #countRows(): Promise<void> {
    const { database, folder } = this.#system;
    for (const table of EMPTIED) {
      let rows: number;
      if (database === null) {
        const opened = new Database(join(folder, ".rondo", "rondo.db"));
        rows = (opened.prepare(`SELECT count(*) AS rows FROM ${table}`).get() as { rows: number }).rows;
        opened.close();
      } else {
        const [counted] = await this.#system.query<{ rows: string }>(
          `SELECT count(*) AS rows FROM rondo.${table}`,
        );
        rows = Number(counted?.rows);
      }
      if (rows > 0) this.#wrong.push(`the table ${table} has ${rows} rows without an execution`);
    }
  }

  /** Copies the system's files and the output of its processes. */
  #keep(): void {
    const { keep } = this.#options;
    if (keep === undefined) return;
    const { folder, workers, nodes } = this.#system;
    cpSync(folder, keep, { recursive: true, filter: (path) => !path.endsWith(".sock") });
    for (const { args, pid, lines } of [...workers, ...nodes.map(({ process }) => process)])
      writeFileSync(join(keep, `${args[0]}-${pid}.txt`), `${args.join(" ")}\n${lines.join("\n")}\n`);
  }
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
