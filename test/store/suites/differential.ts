/**
 * The same random operations through the memory store (the oracle) and through another adapter: equal answers at
 * every step, and equal contents at the end and after a restart.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { MemoryClusterStore } from "../../../src/store/memory/memory-cluster-store.ts";
import { MemoryStore } from "../../../src/store/memory/memory-store.ts";
import { MemoryTables } from "../../../src/store/memory/memory-tables.ts";
import {
  type CommitVerdict,
  type ExecutionWrite,
  fenceOf,
  type Ownership,
  type Store,
  type StoreInfo,
} from "../../../src/store/store.ts";
import { isOfCluster, openWhole } from "../../fixtures/store/open-whole-fixture.ts";
import { IDS, type Operation, operations, resolveWrite } from "../../fixtures/store/random-operations.ts";
import { performRecordOperation } from "../../fixtures/store/random-records.ts";

/** A place for one run: makes one store after the other over the same data, and is then removed. */
export interface Place {
  makeStore(): Store;
  remove(): Promise<void>;
}

/** Runs random sequences of operations through memory and through the stores of fresh places. */
export async function expectEqualAnswers(options: {
  readonly makePlace: () => Promise<Place>;
  readonly runs: number;
  /** 1 and `cluster: false`: the oracle is an embedded store. */
  readonly partitions: number;
  readonly cluster: boolean;
}): Promise<void> {
  const { runs, partitions, cluster } = options;
  const seen = { accepted: 0, refused: 0 };
  const run = async (sequence: Operation[]) => {
    const tables = new MemoryTables({ partitions });
    const place = await options.makePlace();
    const memory = new Side(() =>
      cluster
        ? new MemoryClusterStore(tables, { url: "http://node", clock: { now: () => 1 } })
        : new MemoryStore(tables),
    );
    const other = new Side(() => place.makeStore());
    try {
      await compare({ memory, other, tables, partitions }, sequence, seen);
    } finally {
      await other.store.close({ clean: false });
      await place.remove();
    }
  };
  await fc.assert(fc.asyncProperty(operations, run), {
    numRuns: runs,
    seed: 1,
    interruptAfterTimeLimit: 500_000,
  });
  // A test of refusals only, or of none, would say little.
  expect(seen.accepted).toBeGreaterThan(4 * runs);
  expect(seen.refused).toBeGreaterThan(runs / 2);
}

interface Sides {
  readonly memory: Side;
  readonly other: Side;
  readonly tables: MemoryTables;
  readonly partitions: number;
}

async function compare(
  { memory, other, tables, partitions }: Sides,
  sequence: readonly Operation[],
  seen: { accepted: number; refused: number },
): Promise<void> {
  expect(await other.open()).toEqual(await memory.open());
  for (const operation of sequence) {
    if (operation.kind !== "commit" && operation.kind !== "together") {
      const expected = await memory.perform(operation);
      expect(await other.perform(operation)).toEqual(expected);
      continue;
    }
    const commits = operation.kind === "commit" ? [operation] : operation.commits;
    const resolved: (() => Promise<CommitVerdict>)[] = [];
    const expected: CommitVerdict[] = [];
    for (const commit of commits) {
      const writes = resolveWrites(tables, commit, partitions);
      expected.push(await memory.commit(commit, writes));
      resolved.push(() => other.commit(commit, writes));
    }
    expect(await Promise.all(resolved.map((commit) => commit()))).toEqual(expected);
    for (const verdict of expected) {
      if (verdict.kind === "ok") seen.accepted++;
      if (verdict.kind !== "ok" || verdict.fenced.length > 0) seen.refused++;
    }
  }
  expect(await other.everything()).toEqual(await memory.everything());
  expect(await other.restart(false)).toEqual(await memory.restart(false));
  expect(await other.everything()).toEqual(await memory.everything());
}

/** A store and its restarts. Answers are made comparable: keys and generations differ between stores. */
class Side {
  readonly #make: () => Store;
  store: Store;
  #info: StoreInfo = { generation: "", key: "", partitions: 0, owned: [] };

  constructor(make: () => Store) {
    this.#make = make;
    this.store = make();
  }

  async open(): Promise<unknown> {
    this.#info = await openWhole(this.store);
    return this.#info.owned.map(withoutTimes);
  }

  async commit(
    { stale, mailTaken }: Operation & { kind: "commit" },
    writes: readonly ExecutionWrite[],
  ): Promise<CommitVerdict> {
    const fence = fenceOf(this.#info);
    const epochs = { ...fence.epochs };
    if (stale !== null) {
      const partition = stale.partition % this.#info.partitions;
      if (stale.isMissing) delete epochs[partition];
      else epochs[partition] = (epochs[partition] ?? 0) - 1;
    }
    const verdict = await this.store.commit({ fence: { ...fence, epochs }, writes, mailTaken });
    // There may be several reasons, any of which will do where owners change.
    if (verdict.kind === "fenced" && isOfCluster(this.store)) return { ...verdict, why: "" };
    return verdict;
  }

  async restart(clean: boolean): Promise<unknown> {
    await this.store.close({ clean });
    this.store = this.#make();
    return this.open();
  }

  /** Owns fewer partitions, or others again; an embedded store knows no such thing. */
  async move(operation: Operation & { kind: "release" | "take" }): Promise<unknown> {
    if (!isOfCluster(this.store)) return null;
    const partitions = operation.partitions.filter((partition) => partition < this.#info.partitions);
    if (operation.kind === "release")
      return this.store.release(partitions, { clean: operation.clean }).then(() => null);
    const taken = await this.store.take(partitions);
    const others = this.#info.owned.filter(({ partition }) => !partitions.includes(partition));
    this.#info = { ...this.#info, owned: [...others, ...taken] };
    return taken.map(withoutTimes);
  }

  async perform(operation: Exclude<Operation, { kind: "commit" | "together" }>): Promise<unknown> {
    const { store } = this;
    switch (operation.kind) {
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
      case "addDefinitions":
        return store.addDefinitions(
          operation.definitions.map(({ name, hash }) => ({ name, hash, body: `body of ${hash}` })),
        );
      case "getDefinition":
        return store.getDefinition(operation.by);
      case "restart":
        return this.restart(operation.clean);
      case "release":
      case "take":
        return this.move(operation);
      default:
        return performRecordOperation(store, operation);
    }
  }

  async everything(): Promise<unknown> {
    return {
      executions: await this.store.load(IDS),
      journals: await Promise.all(
        IDS.map((execution) => this.store.readJournal({ execution, from: 1, chains: true })),
      ),
      work: await this.store.scanWork({ after: {}, each: 99, partitions: null }),
      timers: await this.store.scanTimers({ until: Infinity, max: 99, partitions: null }),
      heads: await this.store.listHeads({}, { before: null, max: 99 }),
      counts: await this.store.countHeads({}),
      ended: await this.store.listEnded({ finishedBefore: Infinity, max: 99 }),
      letters: await this.store.scanMail({ after: 0, max: 999, partitions: null }),
      logs: await Promise.all(
        IDS.map((execution) => this.store.readLogs({ execution, after: 0, rowsMax: 999 })),
      ),
      deadLetters: await this.store.listDeadLetters({}, { before: null, max: 999 }),
    };
  }
}

function resolveWrites(
  tables: MemoryTables,
  operation: Operation & { kind: "commit" },
  partitions: number,
): ExecutionWrite[] {
  const ends = new Map<string, number>();
  for (const id of IDS) {
    const last = tables.readJournal({ execution: id, from: 1 }).at(-1);
    if (tables.load([id])[0] !== null) ends.set(id, last === undefined ? 0 : last.seq + last.count - 1);
  }
  return operation.writes.map((write) => {
    const end = ends.get(write.id) ?? null;
    const concrete = resolveWrite(write, { end, partitions });
    const added = concrete.entries.reduce((sum, { count }) => sum + count, 0);
    if (end === null || !concrete.create) ends.set(write.id, concrete.after + added);
    return concrete;
  });
}

/** Each store has a clock of its own. */
function withoutTimes({ uncleanEnds = [], ...own }: Ownership): unknown {
  return { ...own, uncleanEnds: uncleanEnds.map(({ epoch }) => epoch) };
}
