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

/** A bench with one local worker that has the first task of one execution. */
function working(more: object = {}, settings: ConstructorParameters<typeof NodeFixture>[0] = {}) {
  const bench = new NodeFixture(settings);
  bench.join("w1", ["w.a"], { capacity: 4 });
  bench.start(bench.plan([phase("a", more)]), "e1");
  bench.settle();
  return { bench, first: bench.attempts()[0] as Attempt };
}

const last = (bench: NodeFixture) => bench.attempts().at(-1) as Attempt;
const want = (bench: NodeFixture, id = "e1") => bench.tables.load([id])[0]?.head.want;
const rows = (bench: NodeFixture) =>
  bench.tables
    .scanTimers({ until: Number.MAX_SAFE_INTEGER, max: 1_000, partitions: null })
    .map(({ timer, due }) => [timer, due]);

describe("a grant", () => {
  test("of a first attempt carries no checkpoints", () => {
    expect(working().first.item.checkpoints).toBeNull();
  });

  test("of a later attempt carries what is journaled, as it was at the time", () => {
    const { bench, first } = working();
    bench.step(first, "one", 1);
    bench.step(first, "two", 2);
    bench.receipt(first, failed);
    bench.settle();
    const steps = bench.journal("e1").filter(({ event }) => event.kind === "task.step");
    const known = steps.map(({ seq }, i) => ({ kind: "step", name: i === 0 ? "one" : "two", seq }));
    const second = last(bench);
    expect([second.item.attempt, second.item.checkpoints]).toEqual([2, known]);
    bench.step(second, "three", 3);
    bench.settle();
    expect(second.item.checkpoints).toEqual(known);
  });

  test("carries a sleep that is over as over, whatever the worker's clock says", () => {
    const { bench, first } = working();
    bench.receipt(first, sleepUntil(bench.now + 5_000));
    bench.sleep(5_000);
    expect(last(bench).item.checkpoints).toEqual([{ kind: "sleep", name: "nap", due: 0 }]);
  });

  test("carries a sleep that is not over with its time: a retry may come before it", () => {
    const { bench, first } = working();
    const due = bench.now + 60_000;
    bench.receipt(first, sleepUntil(due));
    bench.settle();
    bench.control("cancel", "e1");
    bench.settle();
    bench.control("retry", "e1");
    bench.settle();
    expect(last(bench).item.checkpoints).toEqual([{ kind: "sleep", name: "nap", due }]);
  });

  test("of a script carries its runs, its state and whether it resumes; a new attempt finds the finished ones", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["~script"]);
    const script = [{ ...(RUNS[0] as object), timeout: "5s" }, RUNS[1]];
    bench.start(bench.plan([{ name: "a", handlers: { a: { script, state: { n: 1 } } } }]), "e1");
    bench.settle();
    const first = last(bench);
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
    bench.run(first, 0, { n: 2 });
    bench.receipt(first, { ...failed, status: "crashed" });
    bench.settle();
    expect(last(bench).item.checkpoints).toMatchObject([{ kind: "run", name: "r0" }]);
  });

  test("of a batch carries its size, and as many tasks as make it whole", () => {
    const bench = new NodeFixture({ quantum: 4 });
    bench.join("w1", ["w.a"], { capacity: 100 });
    bench.start(
      bench.plan([phase("a", { tasks: Array.from({ length: 30 }, (_, i) => i), batch: 10 })]),
      "e1",
    );
    bench.settle();
    expect(bench.of("grant").map(({ grant }) => [grant.batch, grant.items.length])).toEqual([
      [10, 10],
      [10, 10],
      [10, 10],
    ]);
  });
});

describe("a step", () => {
  test("is accepted after its commit, and said twice is a duplicate", () => {
    const { bench, first } = working();
    bench.holdsCommits = true;
    const report = bench.step(first, "one", 1);
    bench.settle();
    expect(bench.verdicts(report)).toBeUndefined();
    bench.commit();
    bench.settle();
    expect(bench.verdicts(report)).toEqual([["accepted"]]);
    const again = bench.step(first, "one", 1);
    bench.settle();
    expect(bench.verdicts(again)).toEqual([["duplicate"]]);
  });

  test("survives a commit of unknown outcome, once", () => {
    for (const outcome of ["loseCommit", "commitUnheard"] as const) {
      const { bench, first } = working();
      bench.holdsCommits = true;
      const report = bench.step(first, "one", 1);
      bench.settle();
      bench[outcome]();
      bench.holdsCommits = false;
      bench.settle();
      expect(["accepted", "duplicate"], outcome).toContain(bench.verdicts(report)?.[0]?.[0]);
      expect(bench.events("e1", "task.step"), outcome).toHaveLength(1);
    }
  });

  test("counts as a sign of life of a remote attempt, and as its start", () => {
    const bench = new NodeFixture({ sweepMs: 5_000 });
    bench.join("w1", ["w.a"], { local: false });
    bench.claim("w1", 1);
    bench.start(bench.plan([phase("a", { tasks: [1, 2] })]), "e1");
    bench.settle();
    const first = last(bench);
    for (let i = 0; i < 10; i++) {
      bench.step(first, `s${i}`);
      bench.sleep(20_000);
    }
    expect(bench.of("cancel")).toHaveLength(0);
    expect(bench.events("e1", "tasks.started")).toHaveLength(1);
    expect(bench.events("e1", "tasks.lost")).toHaveLength(0);
  });

  test("of an attempt that lost its lease is stale, and not journaled", () => {
    const bench = new NodeFixture({ sweepMs: 5_000 });
    bench.join("w1", ["w.a"], { local: false });
    bench.claim("w1", 1);
    bench.start(bench.plan([phase("a")]), "e1");
    bench.settle();
    const first = last(bench);
    bench.started(first);
    bench.sleep(60_000);
    expect(bench.events("e1", "tasks.lost")).toHaveLength(1);
    const report = bench.step(first, "one");
    bench.settle();
    expect(bench.verdicts(report)).toEqual([["stale"]]);
    expect(bench.events("e1", "task.step")).toHaveLength(0);
  });

  test("of another claim of the same attempt is stale", () => {
    const { bench, first } = working();
    const report = bench.step({ ...first, item: { ...first.item, claim: 7 } }, "one");
    bench.settle();
    expect(bench.verdicts(report)).toEqual([["stale"]]);
  });
});

describe("a suspended task", () => {
  test("holds no lease, no place at its worker and no permit", () => {
    const bench = new NodeFixture({ projects: { default: { concurrency: 1 } } });
    bench.join("w1", ["w.a"], { capacity: 1 });
    const limits = { concurrency: 1, key: "", concurrencyPerKey: 1, tasks: [1, 2, 3] };
    bench.start(bench.plan([phase("a", limits)]), "e1");
    const seen = bench.work(() => sleepUntil(bench.now + 60_000));
    expect(seen.map(({ item }) => item.number)).toEqual([0, 1, 2]);
    expect(bench.node.openLeases).toBe(0);
    expect(bench.node.overview().limits.filter(({ held }) => held > 0)).toEqual([]);
    expect(bench.node.overview().workers).toMatchObject([{ held: 0 }]);
  });

  test("shows as waiting", () => {
    const { bench, first } = working({ tasks: [1, 2] });
    bench.receipt(first, waitFor("go"));
    bench.settle();
    const handlers = bench.inspect("e1").view.phases[0]?.handlers;
    expect(handlers).toMatchObject([{ waiting: 1, running: 1, retrying: 0, pending: 0 }]);
  });

  test("that sleeps is evicted, waits as a row in the store, and comes back at its time and not before", () => {
    const { bench, first } = working({}, { idleMax: 0, timerHorizonMs: 1_000 });
    const due = bench.now + 100_000;
    bench.receipt(first, sleepUntil(due));
    bench.settle();
    expect([bench.node.residentCount, want(bench), rows(bench)]).toEqual([0, "time", [["~retry", due]]]);
    bench.sleep(99_999);
    expect(bench.attempts()).toHaveLength(1);
    bench.sleep(1);
    expect(last(bench).item.attempt).toBe(2);
    bench.receipt(last(bench));
    bench.settle();
    expect([bench.status("e1"), rows(bench)]).toEqual(["done", []]);
  });

  test("that sleeps comes back after a restart, clean or not", () => {
    for (const clean of [true, false]) {
      const { bench, first } = working();
      bench.receipt(first, sleepUntil(bench.now + 100_000));
      bench.settle();
      bench.restart({ clean });
      bench.join("w1", ["w.a"]);
      bench.sleep(99_999);
      expect(bench.attempts(), `clean: ${clean}`).toHaveLength(0);
      bench.sleep(1);
      expect(bench.attempts(), `clean: ${clean}`).toHaveLength(1);
    }
  });

  test("that waits for a signal is evicted, and the signal brings it back", () => {
    const { bench, first } = working({}, { idleMax: 0 });
    bench.receipt(first, waitFor("go"));
    bench.settle();
    expect([bench.node.residentCount, want(bench), rows(bench)]).toEqual([0, "time", []]);
    bench.sleep(10_000_000);
    expect(bench.attempts()).toHaveLength(1);
    bench.signal("e1", "go", 7);
    bench.settle();
    expect(last(bench).item).toMatchObject({ attempt: 2, checkpoints: [{ kind: "step", name: "go" }] });
  });

  test("that waits for so long at most has a row, and its time brings it back", () => {
    const { bench, first } = working({}, { idleMax: 0 });
    bench.receipt(first, waitFor("go", 5_000));
    bench.settle();
    expect(rows(bench)).toEqual([["a.1.a.0", bench.now + 5_000]]);
    bench.restart();
    bench.join("w1", ["w.a"]);
    bench.sleep(5_000);
    expect(bench.events("e1", "task.step")).toMatchObject([{ reason: "timer" }]);
    expect(last(bench).item.checkpoints).toMatchObject([{ kind: "step", name: "go" }]);
    expect(rows(bench)).toEqual([]);
  });

  test("does not run while paused, and runs on resume if its time has passed", () => {
    const { bench, first } = working();
    bench.receipt(first, sleepUntil(bench.now + 5_000));
    bench.settle();
    bench.control("pause", "e1");
    bench.sleep(60_000);
    expect(bench.attempts()).toHaveLength(1);
    bench.control("resume", "e1");
    bench.settle();
    expect(bench.attempts()).toHaveLength(2);
  });

  test("is cancelled with its execution at once", () => {
    const { bench, first } = working({ tasks: [1] }, { idleMax: 0 });
    bench.receipt(first, waitFor("go", 5_000));
    bench.settle();
    bench.control("cancel", "e1");
    bench.settle();
    expect([bench.status("e1"), rows(bench)]).toEqual(["cancelled", []]);
  });

  test("goes on with others of its handler: a thousand sleep while one worker does them in turn", () => {
    const bench = new NodeFixture({ idleMax: 0 });
    bench.join("w1", ["w.a"], { capacity: 8 });
    bench.start(bench.plan([phase("a", { tasks: Array.from({ length: 1_000 }, (_, i) => i) })]), "e1");
    const due = bench.now + 10_000;
    const first = bench.work(({ item }) => (item.attempt === 1 ? sleepUntil(due) : {}));
    expect(first).toHaveLength(1_000);
    expect(bench.node.residentCount).toBe(0);
    bench.sleep(9_999);
    bench.now += 1;
    expect(bench.work()).toHaveLength(1_000);
    expect(bench.status("e1")).toBe("done");
  });

  test("that slept no time at all goes on at once", () => {
    const { bench, first } = working();
    bench.receipt(first, sleepUntil(bench.now - 5));
    bench.settle();
    expect(last(bench).item.attempt).toBe(2);
  });
});

test("C8 late done after a loss: told to stop is the later attempt, unless it has journaled something", () => {
  for (const hasStep of [false, true]) {
    const bench = new NodeFixture({ sweepMs: 5_000 });
    for (const worker of ["w1", "w2"]) bench.join(worker, ["w.a"], { local: false });
    bench.claim("w1", 1);
    bench.start(bench.plan([phase("a")]), "e1");
    bench.settle();
    const first = last(bench);
    bench.started(first);
    bench.sleep(40_000);
    bench.claim("w2", 1);
    bench.settle();
    const second = last(bench);
    expect([second.worker, second.item.attempt]).toEqual(["w2", 2]);
    bench.started(second);
    if (hasStep) bench.step(second, "one");
    bench.settle();
    const late = bench.receipt(first, { payload: "1" });
    bench.settle();
    expect(bench.verdicts(late)).toEqual([[hasStep ? "late" : "accepted"]]);
    const told = bench.of("cancel").filter(({ worker }) => worker === "w2");
    expect(told).toHaveLength(hasStep ? 0 : 1);
    const own = bench.receipt(second, { payload: "2" });
    bench.settle();
    expect(bench.verdicts(own)).toEqual([[hasStep ? "accepted" : "gone"]]);
    expect(bench.events("e1", "tasks.settled").flatMap(({ payloads }) => payloads)).toEqual([
      hasStep ? "2" : "1",
    ]);
  }
});
