// Conformance, seed 004, as far as one node shows it: F9 and F11 to F13 of the list of cases.
import { workflow } from "rondo";
import { testRondo } from "rondo/testing";
import { expect, test } from "vitest";
import type { VirtualClock } from "../../src/testing/virtual-clock.ts";
import { type Attempt, NodeFixture } from "../fixtures/engine/node-fixture.ts";
import { KernelRun, phase } from "../fixtures/kernel/kernel-run-fixture.ts";

const sleeper = (ms: number) => ({ name: "nap", handlers: { nap: { sleep: ms } } });

test("F9 idle: nothing comes out and no wake-up is near, with nothing to do and with everything waiting", () => {
  const fixture = new NodeFixture();
  expect(fixture.advance()).toEqual([]);
  expect(fixture.node.nextWakeAt() - fixture.now).toBeGreaterThanOrEqual(30_000);
  fixture.join("w1", ["w.a"]);
  fixture.start(fixture.plan([sleeper(3_600_000)], "v"), "e1");
  fixture.start(fixture.plan([{ name: "a", handlers: { a: { use: "nobody" } } }]), "e2");
  fixture.settle();
  expect(fixture.advance()).toEqual([]);
  expect(fixture.node.nextWakeAt() - fixture.now).toBeGreaterThanOrEqual(30_000);
  expect(fixture.node.isBusy).toBe(false);
  const turns = fixture.outputs.length;
  fixture.sleep(600_000);
  // Ten minutes of idling: a scan for timers every half minute, and nothing else.
  const since = fixture.outputs.slice(turns);
  expect(new Set(since.map(({ kind }) => kind))).toEqual(new Set(["scan-timers"]));
  expect(since.length).toBeLessThanOrEqual(21);
});

test("F9 busy: after work a node goes on at once while there is more, and considers its timers in between", () => {
  const fixture = new NodeFixture({ turnMessages: 2 });
  fixture.start(fixture.plan([{ name: "a", handlers: { a: { use: "nobody" } } }]), "e1");
  fixture.start(fixture.plan([sleeper(1_000)], "v"), "e2");
  fixture.settle();
  fixture.now += 1_000;
  for (let i = 0; i < 9; i++) fixture.signal("e1", "s", i);
  const before = fixture.of("commit").length;
  // No time passes: the node waits for nothing but its commits.
  fixture.settle();
  expect(fixture.events("e1", "signalled")).toHaveLength(9);
  expect(fixture.status("e2")).toBe("done");
  const written = fixture
    .of("commit")
    .slice(before)
    .map(({ content }) => content.writes.map(({ execution }) => execution));
  expect(written.length).toBeGreaterThan(2);
  expect(written.findIndex((ids) => ids.includes("e2"))).toBeLessThan(written.length - 1);
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
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a", "w.b"]);
    fixture.start(fixture.plan([phase("a"), phase("b")]), "e1");
    fixture.settle();
    fixture.holdsCommits = true;
    const before = fixture.outputs.length;
    const report = fixture.receipt(fixture.attempts()[0] as Attempt);
    fixture.settle();
    if (way === "lost") fixture.loseCommit(false);
    else fixture.commitUnheard();
    fixture.settle();
    const since = fixture.outputs.slice(before).map(({ kind }) => kind);
    for (const effect of ["verdicts", "progressed"] as const)
      expect(since.filter((kind) => kind === effect).length).toBeLessThanOrEqual(way === "lost" ? 0 : 1);
    fixture.holdsCommits = false;
    fixture.settle();
    expect(fixture.verdicts(report)).toHaveLength(1);
    expect(fixture.events("e1", "tasks.settled")).toHaveLength(1);
    expect(fixture.events("e1", "phase.started").map((event) => event.phase)).toEqual(["a", "b"]);
    expect(fixture.attempts().filter(({ grant }) => grant.phase === "b")).toHaveLength(1);
  }
});

test("F11 commit refused for a stale owner: nothing of it happened, and the owner stops", () => {
  const fixture = new NodeFixture();
  fixture.join("w1", ["w.a"]);
  fixture.start(fixture.plan([phase("a")]), "e1");
  fixture.settle();
  fixture.holdsCommits = true;
  fixture.receipt(fixture.attempts()[0] as Attempt);
  fixture.settle();
  fixture.tables.open();
  fixture.commit();
  fixture.settle();
  expect(fixture.of("fenced")).toHaveLength(1);
  expect(fixture.events("e1", "tasks.settled")).toHaveLength(0);
  expect(fixture.of("verdicts").map(({ verdicts }) => verdicts)).toEqual([[["elsewhere"]]]);
});

test("F12 a task is dispatched only after the execution is stored", () => {
  const fixture = new NodeFixture();
  fixture.join("w1", ["w.a"]);
  fixture.holdsCommits = true;
  fixture.start(fixture.plan([phase("a")]), "e1");
  fixture.settle();
  expect(fixture.tables.load(["e1"])).toEqual([null]);
  expect(fixture.attempts()).toHaveLength(0);
  fixture.commit();
  expect(fixture.tables.load(["e1"])[0]).not.toBeNull();
  fixture.settle();
  expect(fixture.attempts()).toHaveLength(1);
  const kinds = fixture.outputs.map(({ kind }) => kind);
  expect(kinds.indexOf("commit")).toBeLessThan(kinds.indexOf("grant"));
});

test("F13 a timer of something that is over is removed; a late trigger is ignored; cancel clears it", () => {
  const run = new KernelRun([{ name: "a", handlers: { a: { waitFor: "go", timeout: "1h" } } }, phase("b")]);
  run.signal("go");
  expect(run.execution.timers.size).toBe(0);
  run.now += 4_000_000;
  expect(run.timer("a.1.a")).toMatchObject({ kind: "ignored" });

  const fixture = new NodeFixture();
  fixture.start(fixture.plan([sleeper(60_000)]), "e1");
  fixture.start(fixture.plan([{ name: "a", handlers: { a: { waitFor: "go", timeout: "1m" } } }], "v"), "e2");
  fixture.settle();
  const rows = () =>
    fixture.tables.scanTimers({ until: Number.MAX_SAFE_INTEGER, max: 100, partitions: null });
  expect(rows()).toHaveLength(2);
  fixture.control("cancel", "e1");
  fixture.signal("e2", "go");
  fixture.settle();
  expect(rows()).toEqual([]);
  fixture.sleep(120_000);
  expect(fixture.events("e1", "timer.fired")).toHaveLength(0);
  expect([fixture.status("e1"), fixture.status("e2")]).toEqual(["cancelled", "done"]);
});

test("F13 a row of a timer that is not armed any more is removed when it comes up", () => {
  const fixture = new NodeFixture();
  fixture.start(fixture.plan([sleeper(1_000), phase("b")]), "e1");
  fixture.settle();
  fixture.input({
    kind: "timers-scanned",
    timers: [{ execution: "e1", timer: "gone.1.gone", due: fixture.now }],
    until: fixture.now,
    max: 100,
  });
  fixture.settle();
  const cleared = fixture
    .of("commit")
    .flatMap(({ content }) => content.writes.flatMap((write) => write.timersCleared));
  expect(cleared).toContain("gone.1.gone");
  fixture.sleep(2_000);
  expect(fixture.events("e1", "timer.fired")).toHaveLength(1);
});
