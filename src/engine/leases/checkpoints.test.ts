// Steps, sleeps, waits and runs at a node: what grants carry, what a suspended task holds, and how it comes back.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const RUNS = ["r0", "r1", "r2"].map((name) => ({ name, expression: "s => s" }));
const sleepUntil = (untilMs: number, name = "nap") =>
  ({ status: "suspended", wait: { name, untilMs } }) as const;
const waitFor = (signal: string, timeoutMs?: number) =>
  ({ status: "suspended", wait: { name: signal, signal, ...(timeoutMs ? { timeoutMs } : {}) } }) as const;
const failed = { status: "failed", payload: '{"message":"boom"}', retryAfterMs: 0 } as const;

/** A fixture with one local worker that has the first task of one execution. */
function working(more: object = {}, settings: ConstructorParameters<typeof NodeFixture>[0] = {}) {
  const fixture = new NodeFixture(settings);
  fixture.join("w1", ["w.a"], { capacity: 4 });
  fixture.start(fixture.plan([phase("a", more)]), "e1");
  fixture.settle();
  return { fixture, first: fixture.attempts()[0] as Attempt };
}

const last = (fixture: NodeFixture) => fixture.attempts().at(-1) as Attempt;
const want = (fixture: NodeFixture, id = "e1") => fixture.tables.load([id])[0]?.head.want;
const rows = (fixture: NodeFixture) =>
  fixture.tables
    .scanTimers({ until: Number.MAX_SAFE_INTEGER, max: 1_000, partitions: null })
    .map(({ timer, due }) => [timer, due]);

describe("a grant", () => {
  test("of a first attempt carries no checkpoints", () => {
    expect(working().first.item.checkpoints).toBeNull();
  });

  test("of a later attempt carries what is journaled, as it was at the time", () => {
    const { fixture, first } = working();
    fixture.step(first, "one", 1);
    fixture.step(first, "two", 2);
    fixture.receipt(first, failed);
    fixture.settle();
    const steps = fixture.journal("e1").filter(({ event }) => event.kind === "task.step");
    const known = steps.map(({ seq }, i) => ({ kind: "step", name: i === 0 ? "one" : "two", seq }));
    const second = last(fixture);
    expect([second.item.attempt, second.item.checkpoints]).toEqual([2, known]);
    fixture.step(second, "three", 3);
    fixture.settle();
    expect(second.item.checkpoints).toEqual(known);
  });

  test("carries a sleep that is over as over, whatever the worker's clock says", () => {
    const { fixture, first } = working();
    fixture.receipt(first, sleepUntil(fixture.now + 5_000));
    fixture.sleep(5_000);
    expect(last(fixture).item.checkpoints).toEqual([{ kind: "sleep", name: "nap", due: 0 }]);
  });

  test("carries a sleep that is not over with its time: a retry may come before it", () => {
    const { fixture, first } = working();
    const due = fixture.now + 60_000;
    fixture.receipt(first, sleepUntil(due));
    fixture.settle();
    fixture.control("cancel", "e1");
    fixture.settle();
    fixture.control("retry", "e1");
    fixture.settle();
    expect(last(fixture).item.checkpoints).toEqual([{ kind: "sleep", name: "nap", due }]);
  });

  test("of a script carries its runs, its state and whether it resumes; a new attempt finds the finished ones", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["~script"]);
    const script = [{ ...(RUNS[0] as object), timeout: "5s" }, RUNS[1]];
    fixture.start(fixture.plan([{ name: "a", handlers: { a: { script, state: { n: 1 } } } }]), "e1");
    fixture.settle();
    const first = last(fixture);
    expect(first.grant).toMatchObject({
      do: "script",
      use: "~script",
      script: {
        runs: [
          { name: "r0", expression: "s => s", timeoutMs: 5_000 },
          { name: "r1", expression: "s => s", timeoutMs: null },
        ],
        state: '{"n":1}',
        resume: true,
      },
    });
    fixture.run(first, 0, { n: 2 });
    fixture.receipt(first, { ...failed, status: "crashed" });
    fixture.settle();
    expect(last(fixture).item.checkpoints).toMatchObject([{ kind: "run", name: "r0" }]);
  });

  test("of a batch carries its size, and as many tasks as make it whole", () => {
    const fixture = new NodeFixture({ quantum: 4 });
    fixture.join("w1", ["w.a"], { capacity: 100 });
    fixture.start(
      fixture.plan([phase("a", { tasks: Array.from({ length: 30 }, (_, i) => i), batch: 10 })]),
      "e1",
    );
    fixture.settle();
    expect(fixture.of("grant").map(({ grant }) => [grant.batch, grant.items.length])).toEqual([
      [10, 10],
      [10, 10],
      [10, 10],
    ]);
  });
});

describe("a step", () => {
  test("is accepted after its commit, and said twice is a duplicate", () => {
    const { fixture, first } = working();
    fixture.holdsCommits = true;
    const report = fixture.step(first, "one", 1);
    fixture.settle();
    expect(fixture.verdicts(report)).toBeUndefined();
    fixture.commit();
    fixture.settle();
    expect(fixture.verdicts(report)).toEqual([["accepted"]]);
    const again = fixture.step(first, "one", 1);
    fixture.settle();
    expect(fixture.verdicts(again)).toEqual([["duplicate"]]);
  });

  test("survives a commit of unknown outcome, once", () => {
    for (const outcome of ["loseCommit", "commitUnheard"] as const) {
      const { fixture, first } = working();
      fixture.holdsCommits = true;
      const report = fixture.step(first, "one", 1);
      fixture.settle();
      fixture[outcome]();
      fixture.holdsCommits = false;
      fixture.settle();
      expect(["accepted", "duplicate"], outcome).toContain(fixture.verdicts(report)?.[0]?.[0]);
      expect(fixture.events("e1", "task.step"), outcome).toHaveLength(1);
    }
  });

  test("counts as a sign of life of a remote attempt, and as its start", () => {
    const fixture = new NodeFixture({ sweepMs: 5_000 });
    fixture.join("w1", ["w.a"], { local: false });
    fixture.claim("w1", 1);
    fixture.start(fixture.plan([phase("a", { tasks: [1, 2] })]), "e1");
    fixture.settle();
    const first = last(fixture);
    for (let i = 0; i < 10; i++) {
      fixture.step(first, `s${i}`);
      fixture.sleep(20_000);
    }
    expect(fixture.of("cancel")).toHaveLength(0);
    expect(fixture.events("e1", "tasks.started")).toHaveLength(1);
    expect(fixture.events("e1", "tasks.lost")).toHaveLength(0);
  });

  test("of an attempt that lost its lease is stale, and not journaled", () => {
    const fixture = new NodeFixture({ sweepMs: 5_000 });
    fixture.join("w1", ["w.a"], { local: false });
    fixture.claim("w1", 1);
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.settle();
    const first = last(fixture);
    fixture.started(first);
    fixture.sleep(60_000);
    expect(fixture.events("e1", "tasks.lost")).toHaveLength(1);
    const report = fixture.step(first, "one");
    fixture.settle();
    expect(fixture.verdicts(report)).toEqual([["stale"]]);
    expect(fixture.events("e1", "task.step")).toHaveLength(0);
  });

  test("of another claim of the same attempt is stale", () => {
    const { fixture, first } = working();
    const report = fixture.step({ ...first, item: { ...first.item, claim: 7 } }, "one");
    fixture.settle();
    expect(fixture.verdicts(report)).toEqual([["stale"]]);
  });
});

describe("a suspended task", () => {
  test("holds no lease, no place at its worker and no permit", () => {
    const fixture = new NodeFixture({ projects: { default: { concurrency: 1 } } });
    fixture.join("w1", ["w.a"], { capacity: 1 });
    const limits = { concurrency: 1, key: "", concurrencyPerKey: 1, tasks: [1, 2, 3] };
    fixture.start(fixture.plan([phase("a", limits)]), "e1");
    const seen = fixture.work(() => sleepUntil(fixture.now + 60_000));
    expect(seen.map(({ item }) => item.number)).toEqual([0, 1, 2]);
    expect(fixture.node.openLeases).toBe(0);
    expect(fixture.node.overview().limits.filter(({ held }) => held > 0)).toEqual([]);
    expect(fixture.node.overview().workers).toMatchObject([{ held: 0 }]);
  });

  test("shows as waiting", () => {
    const { fixture, first } = working({ tasks: [1, 2] });
    fixture.receipt(first, waitFor("go"));
    fixture.settle();
    const handlers = fixture.inspect("e1").view.phases[0]?.handlers;
    expect(handlers).toMatchObject([{ waiting: 1, running: 1, retrying: 0, pending: 0 }]);
  });

  test("that sleeps is evicted, waits as a row in the store, and comes back at its time and not before", () => {
    const { fixture, first } = working({}, { idleMax: 0, timerHorizonMs: 1_000 });
    const due = fixture.now + 100_000;
    fixture.receipt(first, sleepUntil(due));
    fixture.settle();
    expect([fixture.node.residentCount, want(fixture), rows(fixture)]).toEqual([
      0,
      "time",
      [["~retry", due]],
    ]);
    fixture.sleep(99_999);
    expect(fixture.attempts()).toHaveLength(1);
    fixture.sleep(1);
    expect(last(fixture).item.attempt).toBe(2);
    fixture.receipt(last(fixture));
    fixture.settle();
    expect([fixture.status("e1"), rows(fixture)]).toEqual(["done", []]);
  });

  test("that sleeps comes back after a restart, clean or not", () => {
    for (const clean of [true, false]) {
      const { fixture, first } = working();
      fixture.receipt(first, sleepUntil(fixture.now + 100_000));
      fixture.settle();
      fixture.restart({ clean });
      fixture.join("w1", ["w.a"]);
      fixture.sleep(99_999);
      expect(fixture.attempts(), `clean: ${clean}`).toHaveLength(0);
      fixture.sleep(1);
      expect(fixture.attempts(), `clean: ${clean}`).toHaveLength(1);
    }
  });

  test("that waits for a signal is evicted, and the signal brings it back", () => {
    const { fixture, first } = working({}, { idleMax: 0 });
    fixture.receipt(first, waitFor("go"));
    fixture.settle();
    expect([fixture.node.residentCount, want(fixture), rows(fixture)]).toEqual([0, "time", []]);
    fixture.sleep(10_000_000);
    expect(fixture.attempts()).toHaveLength(1);
    fixture.signal("e1", "go", 7);
    fixture.settle();
    expect(last(fixture).item).toMatchObject({ attempt: 2, checkpoints: [{ kind: "step", name: "go" }] });
  });

  test("that waits for so long at most has a row, and its time brings it back", () => {
    const { fixture, first } = working({}, { idleMax: 0 });
    fixture.receipt(first, waitFor("go", 5_000));
    fixture.settle();
    expect(rows(fixture)).toEqual([["a.1.a.0", fixture.now + 5_000]]);
    fixture.restart();
    fixture.join("w1", ["w.a"]);
    fixture.sleep(5_000);
    expect(fixture.events("e1", "task.step")).toMatchObject([{ reason: "timer" }]);
    expect(last(fixture).item.checkpoints).toMatchObject([{ kind: "step", name: "go" }]);
    expect(rows(fixture)).toEqual([]);
  });

  test("does not run while paused, and runs on resume if its time has passed", () => {
    const { fixture, first } = working();
    fixture.receipt(first, sleepUntil(fixture.now + 5_000));
    fixture.settle();
    fixture.control("pause", "e1");
    fixture.sleep(60_000);
    expect(fixture.attempts()).toHaveLength(1);
    fixture.control("resume", "e1");
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(2);
  });

  test("is cancelled with its execution at once", () => {
    const { fixture, first } = working({ tasks: [1] }, { idleMax: 0 });
    fixture.receipt(first, waitFor("go", 5_000));
    fixture.settle();
    fixture.control("cancel", "e1");
    fixture.settle();
    expect([fixture.status("e1"), rows(fixture)]).toEqual(["cancelled", []]);
  });

  test("goes on with others of its handler: a thousand sleep while one worker does them in turn", () => {
    const fixture = new NodeFixture({ idleMax: 0 });
    fixture.join("w1", ["w.a"], { capacity: 8 });
    fixture.start(fixture.plan([phase("a", { tasks: Array.from({ length: 1_000 }, (_, i) => i) })]), "e1");
    const due = fixture.now + 10_000;
    const first = fixture.work(({ item }) => (item.attempt === 1 ? sleepUntil(due) : {}));
    expect(first).toHaveLength(1_000);
    expect(fixture.node.residentCount).toBe(0);
    fixture.sleep(9_999);
    fixture.now += 1;
    expect(fixture.work()).toHaveLength(1_000);
    expect(fixture.status("e1")).toBe("done");
  });

  test("that slept no time at all goes on at once", () => {
    const { fixture, first } = working();
    fixture.receipt(first, sleepUntil(fixture.now - 5));
    fixture.settle();
    expect(last(fixture).item.attempt).toBe(2);
  });
});

test("C8 late done after a loss: told to stop is the later attempt, unless it has journaled something", () => {
  for (const hasStep of [false, true]) {
    const fixture = new NodeFixture({ sweepMs: 5_000 });
    for (const worker of ["w1", "w2"]) fixture.join(worker, ["w.a"], { local: false });
    fixture.claim("w1", 1);
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.settle();
    const first = last(fixture);
    fixture.started(first);
    fixture.sleep(40_000);
    fixture.claim("w2", 1);
    fixture.settle();
    const second = last(fixture);
    expect([second.worker, second.item.attempt]).toEqual(["w2", 2]);
    fixture.started(second);
    if (hasStep) fixture.step(second, "one");
    fixture.settle();
    const late = fixture.receipt(first, { payload: "1" });
    fixture.settle();
    expect(fixture.verdicts(late)).toEqual([[hasStep ? "late" : "accepted"]]);
    const told = fixture.of("cancel").filter(({ worker }) => worker === "w2");
    expect(told).toHaveLength(hasStep ? 0 : 1);
    const own = fixture.receipt(second, { payload: "2" });
    fixture.settle();
    expect(fixture.verdicts(own)).toEqual([[hasStep ? "accepted" : "gone"]]);
    expect(fixture.events("e1", "tasks.settled").flatMap(({ payloads }) => payloads)).toEqual([
      hasStep ? "2" : "1",
    ]);
  }
});
