// Which attempts of a former owner are taken over, and what waits for those that are not (DESIGN 3.2, 4). Found by the
// simulator.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const REMOTE = { suspectMs: 30_000, claimLeaseMs: 1_000, sweepMs: 1_000 };
const numbers = (attempts: readonly Attempt[]) =>
  attempts.map(({ worker, item }) => `${worker} ${item.number}#${item.attempt}`);

function remote(fixture: NodeFixture, worker: string, max = 10): void {
  fixture.join(worker, ["w.a"], { local: false });
  fixture.claim(worker, max);
  fixture.settle();
}

describe("an attempt of a former owner", () => {
  test("whose claim had lapsed is not taken over: another worker has begun the same attempt", () => {
    const fixture = new NodeFixture(REMOTE);
    fixture.start(fixture.plan([phase("a")]), "e1");
    remote(fixture, "w1", 1);
    fixture.sleep(2_000);
    remote(fixture, "w2", 1);
    const [lapsed, live] = fixture.attempts() as [Attempt, Attempt];
    expect([lapsed.item.claim, live.item.claim]).toEqual([0, 1]);
    fixture.started(live);
    fixture.step(live, "one", "by the second");
    fixture.settle();
    fixture.restart();
    fixture.started(lapsed);
    const steps = [fixture.step(lapsed, "one", "by the first"), fixture.step(live, "two")];
    fixture.settle();
    expect(steps.map((report) => fixture.verdicts(report))).toEqual([[["stale"]], [["accepted"]]]);
    const receipts = [fixture.receipt(lapsed), fixture.receipt(live)];
    fixture.settle();
    expect(receipts.map((report) => fixture.verdicts(report)?.[0]?.[0])).toEqual(["stale", "accepted"]);
  });

  test.each(["its end", "a page", "a heartbeat"])(
    "that enumerates is not taken over; the next one begins as soon as its worker is heard: %s",
    (sign) => {
      const fixture = new NodeFixture(REMOTE);
      fixture.start(fixture.plan([phase("a", { enumerate: { use: "w.a" } })]), "e1");
      remote(fixture, "w1", 1);
      const [before] = fixture.attempts() as [Attempt];
      fixture.started(before);
      fixture.settle();
      fixture.restart();
      remote(fixture, "w1", 1);
      remote(fixture, "w2", 1);
      expect(fixture.attempts()).toHaveLength(0);
      if (sign === "its end") fixture.seal(before, { total: 2 });
      else if (sign === "a page") fixture.page(before, 0, [1, 2]);
      else fixture.beat(before);
      fixture.settle();
      const [again] = fixture.attempts() as [Attempt];
      expect(again.grant.do).toBe("enumerate");
      fixture.page(again, 0, [1, 2]);
      fixture.seal(again, { total: 2 });
      fixture.settle();
      expect(fixture.inspect("e1").view.phases[0]?.handlers[0]).toMatchObject({ total: 2 });
    },
  );

  test("that has been silent since the opening is lost, however late its execution is loaded", () => {
    const fixture = new NodeFixture({ ...REMOTE, idleMax: 0 });
    fixture.start(fixture.plan([phase("a")]), "e1");
    remote(fixture, "w1");
    const [before] = fixture.attempts() as [Attempt];
    fixture.started(before);
    fixture.control("pause", "e1");
    fixture.settle();
    fixture.restart();
    // A paused execution is loaded only when a request or report concerns it.
    fixture.now += 31_000;
    fixture.beat(before);
    fixture.settle();
    expect(fixture.of("cancel")).toMatchObject([{ worker: "w1", why: "lost" }]);
    expect(fixture.events("e1", "tasks.lost")).toMatchObject([{ tasks: [0], attempts: [1] }]);
  });

  test("that does not fit its project's limit any more is not taken over", () => {
    const projects: Record<string, { concurrency: number }> = { default: { concurrency: 2 } };
    const fixture = new NodeFixture({ ...REMOTE, projects });
    fixture.start(fixture.plan([phase("a", { tasks: [0, 1] })]), "e1");
    remote(fixture, "w1");
    const before = fixture.attempts();
    fixture.started(...before);
    fixture.control("pause", "e1");
    fixture.settle();
    Object.assign(projects, { default: { concurrency: 1 } });
    fixture.restart();
    for (const attempt of before) fixture.beat(attempt);
    fixture.settle();
    expect(fixture.node.overview().limits).toMatchObject([{ name: "project default", max: 1, held: 1 }]);
    expect(
      fixture.of("cancel").flatMap(({ attempts }) => attempts.map(({ attempts: [one] }) => one?.task)),
    ).toEqual([1]);
  });
});

test("what was begun and is not heard of is journaled as lost before a cancel ends its phase", () => {
  const fixture = new NodeFixture(REMOTE);
  fixture.start(fixture.plan([phase("a", { tasks: [0, 1] })]), "e1");
  remote(fixture, "w1");
  fixture.started(...fixture.attempts());
  fixture.control("pause", "e1");
  fixture.settle();
  fixture.restart();
  expect(fixture.node.hasSuspects).toBe(true);
  fixture.control("cancel", "e1");
  fixture.sleep(31_000);
  expect(fixture.events("e1", "tasks.lost")).toMatchObject([{ tasks: [0, 1], attempts: [1, 1] }]);
  expect([fixture.status("e1"), fixture.node.hasSuspects]).toEqual(["cancelled", false]);
});

test("a task that is lost is given out once, also if the clock went back and it must run alone", () => {
  const fixture = new NodeFixture({ suspectMs: 0 });
  const retry = { attempts: 5, crashes: 5, min: 0 };
  fixture.join("w1", ["w.a"]);
  fixture.start(fixture.plan([phase("a", { retry })]), "e1");
  fixture.settle();
  fixture.receipt(fixture.attempts()[0] as Attempt, { status: "crashed", payload: "{}", retryAfterMs: 0 });
  fixture.settle();
  fixture.now += 10_000;
  fixture.started(fixture.attempts()[1] as Attempt);
  fixture.signal("e1", "any");
  fixture.settle();
  fixture.now -= 5_000;
  fixture.held.add("load");
  fixture.restart();
  // All workers are busy when the task comes, which has to wait for one of them to be empty.
  for (const [worker, use] of [
    ["w1", "b"],
    ["w2", "c"],
  ] as const) {
    const plan = fixture.plan([{ name: use, handlers: { [use]: { use: `w.${use}` } } }], use);
    const start = { kind: "start", execution: use, workflow: use, hash: plan.hash } as const;
    const message = { ...start, project: "default", input: "null", tags: {} };
    fixture.join(worker, ["w.a", `w.${use}`]);
    fixture.request({ execution: use, message, plan, fresh: true });
    fixture.settle();
  }
  const others = fixture.attempts();
  expect(others.map(({ worker }) => worker)).toEqual(["w1", "w2"]);
  fixture.held.clear();
  fixture.answer("load");
  fixture.sleep(6_500);
  for (const attempt of others) fixture.receipt(attempt);
  fixture.sleep(60_000);
  const given = fixture.attempts().filter(({ grant }) => grant.execution === "e1");
  expect(given.map(({ item }) => item.attempt)).toEqual([3]);
});

test("a task that must run alone goes to whoever is empty, though another asks first", () => {
  const fixture = new NodeFixture();
  fixture.join("w1", ["w.a", "w.b"]);
  fixture.start(fixture.plan([phase("a", { retry: { attempts: 3, min: 0 } })]), "e1");
  fixture.start(fixture.plan([{ name: "b", handlers: { b: { use: "w.b" } } }], "other"), "x1");
  fixture.settle();
  for (let attempt = 1; attempt <= 2; attempt++) {
    const given = fixture.attempts().filter(({ grant }) => grant.execution === "e1");
    if (attempt === 2) fixture.join("w2", ["w.a"]);
    fixture.receipt(given.at(-1) as Attempt, { status: "crashed", payload: "{}", retryAfterMs: 0 });
    fixture.settle();
  }
  expect(numbers(fixture.attempts())).toEqual(["w1 0#1", "w1 0#1", "w1 0#2", "w2 0#3"]);
});

test("a task that waits for a worker to be empty goes elsewhere if another version gets the work by then", () => {
  const fixture = new NodeFixture();
  const serve = (worker: string, version: string) =>
    fixture.join(worker, [{ use: "w.a", version }], { capacity: 2 });
  serve("w1", "1.0.0");
  fixture.start(fixture.plan([phase("a", { tasks: [0, 1], retry: { attempts: 3, min: 0 } })]), "e1");
  fixture.settle();
  const crashed = { status: "crashed", payload: "{}", retryAfterMs: 0 } as const;
  fixture.receipt(fixture.attempts()[0] as Attempt, crashed);
  fixture.settle();
  fixture.receipt(fixture.attempts()[2] as Attempt, crashed);
  fixture.settle();
  // The task has to run alone, but its worker still holds another attempt.
  expect(numbers(fixture.attempts())).toEqual(["w1 0#1", "w1 1#1", "w1 0#2"]);
  serve("w2", "2.0.0");
  fixture.settle();
  expect(fixture.attempts().at(-1)).toMatchObject({ worker: "w2", grant: { version: "2.0.0" } });
  expect(numbers(fixture.attempts()).at(-1)).toBe("w2 0#3");
});

test("a letter that is sent while older ones may be in the store only waits for its turn", () => {
  const fixture = new NodeFixture();
  fixture.plan([phase("b", { retry: { attempts: 1 } })], "kid");
  fixture.join("w1", ["w.b"], { capacity: 1 });
  const retry = { attempts: 3, backoff: "constant", min: 1_000 };
  fixture.start(fixture.plan([{ name: "a", handlers: { a: { workflow: "kid", retry } } }]), "e1");
  fixture.settle();
  fixture.receipt(fixture.attempts()[0] as Attempt, { status: "failed", payload: "{}" });
  fixture.settle();
  fixture.holdsCommits = true;
  fixture.sleep(2_000);
  fixture.held.add("scan-mailbox");
  // The retry of the child is stored, but its answer is lost; the cancel is committed before the scan is answered.
  fixture.commitUnheard();
  fixture.holdsCommits = false;
  fixture.control("cancel", "e1");
  fixture.settle();
  fixture.held.clear();
  fixture.answer("scan-mailbox");
  fixture.settle();
  expect([fixture.status("e1"), fixture.mail]).toEqual(["cancelled", []]);
});
