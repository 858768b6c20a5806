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
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 2 });
    fixture.start(fixture.plan([tasks(3)]), "e1");
    fixture.settle();
    fixture.receipt(fixture.attempts()[0] as Attempt);
    fixture.settle();
    fixture.restart();
    fixture.join("w1", ["w.a"]);
    fixture.settle();
    expect(numbers(fixture.attempts())).toEqual(["1#1", "2#1"]);
    fixture.work();
    for (const attempt of fixture.attempts()) fixture.receipt(attempt);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
    expect(fixture.events("e1", "tasks.lost")).toHaveLength(0);
  });

  test("recorded starts are lost, and burn a crash", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"]);
    fixture.start(fixture.plan([tasks(3)]), "e1");
    fixture.settle();
    fixture.started(...fixture.attempts().slice(0, 2));
    // A start rides along with the next commit.
    fixture.receipt(fixture.attempts()[2] as Attempt);
    fixture.settle();
    expect(fixture.events("e1", "tasks.started")).toMatchObject([{ tasks: [0, 1] }]);
    fixture.restart();
    fixture.join("w1", ["w.a"]);
    fixture.settle();
    expect(fixture.events("e1", "tasks.lost")).toMatchObject([{ tasks: [0, 1], attempts: [1, 1] }]);
    expect(numbers(fixture.attempts())).toEqual(["0#2", "1#2"]);
  });

  test("a start is committed before a suspect is given out again", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"]);
    fixture.start(fixture.plan([tasks(3)]), "e1");
    fixture.settle();
    fixture.restart();
    fixture.holdsCommits = true;
    fixture.join("w1", ["w.a"]);
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(0);
    const kinds = () => fixture.kinds("e1").filter((kind) => kind === "tasks.started");
    expect(kinds()).toHaveLength(0);
    fixture.commit();
    expect(kinds()).toHaveLength(1);
    fixture.settle();
    expect(numbers(fixture.attempts())).toEqual(["0#1", "1#1", "2#1"]);
  });

  test("a start that could not be committed is given out to nobody, and tried again", () => {
    for (const isWritten of [false, true]) {
      const fixture = new NodeFixture();
      fixture.join("w1", ["w.a"]);
      fixture.start(fixture.plan([tasks(1)]), "e1");
      fixture.settle();
      fixture.restart();
      fixture.holdsCommits = true;
      fixture.join("w1", ["w.a"]);
      fixture.settle();
      if (isWritten) fixture.commitUnheard();
      else fixture.loseCommit();
      expect(fixture.attempts()).toHaveLength(0);
      fixture.holdsCommits = false;
      fixture.settle();
      expect(fixture.attempts()).toHaveLength(1);
      expect(fixture.events("e1", "tasks.started")).toHaveLength(1);
      fixture.receipt(fixture.attempts()[0] as Attempt);
      fixture.settle();
      expect(fixture.status("e1")).toBe("done");
    }
  });

  test("what is new since then is given out at once", () => {
    const fixture = new NodeFixture();
    fixture.restart();
    fixture.join("w1", ["w.a"]);
    fixture.start(fixture.plan([tasks(3)]), "e1");
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(3);
    expect(fixture.events("e1", "tasks.started")).toHaveLength(0);
  });

  test("a clean end leaves no suspects", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"]);
    fixture.start(fixture.plan([tasks(3)]), "e1");
    fixture.settle();
    fixture.restart({ clean: true });
    fixture.join("w1", ["w.a"]);
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(3);
    expect(fixture.events("e1", "tasks.started")).toHaveLength(0);
  });
});

describe("a task that kills its process", () => {
  /** Runs a process that task 1 kills whenever it starts, again and again; returns the tasks that each process granted. */
  function lives(fixture: NodeFixture, max: number): string[][] {
    const seen: string[][] = [];
    for (let life = 0; life < max && fixture.status("e1") === "running"; life++) {
      fixture.join("w1", ["w.a"], { capacity: 10 });
      fixture.settle();
      const given = fixture.attempts();
      seen.push(numbers(given));
      const killer = given.find(({ item }) => item.number === 1);
      fixture.started(...given);
      // The tasks before the killer are done; then the process dies.
      for (const attempt of given) if (attempt.item.number < 1) fixture.receipt(attempt);
      fixture.settle();
      if (killer === undefined) {
        for (const attempt of given) fixture.receipt(attempt);
        fixture.settle();
      }
      if (fixture.status("e1") === "running") fixture.restart();
    }
    return seen;
  }

  test("does not put the engine in a loop, and its neighbours do not pay", () => {
    const fixture = new NodeFixture();
    fixture.start(fixture.plan([tasks(4, { tolerate: 1 })]), "e1");
    fixture.settle();
    const seen = lives(fixture, 20);
    expect(fixture.status("e1")).toBe("done");
    expect(seen.length).toBeLessThan(12);
    const settled = fixture
      .events("e1", "tasks.settled")
      .flatMap((event) => event.tasks.map((task, i) => `${task} ${event.statuses[i]} ${event.reasons[i]}`));
    expect(settled.sort()).toEqual(["0 done null", "1 failed crashes", "2 done null", "3 done null"]);
  });

  test("runs alone after two crashes", () => {
    const fixture = new NodeFixture();
    fixture.start(fixture.plan([tasks(4, { tolerate: 1 })]), "e1");
    fixture.settle();
    const seen = lives(fixture, 20);
    const withKiller = seen.filter((given) => given.some((name) => name.startsWith("1#")));
    const later = withKiller.filter((given) => given.some((name) => /^1#[3-9]/.test(name)));
    expect(later.length).toBeGreaterThan(0);
    for (const given of later) expect(given).toHaveLength(1);
  });
});

describe("a task that runs alone", () => {
  test("waits until its worker is empty, and nothing is put beside it", () => {
    const fixture = new NodeFixture();
    const plan = fixture.plan([tasks(2)]);
    fixture.start(plan, "e1");
    for (let crash = 0; crash < 2; crash++) {
      fixture.join("w1", ["w.a"], { capacity: 1 });
      fixture.settle();
      fixture.started(fixture.attempts()[0] as Attempt);
      fixture.control("pause", "e1", `p${crash}`);
      fixture.control("resume", "e1", `r${crash}`);
      fixture.settle();
      fixture.restart();
    }
    fixture.start(fixture.plan([tasks(5)], "v"), "e2");
    fixture.join("w1", ["w.a"], { capacity: 10 });
    fixture.settle();
    const alone = ({ grant, item }: Attempt) => grant.execution === "e1" && item.number === 0;
    const open: Attempt[] = [];
    const beside: number[] = [];
    let from = 0;
    for (let i = 0; i < 20; i++) {
      const fresh = fixture.attempts().slice(from);
      from += fresh.length;
      open.push(...fresh);
      beside.push(open.some(alone) ? open.length - 1 : 0);
      const next = open.shift();
      if (next === undefined) break;
      fixture.receipt(next);
      fixture.settle();
    }
    expect(Math.max(...beside)).toBe(0);
    expect([fixture.status("e1"), fixture.status("e2")]).toEqual(["done", "done"]);
  });
});

describe("with remote workers that may live on", () => {
  const settings = { suspectMs: 30_000, sweepMs: 5_000 };

  function takenOver(): { fixture: NodeFixture; before: Attempt[] } {
    const fixture = new NodeFixture(settings);
    fixture.join("w1", ["w.a"], { local: false });
    fixture.claim("w1", 2);
    fixture.start(fixture.plan([tasks(3)]), "e1");
    fixture.settle();
    const before = fixture.attempts();
    fixture.started(...before);
    fixture.control("pause", "e1");
    fixture.control("resume", "e1");
    fixture.settle();
    fixture.restart();
    fixture.join("w2", ["w.a"], { local: false });
    fixture.claim("w2", 10);
    fixture.settle();
    return { fixture, before };
  }

  test("nothing of theirs is given out for a heartbeat timeout; then it is lost and runs again", () => {
    const { fixture } = takenOver();
    expect(fixture.attempts()).toHaveLength(0);
    fixture.sleep(29_000);
    expect(fixture.attempts()).toHaveLength(0);
    fixture.sleep(5_000);
    expect(fixture.events("e1", "tasks.lost")).toMatchObject([{ tasks: [0, 1] }]);
    expect(numbers(fixture.attempts())).toEqual(["0#2", "1#2", "2#1"]);
  });

  test("an attempt that beats in time is taken over as it is", () => {
    const { fixture, before } = takenOver();
    fixture.beat(before[0] as Attempt);
    fixture.sleep(20_000);
    fixture.beat(before[0] as Attempt);
    fixture.sleep(20_000);
    expect(fixture.events("e1", "tasks.lost").flatMap((event) => event.tasks)).toEqual([1]);
    const report = fixture.receipt(before[0] as Attempt);
    fixture.settle();
    expect(fixture.verdicts(report)).toEqual([["accepted"]]);
    expect(fixture.attempts().map(({ item }) => item.number)).not.toContain(0);
  });

  test("a receipt that comes in time counts", () => {
    const { fixture, before } = takenOver();
    const reports = [
      fixture.receipt(before[0] as Attempt),
      fixture.receipt(before[1] as Attempt, { status: "failed", payload: "{}", retryAfterMs: 0 }),
    ];
    fixture.settle();
    expect(reports.map((report) => fixture.verdicts(report))).toEqual([[["accepted"]], [["accepted"]]]);
    fixture.sleep(40_000);
    expect(fixture.events("e1", "tasks.lost")).toHaveLength(0);
    expect(numbers(fixture.attempts())).toEqual(["1#2", "2#1"]);
  });

  test("limits count what may still run", () => {
    const fixture = new NodeFixture(settings);
    const plan = fixture.plan([tasks(3, { concurrency: 1 })]);
    fixture.join("w1", ["w.a"], { local: false });
    fixture.claim("w1", 5);
    fixture.start(plan, "e1");
    fixture.settle();
    fixture.started(fixture.attempts()[0] as Attempt);
    fixture.settle();
    fixture.restart();
    fixture.join("w2", ["w.a"], { local: false });
    fixture.claim("w2", 10);
    fixture.start(plan, "e2");
    fixture.sleep(20_000);
    expect(fixture.attempts()).toHaveLength(0);
    fixture.sleep(15_000);
    expect(fixture.attempts()).toHaveLength(1);
  });

  test("cancel waits for them too", () => {
    const { fixture } = takenOver();
    fixture.control("cancel", "e1");
    fixture.sleep(10_000);
    expect(fixture.status("e1")).toBe("cancelling");
    fixture.sleep(40_000);
    expect(fixture.status("e1")).toBe("cancelled");
  });
});

describe("an enumeration over a crash", () => {
  test("goes on from what is journaled", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"]);
    fixture.start(fixture.plan([phase("a", { enumerate: { use: "w.a" } })]), "e1");
    fixture.settle();
    fixture.page(fixture.attempts()[0] as Attempt, 0, ["x", "y"]);
    fixture.settle();
    fixture.restart();
    fixture.join("w1", ["w.a"]);
    fixture.settle();
    const listing = fixture.attempts().find(({ grant }) => grant.do === "enumerate") as Attempt;
    expect(listing.grant.resume).toMatchObject({ count: 2, last: '"y"' });
    fixture.page(listing, 2, ["z"]);
    fixture.seal(listing, { total: 3 });
    fixture.settle();
    for (const attempt of fixture.attempts().filter(({ grant }) => grant.do === "process"))
      fixture.receipt(attempt);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
    expect(fixture.events("e1", "handler.finished")).toMatchObject([{ done: 3 }]);
  });

  test("that kills its process every time ends as failed", () => {
    const fixture = new NodeFixture();
    fixture.start(fixture.plan([phase("a", { enumerate: { use: "w.a" } })]), "e1");
    fixture.settle();
    let life = 0;
    for (; life < 20 && fixture.status("e1") === "running"; life++) {
      fixture.join("w1", ["w.a"]);
      fixture.settle();
      fixture.restart();
    }
    fixture.settle();
    expect(fixture.status("e1")).toBe("failed");
    expect(life).toBeLessThan(10);
  });
});

test("pages beyond the first are marked as opened before they are given out", () => {
  const fixture = new NodeFixture({ openTasksAhead: 100 });
  fixture.join("w1", ["w.a"], { capacity: 5_000 });
  fixture.start(fixture.plan([phase("a", { tasks: Array.from({ length: 3_500 }, (_, i) => i) })]), "e1");
  const seen = fixture.work();
  expect(seen).toHaveLength(3_500);
  expect(fixture.status("e1")).toBe("done");
  let opened = 1_000;
  const beyond: number[] = [];
  for (const output of fixture.outputs) {
    if (output.kind === "commit")
      for (const write of output.content.writes) opened = Math.max(opened, write.opened?.["a.1.a"] ?? 0);
    if (output.kind === "grant")
      beyond.push(...output.grant.items.map(({ number }) => number).filter((number) => number >= opened));
  }
  expect(opened).toBe(3_500);
  expect(beyond).toEqual([]);
});

test("when all that was opened before is settled by attempts that went on meanwhile, the next pages are opened", () => {
  const fixture = new NodeFixture({ openTasksAhead: 100, suspectMs: 1_000 });
  const join = (capacity: number) => {
    fixture.join("w1", ["w.a"], { capacity, local: false });
    fixture.claim("w1", capacity);
    fixture.settle();
  };
  fixture.start(fixture.plan([tasks(1_500, { heartbeat: "1s" })]), "e1");
  join(1_000);
  const given = fixture.attempts();
  expect(given).toHaveLength(1_000);
  fixture.restart();
  join(1_000);
  for (const attempt of given) fixture.receipt(attempt);
  fixture.settle();
  fixture.sleep(2_000);
  expect(fixture.attempts().map(({ item }) => item.number)).toEqual(
    Array.from({ length: 500 }, (_, i) => 1_000 + i),
  );
});
