// What rides along with commits and what a node shows: logs, dead letters, dropped words, purges, the overview.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { tasks, working } from "../../../test/fixtures/engine/records-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const failed = { status: "failed", payload: '{"message":"boom"}' } as const;
const fatal = { ...failed, fatal: true } as const;

const last = (bench: NodeFixture) => bench.attempts().at(-1) as Attempt;

describe("logs", () => {
  test("C13 are stored in the order they came, with what else the attempt said, in one commit", () => {
    const { bench, first } = working();
    const before = bench.of("commit").length;
    bench.logs(first, 1, "one", "two");
    bench.step(first, "s");
    bench.logs(first, 3, "three");
    bench.receipt(first);
    bench.settle();
    expect(bench.of("commit")).toHaveLength(before + 1);
    expect(bench.lines("e1")).toEqual(["one", "two", "three"]);
    const rows = bench.tables.readLogs({ execution: "e1", after: 0, rowsMax: 9 });
    expect(rows[0]).toMatchObject({ phase: "a", visit: 1, handler: "a", task: 0, number: 1, worker: "w1" });
    expect(bench.status("e1")).toBe("done");
  });

  test("are told of after their commit", () => {
    const { bench, first } = working();
    bench.holdsCommits = true;
    const report = bench.logs(first, 1, "one");
    bench.settle();
    expect([bench.of("logged").length, bench.verdicts(report)]).toEqual([0, undefined]);
    bench.commit();
    bench.settle();
    expect(bench.of("logged")).toEqual([{ kind: "logged", execution: "e1" }]);
    expect(bench.verdicts(report)).toEqual([["accepted"]]);
  });

  test("change no state, and are no event", () => {
    const { bench, first } = working();
    const { length } = bench.journal("e1");
    bench.logs(first, 1, "one");
    bench.settle();
    const kinds = bench.kinds("e1").slice(length);
    expect(kinds.filter((kind) => kind !== "tasks.started")).toEqual([]);
  });

  test("C19 of an attempt without a lease are stale, and not stored", () => {
    const { bench, first } = working(phase("a"), { local: false });
    bench.started(first);
    bench.sleep(60_000);
    const late = bench.logs(first, 1, "late");
    const other = bench.logs({ ...first, item: { ...first.item, attempt: 9 } }, 1, "other");
    bench.settle();
    expect([bench.verdicts(late), bench.verdicts(other)]).toEqual([[["stale"]], [["stale"]]]);
    expect(bench.lines("e1")).toEqual([]);
  });

  test("of what is over, or never was, are stale", () => {
    const { bench, first } = working();
    bench.receipt(first);
    bench.settle();
    const over = bench.logs(first, 1, "over");
    const never = bench.logs({ ...first, grant: { ...first.grant, execution: "nobody" } }, 1, "never");
    bench.settle();
    expect([bench.verdicts(over), bench.verdicts(never)]).toEqual([[["stale"]], [["stale"]]]);
    expect([bench.lines("e1"), bench.lines("nobody")]).toEqual([[], []]);
  });

  test("C18 are taken while an attempt is told to stop: its last lines count", () => {
    const { bench, first } = working();
    bench.started(first);
    bench.control("cancel", "e1");
    bench.settle();
    bench.logs(first, 1, "stopping");
    bench.receipt(first, { status: "cancelled" });
    bench.settle();
    expect([bench.status("e1"), bench.lines("e1")]).toEqual(["cancelled", ["stopping"]]);
  });

  test.each(["loseCommit", "commitUnheard"] as const)(
    "are stored once when a commit's outcome is not known: %s",
    (outcome) => {
      const { bench, first } = working();
      bench.holdsCommits = true;
      const report = bench.logs(first, 1, "one", "two");
      bench.settle();
      bench[outcome]();
      bench.holdsCommits = false;
      bench.settle();
      expect(bench.verdicts(report)).toEqual([["accepted"]]);
      bench.logs(first, 3, "three");
      bench.settle();
      expect(bench.lines("e1")).toEqual(["one", "two", "three"]);
    },
  );

  test("that are said twice are stored once", () => {
    const { bench, first } = working();
    bench.logs(first, 1, "one", "two");
    bench.settle();
    bench.logs(first, 1, "one", "two");
    bench.logs(first, 2, "two", "three");
    bench.settle();
    expect(bench.lines("e1")).toEqual(["one", "two", "three"]);
  });

  test("of an attempt that is taken over after a restart are stored once", () => {
    const { bench, first } = working(phase("a"), { local: false, settings: { suspectMs: 30_000 } });
    bench.started(first);
    bench.logs(first, 1, "one");
    bench.settle();
    bench.restart();
    bench.join("w1", ["w.a"], { local: false });
    bench.logs(first, 1, "one", "two");
    bench.settle();
    bench.receipt(first);
    bench.settle();
    expect([bench.status("e1"), bench.lines("e1")]).toEqual(["done", ["one", "two"]]);
  });

  test("of an enumeration are stored as of task -1", () => {
    const { bench, first } = working(phase("a", { enumerate: { use: "w.b" } }));
    bench.logs(first, 1, "listing");
    bench.settle();
    expect(bench.tables.readLogs({ execution: "e1", after: 0, rowsMax: 9 })).toMatchObject([{ task: -1 }]);
  });
});

describe("a purge", () => {
  test("forgets what is over, with everything about it", () => {
    const { bench, first } = working();
    bench.logs(first, 1, "one");
    bench.receipt(first, fatal);
    bench.settle();
    expect(bench.status("e1")).toBe("failed");
    bench.input({ kind: "purge", ids: ["e1", "nobody"] });
    bench.settle();
    expect([bench.status("e1"), bench.lines("e1"), bench.journal("e1")]).toEqual([undefined, [], []]);
    const request = bench.control("retry", "e1");
    bench.settle();
    expect(bench.reply(request)).toMatchObject({ code: "not_found" });
    bench.start(bench.plan([phase("a")]), "e1");
    bench.settle();
    expect(bench.status("e1")).toBe("running");
  });

  test("leaves alone what runs, what waits, and what is being written", () => {
    const { bench, first } = working();
    bench.start(bench.plan([{ name: "s", handlers: { s: { sleep: 1_000 } } }], "s"), "s1");
    bench.settle();
    bench.input({ kind: "purge", ids: ["e1", "s1"] });
    bench.settle();
    expect([bench.status("e1"), bench.status("s1")]).toEqual(["running", "running"]);
    bench.holdsCommits = true;
    bench.receipt(first, fatal);
    bench.settle();
    bench.commit();
    bench.settle();
    // Its end is written, and not known yet.
    bench.input({ kind: "purge", ids: ["e1"] });
    bench.holdsCommits = false;
    bench.settle();
    expect(bench.status("e1")).toBe("failed");
  });

  test("does not take what is being tried again", () => {
    const { bench, first } = working(phase("a", { retry: { attempts: 1 } }));
    bench.receipt(first, failed);
    bench.settle();
    bench.control("retry", "e1");
    bench.input({ kind: "purge", ids: ["e1"] });
    bench.settle();
    expect(bench.status("e1")).toBe("running");
    bench.receipt(last(bench));
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });
});

describe("the overview", () => {
  test("shows workers, limits, leases and what could be given out", () => {
    const bench = new NodeFixture({ projects: { default: { concurrency: 9 } } });
    bench.join("w1", [{ use: "w.a", version: "1.0.0" }], { capacity: 3 });
    bench.start(bench.plan([tasks(10, { concurrency: 2 })]), "e1");
    bench.start(bench.plan([phase("b", { tasks: [1, 2, 3] })], "other"), "e2");
    bench.settle();
    expect(bench.node.overview()).toEqual({
      workers: [{ id: "w1", local: true, capacity: 3, held: 2, serves: [{ use: "w.a", version: "1.0.0" }] }],
      limits: [
        { name: "project default", max: 9, held: 2, waiting: 0 },
        { name: "default/w.a", max: 2, held: 2, waiting: 1 },
      ],
      resident: 2,
      working: 1,
      leases: 2,
      ready: [
        { use: "w.a", tasks: 8 },
        { use: "w.b", tasks: 3 },
      ],
      totals: {
        started: 2,
        ended: { done: 0, failed: 0, cancelled: 0 },
        settled: { done: 0, failed: 0, cancelled: 0 },
      },
    });
  });

  test("counts what was started, settled and ended, each once it is committed", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"], { capacity: 3 });
    bench.start(bench.plan([tasks(3, { retry: { attempts: 1 } })]), "e1");
    bench.settle();
    const [one, two, three] = bench.attempts() as [Attempt, Attempt, Attempt];
    bench.receipt(one);
    expect(bench.node.overview().totals.settled.done).toBe(0);
    bench.settle();
    // The same word again counts for nothing.
    bench.receipt(one);
    bench.receipt(two);
    bench.settle();
    bench.receipt(three, failed);
    bench.settle();
    expect(bench.node.overview().totals).toEqual({
      started: 1,
      ended: { done: 0, failed: 1, cancelled: 0 },
      settled: { done: 2, failed: 1, cancelled: 0 },
    });
  });

  test("does not count as ready what sleeps, waits, or is tried again later", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"], { capacity: 5 });
    bench.start(bench.plan([tasks(10)]), "e1");
    bench.settle();
    const ends = [
      { status: "suspended", wait: { name: "nap", untilMs: bench.now + 60_000 } },
      { status: "suspended", wait: { name: "nap", untilMs: bench.now + 60_000 } },
      { status: "suspended", wait: { name: "go", signal: "go" } },
      { ...failed, retryAfterMs: 60_000 },
    ] as const;
    bench.leave("w1");
    ends.forEach((end, i) => bench.receipt(bench.attempts()[i] as Attempt, end));
    bench.settle();
    // Ten tasks: two sleep, one waits, one is tried again later, one runs.
    expect(bench.node.overview()).toMatchObject({ leases: 1, ready: [{ use: "w.a", tasks: 5 }] });
  });

  test("counts a listing under the name of what lists, also for children", () => {
    const bench = new NodeFixture();
    bench.start(bench.plan([phase("a", { enumerate: { use: "list" } })], "one"), "e1");
    bench.start(
      bench.plan([{ name: "c", handlers: { c: { workflow: "kid", enumerate: { use: "list" } } } }], "two"),
      "e2",
    );
    bench.settle();
    expect(bench.node.overview().ready).toEqual([{ use: "list", tasks: 2 }]);
  });

  test("shows nothing of what is paused or over", () => {
    const { bench } = working(tasks(200));
    bench.control("pause", "e1");
    bench.settle();
    expect(bench.node.overview().ready).toEqual([]);
  });
});
