// Attempts that are open when their execution becomes unreadable: they are told to stop, and their tasks are given out again
// only after a wait, also if the execution is repaired, evicted, or repaired by an audit meanwhile (decision 043).
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { checkedEntry } from "../../kernel/journal/journal-entry.ts";
import type { LoadedExecution } from "../../store/store.ts";

const REMOTE = { suspectMs: 30_000, claimLeaseMs: 1_000, sweepMs: 1_000 };
const numbers = (attempts: readonly Attempt[]) =>
  attempts.map(({ worker, item }) => `${worker} ${item.number}#${item.attempt}.${item.claim}`);

/** Makes loads of the execution return a garbled first row, as far as they return it; returns its repair. */
function garble(bench: NodeFixture, id: string): () => void {
  const { tables } = bench;
  const load = tables.load.bind(tables);
  const garbled = (loaded: LoadedExecution | null) => {
    if (loaded === null || loaded.head.id !== id) return loaded;
    const entries = loaded.entries.map((entry) =>
      entry.seq === 1 ? checkedEntry({ ...entry, body: entry.body.replace('"kind"', '"kinb"') }, id) : entry,
    );
    return { ...loaded, entries };
  };
  tables.load = (...args) => load(...args).map(garbled);
  return () => {
    tables.load = load;
  };
}

/** A commit of the execution fails, so its state is read again. */
function reload(bench: NodeFixture, id: string): void {
  bench.holdsCommits = true;
  bench.signal(id, "any");
  bench.settle();
  bench.loseCommit();
  bench.holdsCommits = false;
  bench.settle();
}

const lostTasks = (bench: NodeFixture) =>
  bench
    .of("cancel")
    .filter(({ why }) => why === "lost")
    .flatMap(({ worker, attempts }) =>
      attempts.flatMap((beat) => beat.attempts.map(({ task }) => `${worker} ${task}`)),
    );

function running(settings = {}, options: { local?: boolean; tasks?: number[] } = {}) {
  const { local = false, tasks = [0, 1] } = options;
  const bench = new NodeFixture({ ...REMOTE, ...settings });
  bench.join("w1", ["w.a"], { local, capacity: 5 });
  if (!local) bench.claim("w1", 5);
  bench.start(bench.plan([phase("a", { tasks })]), "e1");
  bench.settle();
  const first = bench.attempts();
  expect(first).toHaveLength(tasks.length);
  if (!local) bench.started(...first);
  bench.settle();
  return { bench, first };
}

function claimAgain(bench: NodeFixture): void {
  bench.claim("w1", 5);
  bench.settle();
}

describe("attempts of an execution that becomes damaged", () => {
  test("are all told to stop, also those whose receipts wait for the commit and are refused", () => {
    const { bench, first } = running();
    const repair = garble(bench, "e1");
    bench.holdsCommits = true;
    const report = bench.receipt(first[0] as Attempt);
    bench.settle();
    bench.loseCommit();
    bench.holdsCommits = false;
    bench.settle();
    expect(bench.status("e1")).toBe("damaged");
    expect(bench.verdicts(report)).toEqual([["stale"]]);
    expect(lostTasks(bench)).toEqual(["w1 0", "w1 1"]);
    repair();
    bench.inspect("e1");
    claimAgain(bench);
    expect(bench.attempts()).toHaveLength(2);
    bench.sleep(31_000);
    claimAgain(bench);
    expect(new Set(numbers(bench.attempts())).size).toBe(4);
  });

  test("are waited for in the process in which they run, where a restart would wait for none", () => {
    const { bench } = running({ suspectMs: 0 }, { local: true });
    const repair = garble(bench, "e1");
    reload(bench, "e1");
    repair();
    expect(bench.inspect("e1").view.status).toBe("running");
    bench.settle();
    expect(bench.attempts()).toHaveLength(2);
    bench.sleep(29_000);
    expect(bench.attempts()).toHaveLength(2);
    bench.sleep(2_000);
    expect(bench.attempts()).toHaveLength(4);
    expect(new Set(numbers(bench.attempts())).size).toBe(4);
  });

  test("are waited for, though the damage is gone before any head says so", () => {
    const { bench } = running();
    bench.losesDamage = true;
    const repair = garble(bench, "e1");
    reload(bench, "e1");
    expect(bench.of("damaged")).toHaveLength(1);
    repair();
    expect(bench.status("e1")).toBe("running");
    bench.inspect("e1");
    claimAgain(bench);
    expect(bench.attempts()).toHaveLength(2);
    bench.sleep(31_000);
    claimAgain(bench);
    expect(bench.attempts()).toHaveLength(4);
  });

  test("are waited for, also if an audit has repaired the head before the execution is loaded", () => {
    const { bench } = running();
    const [before] = bench.tables.load(["e1"]);
    const repair = garble(bench, "e1");
    reload(bench, "e1");
    expect(bench.status("e1")).toBe("damaged");
    repair();
    if (before?.head === undefined) throw new Error("e1 has no head");
    bench.tables.putDerived({ head: before.head, timers: null, opened: null, end: null });
    expect(bench.status("e1")).toBe("running");
    bench.inspect("e1");
    claimAgain(bench);
    expect(bench.attempts()).toHaveLength(2);
    bench.sleep(31_000);
    claimAgain(bench);
    expect(bench.attempts()).toHaveLength(4);
  });

  test("are waited for as long, if the repaired execution leaves memory and is loaded again", () => {
    const { bench } = running({ idleMax: 0 });
    const repair = garble(bench, "e1");
    bench.sleep(10_000);
    reload(bench, "e1");
    repair();
    // Without its worker the execution is idle, and leaves memory.
    bench.leave("w1");
    bench.inspect("e1");
    bench.settle();
    expect(bench.node.isResident("e1")).toBe(false);
    bench.sleep(20_000);
    bench.join("w2", ["w.a"], { local: true, capacity: 5 });
    bench.settle();
    expect([bench.node.isResident("e1"), bench.attempts().length]).toEqual([true, 2]);
    bench.sleep(9_000);
    expect(bench.attempts()).toHaveLength(2);
    bench.sleep(2_000);
    expect(numbers(bench.attempts()).slice(2)).toEqual([
      expect.stringMatching(/^w2 0/),
      expect.stringMatching(/^w2 1/),
    ]);
  });

  test("make an end of the node unclean while they may run, and not for longer", () => {
    const { bench } = running();
    garble(bench, "e1");
    reload(bench, "e1");
    expect([bench.node.hasSuspects, bench.node.openLeases]).toEqual([true, 0]);
    bench.sleep(31_000);
    expect(bench.node.hasSuspects).toBe(false);
  });

  test("do not concern a new execution with the same id", () => {
    const { bench } = running();
    const repair = garble(bench, "e1");
    reload(bench, "e1");
    bench.tables.dropDamaged("e1", null);
    bench.input({ kind: "purge", ids: ["e1"] });
    bench.settle();
    repair();
    bench.start(bench.plan([phase("a", { tasks: [0, 1] })]), "e1");
    claimAgain(bench);
    expect(new Set(numbers(bench.attempts())).size).toBe(4);
  });
});

test("an execution that an older version cannot read any more keeps no leases and no permits", () => {
  const { bench } = running({ projects: { default: { concurrency: 2 } } });
  const { tables } = bench;
  const load = tables.load.bind(tables);
  tables.load = (...args) =>
    load(...args).map((loaded) =>
      loaded === null
        ? null
        : {
            ...loaded,
            entries: loaded.entries.map((entry) => ({
              ...entry,
              body: entry.body.replace(/"v":\d+/, '"v":99'),
            })),
          },
    );
  reload(bench, "e1");
  expect(bench.of("unreadable")).toHaveLength(1);
  expect(bench.node.overview().limits).toMatchObject([{ held: 0 }]);
  expect(lostTasks(bench)).toEqual(["w1 0", "w1 1"]);
});

test("a damaged row that a snapshot covers stays damage, until the whole journal can be read", () => {
  const bench = new NodeFixture({ ...REMOTE, snapshotRows: 1 });
  bench.join("w1", ["w.a"], { capacity: 5 });
  bench.start(bench.plan([phase("a", { tasks: [0, 1] })]), "e1");
  bench.settle();
  for (const kind of ["pause", "resume"] as const) {
    bench.control(kind, "e1");
    bench.settle();
  }
  expect(bench.tables.load(["e1"])[0]?.snapshot).not.toBe(null);
  const [stored] = bench.tables.load(["e1"]);
  if (stored === null || stored === undefined) throw new Error("e1 is not stored");
  const repair = garble(bench, "e1");
  const damaged = { ...stored.head, status: "damaged", want: "nothing", error: "row 1" } as const;
  bench.tables.putDerived({ head: damaged, timers: null, opened: null, end: null });
  bench.restart();
  expect(bench.inspect("e1").view.status).toBe("damaged");
  expect([bench.status("e1"), bench.of("damaged").length]).toEqual(["damaged", 0]);
  repair();
  expect(bench.inspect("e1").view.status).toBe("running");
});
