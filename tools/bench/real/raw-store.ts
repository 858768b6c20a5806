/** The limits of a store without an engine: durable commits one after the other, and rows inserted in batches. */
import { mkdtempSync } from "node:fs";
import { join } from "node:path";
import { newExecutionId } from "../../../src/std/id.ts";
import { systemRandom } from "../../../src/std/random.ts";
import { openSqliteStore, type SqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import type { ExecutionWrite, Fence, Head } from "../../../src/store/store.ts";
import { RawInserts } from "../postgres/raw-postgres.ts";
import { RawFile, rawTasksPerSecond } from "../raw-disk.ts";
import type { Bench } from "../scenario.ts";
import { RESULT_BYTES, sized, taskOf } from "./workflows.ts";

/** The characters of the journal row of a start, and of the row of a step, as the jobs store them. */
const START_CHARS = 450;
const STEP_CHARS = 650;
const CHAIN = "0".repeat(32);

export interface RawStore {
  /** The milliseconds of one commit with one row. */
  commitMs(): Promise<number>;
  /** New executions per second, each with the rows that a start stores, this many in each commit. */
  startsPerSecond(starts: number, perCommit: number): Promise<number>;
  /** Executions of `steps` steps per second, with the rows that a chain stores: all executions of a group share each commit. */
  chainsPerSecond(chains: number, steps: number, perCommit: number): Promise<number>;
  /** Tasks per second: a row for each task and each receipt, 1,000 rows in each commit. */
  tasksPerSecond(tasks: number): Promise<number>;
  /** Makes rows durable in one commit. */
  append(rows: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export async function openRawStore(bench: Bench): Promise<RawStore> {
  return bench.database === null
    ? RawCommits.open(bench.directory)
    : new RawDatabase(await RawInserts.open(bench.database));
}

const rowsOf = { task: taskOf, result: (n: number) => sized(n, RESULT_BYTES) };

/** Commits through the thread of an embedded store of its own, on the same disk. */
class RawCommits implements RawStore {
  readonly #store: SqliteStore;
  readonly #directory: string;
  readonly #fence: Fence;
  #seq = 0;
  #file: RawFile | null = null;

  private constructor(store: SqliteStore, directory: string, fence: Fence) {
    this.#store = store;
    this.#directory = directory;
    this.#fence = fence;
  }

  static async open(directory: string): Promise<RawCommits> {
    const place = mkdtempSync(join(directory, "raw-store-"));
    const store = openSqliteStore({ directory: place });
    const { generation, owned } = await store.open();
    const epochs = Object.fromEntries(owned.map(({ partition, epoch }) => [partition, epoch]));
    const raw = new RawCommits(store, place, { generation, epochs });
    await raw.#commit([raw.#create("raw")]);
    raw.#seq = 1;
    return raw;
  }

  async commitMs(): Promise<number> {
    const write = stepOf("raw", this.#seq++, null);
    const from = performance.now();
    await this.#commit([write]);
    return performance.now() - from;
  }

  async startsPerSecond(starts: number, perCommit: number): Promise<number> {
    const from = performance.now();
    for (let n = 0; n < starts; n += perCommit)
      await this.#commit(newIds(Math.min(perCommit, starts - n)).map((id) => this.#create(id)));
    return starts / ((performance.now() - from) / 1_000);
  }

  async chainsPerSecond(chains: number, steps: number, perCommit: number): Promise<number> {
    const from = performance.now();
    for (let n = 0; n < chains; n += perCommit) {
      const ids = newIds(Math.min(perCommit, chains - n));
      await this.#commit(ids.map((id) => this.#create(id)));
      for (let after = 1; after <= steps; after++)
        await this.#commit(ids.map((id) => stepOf(id, after, after === steps ? { ...ENDED, id } : null)));
    }
    return chains / ((performance.now() - from) / 1_000);
  }

  async tasksPerSecond(tasks: number): Promise<number> {
    return rawTasksPerSecond(this.#directory, tasks, rowsOf);
  }

  async append(rows: readonly string[]): Promise<void> {
    this.#file ??= new RawFile(this.#directory);
    await this.#file.append(rows);
  }

  close(): Promise<void> {
    this.#file?.close();
    return this.#store.close({ clean: true });
  }

  #create(id: string): ExecutionWrite {
    return { ...EMPTY, execution: id, create: true, after: 0, entries: [FIRST], head: { ...HEAD, id } };
  }

  async #commit(writes: readonly ExecutionWrite[]): Promise<void> {
    const verdict = await this.#store.commit({ fence: this.#fence, writes });
    if (verdict.kind !== "ok" || verdict.exists.length > 0) throw new Error("a raw commit was refused");
  }
}

const EMPTY = { chain: CHAIN, timersSet: [], timersCleared: [], opened: null, snapshot: null } as const;
const FIRST = { seq: 1, count: 1, at: 0, body: "x".repeat(START_CHARS) };
const STEP = "x".repeat(STEP_CHARS);
const HEAD: Head = {
  id: "",
  partition: 0,
  workflow: "raw",
  hash: "0".repeat(64),
  project: "default",
  status: "running",
  phase: "go",
  want: "nothing",
  priority: 0,
  createdAt: 0,
  finishedAt: null,
  tags: {},
  error: null,
};
const ENDED: Head = { ...HEAD, status: "done", phase: null, want: "nothing", finishedAt: 0 };

function newIds(many: number): string[] {
  return Array.from({ length: many }, () => newExecutionId(Date.now(), systemRandom));
}

/** A write that appends one journal row, and changes the head if there is one. */
function stepOf(execution: string, after: number, head: Head | null): ExecutionWrite {
  const entries = [{ seq: after + 1, count: 1, at: 0, body: STEP }];
  return { ...EMPTY, execution, create: false, after, entries, head };
}

const ROWS = { newIds, startChars: START_CHARS, stepChars: STEP_CHARS };

/** Inserts over one connection to the database. */
class RawDatabase implements RawStore {
  readonly #inserts: RawInserts;

  constructor(inserts: RawInserts) {
    this.#inserts = inserts;
  }

  commitMs(): Promise<number> {
    return this.#inserts.insertMs(STEP_CHARS);
  }

  startsPerSecond(starts: number, perCommit: number): Promise<number> {
    return this.#inserts.chainsPerSecond(starts, { ...ROWS, steps: 0, perCommit });
  }

  chainsPerSecond(chains: number, steps: number, perCommit: number): Promise<number> {
    return this.#inserts.chainsPerSecond(chains, { ...ROWS, steps, perCommit });
  }

  async tasksPerSecond(tasks: number): Promise<number> {
    await this.#inserts.empty();
    return this.#inserts.tasksPerSecond(tasks, rowsOf);
  }

  append(rows: readonly string[]): Promise<void> {
    return this.#inserts.insert(rows);
  }

  close(): Promise<void> {
    return this.#inserts.close();
  }
}
