// Partitions that go while something is on its way out, and executions that wait for the end of an upgrade.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import type { Input } from "../io.ts";

test("what waited for a commit is not given out when the partition was lost before it could be", () => {
  const bench = new NodeFixture();
  const plan = bench.plan([phase("a", { tasks: [1] })]);
  bench.start(plan, "e1");
  bench.join("w", ["w.a"]);
  bench.settle();
  bench.restart();
  bench.holdsCommits = true;
  bench.join("w", ["w.a"]);
  bench.settle();
  // After an unclean stop it starts only once that is committed.
  expect(bench.waiting).toHaveLength(1);
  bench.commit();
  bench.input({ kind: "lost", partitions: [0] });
  bench.settle();
  expect(bench.attempts()).toEqual([]);
});

test.each<[string, Input]>([
  ["is being handed over", { kind: "yield", partitions: [0] }],
  ["is a node's that closes", { kind: "closing" }],
])("what waited for a commit is not given out when the partition %s: it goes back", (_, input) => {
  const bench = new NodeFixture();
  bench.start(bench.plan([phase("a", { tasks: [1] })]), "e1");
  bench.join("w", ["w.a"]);
  bench.settle();
  bench.restart();
  bench.holdsCommits = true;
  bench.join("w2", ["w.a"], { local: false });
  bench.claim("w2", 1);
  bench.settle();
  expect(bench.waiting).toHaveLength(1);
  bench.input(input);
  bench.input({ kind: "yield", partitions: [0] });
  bench.settle();
  bench.commit();
  bench.settle();
  expect(bench.attempts()).toEqual([]);
  expect(bench.of("yielded")).toMatchObject([{ leases: { leases: [] } }]);
});

describe("beside a node that does not read the newest events,", () => {
  /** A task at work, and nodes that read up to this version. */
  function atWork(reads: number, { local = true, tasks = [1, 2], capacity = 1 } = {}) {
    const bench = new NodeFixture({ suspectMs: 1_000, heartbeatMs: 1_000 });
    const members = (version: number) =>
      bench.input({
        kind: "members",
        self: "a",
        live: ["a", "b"],
        ended: {},
        epochs: new Map([[0, 1]]),
        reads: version,
      });
    members(reads);
    bench.start(bench.plan([phase("a", { tasks })]), "e1");
    bench.join("w", ["w.a"], { capacity, local });
    if (!local) bench.claim("w", capacity);
    bench.settle();
    const [attempt] = bench.attempts();
    if (attempt === undefined) throw new Error("nothing was given out");
    return { bench, attempt, members };
  }

  test("an execution that would go on with one is held back, and goes on when the node has gone", () => {
    const { bench, attempt, members } = atWork(1);
    const report = bench.step(attempt, "pay", 7);
    bench.settle();
    expect(bench.kinds("e1")).not.toContain("task.step");
    expect(bench.verdicts(report)).toBeUndefined();
    expect(bench.inspect("e1").why).toMatch(/end of an upgrade: its next events have version 2/);
    members(2);
    bench.settle();
    expect(bench.verdicts(report)).toEqual([["accepted"]]);
    expect(bench.kinds("e1")).toContain("task.step");
    bench.receipt(attempt);
    bench.settle();
    expect(bench.attempts()).toHaveLength(2);
  });

  test("whoever asks something of it meanwhile is told to ask again, and nothing of it is given out", () => {
    const { bench, attempt } = atWork(1);
    bench.step(attempt, "pay", 7);
    bench.receipt(attempt);
    bench.settle();
    const asked = bench.control("cancel", "e1");
    bench.settle();
    expect(bench.reply(asked)).toMatchObject({ kind: "rejection", code: "not_ready" });
    expect(bench.attempts()).toHaveLength(1);
  });

  test("an execution is not started under an id that the node could not work with", () => {
    const { bench, members } = atWork(3);
    const plan = bench.plan([phase("a", { tasks: [1] })]);
    const refused = bench.start(plan, "a/b");
    bench.settle();
    expect(bench.reply(refused)).toMatchObject({ kind: "rejection", code: "not_ready" });
    expect(JSON.stringify(bench.reply(refused))).toContain(
      "while a node of an older version is in the cluster",
    );
    expect(bench.tables.load(["a/b"])).toEqual([null]);
    members(4);
    const taken = bench.start(plan, "a/b");
    bench.settle();
    expect(bench.reply(taken)).toMatchObject({ kind: "applied" });
    const [row] = bench.tables.readJournal({ execution: "a/b", from: 1 });
    // An older node that comes back leaves it alone.
    expect(row?.body).toMatch(/^\{"v":4,/);
  });

  test("what all read is written as ever", () => {
    const { bench, attempt } = atWork(1);
    bench.receipt(attempt);
    bench.settle();
    expect(bench.attempts()).toHaveLength(2);
  });

  test("it lets a partition go that holds such an execution, and the next owner must look for what was open", () => {
    const { bench, attempt } = atWork(1);
    bench.step(attempt, "pay", 7);
    bench.settle();
    bench.input({ kind: "yield", partitions: [0] });
    bench.settle();
    expect(bench.of("yielded")).toEqual([{ kind: "yielded", partition: 0, leases: null }]);
  });

  test("an attempt elsewhere whose last word is held back is handed over as open", () => {
    const { bench, attempt } = atWork(1, { local: false });
    bench.step(attempt, "pay", 7);
    bench.receipt(attempt);
    bench.settle();
    bench.input({ kind: "yield", partitions: [0] });
    bench.settle();
    const [yielded] = bench.of("yielded");
    expect(yielded?.leases?.leases).toMatchObject([{ execution: "e1", task: 0, attempt: 1, worker: "w" }]);
  });

  test.each([true, false])(
    "also a last word that ends its phase, before the store has said how it was (local: %s)",
    (local) => {
      const { bench, attempt } = atWork(1, { local, tasks: [1] });
      bench.held.add("load");
      bench.step(attempt, "pay", 7);
      bench.receipt(attempt);
      bench.settle();
      bench.input({ kind: "yield", partitions: [0] });
      bench.settle();
      const [yielded] = bench.of("yielded");
      if (local) expect(yielded?.leases).toBeNull();
      else
        expect(yielded?.leases?.leases).toMatchObject([
          { execution: "e1", task: 0, attempt: 1, worker: "w" },
        ]);
    },
  );

  test("the next owner must look for an attempt whose loss is held back", () => {
    const { bench, attempt, members } = atWork(1, { local: false, capacity: 2 });
    const other = bench.attempts()[1] as Attempt;
    bench.started(attempt, other);
    bench.signal("e1", "so that the starts are recorded");
    bench.settle();
    bench.restart();
    members(1);
    bench.join("w", ["w.a"], { local: false });
    bench.step(other, "pay", 7);
    bench.sleep(2_000);
    expect(bench.events("e1", "tasks.lost")).toEqual([]);
    bench.input({ kind: "yield", partitions: [0] });
    bench.settle();
    expect(bench.of("yielded")).toEqual([{ kind: "yielded", partition: 0, leases: null }]);
  });
});

test("a node that meets newer events than it reads names the partition, and leaves them alone", () => {
  const bench = new NodeFixture();
  const phases = [phase("a", { tasks: [1] })];
  bench.start(bench.plan(phases), "e1");
  bench.join("w", ["w.a"]);
  bench.settle();
  bench.step(bench.attempts()[0] as Attempt, "pay", 7);
  bench.settle();
  const older = new NodeFixture({ vocabulary: { events: 1, fold: 1 } }, bench.tables);
  older.plan(phases);
  const asked = older.control("pause", "e1");
  const said = older.receipt(bench.attempts()[0] as Attempt);
  older.settle();
  expect(older.reply(asked)).toMatchObject({ kind: "rejection", code: "not_ready" });
  // Whoever waits for a verdict hears that it is not to be had here.
  expect(older.verdicts(said)).toEqual([["elsewhere"]]);
  const unreadable = older.of("unreadable").at(-1);
  expect(unreadable).toMatchObject({ execution: "e1", partition: 0 });
  expect(unreadable?.why).toMatch(/rows of version 2; this Rondo reads versions up to 1/);
});
