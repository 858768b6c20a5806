// The sweep: claims that never start, attempts that go silent, and workers that are asked first (DESIGN 6; C4, C5, C21).
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture, placeOf } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const SETTINGS = { claimLeaseMs: 30_000, sweepMs: 5_000, askMs: 3_000 };

/** A fixture with a remote worker that has claimed the one task of an execution. */
function claimed(
  more: object = {},
  options: { asks?: boolean } = {},
): { fixture: NodeFixture; first: Attempt } {
  const fixture = new NodeFixture(SETTINGS);
  fixture.join("w1", ["w.a"], { local: false, capacity: 100, ...options });
  fixture.claim("w1", 1);
  fixture.start(fixture.plan([phase("a", more)]), "e1");
  fixture.settle();
  return { fixture, first: fixture.attempts()[0] as Attempt };
}

const lost = (fixture: NodeFixture) => fixture.events("e1", "tasks.lost").length;
const asked = (fixture: NodeFixture) => fixture.of("ask-worker");
function vouch(fixture: NodeFixture, { worker, grant, item }: Attempt): void {
  const attempts = [{ task: item.number, attempt: item.attempt, claim: item.claim }];
  fixture.input({ kind: "worker-vouches", worker, beats: [{ ...placeOf(grant), attempts }] });
  fixture.settle();
}

test("C4 claimed, and the worker dies before it starts: available again after the claim's lease, nothing burnt", () => {
  const { fixture, first } = claimed({ retry: { attempts: 1, crashes: 1 } });
  fixture.sleep(29_999);
  fixture.join("w2", ["w.a"], { local: false });
  fixture.claim("w2", 1);
  fixture.settle();
  expect(fixture.attempts()).toHaveLength(1);
  fixture.sleep(5_001);
  const second = fixture.attempts()[1] as Attempt;
  expect([second.worker, second.item.attempt, second.item.claim]).toEqual(["w2", 1, 1]);
  expect(lost(fixture)).toBe(0);
  fixture.started(second);
  fixture.receipt(second);
  fixture.settle();
  expect(fixture.status("e1")).toBe("done");
  const late = fixture.receipt(first);
  fixture.settle();
  expect(fixture.verdicts(late)).toEqual([["gone"]]);
  expect(fixture.events("e1", "tasks.settled")).toHaveLength(1);
});

test("a clock that is set forward loses nobody: each has as much time left as before", () => {
  const { fixture, first } = claimed();
  fixture.started(first);
  fixture.sleep(10_000);
  // The clock is set forward by an hour: timers fire, but the hour does not count as silence of a worker.
  fixture.now += 3_600_000;
  fixture.input({ kind: "clock-stepped", ms: 3_600_000 });
  fixture.sleep(14_000);
  expect(lost(fixture)).toBe(0);
  fixture.sleep(16_000);
  expect(lost(fixture)).toBe(1);
});

test("C4 the same with steps: a claim that lapsed may step no more", () => {
  const { fixture, first } = claimed();
  fixture.sleep(40_000);
  const step = fixture.step(first, "one");
  fixture.settle();
  expect(fixture.verdicts(step)).toEqual([["stale"]]);
});

test("C4 the first claim's late done does not undo the steps of the second", () => {
  const { fixture, first } = claimed();
  fixture.join("w2", ["w.a"], { local: false });
  fixture.claim("w2", 1);
  fixture.sleep(40_000);
  const second = fixture.attempts()[1] as Attempt;
  fixture.step(second, "one");
  fixture.settle();
  const late = fixture.receipt(first, { payload: "1" });
  fixture.settle();
  expect(fixture.verdicts(late)).toEqual([["stale"]]);
  const own = fixture.receipt(second, { payload: "2" });
  fixture.settle();
  expect(fixture.verdicts(own)).toEqual([["accepted"]]);
  expect(fixture.events("e1", "tasks.settled").flatMap(({ payloads }) => payloads)).toEqual(["2"]);
});

test("C5 started, and the worker dies: lost within its heartbeat and a sweep; the policy decides", () => {
  const { fixture, first } = claimed({ retry: { crashes: 2 } });
  fixture.started(first);
  fixture.sleep(29_999);
  expect(lost(fixture)).toBe(0);
  fixture.sleep(5_001);
  expect(lost(fixture)).toBe(1);
  expect(fixture.of("cancel")).toMatchObject([{ worker: "w1", why: "lost" }]);
  fixture.claim("w1", 1);
  fixture.settle();
  const second = fixture.attempts()[1] as Attempt;
  expect(second.item.attempt).toBe(2);
  fixture.started(second);
  fixture.sleep(40_000);
  expect(fixture.events("e1", "tasks.settled")).toMatchObject([
    { statuses: ["failed"], reasons: ["crashes"] },
  ]);
});

test("C5 a script's finished runs are there for the next attempt", () => {
  const fixture = new NodeFixture(SETTINGS);
  fixture.join("w1", ["~script"], { local: false });
  fixture.claim("w1", 1);
  const script = ["r0", "r1"].map((name) => ({ name, expression: "s => s" }));
  fixture.start(fixture.plan([{ name: "a", handlers: { a: { script } } }]), "e1");
  fixture.settle();
  const first = fixture.attempts()[0] as Attempt;
  fixture.started(first);
  fixture.run(first, 0, 1);
  fixture.sleep(60_000);
  fixture.claim("w1", 1);
  fixture.settle();
  expect(fixture.attempts()[1]?.item).toMatchObject({
    attempt: 2,
    checkpoints: [{ kind: "run", name: "r0" }],
  });
});

describe("C21", () => {
  test("silent for three beats is lost", () => {
    const { fixture, first } = claimed({ heartbeat: "9s" });
    fixture.started(first);
    for (let beat = 0; beat < 5; beat++) {
      fixture.sleep(3_000);
      fixture.beat(first);
    }
    fixture.settle();
    fixture.sleep(8_999);
    expect(lost(fixture)).toBe(0);
    fixture.sleep(5_001);
    expect(lost(fixture)).toBe(1);
  });

  test("a beat just before the sweep keeps it", () => {
    const { fixture, first } = claimed();
    fixture.started(first);
    fixture.settle();
    for (let i = 0; i < 20; i++) {
      // The node does not sweep in between: the heartbeat is handled before the lease lapses.
      fixture.now += 29_999;
      fixture.beat(first);
      fixture.settle();
    }
    fixture.now += 30_000;
    fixture.beat(first);
    fixture.settle();
    expect(lost(fixture)).toBe(0);
  });

  test("each of many attempts by its own beats", () => {
    const fixture = new NodeFixture(SETTINGS);
    fixture.join("w1", ["w.a"], { local: false, capacity: 100 });
    fixture.claim("w1", 10);
    fixture.start(fixture.plan([phase("a", { tasks: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] })]), "e1");
    fixture.settle();
    const all = fixture.attempts();
    fixture.started(...all);
    for (let i = 0; i < 4; i++) {
      fixture.sleep(10_000);
      for (const attempt of all.filter(({ item }) => item.number % 2 === 0)) fixture.beat(attempt);
    }
    fixture.settle();
    expect(fixture.events("e1", "tasks.lost").flatMap(({ tasks }) => tasks)).toEqual([1, 3, 5, 7, 9]);
  });
});

describe("a worker that can be asked", () => {
  test("is asked once an attempt is silent, and before it is lost", () => {
    const { fixture, first } = claimed({}, { asks: true });
    fixture.started(first);
    fixture.sleep(29_999);
    expect(asked(fixture)).toEqual([]);
    fixture.sleep(1_001);
    const { grant, item } = first;
    expect(asked(fixture)).toEqual([
      {
        kind: "ask-worker",
        worker: "w1",
        attempts: [{ ...placeOf(grant), attempts: [{ task: 0, attempt: item.attempt, claim: item.claim }] }],
      },
    ]);
    expect(lost(fixture)).toBe(0);
    // The worker does not answer.
    fixture.sleep(5_000);
    expect([asked(fixture).length, lost(fixture)]).toEqual([1, 1]);
  });

  test("that vouches extends the attempt by a heartbeat, once; then it is lost", () => {
    const { fixture, first } = claimed({}, { asks: true });
    fixture.started(first);
    fixture.sleep(31_000);
    vouch(fixture, first);
    fixture.sleep(29_000);
    expect(lost(fixture)).toBe(0);
    fixture.sleep(6_000);
    expect([asked(fixture).length, lost(fixture)]).toEqual([1, 1]);
  });

  test("is asked again after the attempt has beaten again", () => {
    const { fixture, first } = claimed({}, { asks: true });
    fixture.started(first);
    fixture.sleep(31_000);
    vouch(fixture, first);
    fixture.beat(first);
    fixture.sleep(31_000);
    expect(asked(fixture)).toHaveLength(1);
    fixture.sleep(3_000);
    expect([asked(fixture).length, lost(fixture)]).toEqual([2, 0]);
  });

  test("that vouches too late changes nothing", () => {
    const { fixture, first } = claimed({}, { asks: true });
    fixture.started(first);
    fixture.sleep(45_000);
    expect(lost(fixture)).toBe(1);
    vouch(fixture, first);
    fixture.sleep(60_000);
    expect(lost(fixture)).toBe(1);
    expect(fixture.node.openLeases).toBe(0);
  });

  test("that vouches for another attempt or for what it never had changes nothing", () => {
    const { fixture, first } = claimed({}, { asks: true });
    fixture.started(first);
    fixture.sleep(31_000);
    vouch(fixture, { ...first, item: { ...first.item, attempt: 2 } });
    vouch(fixture, { ...first, grant: { ...first.grant, execution: "nobody" } });
    fixture.sleep(5_000);
    expect(lost(fixture)).toBe(1);
  });

  test("is not asked about a claim that never started, nor are workers without an address, nor those that left", () => {
    const unstarted = claimed({}, { asks: true }).fixture;
    unstarted.sleep(60_000);
    expect(asked(unstarted)).toEqual([]);
    const deaf = claimed({}, { asks: false });
    deaf.fixture.started(deaf.first);
    deaf.fixture.sleep(35_000);
    expect([asked(deaf.fixture).length, lost(deaf.fixture)]).toEqual([0, 1]);
    const gone = claimed({}, { asks: true });
    gone.fixture.started(gone.first);
    gone.fixture.leave("w1");
    gone.fixture.sleep(35_000);
    expect([asked(gone.fixture).length, lost(gone.fixture)]).toEqual([0, 1]);
  });

  test("is asked about a silent enumeration too", () => {
    const fixture = new NodeFixture(SETTINGS);
    fixture.join("w1", ["list"], { local: false, asks: true });
    fixture.claim("w1", 1);
    fixture.start(fixture.plan([phase("a", { enumerate: { use: "list" } })]), "e1");
    fixture.settle();
    const listing = fixture.attempts()[0] as Attempt;
    fixture.page(listing, 0, [1]);
    fixture.sleep(31_000);
    expect(asked(fixture)).toHaveLength(1);
    vouch(fixture, listing);
    fixture.sleep(20_000);
    expect(fixture.events("e1", "handler.lost")).toHaveLength(0);
    fixture.sleep(20_000);
    expect(fixture.events("e1", "handler.lost")).toHaveLength(1);
  });
});

test("nothing to watch, nothing to wake for", () => {
  const fixture = new NodeFixture({ ...SETTINGS, timerHorizonMs: 1e9 });
  fixture.join("w1", ["w.a"]);
  fixture.start(fixture.plan([phase("a")]), "e1");
  fixture.settle();
  fixture.sleep(10_000);
  expect(fixture.node.nextWakeAt()).toBeGreaterThan(fixture.now + 1e8);
});
