// The same random operations through the memory store (the oracle) and through SQLite: equal answers at every step.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { MemoryTables } from "../../src/store/memory/memory-tables.ts";
import { SqliteStore } from "../../src/store/sqlite/sqlite-store.ts";
import type { Commit, ExecutionWrite, Store, StoreInfo } from "../../src/store/store.ts";
import { IDS, type Operation, operations, resolveWrite } from "./random-operations.ts";
import { performRecordOperation } from "./random-records.ts";

const RUNS = 25;

/** A store and its restarts. Answers are made comparable: keys and generations differ between stores. */
class Side {
  readonly #make: () => Store;
  store: Store;
  info: StoreInfo | null = null;

  constructor(make: () => Store) {
    this.#make = make;
    this.store = make();
  }

  async open(): Promise<unknown> {
    this.info = await this.store.open();
    return { epoch: this.info.fence.epoch, uncleanEpoch: this.info.uncleanEpoch };
  }

  async commit(
    { stale, lettersTaken }: Operation & { kind: "commit" },
    writes: readonly ExecutionWrite[],
  ): Promise<unknown> {
    const fence = this.info?.fence as Commit["fence"];
    const epoch = fence.epoch - (stale ? 1 : 0);
    return this.store.commit({ fence: { ...fence, epoch }, writes, lettersTaken });
  }

  async restart(clean: boolean): Promise<unknown> {
    await this.store.close({ clean });
    this.store = this.#make();
    return this.open();
  }

  async perform(operation: Operation, writes: readonly ExecutionWrite[]): Promise<unknown> {
    const { store } = this;
    switch (operation.kind) {
      case "commit":
        return this.commit(operation, writes);
      case "load": {
        const { ids, foldVersion } = operation;
        return store.load(ids, foldVersion === undefined ? {} : { foldVersion });
      }
      case "readJournal":
        return store.readJournal({ ...operation, execution: operation.id });
      case "scanWork":
        return store.scanWork(operation);
      case "scanTimers":
        return store.scanTimers(operation);
      case "listHeads":
        return store.listHeads(operation.filter, operation);
      case "putDefinition":
        return store.putDefinition(operation.name, operation.hash, `body of ${operation.hash}`);
      case "getDefinition":
        return store.getDefinition(operation.by);
      case "restart":
        return this.restart(operation.clean);
      default:
        return performRecordOperation(store, operation);
    }
  }

  async everything(): Promise<unknown> {
    return {
      executions: await this.store.load(IDS),
      journals: await Promise.all(IDS.map((execution) => this.store.readJournal({ execution, from: 1 }))),
      work: await this.store.scanWork({ after: {}, each: 99 }),
      timers: await this.store.scanTimers({ until: Infinity, max: 99 }),
      heads: await this.store.listHeads({}, { before: null, max: 99 }),
      ended: await this.store.listEnded({ finishedBefore: Infinity, max: 99 }),
      letters: await this.store.scanLetters({ after: 0, max: 999 }),
      logs: await Promise.all(
        IDS.map((execution) => this.store.readLogs({ execution, after: 0, rowsMax: 999 })),
      ),
      deadLetters: await this.store.listDeadLetters({}, { before: null, max: 999 }),
    };
  }
}

test("memory and sqlite give equal answers to any sequence of operations", async () => {
  let accepted = 0;
  let refused = 0;
  const run = async (sequence: Operation[]) => {
    const directory = mkdtempSync(join(tmpdir(), "rondo-differential-"));
    const tables = new MemoryTables();
    const memory = new Side(() => new MemoryStore(tables));
    const sqlite = new Side(() => new SqliteStore({ directory }));
    try {
      expect(await sqlite.open()).toEqual(await memory.open());
      for (const operation of sequence) {
        const writes = operation.kind === "commit" ? resolveWrites(tables, operation) : [];
        const expected = await memory.perform(operation, writes);
        expect(await sqlite.perform(operation, writes)).toEqual(expected);
        if (operation.kind !== "commit") continue;
        if ((expected as { kind: string }).kind === "ok") accepted++;
        else refused++;
      }
      expect(await sqlite.everything()).toEqual(await memory.everything());
      expect(await sqlite.restart(false)).toEqual(await memory.restart(false));
      expect(await sqlite.everything()).toEqual(await memory.everything());
    } finally {
      await sqlite.store.close({ clean: false });
      rmSync(directory, { recursive: true });
    }
  };
  await fc.assert(fc.asyncProperty(operations, run), { numRuns: RUNS, seed: 1 });
  // A test of refusals only, or of none, would say little.
  expect(accepted).toBeGreaterThan(4 * RUNS);
  expect(refused).toBeGreaterThan(RUNS);
});

function resolveWrites(tables: MemoryTables, operation: Operation & { kind: "commit" }): ExecutionWrite[] {
  const ends = new Map<string, number>();
  for (const id of IDS) {
    const last = tables.readJournal({ execution: id, from: 1 }).at(-1);
    if (tables.load([id])[0] !== null) ends.set(id, last === undefined ? 0 : last.seq + last.count - 1);
  }
  return operation.writes.map((write) => {
    const end = ends.get(write.id) ?? null;
    const concrete = resolveWrite(write, end);
    const added = concrete.entries.reduce((sum, { count }) => sum + count, 0);
    if (end === null || !concrete.create) ends.set(write.id, concrete.after + added);
    return concrete;
  });
}
