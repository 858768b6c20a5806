// After an unclean stop: nothing is lost, nothing is counted twice, and a task that kills its process harms only itself
// (DESIGN 3.2, 4).
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const tasks = (n: number, more: object = {}) =>
  phase("a", { tasks: Array.from({ length: n }, (_, i) => i), ...more });

function numbers(attempts: readonly Attempt[]): string[] {
  return attempts.map(({ item }) => `${item.number}#${item.attempt}`);
}

describe("after the process died", () => {
  test("what was given out and not settled runs again, with nothing burnt if no start was recorded", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"], { capacity: 2 });
    bench.start(bench.plan([tasks(3)]), "e1");
    bench.settle();
    bench.receipt(bench.attempts()[0] as Attempt);
    bench.settle();
    bench.restart();
    bench.join("w1", ["w.a"]);
    bench.settle();
    expect(numbers(bench.attempts())).toEqual(["1#1", "2#1"]);
    bench.work();
    for (const attempt of bench.attempts()) bench.receipt(attempt);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
    expect(bench.events("e1", "tasks.lost")).toHaveLength(0);
  });

  test("recorded starts are lost, and burn a crash", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"]);
    bench.start(bench.plan([tasks(3)]), "e1");
    bench.settle();
    bench.started(...bench.attempts().slice(0, 2));
    // A start rides along with the next commit.
    bench.receipt(bench.attempts()[2] as Attempt);
    bench.settle();
    expect(bench.events("e1", "tasks.started")).toMatchObject([{ tasks: [0, 1] }]);
    bench.restart();
    bench.join("w1", ["w.a"]);
    bench.settle();
    expect(bench.events("e1", "tasks.lost")).toMatchObject([{ tasks: [0, 1], attempts: [1, 1] }]);
    expect(numbers(bench.attempts())).toEqual(["0#2", "1#2"]);
  });

  test("a start is committed before a suspect is given out again", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"]);
    bench.start(bench.plan([tasks(3)]), "e1");
    bench.settle();
    bench.restart();
    bench.holdsCommits = true;
    bench.join("w1", ["w.a"]);
    bench.settle();
    expect(bench.attempts()).toHaveLength(0);
    const kinds = () => bench.kinds("e1").filter((kind) => kind === "tasks.started");
    expect(kinds()).toHaveLength(0);
    bench.commit();
    expect(kinds()).toHaveLength(1);
    bench.settle();
    expect(numbers(bench.attempts())).toEqual(["0#1", "1#1", "2#1"]);
  });

  test("a start that could not be committed is given out to nobody, and tried again", () => {
    for (const isWritten of [false, true]) {
      const bench = new NodeFixture();
      bench.join("w1", ["w.a"]);
      bench.start(bench.plan([tasks(1)]), "e1");
      bench.settle();
      bench.restart();
      bench.holdsCommits = true;
      bench.join("w1", ["w.a"]);
      bench.settle();
      if (isWritten) bench.commitUnheard();
      else bench.loseCommit();
      expect(bench.attempts()).toHaveLength(0);
      bench.holdsCommits = false;
      bench.settle();
      expect(bench.attempts()).toHaveLength(1);
      expect(bench.events("e1", "tasks.started")).toHaveLength(1);
      bench.receipt(bench.attempts()[0] as Attempt);
      bench.settle();
      expect(bench.status("e1")).toBe("done");
    }
  });

  test("what is new since then is given out at once", () => {
    const bench = new NodeFixture();
    bench.restart();
    bench.join("w1", ["w.a"]);
    bench.start(bench.plan([tasks(3)]), "e1");
    bench.settle();
    expect(bench.attempts()).toHaveLength(3);
    expect(bench.events("e1", "tasks.started")).toHaveLength(0);
  });

  test("a clean end leaves no suspects", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"]);
    bench.start(bench.plan([tasks(3)]), "e1");
    bench.settle();
    bench.restart({ clean: true });
    bench.join("w1", ["w.a"]);
    bench.settle();
    expect(bench.attempts()).toHaveLength(3);
    expect(bench.events("e1", "tasks.started")).toHaveLength(0);
  });
});

describe("a task that kills its process", () => {
  /** Lives of a process in which task 1 kills it whenever it starts; gives what was given out in each life. */
  function lives(bench: NodeFixture, max: number): string[][] {
    const seen: string[][] = [];
    for (let life = 0; life < max && bench.status("e1") === "running"; life++) {
      bench.join("w1", ["w.a"], { capacity: 10 });
      bench.settle();
      const given = bench.attempts();
      seen.push(numbers(given));
      const killer = given.find(({ item }) => item.number === 1);
      bench.started(...given);
      // Whatever stands before the killer in its turn is done; then the process is gone.
      for (const attempt of given) if (attempt.item.number < 1) bench.receipt(attempt);
      bench.settle();
      if (killer === undefined) {
        for (const attempt of given) bench.receipt(attempt);
        bench.settle();
      }
      if (bench.status("e1") === "running") bench.restart();
    }
    return seen;
  }

  test("does not put the engine in a loop, and its neighbours do not pay", () => {
    const bench = new NodeFixture();
    bench.start(bench.plan([tasks(4, { tolerate: 1 })]), "e1");
    bench.settle();
    const seen = lives(bench, 20);
    expect(bench.status("e1")).toBe("done");
    expect(seen.length).toBeLessThan(12);
    const settled = bench
      .events("e1", "tasks.settled")
      .flatMap((event) => event.tasks.map((task, i) => `${task} ${event.statuses[i]} ${event.reasons[i]}`));
    expect(settled.sort()).toEqual(["0 done null", "1 failed crashes", "2 done null", "3 done null"]);
  });

  test("runs alone after two crashes", () => {
    const bench = new NodeFixture();
    bench.start(bench.plan([tasks(4, { tolerate: 1 })]), "e1");
    bench.settle();
    const seen = lives(bench, 20);
    const withKiller = seen.filter((given) => given.some((name) => name.startsWith("1#")));
    const later = withKiller.filter((given) => given.some((name) => /^1#[3-9]/.test(name)));
    expect(later.length).toBeGreaterThan(0);
    for (const given of later) expect(given).toHaveLength(1);
  });
});

describe("a task that runs alone", () => {
  test("waits until its worker is empty, and nothing is put beside it", () => {
    const bench = new NodeFixture();
    const plan = bench.plan([tasks(2)]);
    bench.start(plan, "e1");
    for (let crash = 0; crash < 2; crash++) {
      bench.join("w1", ["w.a"], { capacity: 1 });
      bench.settle();
      bench.started(bench.attempts()[0] as Attempt);
      bench.control("pause", "e1", `p${crash}`);
      bench.control("resume", "e1", `r${crash}`);
      bench.settle();
      bench.restart();
    }
    bench.start(bench.plan([tasks(5)], "v"), "e2");
    bench.join("w1", ["w.a"], { capacity: 10 });
    bench.settle();
    const alone = ({ grant, item }: Attempt) => grant.execution === "e1" && item.number === 0;
    const open: Attempt[] = [];
    const beside: number[] = [];
    let from = 0;
    for (let i = 0; i < 20; i++) {
      const fresh = bench.attempts().slice(from);
      from += fresh.length;
      open.push(...fresh);
      beside.push(open.some(alone) ? open.length - 1 : 0);
      const next = open.shift();
      if (next === undefined) break;
      bench.receipt(next);
      bench.settle();
    }
    expect(Math.max(...beside)).toBe(0);
    expect([bench.status("e1"), bench.status("e2")]).toEqual(["done", "done"]);
  });
});

describe("with remote workers that may live on", () => {
  const settings = { suspectMs: 30_000, sweepMs: 5_000 };

  function takenOver(): { bench: NodeFixture; before: Attempt[] } {
    const bench = new NodeFixture(settings);
    bench.join("w1", ["w.a"], { local: false });
    bench.claim("w1", 2);
    bench.start(bench.plan([tasks(3)]), "e1");
    bench.settle();
    const before = bench.attempts();
    bench.started(...before);
    bench.control("pause", "e1");
    bench.control("resume", "e1");
    bench.settle();
    bench.restart();
    bench.join("w2", ["w.a"], { local: false });
    bench.claim("w2", 10);
    bench.settle();
    return { bench, before };
  }

  test("nothing of theirs is given out for a heartbeat timeout; then it is lost and runs again", () => {
    const { bench } = takenOver();
    expect(bench.attempts()).toHaveLength(0);
    bench.sleep(29_000);
    expect(bench.attempts()).toHaveLength(0);
    bench.sleep(5_000);
    expect(bench.events("e1", "tasks.lost")).toMatchObject([{ tasks: [0, 1] }]);
    expect(numbers(bench.attempts())).toEqual(["0#2", "1#2", "2#1"]);
  });

  test("an attempt that beats in time is taken over as it is", () => {
    const { bench, before } = takenOver();
    bench.beat(before[0] as Attempt);
    bench.sleep(20_000);
    bench.beat(before[0] as Attempt);
    bench.sleep(20_000);
    expect(bench.events("e1", "tasks.lost").flatMap((event) => event.tasks)).toEqual([1]);
    const report = bench.receipt(before[0] as Attempt);
    bench.settle();
    expect(bench.verdicts(report)).toEqual([["accepted"]]);
    expect(bench.attempts().map(({ item }) => item.number)).not.toContain(0);
  });

  test("a receipt that comes in time counts", () => {
    const { bench, before } = takenOver();
    const reports = [
      bench.receipt(before[0] as Attempt),
      bench.receipt(before[1] as Attempt, { status: "failed", payload: "{}", retryAfterMs: 0 }),
    ];
    bench.settle();
    expect(reports.map((report) => bench.verdicts(report))).toEqual([[["accepted"]], [["accepted"]]]);
    bench.sleep(40_000);
    expect(bench.events("e1", "tasks.lost")).toHaveLength(0);
    expect(numbers(bench.attempts())).toEqual(["1#2", "2#1"]);
  });

  test("limits count what may still run", () => {
    const bench = new NodeFixture(settings);
    const plan = bench.plan([tasks(3, { concurrency: 1 })]);
    bench.join("w1", ["w.a"], { local: false });
    bench.claim("w1", 5);
    bench.start(plan, "e1");
    bench.settle();
    bench.started(bench.attempts()[0] as Attempt);
    bench.settle();
    bench.restart();
    bench.join("w2", ["w.a"], { local: false });
    bench.claim("w2", 10);
    bench.start(plan, "e2");
    bench.sleep(20_000);
    expect(bench.attempts()).toHaveLength(0);
    bench.sleep(15_000);
    expect(bench.attempts()).toHaveLength(1);
  });

  test("cancel waits for them too", () => {
    const { bench } = takenOver();
    bench.control("cancel", "e1");
    bench.sleep(10_000);
    expect(bench.status("e1")).toBe("cancelling");
    bench.sleep(40_000);
    expect(bench.status("e1")).toBe("cancelled");
  });
});

describe("an enumeration over a crash", () => {
  test("goes on from what is journaled", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"]);
    bench.start(bench.plan([phase("a", { enumerate: { use: "w.a" } })]), "e1");
    bench.settle();
    bench.page(bench.attempts()[0] as Attempt, 0, ["x", "y"]);
    bench.settle();
    bench.restart();
    bench.join("w1", ["w.a"]);
    bench.settle();
    const listing = bench.attempts().find(({ grant }) => grant.do === "enumerate") as Attempt;
    expect(listing.grant.resume).toMatchObject({ count: 2, last: '"y"' });
    bench.page(listing, 2, ["z"]);
    bench.seal(listing, { total: 3 });
    bench.settle();
    for (const attempt of bench.attempts().filter(({ grant }) => grant.do === "process"))
      bench.receipt(attempt);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
    expect(bench.events("e1", "handler.finished")).toMatchObject([{ done: 3 }]);
  });

  test("that kills its process every time ends as failed", () => {
    const bench = new NodeFixture();
    bench.start(bench.plan([phase("a", { enumerate: { use: "w.a" } })]), "e1");
    bench.settle();
    let life = 0;
    for (; life < 20 && bench.status("e1") === "running"; life++) {
      bench.join("w1", ["w.a"]);
      bench.settle();
      bench.restart();
    }
    bench.settle();
    expect(bench.status("e1")).toBe("failed");
    expect(life).toBeLessThan(10);
  });
});

test("pages beyond the first are marked as opened before they are given out", () => {
  const bench = new NodeFixture({ openTasksAhead: 100 });
  bench.join("w1", ["w.a"], { capacity: 5_000 });
  bench.start(bench.plan([phase("a", { tasks: Array.from({ length: 3_500 }, (_, i) => i) })]), "e1");
  const seen = bench.work();
  expect(seen).toHaveLength(3_500);
  expect(bench.status("e1")).toBe("done");
  let opened = 1_000;
  const beyond: number[] = [];
  for (const output of bench.outputs) {
    if (output.kind === "commit")
      for (const write of output.content.writes) opened = Math.max(opened, write.opened?.["a.1.a"] ?? 0);
    if (output.kind === "grant")
      beyond.push(...output.grant.items.map(({ number }) => number).filter((number) => number >= opened));
  }
  expect(opened).toBe(3_500);
  expect(beyond).toEqual([]);
});

test("when all that was opened before is settled by attempts that went on meanwhile, the next pages are opened", () => {
  const bench = new NodeFixture({ openTasksAhead: 100, suspectMs: 1_000 });
  const join = (capacity: number) => {
    bench.join("w1", ["w.a"], { capacity, local: false });
    bench.claim("w1", capacity);
    bench.settle();
  };
  bench.start(bench.plan([tasks(1_500, { heartbeat: "1s" })]), "e1");
  join(1_000);
  const given = bench.attempts();
  expect(given).toHaveLength(1_000);
  bench.restart();
  join(1_000);
  for (const attempt of given) bench.receipt(attempt);
  bench.settle();
  bench.sleep(2_000);
  expect(bench.attempts().map(({ item }) => item.number)).toEqual(
    Array.from({ length: 500 }, (_, i) => 1_000 + i),
  );
});
