// Conformance, seed 004, as far as one node shows it: F9 and F11 to F13 of the list of cases.
import { workflow } from "rondo";
import { testRondo } from "rondo/testing";
import { expect, test } from "vitest";
import type { VirtualClock } from "../../src/testing/virtual-clock.ts";
import { type Attempt, NodeFixture } from "../fixtures/engine/node-fixture.ts";
import { KernelRun, phase } from "../fixtures/kernel/kernel-run-fixture.ts";

const sleeper = (ms: number) => ({ name: "nap", handlers: { nap: { sleep: ms } } });

test("F9 idle: nothing comes out and no wake-up is near, with nothing to do and with everything waiting", () => {
  const bench = new NodeFixture();
  expect(bench.advance()).toEqual([]);
  expect(bench.node.nextWakeAt() - bench.now).toBeGreaterThanOrEqual(30_000);
  bench.join("w1", ["w.a"]);
  bench.start(bench.plan([sleeper(3_600_000)], "v"), "e1");
  bench.start(bench.plan([{ name: "a", handlers: { a: { use: "nobody" } } }]), "e2");
  bench.settle();
  expect(bench.advance()).toEqual([]);
  expect(bench.node.nextWakeAt() - bench.now).toBeGreaterThanOrEqual(30_000);
  expect(bench.node.isBusy).toBe(false);
  const turns = bench.outputs.length;
  bench.sleep(600_000);
  // Ten minutes of idling: a scan for timers every half minute, and nothing else.
  const since = bench.outputs.slice(turns);
  expect(new Set(since.map(({ kind }) => kind))).toEqual(new Set(["scan-timers"]));
  expect(since.length).toBeLessThanOrEqual(21);
});

test("F9 idle: a process with nothing to do has no timer that is near", async () => {
  await using t = await testRondo({ workflows: [workflow({ name: "w" }).sleep("nap", "30d")] });
  await t.start("w", null);
  await t.settle();
  const clock = t.clock as VirtualClock;
  expect(clock.nextAt - clock.now()).toBe(30 * 86_400_000);
});

test("F11 commit refused or failed: effects dropped, the message stepped again on fresh state, once", () => {
  for (const way of ["lost", "unheard"] as const) {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a", "w.b"]);
    bench.start(bench.plan([phase("a"), phase("b")]), "e1");
    bench.settle();
    bench.holdsCommits = true;
    const before = bench.outputs.length;
    const report = bench.receipt(bench.attempts()[0] as Attempt);
    bench.settle();
    if (way === "lost") bench.loseCommit(false);
    else bench.commitUnheard();
    bench.settle();
    const since = bench.outputs.slice(before).map(({ kind }) => kind);
    for (const effect of ["verdicts", "progressed"] as const)
      expect(since.filter((kind) => kind === effect).length).toBeLessThanOrEqual(way === "lost" ? 0 : 1);
    bench.holdsCommits = false;
    bench.settle();
    expect(bench.verdicts(report)).toHaveLength(1);
    expect(bench.events("e1", "tasks.settled")).toHaveLength(1);
    expect(bench.events("e1", "phase.started").map((event) => event.phase)).toEqual(["a", "b"]);
    expect(bench.attempts().filter(({ grant }) => grant.phase === "b")).toHaveLength(1);
  }
});

test("F11 commit refused for a stale owner: nothing of it happened, and the owner stops", () => {
  const bench = new NodeFixture();
  bench.join("w1", ["w.a"]);
  bench.start(bench.plan([phase("a")]), "e1");
  bench.settle();
  bench.holdsCommits = true;
  bench.receipt(bench.attempts()[0] as Attempt);
  bench.settle();
  bench.tables.open();
  bench.commit();
  bench.settle();
  expect(bench.of("fenced")).toHaveLength(1);
  expect(bench.events("e1", "tasks.settled")).toHaveLength(0);
  expect(bench.of("verdicts").map(({ verdicts }) => verdicts)).toEqual([[["elsewhere"]]]);
});

test("F12 a task is dispatched only after the execution is stored", () => {
  const bench = new NodeFixture();
  bench.join("w1", ["w.a"]);
  bench.holdsCommits = true;
  bench.start(bench.plan([phase("a")]), "e1");
  bench.settle();
  expect(bench.tables.load(["e1"])).toEqual([null]);
  expect(bench.attempts()).toHaveLength(0);
  bench.commit();
  expect(bench.tables.load(["e1"])[0]).not.toBeNull();
  bench.settle();
  expect(bench.attempts()).toHaveLength(1);
  const kinds = bench.outputs.map(({ kind }) => kind);
  expect(kinds.indexOf("commit")).toBeLessThan(kinds.indexOf("grant"));
});

test("F13 a timer of something that is over is removed; a late trigger is ignored; cancel clears it", () => {
  const run = new KernelRun([{ name: "a", handlers: { a: { waitFor: "go", timeout: "1h" } } }, phase("b")]);
  run.signal("go");
  expect(run.execution.timers.size).toBe(0);
  run.now += 4_000_000;
  expect(run.timer("a.1.a")).toMatchObject({ kind: "ignored" });

  const bench = new NodeFixture();
  bench.start(bench.plan([sleeper(60_000)]), "e1");
  bench.start(bench.plan([{ name: "a", handlers: { a: { waitFor: "go", timeout: "1m" } } }], "v"), "e2");
  bench.settle();
  const rows = () => bench.tables.scanTimers({ until: Number.MAX_SAFE_INTEGER, max: 100, partitions: null });
  expect(rows()).toHaveLength(2);
  bench.control("cancel", "e1");
  bench.signal("e2", "go");
  bench.settle();
  expect(rows()).toEqual([]);
  bench.sleep(120_000);
  expect(bench.events("e1", "timer.fired")).toHaveLength(0);
  expect([bench.status("e1"), bench.status("e2")]).toEqual(["cancelled", "done"]);
});

test("F13 a row of a timer that is not armed any more is removed when it comes up", () => {
  const bench = new NodeFixture();
  bench.start(bench.plan([sleeper(1_000), phase("b")]), "e1");
  bench.settle();
  bench.input({
    kind: "timers-scanned",
    timers: [{ execution: "e1", timer: "gone.1.gone", due: bench.now }],
    until: bench.now,
    max: 100,
  });
  bench.settle();
  const cleared = bench
    .of("commit")
    .flatMap(({ content }) => content.writes.flatMap((write) => write.timersCleared));
  expect(cleared).toContain("gone.1.gone");
  bench.sleep(2_000);
  expect(bench.events("e1", "timer.fired")).toHaveLength(1);
});
