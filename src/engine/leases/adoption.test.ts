// Which attempts of a former owner are taken over, and what waits for those that are not (DESIGN 3.2, 4). Found by the
// simulator.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const REMOTE = { suspectMs: 30_000, claimLeaseMs: 1_000, sweepMs: 1_000 };
const numbers = (attempts: readonly Attempt[]) =>
  attempts.map(({ worker, item }) => `${worker} ${item.number}#${item.attempt}`);

function remote(bench: NodeFixture, worker: string, max = 10): void {
  bench.join(worker, ["w.a"], { local: false });
  bench.claim(worker, max);
  bench.settle();
}

describe("an attempt of a former owner", () => {
  test("whose claim had lapsed is not taken over: another worker has begun the same attempt", () => {
    const bench = new NodeFixture(REMOTE);
    bench.start(bench.plan([phase("a")]), "e1");
    remote(bench, "w1", 1);
    bench.sleep(2_000);
    remote(bench, "w2", 1);
    const [lapsed, live] = bench.attempts() as [Attempt, Attempt];
    expect([lapsed.item.claim, live.item.claim]).toEqual([0, 1]);
    bench.started(live);
    bench.step(live, "one", "by the second");
    bench.settle();
    bench.restart();
    bench.started(lapsed);
    const steps = [bench.step(lapsed, "one", "by the first"), bench.step(live, "two")];
    bench.settle();
    expect(steps.map((report) => bench.verdicts(report))).toEqual([[["stale"]], [["accepted"]]]);
    const receipts = [bench.receipt(lapsed), bench.receipt(live)];
    bench.settle();
    expect(receipts.map((report) => bench.verdicts(report)?.[0]?.[0])).toEqual(["stale", "accepted"]);
  });

  test("that has been silent since the opening is lost, however late its execution is loaded", () => {
    const bench = new NodeFixture({ ...REMOTE, idleMax: 0 });
    bench.start(bench.plan([phase("a")]), "e1");
    remote(bench, "w1");
    const [before] = bench.attempts() as [Attempt];
    bench.started(before);
    bench.control("pause", "e1");
    bench.settle();
    bench.restart();
    // Paused, it is not looked at before somebody asks.
    bench.now += 31_000;
    bench.beat(before);
    bench.settle();
    expect(bench.of("cancel")).toMatchObject([{ worker: "w1", why: "lost" }]);
    expect(bench.events("e1", "tasks.lost")).toMatchObject([{ tasks: [0], attempts: [1] }]);
  });

  test("that does not fit its project's limit any more is not taken over", () => {
    const projects: Record<string, { concurrency: number }> = { default: { concurrency: 2 } };
    const bench = new NodeFixture({ ...REMOTE, projects });
    bench.start(bench.plan([phase("a", { tasks: [0, 1] })]), "e1");
    remote(bench, "w1");
    const before = bench.attempts();
    bench.started(...before);
    bench.control("pause", "e1");
    bench.settle();
    Object.assign(projects, { default: { concurrency: 1 } });
    bench.restart();
    for (const attempt of before) bench.beat(attempt);
    bench.settle();
    expect(bench.node.overview().limits).toMatchObject([{ name: "project default", max: 1, held: 1 }]);
    expect(
      bench.of("cancel").flatMap(({ attempts }) => attempts.map(({ attempts: [one] }) => one?.task)),
    ).toEqual([1]);
  });
});

test("what was begun and is not heard of is journaled as lost before a cancel ends its phase", () => {
  const bench = new NodeFixture(REMOTE);
  bench.start(bench.plan([phase("a", { tasks: [0, 1] })]), "e1");
  remote(bench, "w1");
  bench.started(...bench.attempts());
  bench.control("pause", "e1");
  bench.settle();
  bench.restart();
  expect(bench.node.hasSuspects).toBe(true);
  bench.control("cancel", "e1");
  bench.sleep(31_000);
  expect(bench.events("e1", "tasks.lost")).toMatchObject([{ tasks: [0, 1], attempts: [1, 1] }]);
  expect([bench.status("e1"), bench.node.hasSuspects]).toEqual(["cancelled", false]);
});

test("a task that is lost is given out once, also if the clock went back and it must run alone", () => {
  const bench = new NodeFixture({ suspectMs: 0 });
  const retry = { attempts: 5, crashes: 5, min: 0 };
  bench.join("w1", ["w.a"]);
  bench.start(bench.plan([phase("a", { retry })]), "e1");
  bench.settle();
  bench.receipt(bench.attempts()[0] as Attempt, { status: "crashed", payload: "{}", retryAfterMs: 0 });
  bench.settle();
  bench.now += 10_000;
  bench.started(bench.attempts()[1] as Attempt);
  bench.signal("e1", "any");
  bench.settle();
  bench.now -= 5_000;
  bench.held.add("load");
  bench.restart();
  // All workers are busy when the task comes, which has to wait for one of them to be empty.
  for (const [worker, use] of [
    ["w1", "b"],
    ["w2", "c"],
  ] as const) {
    const plan = bench.plan([{ name: use, handlers: { [use]: { use: `w.${use}` } } }], use);
    const start = { kind: "start", execution: use, workflow: use, hash: plan.hash } as const;
    const message = { ...start, project: "default", input: "null", tags: {} };
    bench.join(worker, ["w.a", `w.${use}`]);
    bench.request({ execution: use, message, plan, fresh: true });
    bench.settle();
  }
  const others = bench.attempts();
  expect(others.map(({ worker }) => worker)).toEqual(["w1", "w2"]);
  bench.held.clear();
  bench.answer("load");
  bench.sleep(6_500);
  for (const attempt of others) bench.receipt(attempt);
  bench.sleep(60_000);
  const given = bench.attempts().filter(({ grant }) => grant.execution === "e1");
  expect(given.map(({ item }) => item.attempt)).toEqual([3]);
});

test("a task that must run alone goes to whoever is empty, though another asks first", () => {
  const bench = new NodeFixture();
  bench.join("w1", ["w.a", "w.b"]);
  bench.start(bench.plan([phase("a", { retry: { attempts: 3, min: 0 } })]), "e1");
  bench.start(bench.plan([{ name: "b", handlers: { b: { use: "w.b" } } }], "other"), "x1");
  bench.settle();
  for (let attempt = 1; attempt <= 2; attempt++) {
    const given = bench.attempts().filter(({ grant }) => grant.execution === "e1");
    if (attempt === 2) bench.join("w2", ["w.a"]);
    bench.receipt(given.at(-1) as Attempt, { status: "crashed", payload: "{}", retryAfterMs: 0 });
    bench.settle();
  }
  expect(numbers(bench.attempts())).toEqual(["w1 0#1", "w1 0#1", "w1 0#2", "w2 0#3"]);
});

test("a task that waits for a worker to be empty goes elsewhere if another version gets the work by then", () => {
  const bench = new NodeFixture();
  const serve = (worker: string, version: string) =>
    bench.join(worker, [{ use: "w.a", version }], { capacity: 2 });
  serve("w1", "1.0.0");
  bench.start(bench.plan([phase("a", { tasks: [0, 1], retry: { attempts: 3, min: 0 } })]), "e1");
  bench.settle();
  const crashed = { status: "crashed", payload: "{}", retryAfterMs: 0 } as const;
  bench.receipt(bench.attempts()[0] as Attempt, crashed);
  bench.settle();
  bench.receipt(bench.attempts()[2] as Attempt, crashed);
  bench.settle();
  // It has to run alone, and its worker still has the other one.
  expect(numbers(bench.attempts())).toEqual(["w1 0#1", "w1 1#1", "w1 0#2"]);
  serve("w2", "2.0.0");
  bench.settle();
  expect(bench.attempts().at(-1)).toMatchObject({ worker: "w2", grant: { version: "2.0.0" } });
  expect(numbers(bench.attempts()).at(-1)).toBe("w2 0#3");
});

test("a letter that is sent while older ones may be in the store only waits for its turn", () => {
  const bench = new NodeFixture();
  bench.plan([phase("b", { retry: { attempts: 1 } })], "kid");
  bench.join("w1", ["w.b"], { capacity: 1 });
  const retry = { attempts: 3, backoff: "constant", min: 1_000 };
  bench.start(bench.plan([{ name: "a", handlers: { a: { workflow: "kid", retry } } }]), "e1");
  bench.settle();
  bench.receipt(bench.attempts()[0] as Attempt, { status: "failed", payload: "{}" });
  bench.settle();
  bench.holdsCommits = true;
  bench.sleep(2_000);
  bench.held.add("scan-mailbox");
  // The retry of the child is written, and nobody knows; the cancel is written and heard before the scan is.
  bench.commitUnheard();
  bench.holdsCommits = false;
  bench.control("cancel", "e1");
  bench.settle();
  bench.held.clear();
  bench.answer("scan-mailbox");
  bench.settle();
  expect([bench.status("e1"), bench.letters]).toEqual(["cancelled", []]);
});
