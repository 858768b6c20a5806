// What rides along with commits and what a node shows: logs, dead letters, dropped words, purges, the overview.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { tasks, working } from "../../../test/fixtures/engine/records-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const failed = { status: "failed", payload: '{"message":"boom"}' } as const;
const fatal = { ...failed, fatal: true } as const;

const last = (fixture: NodeFixture) => fixture.attempts().at(-1) as Attempt;

describe("logs", () => {
  test("C13 are stored in the order they came, with what else the attempt said, in one commit", () => {
    const { fixture, first } = working();
    const before = fixture.of("commit").length;
    fixture.logs(first, 1, "one", "two");
    fixture.step(first, "s");
    fixture.logs(first, 3, "three");
    fixture.receipt(first);
    fixture.settle();
    expect(fixture.of("commit")).toHaveLength(before + 1);
    expect(fixture.lines("e1")).toEqual(["one", "two", "three"]);
    const rows = fixture.tables.readLogs({ execution: "e1", after: 0, rowsMax: 9 });
    expect(rows[0]).toMatchObject({ phase: "a", visit: 1, handler: "a", task: 0, number: 1, worker: "w1" });
    expect(fixture.status("e1")).toBe("done");
  });

  test("are told of after their commit", () => {
    const { fixture, first } = working();
    fixture.holdsCommits = true;
    const report = fixture.logs(first, 1, "one");
    fixture.settle();
    expect([fixture.of("logged").length, fixture.verdicts(report)]).toEqual([0, undefined]);
    fixture.commit();
    fixture.settle();
    expect(fixture.of("logged")).toEqual([{ kind: "logged", execution: "e1" }]);
    expect(fixture.verdicts(report)).toEqual([["accepted"]]);
  });

  test("change no state, and are no event", () => {
    const { fixture, first } = working();
    const { length } = fixture.journal("e1");
    fixture.logs(first, 1, "one");
    fixture.settle();
    const kinds = fixture.kinds("e1").slice(length);
    expect(kinds.filter((kind) => kind !== "tasks.started")).toEqual([]);
  });

  test("C19 of an attempt without a lease are stale, and not stored", () => {
    const { fixture, first } = working(phase("a"), { local: false });
    fixture.started(first);
    fixture.sleep(60_000);
    const late = fixture.logs(first, 1, "late");
    const other = fixture.logs({ ...first, item: { ...first.item, attempt: 9 } }, 1, "other");
    fixture.settle();
    expect([fixture.verdicts(late), fixture.verdicts(other)]).toEqual([[["stale"]], [["stale"]]]);
    expect(fixture.lines("e1")).toEqual([]);
  });

  test("of what is over, or never was, are stale", () => {
    const { fixture, first } = working();
    fixture.receipt(first);
    fixture.settle();
    const over = fixture.logs(first, 1, "over");
    const never = fixture.logs({ ...first, grant: { ...first.grant, execution: "nobody" } }, 1, "never");
    fixture.settle();
    expect([fixture.verdicts(over), fixture.verdicts(never)]).toEqual([[["stale"]], [["stale"]]]);
    expect([fixture.lines("e1"), fixture.lines("nobody")]).toEqual([[], []]);
  });

  test("C18 are taken while an attempt is told to stop: its last lines count", () => {
    const { fixture, first } = working();
    fixture.started(first);
    fixture.control("cancel", "e1");
    fixture.settle();
    fixture.logs(first, 1, "stopping");
    fixture.receipt(first, { status: "cancelled" });
    fixture.settle();
    expect([fixture.status("e1"), fixture.lines("e1")]).toEqual(["cancelled", ["stopping"]]);
  });

  test.each(["loseCommit", "commitUnheard"] as const)(
    "are stored once when a commit's outcome is not known: %s",
    (outcome) => {
      const { fixture, first } = working();
      fixture.holdsCommits = true;
      const report = fixture.logs(first, 1, "one", "two");
      fixture.settle();
      fixture[outcome]();
      fixture.holdsCommits = false;
      fixture.settle();
      expect(fixture.verdicts(report)).toEqual([["accepted"]]);
      fixture.logs(first, 3, "three");
      fixture.settle();
      expect(fixture.lines("e1")).toEqual(["one", "two", "three"]);
    },
  );

  test("that are said twice are stored once", () => {
    const { fixture, first } = working();
    fixture.logs(first, 1, "one", "two");
    fixture.settle();
    fixture.logs(first, 1, "one", "two");
    fixture.logs(first, 2, "two", "three");
    fixture.settle();
    expect(fixture.lines("e1")).toEqual(["one", "two", "three"]);
  });

  test("of an attempt that is taken over after a restart are stored once", () => {
    const { fixture, first } = working(phase("a"), { local: false, settings: { suspectMs: 30_000 } });
    fixture.started(first);
    fixture.logs(first, 1, "one");
    fixture.settle();
    fixture.restart();
    fixture.join("w1", ["w.a"], { local: false });
    fixture.logs(first, 1, "one", "two");
    fixture.settle();
    fixture.receipt(first);
    fixture.settle();
    expect([fixture.status("e1"), fixture.lines("e1")]).toEqual(["done", ["one", "two"]]);
  });

  test("of an enumeration are stored as of task -1", () => {
    const { fixture, first } = working(phase("a", { enumerate: { use: "w.b" } }));
    fixture.logs(first, 1, "listing");
    fixture.settle();
    expect(fixture.tables.readLogs({ execution: "e1", after: 0, rowsMax: 9 })).toMatchObject([{ task: -1 }]);
  });
});

describe("a purge", () => {
  test("forgets what is over, with everything about it", () => {
    const { fixture, first } = working();
    fixture.logs(first, 1, "one");
    fixture.receipt(first, fatal);
    fixture.settle();
    expect(fixture.status("e1")).toBe("failed");
    fixture.input({ kind: "purge", ids: ["e1", "nobody"] });
    fixture.settle();
    expect([fixture.status("e1"), fixture.lines("e1"), fixture.journal("e1")]).toEqual([undefined, [], []]);
    const request = fixture.control("retry", "e1");
    fixture.settle();
    expect(fixture.reply(request)).toMatchObject({ code: "not_found" });
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.settle();
    expect(fixture.status("e1")).toBe("running");
  });

  test("leaves alone what runs, what waits, and what is being written", () => {
    const { fixture, first } = working();
    fixture.start(fixture.plan([{ name: "s", handlers: { s: { sleep: 1_000 } } }], "s"), "s1");
    fixture.settle();
    fixture.input({ kind: "purge", ids: ["e1", "s1"] });
    fixture.settle();
    expect([fixture.status("e1"), fixture.status("s1")]).toEqual(["running", "running"]);
    fixture.holdsCommits = true;
    fixture.receipt(first, fatal);
    fixture.settle();
    fixture.commit();
    fixture.settle();
    // The end of e1 is stored, but the node does not know it yet.
    fixture.input({ kind: "purge", ids: ["e1"] });
    fixture.holdsCommits = false;
    fixture.settle();
    expect(fixture.status("e1")).toBe("failed");
  });

  test("does not take what is being tried again", () => {
    const { fixture, first } = working(phase("a", { retry: { attempts: 1 } }));
    fixture.receipt(first, failed);
    fixture.settle();
    fixture.control("retry", "e1");
    fixture.input({ kind: "purge", ids: ["e1"] });
    fixture.settle();
    expect(fixture.status("e1")).toBe("running");
    fixture.receipt(last(fixture));
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
  });
});

describe("the overview", () => {
  test("shows workers, limits, leases and what could be given out", () => {
    const fixture = new NodeFixture({ projects: { default: { concurrency: 9 } } });
    fixture.join("w1", [{ use: "w.a", version: "1.0.0" }], { capacity: 3 });
    fixture.start(fixture.plan([tasks(10, { concurrency: 2 })]), "e1");
    fixture.start(fixture.plan([phase("b", { tasks: [1, 2, 3] })], "other"), "e2");
    fixture.settle();
    expect(fixture.node.overview()).toEqual({
      workers: [{ id: "w1", local: true, capacity: 3, held: 2, serves: [{ use: "w.a", version: "1.0.0" }] }],
      limits: [
        { name: "project default", max: 9, held: 2, waiting: 0 },
        { name: "default/w.a", max: 2, held: 2, waiting: 1 },
      ],
      resident: 2,
      working: 1,
      leases: 2,
      ready: [
        { use: "w.a", tasks: 8, workflows: ["w"], since: expect.any(Number) },
        { use: "w.b", tasks: 3, workflows: ["other"], since: expect.any(Number) },
      ],
      totals: {
        started: 2,
        ended: { done: 0, failed: 0, cancelled: 0 },
        settled: { done: 0, failed: 0, cancelled: 0 },
        handlers: new Map(),
      },
    });
  });

  test("counts what was started, settled and ended, each once it is committed", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 3 });
    fixture.start(fixture.plan([tasks(3, { retry: { attempts: 1 } })]), "e1");
    fixture.settle();
    const [one, two, three] = fixture.attempts() as [Attempt, Attempt, Attempt];
    fixture.receipt(one);
    expect(fixture.node.overview().totals.settled.done).toBe(0);
    fixture.settle();
    // A repeated receipt is not counted.
    fixture.receipt(one);
    fixture.receipt(two);
    fixture.settle();
    fixture.receipt(three, failed);
    fixture.settle();
    expect(fixture.node.overview().totals).toEqual({
      started: 1,
      ended: { done: 0, failed: 1, cancelled: 0 },
      settled: { done: 2, failed: 1, cancelled: 0 },
      handlers: new Map([["w.a.a", { done: 2, failed: 1, cancelled: 0, runMs: expect.any(Number) }]]),
    });
  });

  test("does not count as ready what sleeps, waits, or is tried again later", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 5 });
    fixture.start(fixture.plan([tasks(10)]), "e1");
    fixture.settle();
    const ends = [
      { status: "suspended", wait: { name: "nap", untilMs: fixture.now + 60_000 } },
      { status: "suspended", wait: { name: "nap", untilMs: fixture.now + 60_000 } },
      { status: "suspended", wait: { name: "go", signal: "go" } },
      { ...failed, retryAfterMs: 60_000 },
    ] as const;
    fixture.leave("w1");
    ends.forEach((end, i) => fixture.receipt(fixture.attempts()[i] as Attempt, end));
    fixture.settle();
    // Ten tasks: two sleep, one waits, one is tried again later, one runs.
    expect(fixture.node.overview()).toMatchObject({ leases: 1, ready: [{ use: "w.a", tasks: 5 }] });
  });

  test("counts a listing under the name of what lists, also for children", () => {
    const fixture = new NodeFixture();
    fixture.start(fixture.plan([phase("a", { enumerate: { use: "list" } })], "one"), "e1");
    fixture.start(
      fixture.plan([{ name: "c", handlers: { c: { workflow: "kid", enumerate: { use: "list" } } } }], "two"),
      "e2",
    );
    fixture.settle();
    expect(fixture.node.overview().ready).toMatchObject([{ use: "list", tasks: 2 }]);
  });

  test("shows nothing of what is paused or over", () => {
    const { fixture } = working(tasks(200));
    fixture.control("pause", "e1");
    fixture.settle();
    expect(fixture.node.overview().ready).toEqual([]);
  });
});
