// What is in memory: a window of executions with work, the nearest timers, a few pages; the rest waits in the store
// and nothing starves (DESIGN 2.8, 3.2).
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const nap = (ms: number) => ({ name: "nap", handlers: { nap: { sleep: ms } } });

describe("the window", () => {
  test("more executions than it holds all complete, and memory stays bounded", () => {
    const fixture = new NodeFixture({ windowMax: 16, idleMax: 8 });
    const plan = fixture.plan([phase("a")]);
    for (let i = 0; i < 300; i++) {
      fixture.start(plan, `e${i}`);
      if (i % 50 === 49) fixture.settle();
    }
    fixture.settle();
    expect(fixture.node.residentCount).toBeLessThanOrEqual(16 + 8);
    fixture.join("w1", ["w.a"], { capacity: 4 });
    const seen = fixture.work((attempt) => {
      expect(fixture.node.residentCount).toBeLessThanOrEqual(64);
      return attempt === null ? null : {};
    });
    expect(new Set(seen.map(({ grant }) => grant.execution)).size).toBe(300);
    for (let i = 0; i < 300; i++) expect(fixture.status(`e${i}`)).toBe("done");
    fixture.settle();
    expect(fixture.node.residentCount).toBe(0);
  });

  test("reading those that do not fit does not keep them in memory, and they come in their turn", () => {
    const fixture = new NodeFixture({ windowMax: 16, idleMax: 8 });
    fixture.join("w1", ["w.a"], { capacity: 4 });
    const plan = fixture.plan([phase("a")]);
    const ids = Array.from({ length: 300 }, (_, i) => `e${i}`);
    for (const id of ids) fixture.start(plan, id);
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(4);
    for (const id of [...ids, ...ids]) {
      expect(fixture.inspect(id).view.status).toBe("running");
      expect(fixture.node.residentCount).toBeLessThanOrEqual(17);
    }
    for (const attempt of fixture.attempts()) fixture.receipt(attempt);
    fixture.work();
    expect(ids.map((id) => fixture.status(id))).toEqual(ids.map(() => "done"));
    // An execution that has ended leaves memory as soon as its requests are answered.
    for (const id of ids) expect(fixture.inspect(id).view.status).toBe("done");
    expect(fixture.node.residentCount).toBe(0);
  });

  test("a start is answered with how the execution is, also if it is let go of at once", () => {
    const fixture = new NodeFixture({ windowMax: 1, idleMax: 0 });
    fixture.join("w1", ["w.a"], { capacity: 1 });
    const plan = fixture.plan([phase("a")]);
    const message = (execution: string) =>
      ({
        kind: "start",
        execution,
        workflow: "w",
        hash: plan.hash,
        project: "default",
        input: "1",
        tags: {},
      }) as const;
    for (const execution of ["e1", "e2", "e3"])
      fixture.request({ execution, message: message(execution), plan, fresh: true, views: true });
    fixture.settle();
    const replies = fixture.outputs.flatMap((output) => (output.kind === "reply" ? [output] : []));
    expect(replies.map(({ view }) => [view?.id, view?.status, view?.revision])).toEqual([
      ["e1", "running", 3],
      ["e2", "running", 3],
      ["e3", "running", 3],
    ]);
    expect(fixture.outputs.filter(({ kind }) => kind === "load")).toEqual([]);
    expect(fixture.node.residentCount).toBe(1);
  });

  test("another project's execution is not starved by a backlog", () => {
    const fixture = new NodeFixture({ windowMax: 16 });
    const plan = fixture.plan([phase("a", { tasks: Array.from({ length: 1_000 }, (_, i) => i) })]);
    for (let i = 0; i < 40; i++) fixture.start(plan, `big${i}`, { project: "acme" });
    fixture.settle();
    fixture.join("w1", ["w.a"], { capacity: 1 });
    fixture.settle();
    for (let i = 0; i < 10; i++) {
      fixture.receipt(fixture.attempts().at(-1) as Attempt);
      fixture.settle();
    }
    fixture.start(fixture.plan([phase("a")], "small"), "small", { project: "beta" });
    fixture.settle();
    let claims = 0;
    while (fixture.attempts().at(-1)?.grant.execution !== "small") {
      fixture.receipt(fixture.attempts().at(-1) as Attempt);
      fixture.settle();
      expect(++claims).toBeLessThan(60);
    }
  });

  test("executions that nobody serves do not keep out those that somebody does", () => {
    const fixture = new NodeFixture({ windowMax: 16 });
    const unserved = fixture.plan([{ name: "a", handlers: { a: { use: "nobody" } } }], "unserved");
    const served = fixture.plan([phase("a")], "served");
    for (let i = 0; i < 100; i++) fixture.start(unserved, `u${i}`);
    fixture.settle();
    for (let i = 0; i < 50; i++) fixture.start(served, `s${i}`);
    fixture.settle();
    fixture.join("w1", ["w.a"], { capacity: 4 });
    fixture.work();
    for (let i = 0; i < 50; i++) expect([i, fixture.status(`s${i}`)]).toEqual([i, "done"]);
    fixture.join("w2", ["nobody"], { capacity: 4 });
    fixture.work();
    for (let i = 0; i < 100; i++) expect([i, fixture.status(`u${i}`)]).toEqual([i, "done"]);
  });

  test("executions that only wait are let go of, and come back for their signal", () => {
    const fixture = new NodeFixture({ windowMax: 8, idleMax: 4 });
    const plan = fixture.plan([{ name: "a", handlers: { a: { waitFor: "go" } } }]);
    for (let i = 0; i < 100; i++) fixture.start(plan, `e${i}`);
    fixture.settle();
    expect(fixture.node.residentCount).toBeLessThanOrEqual(4);
    for (let i = 0; i < 100; i++) fixture.signal(`e${i}`, "go", i);
    fixture.settle();
    for (let i = 0; i < 100; i++) expect(fixture.status(`e${i}`)).toBe("done");
  });

  test("paused executions are let go of, and come back on resume", () => {
    const fixture = new NodeFixture({ windowMax: 8, idleMax: 4 });
    const plan = fixture.plan([phase("a")]);
    for (let i = 0; i < 50; i++) {
      fixture.start(plan, `e${i}`);
      fixture.control("pause", `e${i}`);
    }
    fixture.settle();
    fixture.join("w1", ["w.a"]);
    fixture.work();
    expect(fixture.attempts()).toHaveLength(0);
    expect(fixture.node.residentCount).toBeLessThanOrEqual(4);
    for (let i = 0; i < 50; i++) fixture.control("resume", `e${i}`);
    fixture.work();
    for (let i = 0; i < 50; i++) expect(fixture.status(`e${i}`)).toBe("done");
  });

  test("tasks that wait for a retry are let go of, and come back when it is due, also after a restart", () => {
    for (const restarts of [false, true]) {
      const fixture = new NodeFixture({ idleMax: 0 });
      fixture.join("w1", ["w.a"]);
      fixture.start(fixture.plan([phase("a", { retry: { attempts: 2 } })]), "e1");
      fixture.settle();
      fixture.receipt(fixture.attempts()[0] as Attempt, {
        status: "failed",
        payload: "{}",
        retryAfterMs: 3_600_000,
      });
      fixture.settle();
      expect(fixture.node.residentCount).toBe(0);
      if (restarts) {
        fixture.restart();
        fixture.join("w1", ["w.a"]);
      }
      const before = fixture.attempts().length;
      fixture.sleep(3_599_000);
      expect(fixture.attempts()).toHaveLength(before);
      fixture.sleep(2_000);
      expect(fixture.attempts().at(-1)?.item).toMatchObject({ attempt: 2 });
      fixture.receipt(fixture.attempts().at(-1) as Attempt);
      fixture.settle();
      expect(fixture.status("e1")).toBe("done");
    }
  });

  test("pages that do not fit in memory are read again when they are needed", () => {
    const fixture = new NodeFixture({ pageCacheChars: 20_000 });
    const tasks = Array.from({ length: 5_000 }, (_, i) => ({ i, pad: "x".repeat(20) }));
    fixture.join("w1", ["w.a"], { capacity: 50 });
    fixture.start(fixture.plan([phase("a", { tasks })]), "e1");
    const seen = fixture.work();
    expect(seen.map(({ item }) => (JSON.parse(item.task ?? "") as { i: number }).i)).toEqual(
      tasks.map(({ i }) => i),
    );
    expect(fixture.of("read-page").length).toBeGreaterThan(0);
    expect(fixture.status("e1")).toBe("done");
  });

  test("a long journal is cut short by snapshots, and loads to the same state", () => {
    const fixture = new NodeFixture({ snapshotRows: 10, idleMax: 0 });
    const plan = fixture.plan([{ name: "a", handlers: { a: { waitFor: "never" } } }]);
    fixture.start(plan, "e1");
    for (let i = 0; i < 60; i++) {
      fixture.signal("e1", "x", i);
      fixture.settle();
    }
    const [loaded] = fixture.tables.load(["e1"]);
    expect(loaded?.snapshot).not.toBeNull();
    expect(loaded?.entries.length).toBeLessThan(25);
    expect(fixture.node.residentCount).toBe(0);
    const request = fixture.signal("e1", "x", 99);
    fixture.settle();
    expect(fixture.reply(request)).toMatchObject({ kind: "applied", seq: 64 });
    expect(fixture.events("e1", "signalled")).toHaveLength(61);
  });

  test("a large snapshot is written again only after rows of its size, or after many rows", () => {
    const snapshots = (input: string, data: string): number => {
      const fixture = new NodeFixture({ snapshotRows: 10, idleMax: 0 });
      fixture.start(fixture.plan([{ name: "a", handlers: { a: { waitFor: "never" } } }]), "e1", { input });
      const seqs = new Set<number>();
      for (let i = 0; i < 400; i++) {
        fixture.signal("e1", "x", data);
        fixture.settle();
        const [loaded] = fixture.tables.load(["e1"]);
        if (loaded?.snapshot) seqs.add(loaded.snapshot.seq);
        expect(loaded?.entries.length).toBeLessThan(165);
      }
      return seqs.size;
    };
    expect(snapshots("small", "x")).toBeGreaterThan(35);
    expect(snapshots("x".repeat(300_000), "x")).toBe(3);
    // Each row has 2,000 characters: the kept signals make the snapshot grow by as much.
    expect(snapshots("x".repeat(300_000), "x".repeat(2_000))).toBeLessThan(8);
  });
});

describe("timers", () => {
  test("thousands of them all fire, and only the nearest are in memory", () => {
    const fixture = new NodeFixture({ windowMax: 32, idleMax: 8, timersMax: 200, timerHorizonMs: 60_000 });
    const wait = { waitFor: "x", timeout: "1h", optional: true };
    const plan = fixture.plan([{ name: "a", handlers: { a: wait } }]);
    for (let i = 0; i < 5_000; i++) {
      fixture.start(plan, `e${i}`);
      if (i % 100 === 99) {
        fixture.now += 360;
        fixture.settle();
      }
    }
    expect(fixture.node.residentCount).toBeLessThanOrEqual(32);
    fixture.outputs = [];
    fixture.sleep(3_700_000);
    const ended = fixture.of("progressed").filter(({ end }) => end !== null);
    expect(new Set(ended.map(({ execution }) => execution)).size).toBe(5_000);
    expect(ended).toHaveLength(5_000);
    expect(fixture.node.residentCount).toBe(0);
  });

  test("of one time fire in the order in which they were set", () => {
    const fixture = new NodeFixture();
    const plan = fixture.plan([nap(1_000)]);
    for (let i = 0; i < 20; i++) fixture.start(plan, `e${i}`);
    fixture.sleep(1_000);
    const ended = fixture.of("progressed").filter(({ end }) => end !== null);
    expect(ended.map(({ execution }) => execution)).toEqual(Array.from({ length: 20 }, (_, i) => `e${i}`));
  });

  test("are never early and never lost, over restarts", () => {
    const fixture = new NodeFixture();
    const plan = fixture.plan([nap(600_000)]);
    fixture.start(plan, "e1");
    fixture.settle();
    const due = fixture.now + 600_000;
    for (let i = 0; i < 5; i++) {
      fixture.sleep(100_000);
      fixture.restart();
    }
    expect(fixture.status("e1")).toBe("running");
    fixture.sleep(due - fixture.now - 1);
    expect(fixture.status("e1")).toBe("running");
    fixture.sleep(1);
    expect(fixture.status("e1")).toBe("done");
    expect(fixture.events("e1", "timer.fired")).toHaveLength(1);
  });

  test("that were due while nobody was there fire after the recovery", () => {
    const fixture = new NodeFixture();
    fixture.start(fixture.plan([nap(1_000), nap2]), "e1");
    fixture.settle();
    fixture.now += 3_600_000;
    fixture.restart();
    fixture.sleep(0);
    expect(fixture.events("e1", "timer.fired")).toHaveLength(1);
  });

  const nap2 = { name: "nap2", handlers: { nap2: { sleep: "1h" } } };

  test("set while a scan is under way are not missed", () => {
    const fixture = new NodeFixture({ timerHorizonMs: 10_000, timersMax: 5 });
    const plan = fixture.plan([nap(4_000)]);
    for (let i = 0; i < 40; i++) {
      fixture.start(plan, `e${i}`);
      fixture.sleep(777);
    }
    fixture.sleep(10_000);
    for (let i = 0; i < 40; i++) expect([i, fixture.status(`e${i}`)]).toEqual([i, "done"]);
  });

  test("whose commit failed are set by the commit that follows", () => {
    const fixture = new NodeFixture();
    fixture.holdsCommits = true;
    fixture.start(fixture.plan([nap(1_000)]), "e1");
    fixture.settle();
    fixture.loseCommit();
    fixture.holdsCommits = false;
    fixture.sleep(2_000);
    expect(fixture.status("e1")).toBe("done");
  });
});
