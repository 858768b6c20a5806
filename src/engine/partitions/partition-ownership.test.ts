// Partitions that go while something is on its way out, and executions that wait for the end of an upgrade.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import type { Input } from "../io.ts";

test("what waited for a commit is not given out when the partition was lost before it could be", () => {
  const fixture = new NodeFixture();
  const plan = fixture.plan([phase("a", { tasks: [1] })]);
  fixture.start(plan, "e1");
  fixture.join("w", ["w.a"]);
  fixture.settle();
  fixture.restart();
  fixture.holdsCommits = true;
  fixture.join("w", ["w.a"]);
  fixture.settle();
  // After an unclean stop, an attempt is granted only when its start is committed.
  expect(fixture.waiting).toHaveLength(1);
  fixture.commit();
  fixture.input({ kind: "lost", partitions: [0] });
  fixture.settle();
  expect(fixture.attempts()).toEqual([]);
});

test.each<[string, Input]>([
  ["is being handed over", { kind: "yield", partitions: [0] }],
  ["is a node's that closes", { kind: "closing" }],
])("what waited for a commit is not given out when the partition %s: it goes back", (_, input) => {
  const fixture = new NodeFixture();
  fixture.start(fixture.plan([phase("a", { tasks: [1] })]), "e1");
  fixture.join("w", ["w.a"]);
  fixture.settle();
  fixture.restart();
  fixture.holdsCommits = true;
  fixture.join("w2", ["w.a"], { local: false });
  fixture.claim("w2", 1);
  fixture.settle();
  expect(fixture.waiting).toHaveLength(1);
  fixture.input(input);
  fixture.input({ kind: "yield", partitions: [0] });
  fixture.settle();
  fixture.commit();
  fixture.settle();
  expect(fixture.attempts()).toEqual([]);
  expect(fixture.of("yielded")).toMatchObject([{ leases: { leases: [] } }]);
});

describe("beside a node that does not read the newest events,", () => {
  /** A task at work, and nodes that read up to this version. */
  function atWork(reads: number, { local = true, tasks = [1, 2], capacity = 1 } = {}) {
    const fixture = new NodeFixture({ suspectMs: 1_000, heartbeatMs: 1_000 });
    const members = (version: number) =>
      fixture.input({
        kind: "members",
        self: "a",
        live: ["a", "b"],
        ended: {},
        epochs: new Map([[0, 1]]),
        reads: version,
      });
    members(reads);
    fixture.start(fixture.plan([phase("a", { tasks })]), "e1");
    fixture.join("w", ["w.a"], { capacity, local });
    if (!local) fixture.claim("w", capacity);
    fixture.settle();
    const [attempt] = fixture.attempts();
    if (attempt === undefined) throw new Error("nothing was given out");
    return { fixture, attempt, members };
  }

  test("an execution that would go on with one is held back, and goes on when the node has gone", () => {
    const { fixture, attempt, members } = atWork(1);
    const report = fixture.step(attempt, "pay", 7);
    fixture.settle();
    expect(fixture.kinds("e1")).not.toContain("task.step");
    expect(fixture.verdicts(report)).toBeUndefined();
    expect(fixture.inspect("e1").why).toMatch(/end of an upgrade: its next events have version 2/);
    members(2);
    fixture.settle();
    expect(fixture.verdicts(report)).toEqual([["accepted"]]);
    expect(fixture.kinds("e1")).toContain("task.step");
    fixture.receipt(attempt);
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(2);
  });

  test("whoever asks something of it meanwhile is told to ask again, and nothing of it is given out", () => {
    const { fixture, attempt } = atWork(1);
    fixture.step(attempt, "pay", 7);
    fixture.receipt(attempt);
    fixture.settle();
    const asked = fixture.control("cancel", "e1");
    fixture.settle();
    expect(fixture.reply(asked)).toMatchObject({ kind: "rejection", code: "not_ready" });
    expect(fixture.attempts()).toHaveLength(1);
  });

  test("an execution is not started under an id that the node could not work with", () => {
    const { fixture, members } = atWork(3);
    const plan = fixture.plan([phase("a", { tasks: [1] })]);
    const refused = fixture.start(plan, "a/b");
    fixture.settle();
    expect(fixture.reply(refused)).toMatchObject({ kind: "rejection", code: "not_ready" });
    expect(JSON.stringify(fixture.reply(refused))).toContain(
      "while a node of an older version is in the cluster",
    );
    expect(fixture.tables.load(["a/b"])).toEqual([null]);
    members(4);
    const taken = fixture.start(plan, "a/b");
    fixture.settle();
    expect(fixture.reply(taken)).toMatchObject({ kind: "applied" });
    const [row] = fixture.tables.readJournal({ execution: "a/b", from: 1 });
    // The row has version 4, so that an older node that returns does not take the execution.
    expect(row?.body).toMatch(/^\{"v":4,/);
  });

  test("what all read is written as ever", () => {
    const { fixture, attempt } = atWork(1);
    fixture.receipt(attempt);
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(2);
  });

  test("it lets a partition go that holds such an execution, and the next owner must look for what was open", () => {
    const { fixture, attempt } = atWork(1);
    fixture.step(attempt, "pay", 7);
    fixture.settle();
    fixture.input({ kind: "yield", partitions: [0] });
    fixture.settle();
    expect(fixture.of("yielded")).toEqual([{ kind: "yielded", partition: 0, leases: null }]);
  });

  test("an attempt elsewhere whose last word is held back is handed over as open", () => {
    const { fixture, attempt } = atWork(1, { local: false });
    fixture.step(attempt, "pay", 7);
    fixture.receipt(attempt);
    fixture.settle();
    fixture.input({ kind: "yield", partitions: [0] });
    fixture.settle();
    const [yielded] = fixture.of("yielded");
    expect(yielded?.leases?.leases).toMatchObject([{ execution: "e1", task: 0, attempt: 1, worker: "w" }]);
  });

  test.each([true, false])(
    "also a last word that ends its phase, before the store has said how it was (local: %s)",
    (local) => {
      const { fixture, attempt } = atWork(1, { local, tasks: [1] });
      fixture.held.add("load");
      fixture.step(attempt, "pay", 7);
      fixture.receipt(attempt);
      fixture.settle();
      fixture.input({ kind: "yield", partitions: [0] });
      fixture.settle();
      const [yielded] = fixture.of("yielded");
      if (local) expect(yielded?.leases).toBeNull();
      else
        expect(yielded?.leases?.leases).toMatchObject([
          { execution: "e1", task: 0, attempt: 1, worker: "w" },
        ]);
    },
  );

  test("the next owner must look for an attempt whose loss is held back", () => {
    const { fixture, attempt, members } = atWork(1, { local: false, capacity: 2 });
    const other = fixture.attempts()[1] as Attempt;
    fixture.started(attempt, other);
    fixture.signal("e1", "so that the starts are recorded");
    fixture.settle();
    fixture.restart();
    members(1);
    fixture.join("w", ["w.a"], { local: false });
    fixture.step(other, "pay", 7);
    fixture.sleep(2_000);
    expect(fixture.events("e1", "tasks.lost")).toEqual([]);
    fixture.input({ kind: "yield", partitions: [0] });
    fixture.settle();
    expect(fixture.of("yielded")).toEqual([{ kind: "yielded", partition: 0, leases: null }]);
  });
});

test("a node that meets newer events than it reads names the partition, and leaves them alone", () => {
  const fixture = new NodeFixture();
  const phases = [phase("a", { tasks: [1] })];
  fixture.start(fixture.plan(phases), "e1");
  fixture.join("w", ["w.a"]);
  fixture.settle();
  fixture.step(fixture.attempts()[0] as Attempt, "pay", 7);
  fixture.settle();
  const older = new NodeFixture({ vocabulary: { events: 1, fold: 1 } }, fixture.tables);
  older.plan(phases);
  const asked = older.control("pause", "e1");
  const said = older.receipt(fixture.attempts()[0] as Attempt);
  older.settle();
  expect(older.reply(asked)).toMatchObject({ kind: "rejection", code: "not_ready" });
  // Reports that wait for a verdict are answered with `elsewhere`.
  expect(older.verdicts(said)).toEqual([["elsewhere"]]);
  const unreadable = older.of("unreadable").at(-1);
  expect(unreadable).toMatchObject({ execution: "e1", partition: 0 });
  expect(unreadable?.why).toMatch(/rows of version 2; this version of Rondo reads versions up to 1/);
});
