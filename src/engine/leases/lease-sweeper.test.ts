// The sweep: claims that never start, attempts that go silent, and workers that are asked first (DESIGN 6; C4, C5, C21).
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture, placeOf } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const SETTINGS = { claimLeaseMs: 30_000, sweepMs: 5_000, askMs: 3_000 };

/** A bench with a remote worker that has claimed the one task of an execution. */
function claimed(
  more: object = {},
  options: { asks?: boolean } = {},
): { bench: NodeFixture; first: Attempt } {
  const bench = new NodeFixture(SETTINGS);
  bench.join("w1", ["w.a"], { local: false, capacity: 100, ...options });
  bench.claim("w1", 1);
  bench.start(bench.plan([phase("a", more)]), "e1");
  bench.settle();
  return { bench, first: bench.attempts()[0] as Attempt };
}

const lost = (bench: NodeFixture) => bench.events("e1", "tasks.lost").length;
const asked = (bench: NodeFixture) => bench.of("ask-worker");
function vouch(bench: NodeFixture, { worker, grant, item }: Attempt): void {
  const attempts = [{ task: item.number, attempt: item.attempt, claim: item.claim }];
  bench.input({ kind: "worker-vouches", worker, beats: [{ ...placeOf(grant), attempts }] });
  bench.settle();
}

test("C4 claimed, and the worker dies before it starts: available again after the claim's lease, nothing burnt", () => {
  const { bench, first } = claimed({ retry: { attempts: 1, crashes: 1 } });
  bench.sleep(29_999);
  bench.join("w2", ["w.a"], { local: false });
  bench.claim("w2", 1);
  bench.settle();
  expect(bench.attempts()).toHaveLength(1);
  bench.sleep(5_001);
  const second = bench.attempts()[1] as Attempt;
  expect([second.worker, second.item.attempt, second.item.claim]).toEqual(["w2", 1, 1]);
  expect(lost(bench)).toBe(0);
  bench.started(second);
  bench.receipt(second);
  bench.settle();
  expect(bench.status("e1")).toBe("done");
  const late = bench.receipt(first);
  bench.settle();
  expect(bench.verdicts(late)).toEqual([["gone"]]);
  expect(bench.events("e1", "tasks.settled")).toHaveLength(1);
});

test("a clock that is set forward loses nobody: each has as much time left as before", () => {
  const { bench, first } = claimed();
  bench.started(first);
  bench.sleep(10_000);
  // An hour in a moment: timers that are due are due, silence is not.
  bench.now += 3_600_000;
  bench.input({ kind: "clock-stepped", ms: 3_600_000 });
  bench.sleep(14_000);
  expect(lost(bench)).toBe(0);
  bench.sleep(16_000);
  expect(lost(bench)).toBe(1);
});

test("C4 the same with steps: a claim that lapsed may step no more", () => {
  const { bench, first } = claimed();
  bench.sleep(40_000);
  const step = bench.step(first, "one");
  bench.settle();
  expect(bench.verdicts(step)).toEqual([["stale"]]);
});

test("C4 the first claim's late done does not undo the steps of the second", () => {
  const { bench, first } = claimed();
  bench.join("w2", ["w.a"], { local: false });
  bench.claim("w2", 1);
  bench.sleep(40_000);
  const second = bench.attempts()[1] as Attempt;
  bench.step(second, "one");
  bench.settle();
  const late = bench.receipt(first, { payload: "1" });
  bench.settle();
  expect(bench.verdicts(late)).toEqual([["stale"]]);
  const own = bench.receipt(second, { payload: "2" });
  bench.settle();
  expect(bench.verdicts(own)).toEqual([["accepted"]]);
  expect(bench.events("e1", "tasks.settled").flatMap(({ payloads }) => payloads)).toEqual(["2"]);
});

test("C5 started, and the worker dies: lost within its heartbeat and a sweep; the policy decides", () => {
  const { bench, first } = claimed({ retry: { crashes: 2 } });
  bench.started(first);
  bench.sleep(29_999);
  expect(lost(bench)).toBe(0);
  bench.sleep(5_001);
  expect(lost(bench)).toBe(1);
  expect(bench.of("cancel")).toMatchObject([{ worker: "w1", why: "lost" }]);
  bench.claim("w1", 1);
  bench.settle();
  const second = bench.attempts()[1] as Attempt;
  expect(second.item.attempt).toBe(2);
  bench.started(second);
  bench.sleep(40_000);
  expect(bench.events("e1", "tasks.settled")).toMatchObject([{ statuses: ["failed"], reasons: ["crashes"] }]);
});

test("C5 a script's finished runs are there for the next attempt", () => {
  const bench = new NodeFixture(SETTINGS);
  bench.join("w1", ["~script"], { local: false });
  bench.claim("w1", 1);
  const script = ["r0", "r1"].map((name) => ({ name, expression: "s => s" }));
  bench.start(bench.plan([{ name: "a", handlers: { a: { script } } }]), "e1");
  bench.settle();
  const first = bench.attempts()[0] as Attempt;
  bench.started(first);
  bench.run(first, 0, 1);
  bench.sleep(60_000);
  bench.claim("w1", 1);
  bench.settle();
  expect(bench.attempts()[1]?.item).toMatchObject({ attempt: 2, checkpoints: [{ kind: "run", name: "r0" }] });
});

describe("C21", () => {
  test("silent for three beats is lost", () => {
    const { bench, first } = claimed({ heartbeat: "9s" });
    bench.started(first);
    for (let beat = 0; beat < 5; beat++) {
      bench.sleep(3_000);
      bench.beat(first);
    }
    bench.settle();
    bench.sleep(8_999);
    expect(lost(bench)).toBe(0);
    bench.sleep(5_001);
    expect(lost(bench)).toBe(1);
  });

  test("a beat just before the sweep keeps it", () => {
    const { bench, first } = claimed();
    bench.started(first);
    bench.settle();
    for (let i = 0; i < 20; i++) {
      // The node is not woken in between: the beat comes first, whatever is due.
      bench.now += 29_999;
      bench.beat(first);
      bench.settle();
    }
    bench.now += 30_000;
    bench.beat(first);
    bench.settle();
    expect(lost(bench)).toBe(0);
  });

  test("each of many attempts by its own beats", () => {
    const bench = new NodeFixture(SETTINGS);
    bench.join("w1", ["w.a"], { local: false, capacity: 100 });
    bench.claim("w1", 10);
    bench.start(bench.plan([phase("a", { tasks: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] })]), "e1");
    bench.settle();
    const all = bench.attempts();
    bench.started(...all);
    for (let i = 0; i < 4; i++) {
      bench.sleep(10_000);
      for (const attempt of all.filter(({ item }) => item.number % 2 === 0)) bench.beat(attempt);
    }
    bench.settle();
    expect(bench.events("e1", "tasks.lost").flatMap(({ tasks }) => tasks)).toEqual([1, 3, 5, 7, 9]);
  });
});

describe("a worker that can be asked", () => {
  test("is asked once an attempt is silent, and before it is lost", () => {
    const { bench, first } = claimed({}, { asks: true });
    bench.started(first);
    bench.sleep(29_999);
    expect(asked(bench)).toEqual([]);
    bench.sleep(1_001);
    const { grant, item } = first;
    expect(asked(bench)).toEqual([
      {
        kind: "ask-worker",
        worker: "w1",
        attempts: [{ ...placeOf(grant), attempts: [{ task: 0, attempt: item.attempt, claim: item.claim }] }],
      },
    ]);
    expect(lost(bench)).toBe(0);
    // It does not answer.
    bench.sleep(5_000);
    expect([asked(bench).length, lost(bench)]).toEqual([1, 1]);
  });

  test("that vouches extends the attempt by a heartbeat, once; then it is lost", () => {
    const { bench, first } = claimed({}, { asks: true });
    bench.started(first);
    bench.sleep(31_000);
    vouch(bench, first);
    bench.sleep(29_000);
    expect(lost(bench)).toBe(0);
    bench.sleep(6_000);
    expect([asked(bench).length, lost(bench)]).toEqual([1, 1]);
  });

  test("is asked again after the attempt has beaten again", () => {
    const { bench, first } = claimed({}, { asks: true });
    bench.started(first);
    bench.sleep(31_000);
    vouch(bench, first);
    bench.beat(first);
    bench.sleep(31_000);
    expect(asked(bench)).toHaveLength(1);
    bench.sleep(3_000);
    expect([asked(bench).length, lost(bench)]).toEqual([2, 0]);
  });

  test("that vouches too late changes nothing", () => {
    const { bench, first } = claimed({}, { asks: true });
    bench.started(first);
    bench.sleep(45_000);
    expect(lost(bench)).toBe(1);
    vouch(bench, first);
    bench.sleep(60_000);
    expect(lost(bench)).toBe(1);
    expect(bench.node.openLeases).toBe(0);
  });

  test("that vouches for another attempt or for what it never had changes nothing", () => {
    const { bench, first } = claimed({}, { asks: true });
    bench.started(first);
    bench.sleep(31_000);
    vouch(bench, { ...first, item: { ...first.item, attempt: 2 } });
    vouch(bench, { ...first, grant: { ...first.grant, execution: "nobody" } });
    bench.sleep(5_000);
    expect(lost(bench)).toBe(1);
  });

  test("is not asked about a claim that never started, nor are workers without an address, nor those that left", () => {
    const unstarted = claimed({}, { asks: true }).bench;
    unstarted.sleep(60_000);
    expect(asked(unstarted)).toEqual([]);
    const deaf = claimed({}, { asks: false });
    deaf.bench.started(deaf.first);
    deaf.bench.sleep(35_000);
    expect([asked(deaf.bench).length, lost(deaf.bench)]).toEqual([0, 1]);
    const gone = claimed({}, { asks: true });
    gone.bench.started(gone.first);
    gone.bench.leave("w1");
    gone.bench.sleep(35_000);
    expect([asked(gone.bench).length, lost(gone.bench)]).toEqual([0, 1]);
  });

  test("is asked about a silent enumeration too", () => {
    const bench = new NodeFixture(SETTINGS);
    bench.join("w1", ["list"], { local: false, asks: true });
    bench.claim("w1", 1);
    bench.start(bench.plan([phase("a", { enumerate: { use: "list" } })]), "e1");
    bench.settle();
    const listing = bench.attempts()[0] as Attempt;
    bench.page(listing, 0, [1]);
    bench.sleep(31_000);
    expect(asked(bench)).toHaveLength(1);
    vouch(bench, listing);
    bench.sleep(20_000);
    expect(bench.events("e1", "handler.lost")).toHaveLength(0);
    bench.sleep(20_000);
    expect(bench.events("e1", "handler.lost")).toHaveLength(1);
  });
});

test("nothing to watch, nothing to wake for", () => {
  const bench = new NodeFixture({ ...SETTINGS, timerHorizonMs: 1e9 });
  bench.join("w1", ["w.a"]);
  bench.start(bench.plan([phase("a")]), "e1");
  bench.settle();
  bench.sleep(10_000);
  expect(bench.node.nextWakeAt()).toBeGreaterThan(bench.now + 1e8);
});
