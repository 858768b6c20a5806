// What is in memory: a window of executions with work, the nearest timers, a few pages; the rest waits in the store
// and nothing starves (DESIGN 2.8, 3.2).
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const nap = (ms: number) => ({ name: "nap", handlers: { nap: { sleep: ms } } });

describe("the window", () => {
  test("more executions than it holds all complete, and memory stays bounded", () => {
    const bench = new NodeFixture({ windowMax: 16, idleMax: 8 });
    const plan = bench.plan([phase("a")]);
    for (let i = 0; i < 300; i++) {
      bench.start(plan, `e${i}`);
      if (i % 50 === 49) bench.settle();
    }
    bench.settle();
    expect(bench.node.residentCount).toBeLessThanOrEqual(16 + 8);
    bench.join("w1", ["w.a"], { capacity: 4 });
    const seen = bench.work((attempt) => {
      expect(bench.node.residentCount).toBeLessThanOrEqual(64);
      return attempt === null ? null : {};
    });
    expect(new Set(seen.map(({ grant }) => grant.execution)).size).toBe(300);
    for (let i = 0; i < 300; i++) expect(bench.status(`e${i}`)).toBe("done");
    bench.settle();
    expect(bench.node.residentCount).toBe(0);
  });

  test("reading those that do not fit does not keep them in memory, and they come in their turn", () => {
    const bench = new NodeFixture({ windowMax: 16, idleMax: 8 });
    bench.join("w1", ["w.a"], { capacity: 4 });
    const plan = bench.plan([phase("a")]);
    const ids = Array.from({ length: 300 }, (_, i) => `e${i}`);
    for (const id of ids) bench.start(plan, id);
    bench.settle();
    expect(bench.attempts()).toHaveLength(4);
    for (const id of [...ids, ...ids]) {
      expect(bench.inspect(id).view.status).toBe("running");
      expect(bench.node.residentCount).toBeLessThanOrEqual(17);
    }
    for (const attempt of bench.attempts()) bench.receipt(attempt);
    bench.work();
    expect(ids.map((id) => bench.status(id))).toEqual(ids.map(() => "done"));
    // What is over leaves memory as soon as it is answered.
    for (const id of ids) expect(bench.inspect(id).view.status).toBe("done");
    expect(bench.node.residentCount).toBe(0);
  });

  test("a start is answered with how the execution is, also if it is let go of at once", () => {
    const bench = new NodeFixture({ windowMax: 1, idleMax: 0 });
    bench.join("w1", ["w.a"], { capacity: 1 });
    const plan = bench.plan([phase("a")]);
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
      bench.request({ execution, message: message(execution), plan, fresh: true, views: true });
    bench.settle();
    const replies = bench.outputs.flatMap((output) => (output.kind === "reply" ? [output] : []));
    expect(replies.map(({ view }) => [view?.id, view?.status, view?.revision])).toEqual([
      ["e1", "running", 3],
      ["e2", "running", 3],
      ["e3", "running", 3],
    ]);
    expect(bench.outputs.filter(({ kind }) => kind === "load")).toEqual([]);
    expect(bench.node.residentCount).toBe(1);
  });

  test("another project's execution is not starved by a backlog", () => {
    const bench = new NodeFixture({ windowMax: 16 });
    const plan = bench.plan([phase("a", { tasks: Array.from({ length: 1_000 }, (_, i) => i) })]);
    for (let i = 0; i < 40; i++) bench.start(plan, `big${i}`, { project: "acme" });
    bench.settle();
    bench.join("w1", ["w.a"], { capacity: 1 });
    bench.settle();
    for (let i = 0; i < 10; i++) {
      bench.receipt(bench.attempts().at(-1) as Attempt);
      bench.settle();
    }
    bench.start(bench.plan([phase("a")], "small"), "small", { project: "beta" });
    bench.settle();
    let claims = 0;
    while (bench.attempts().at(-1)?.grant.execution !== "small") {
      bench.receipt(bench.attempts().at(-1) as Attempt);
      bench.settle();
      expect(++claims).toBeLessThan(60);
    }
  });

  test("executions that nobody serves do not keep out those that somebody does", () => {
    const bench = new NodeFixture({ windowMax: 16 });
    const unserved = bench.plan([{ name: "a", handlers: { a: { use: "nobody" } } }], "unserved");
    const served = bench.plan([phase("a")], "served");
    for (let i = 0; i < 100; i++) bench.start(unserved, `u${i}`);
    bench.settle();
    for (let i = 0; i < 50; i++) bench.start(served, `s${i}`);
    bench.settle();
    bench.join("w1", ["w.a"], { capacity: 4 });
    bench.work();
    for (let i = 0; i < 50; i++) expect([i, bench.status(`s${i}`)]).toEqual([i, "done"]);
    bench.join("w2", ["nobody"], { capacity: 4 });
    bench.work();
    for (let i = 0; i < 100; i++) expect([i, bench.status(`u${i}`)]).toEqual([i, "done"]);
  });

  test("executions that only wait are let go of, and come back for their signal", () => {
    const bench = new NodeFixture({ windowMax: 8, idleMax: 4 });
    const plan = bench.plan([{ name: "a", handlers: { a: { waitFor: "go" } } }]);
    for (let i = 0; i < 100; i++) bench.start(plan, `e${i}`);
    bench.settle();
    expect(bench.node.residentCount).toBeLessThanOrEqual(4);
    for (let i = 0; i < 100; i++) bench.signal(`e${i}`, "go", i);
    bench.settle();
    for (let i = 0; i < 100; i++) expect(bench.status(`e${i}`)).toBe("done");
  });

  test("paused executions are let go of, and come back on resume", () => {
    const bench = new NodeFixture({ windowMax: 8, idleMax: 4 });
    const plan = bench.plan([phase("a")]);
    for (let i = 0; i < 50; i++) {
      bench.start(plan, `e${i}`);
      bench.control("pause", `e${i}`);
    }
    bench.settle();
    bench.join("w1", ["w.a"]);
    bench.work();
    expect(bench.attempts()).toHaveLength(0);
    expect(bench.node.residentCount).toBeLessThanOrEqual(4);
    for (let i = 0; i < 50; i++) bench.control("resume", `e${i}`);
    bench.work();
    for (let i = 0; i < 50; i++) expect(bench.status(`e${i}`)).toBe("done");
  });

  test("tasks that wait for a retry are let go of, and come back when it is due, also after a restart", () => {
    for (const restarts of [false, true]) {
      const bench = new NodeFixture({ idleMax: 0 });
      bench.join("w1", ["w.a"]);
      bench.start(bench.plan([phase("a", { retry: { attempts: 2 } })]), "e1");
      bench.settle();
      bench.receipt(bench.attempts()[0] as Attempt, {
        status: "failed",
        payload: "{}",
        retryAfterMs: 3_600_000,
      });
      bench.settle();
      expect(bench.node.residentCount).toBe(0);
      if (restarts) {
        bench.restart();
        bench.join("w1", ["w.a"]);
      }
      const before = bench.attempts().length;
      bench.sleep(3_599_000);
      expect(bench.attempts()).toHaveLength(before);
      bench.sleep(2_000);
      expect(bench.attempts().at(-1)?.item).toMatchObject({ attempt: 2 });
      bench.receipt(bench.attempts().at(-1) as Attempt);
      bench.settle();
      expect(bench.status("e1")).toBe("done");
    }
  });

  test("pages that do not fit in memory are read again when they are needed", () => {
    const bench = new NodeFixture({ pageCacheChars: 20_000 });
    const tasks = Array.from({ length: 5_000 }, (_, i) => ({ i, pad: "x".repeat(20) }));
    bench.join("w1", ["w.a"], { capacity: 50 });
    bench.start(bench.plan([phase("a", { tasks })]), "e1");
    const seen = bench.work();
    expect(seen.map(({ item }) => (JSON.parse(item.task ?? "") as { i: number }).i)).toEqual(
      tasks.map(({ i }) => i),
    );
    expect(bench.of("read-page").length).toBeGreaterThan(0);
    expect(bench.status("e1")).toBe("done");
  });

  test("a long journal is cut short by snapshots, and loads to the same state", () => {
    const bench = new NodeFixture({ snapshotRows: 10, idleMax: 0 });
    const plan = bench.plan([{ name: "a", handlers: { a: { waitFor: "never" } } }]);
    bench.start(plan, "e1");
    for (let i = 0; i < 60; i++) {
      bench.signal("e1", "x", i);
      bench.settle();
    }
    const [loaded] = bench.tables.load(["e1"]);
    expect(loaded?.snapshot).not.toBeNull();
    expect(loaded?.entries.length).toBeLessThan(25);
    expect(bench.node.residentCount).toBe(0);
    const request = bench.signal("e1", "x", 99);
    bench.settle();
    expect(bench.reply(request)).toMatchObject({ kind: "applied", seq: 64 });
    expect(bench.events("e1", "signalled")).toHaveLength(61);
  });
});

describe("timers", () => {
  test("thousands of them all fire, and only the nearest are in memory", () => {
    const bench = new NodeFixture({ windowMax: 32, idleMax: 8, timersMax: 200, timerHorizonMs: 60_000 });
    const wait = { waitFor: "x", timeout: "1h", optional: true };
    const plan = bench.plan([{ name: "a", handlers: { a: wait } }]);
    for (let i = 0; i < 5_000; i++) {
      bench.start(plan, `e${i}`);
      if (i % 100 === 99) {
        bench.now += 360;
        bench.settle();
      }
    }
    expect(bench.node.residentCount).toBeLessThanOrEqual(32);
    bench.outputs = [];
    bench.sleep(3_700_000);
    const ended = bench.of("progressed").filter(({ end }) => end !== null);
    expect(new Set(ended.map(({ execution }) => execution)).size).toBe(5_000);
    expect(ended).toHaveLength(5_000);
    expect(bench.node.residentCount).toBe(0);
  });

  test("of one time fire in the order in which they were set", () => {
    const bench = new NodeFixture();
    const plan = bench.plan([nap(1_000)]);
    for (let i = 0; i < 20; i++) bench.start(plan, `e${i}`);
    bench.sleep(1_000);
    const ended = bench.of("progressed").filter(({ end }) => end !== null);
    expect(ended.map(({ execution }) => execution)).toEqual(Array.from({ length: 20 }, (_, i) => `e${i}`));
  });

  test("are never early and never lost, over restarts", () => {
    const bench = new NodeFixture();
    const plan = bench.plan([nap(600_000)]);
    bench.start(plan, "e1");
    bench.settle();
    const due = bench.now + 600_000;
    for (let i = 0; i < 5; i++) {
      bench.sleep(100_000);
      bench.restart();
    }
    expect(bench.status("e1")).toBe("running");
    bench.sleep(due - bench.now - 1);
    expect(bench.status("e1")).toBe("running");
    bench.sleep(1);
    expect(bench.status("e1")).toBe("done");
    expect(bench.events("e1", "timer.fired")).toHaveLength(1);
  });

  test("that were due while nobody was there fire after the recovery", () => {
    const bench = new NodeFixture();
    bench.start(bench.plan([nap(1_000), nap2]), "e1");
    bench.settle();
    bench.now += 3_600_000;
    bench.restart();
    bench.sleep(0);
    expect(bench.events("e1", "timer.fired")).toHaveLength(1);
  });

  const nap2 = { name: "nap2", handlers: { nap2: { sleep: "1h" } } };

  test("set while a scan is under way are not missed", () => {
    const bench = new NodeFixture({ timerHorizonMs: 10_000, timersMax: 5 });
    const plan = bench.plan([nap(4_000)]);
    for (let i = 0; i < 40; i++) {
      bench.start(plan, `e${i}`);
      bench.sleep(777);
    }
    bench.sleep(10_000);
    for (let i = 0; i < 40; i++) expect([i, bench.status(`e${i}`)]).toEqual([i, "done"]);
  });

  test("whose commit failed are set by the commit that follows", () => {
    const bench = new NodeFixture();
    bench.holdsCommits = true;
    bench.start(bench.plan([nap(1_000)]), "e1");
    bench.settle();
    bench.loseCommit();
    bench.holdsCommits = false;
    bench.sleep(2_000);
    expect(bench.status("e1")).toBe("done");
  });
});
