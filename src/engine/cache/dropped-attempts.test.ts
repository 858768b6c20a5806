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
function garble(fixture: NodeFixture, id: string): () => void {
  const { tables } = fixture;
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
function reload(fixture: NodeFixture, id: string): void {
  fixture.holdsCommits = true;
  fixture.signal(id, "any");
  fixture.settle();
  fixture.loseCommit();
  fixture.holdsCommits = false;
  fixture.settle();
}

const lostTasks = (fixture: NodeFixture) =>
  fixture
    .of("cancel")
    .filter(({ why }) => why === "lost")
    .flatMap(({ worker, attempts }) =>
      attempts.flatMap((beat) => beat.attempts.map(({ task }) => `${worker} ${task}`)),
    );

function running(settings = {}, options: { local?: boolean; tasks?: number[] } = {}) {
  const { local = false, tasks = [0, 1] } = options;
  const fixture = new NodeFixture({ ...REMOTE, ...settings });
  fixture.join("w1", ["w.a"], { local, capacity: 5 });
  if (!local) fixture.claim("w1", 5);
  fixture.start(fixture.plan([phase("a", { tasks })]), "e1");
  fixture.settle();
  const first = fixture.attempts();
  expect(first).toHaveLength(tasks.length);
  if (!local) fixture.started(...first);
  fixture.settle();
  return { fixture, first };
}

function claimAgain(fixture: NodeFixture): void {
  fixture.claim("w1", 5);
  fixture.settle();
}

describe("attempts of an execution that becomes damaged", () => {
  test("are all told to stop, also those whose receipts wait for the commit and are refused", () => {
    const { fixture, first } = running();
    const repair = garble(fixture, "e1");
    fixture.holdsCommits = true;
    const report = fixture.receipt(first[0] as Attempt);
    fixture.settle();
    fixture.loseCommit();
    fixture.holdsCommits = false;
    fixture.settle();
    expect(fixture.status("e1")).toBe("damaged");
    expect(fixture.verdicts(report)).toEqual([["stale"]]);
    expect(lostTasks(fixture)).toEqual(["w1 0", "w1 1"]);
    repair();
    fixture.inspect("e1");
    claimAgain(fixture);
    expect(fixture.attempts()).toHaveLength(2);
    fixture.sleep(31_000);
    claimAgain(fixture);
    expect(new Set(numbers(fixture.attempts())).size).toBe(4);
  });

  test("are waited for in the process in which they run, where a restart would wait for none", () => {
    const { fixture } = running({ suspectMs: 0 }, { local: true });
    const repair = garble(fixture, "e1");
    reload(fixture, "e1");
    repair();
    expect(fixture.inspect("e1").view.status).toBe("running");
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(2);
    fixture.sleep(29_000);
    expect(fixture.attempts()).toHaveLength(2);
    fixture.sleep(2_000);
    expect(fixture.attempts()).toHaveLength(4);
    expect(new Set(numbers(fixture.attempts())).size).toBe(4);
  });

  test("are waited for, though the damage is gone before any head says so", () => {
    const { fixture } = running();
    fixture.losesDamage = true;
    const repair = garble(fixture, "e1");
    reload(fixture, "e1");
    expect(fixture.of("damaged")).toHaveLength(1);
    repair();
    expect(fixture.status("e1")).toBe("running");
    fixture.inspect("e1");
    claimAgain(fixture);
    expect(fixture.attempts()).toHaveLength(2);
    fixture.sleep(31_000);
    claimAgain(fixture);
    expect(fixture.attempts()).toHaveLength(4);
  });

  test("are waited for, also if an audit has repaired the head before the execution is loaded", () => {
    const { fixture } = running();
    const [before] = fixture.tables.load(["e1"]);
    const repair = garble(fixture, "e1");
    reload(fixture, "e1");
    expect(fixture.status("e1")).toBe("damaged");
    repair();
    if (before?.head === undefined) throw new Error("e1 has no head");
    fixture.tables.putDerived({ head: before.head, timers: null, opened: null, end: null });
    expect(fixture.status("e1")).toBe("running");
    fixture.inspect("e1");
    claimAgain(fixture);
    expect(fixture.attempts()).toHaveLength(2);
    fixture.sleep(31_000);
    claimAgain(fixture);
    expect(fixture.attempts()).toHaveLength(4);
  });

  test("are waited for as long, if the repaired execution leaves memory and is loaded again", () => {
    const { fixture } = running({ idleMax: 0 });
    const repair = garble(fixture, "e1");
    fixture.sleep(10_000);
    reload(fixture, "e1");
    repair();
    // Without its worker the execution is idle, and leaves memory.
    fixture.leave("w1");
    fixture.inspect("e1");
    fixture.settle();
    expect(fixture.node.isResident("e1")).toBe(false);
    fixture.sleep(20_000);
    fixture.join("w2", ["w.a"], { local: true, capacity: 5 });
    fixture.settle();
    expect([fixture.node.isResident("e1"), fixture.attempts().length]).toEqual([true, 2]);
    fixture.sleep(9_000);
    expect(fixture.attempts()).toHaveLength(2);
    fixture.sleep(2_000);
    expect(numbers(fixture.attempts()).slice(2)).toEqual([
      expect.stringMatching(/^w2 0/),
      expect.stringMatching(/^w2 1/),
    ]);
  });

  test("make an end of the node unclean while they may run, and not for longer", () => {
    const { fixture } = running();
    garble(fixture, "e1");
    reload(fixture, "e1");
    expect([fixture.node.hasSuspects, fixture.node.openLeases]).toEqual([true, 0]);
    fixture.sleep(31_000);
    expect(fixture.node.hasSuspects).toBe(false);
  });

  test("do not concern a new execution with the same id", () => {
    const { fixture } = running();
    const repair = garble(fixture, "e1");
    reload(fixture, "e1");
    fixture.tables.dropDamaged("e1", null);
    fixture.input({ kind: "purge", ids: ["e1"] });
    fixture.settle();
    repair();
    fixture.start(fixture.plan([phase("a", { tasks: [0, 1] })]), "e1");
    claimAgain(fixture);
    expect(new Set(numbers(fixture.attempts())).size).toBe(4);
  });
});

test("an execution that an older version cannot read any more keeps no leases and no permits", () => {
  const { fixture } = running({ projects: { default: { concurrency: 2 } } });
  const { tables } = fixture;
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
  reload(fixture, "e1");
  expect(fixture.of("unreadable")).toHaveLength(1);
  expect(fixture.node.overview().limits).toMatchObject([{ held: 0 }]);
  expect(lostTasks(fixture)).toEqual(["w1 0", "w1 1"]);
});

test("a damaged row that a snapshot covers stays damage, until the whole journal can be read", () => {
  const fixture = new NodeFixture({ ...REMOTE, snapshotRows: 1 });
  fixture.join("w1", ["w.a"], { capacity: 5 });
  fixture.start(fixture.plan([phase("a", { tasks: [0, 1] })]), "e1");
  fixture.settle();
  for (const kind of ["pause", "resume"] as const) {
    fixture.control(kind, "e1");
    fixture.settle();
  }
  expect(fixture.tables.load(["e1"])[0]?.snapshot).not.toBe(null);
  const [stored] = fixture.tables.load(["e1"]);
  if (stored === null || stored === undefined) throw new Error("e1 is not stored");
  const repair = garble(fixture, "e1");
  const damaged = { ...stored.head, status: "damaged", want: "nothing", error: "row 1" } as const;
  fixture.tables.putDerived({ head: damaged, timers: null, opened: null, end: null });
  fixture.restart();
  expect(fixture.inspect("e1").view.status).toBe("damaged");
  expect([fixture.status("e1"), fixture.of("damaged").length]).toEqual(["damaged", 0]);
  repair();
  expect(fixture.inspect("e1").view.status).toBe("running");
});
