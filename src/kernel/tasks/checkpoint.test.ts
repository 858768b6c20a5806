// Steps and runs inside a task: journaled once, found by later attempts, never by a stale one (DESIGN 3.2, 6; C6, C8).
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type GivenAttempt, KernelRun, phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import type { Verdict } from "../message.ts";
import { CHECKPOINTS_MAX, type Checkpoint, ProgressTable } from "./checkpoint.ts";

const RUNS = ["r0", "r1", "r2"].map((name) => ({ name, expression: "s => s" }));
const one = (more: object = {}) => new KernelRun([phase("a", more)]);
const script = (more: object = {}) =>
  new KernelRun([{ name: "a", handlers: { a: { script: RUNS, ...more } } }]);
const progress = (run: KernelRun, task = 0) => run.handler("a").progress.tasks.get(task);
const names = (run: KernelRun, task = 0) => progress(run, task)?.checkpoints.map(({ name }) => name) ?? [];

describe("a step", () => {
  test("is journaled with its result, and its place is kept", () => {
    const run = one();
    expect(run.stepDone("a", 0, { name: "fetch", result: { ok: true } })).toBe("accepted");
    expect(run.of("task.step")).toEqual([
      {
        kind: "task.step",
        phase: "a",
        visit: 1,
        handler: "a",
        task: 0,
        attempt: 1,
        name: "fetch",
        result: '{"ok":true}',
        error: null,
        reason: "done",
      },
    ]);
    const { attempt, round, checkpoints, waits } = progress(run) ?? {};
    expect({ attempt, round, checkpoints, waits }).toEqual({
      attempt: 1,
      round: 1,
      checkpoints: [{ kind: "step", name: "fetch", seq: run.execution.seq }],
      waits: [],
    });
  });

  test("sent twice is journaled once", () => {
    const run = one();
    run.stepDone("a", 0, { name: "fetch", result: 1 });
    const { seq } = run.execution;
    expect(run.stepDone("a", 0, { name: "fetch", result: 2 })).toBe("duplicate");
    expect(run.execution.seq).toBe(seq);
  });

  test("ends no attempt and settles nothing", () => {
    const run = one();
    run.stepDone("a", 0);
    expect(run.handler("a").tasks.ended(0)).toBe(0);
    expect(run.handler("a").tasks.fails(0)).toBe(0);
    expect(run.status).toBe("running");
    expect(run.done("a", 0)).toEqual(["accepted"]);
    expect(run.status).toBe("done");
  });

  test("is found by the attempt after one that failed, that crashed, that was lost, that was handed back", () => {
    for (const end of ["failed", "crashed", "killed", "exception", "cancelled"] as const) {
      const run = one();
      run.stepDone("a", 0, { name: "first" });
      run.receipt("a", 0, { status: end, payload: "{}" });
      expect(names(run), end).toEqual(["first"]);
      run.now += 60_000;
      expect(run.stepDone("a", 0, { name: "second", attempt: 2 }), end).toBe("accepted");
      expect(progress(run)?.attempt, end).toBe(2);
    }
    const run = one();
    run.stepDone("a", 0, { name: "first" });
    run.lost("a", 0);
    expect(names(run)).toEqual(["first"]);
  });

  test("is kept over a retry of the execution, whatever ended it", () => {
    const run = one({ retry: { attempts: 1 } });
    run.stepDone("a", 0, { name: "first" });
    run.fail("a", 0);
    run.drained();
    expect(run.status).toBe("failed");
    run.control("retry");
    expect(names(run)).toEqual(["first"]);
    expect(run.stepDone("a", 0, { name: "first" })).toBe("duplicate");
  });

  test("is forgotten once its task is done", () => {
    const run = new KernelRun([phase("a", { tasks: [1, 2] })]);
    run.stepDone("a", 0);
    run.stepDone("a", 1);
    run.done("a", 0);
    expect([...run.handler("a").progress.tasks.keys()]).toEqual([1]);
  });

  test("of one task is not a step of another", () => {
    const run = new KernelRun([phase("a", { tasks: [1, 2] })]);
    expect(run.stepDone("a", 0, { name: "s" })).toBe("accepted");
    expect(run.stepDone("a", 1, { name: "s" })).toBe("accepted");
  });

  test("counts while the phase fails, and while it is paused", () => {
    const failing = new KernelRun([phase("a", { tasks: [1, 2], retry: { attempts: 1 } })]);
    failing.fail("a", 0);
    expect(failing.execution.draining).toBe(true);
    expect(failing.stepDone("a", 1)).toBe("accepted");
    const paused = one();
    paused.control("pause");
    expect(paused.stepDone("a", 0)).toBe("accepted");
  });
});

describe("a step that has no right any more is not journaled:", () => {
  const table: [what: string, prepare: (run: KernelRun) => void, given: GivenAttempt, verdict: Verdict][] = [
    ["its attempt lost its lease", () => {}, { live: false }, "stale"],
    ["its attempt is lost", (run) => void run.lost("a", 0), { attempt: 1, live: false }, "stale"],
    ["its attempt was lost and claims to live", (run) => void run.lost("a", 0), { attempt: 1 }, "stale"],
    ["its attempt failed before", (run) => void run.fail("a", 0), { attempt: 1 }, "stale"],
    [
      "its attempt was suspended before",
      (run) => void run.suspend("a", 0, { untilMs: 5_000 }),
      { attempt: 1 },
      "stale",
    ],
    ["its task is done", (run) => void run.done("a", 0), { attempt: 1 }, "stale"],
    ["its round is not the present one", () => {}, { round: 2 }, "stale"],
  ];
  test.each(table)("%s", (_what, prepare, given, verdict) => {
    const run = new KernelRun([phase("a", { tasks: [1, 2] })]);
    prepare(run);
    const { seq } = run.execution;
    expect(run.stepDone("a", 0, given)).toBe(verdict);
    expect(run.execution.seq).toBe(seq);
  });

  test("its attempt lost its lease, though it is journaled: it must not go on, with a value of its own", () => {
    const run = new KernelRun([phase("a", { tasks: [1, 2] })]);
    run.stepDone("a", 0, { result: 1 });
    run.lost("a", 0);
    expect(run.stepDone("a", 0, { result: 2, attempt: 1, live: false })).toBe("stale");
    expect(run.stepDone("a", 0, { result: 2, attempt: 2, live: false })).toBe("stale");
    expect(run.stepDone("a", 0, { result: 2, attempt: 2 })).toBe("duplicate");
  });

  test.each([-1, 2, 1.5, Number.NaN])("its task is none: %s", (task) => {
    const run = new KernelRun([phase("a", { tasks: [1, 2] })]);
    expect(run.stepDone("a", task, { attempt: 1 })).toBe("stale");
    expect(run.of("task.step")).toHaveLength(0);
  });

  test("its phase is over", () => {
    const run = new KernelRun([phase("a"), phase("b")]);
    run.done("a", 0);
    expect(run.stepDone("a/1/a", 0)).toBe("gone");
    run.done("b", 0);
    expect(run.stepDone("b/1/b", 0)).toBe("gone");
  });

  test("its handler sleeps, waits or has children: no worker takes those", () => {
    for (const handler of [{ sleep: 1_000 }, { waitFor: "go" }, { workflow: "kid" }]) {
      const run = new KernelRun([{ name: "a", handlers: { a: handler } }]);
      expect(run.stepDone("a", 0), JSON.stringify(handler)).toBe("stale");
    }
  });
});

describe("at the limit of checkpoints", () => {
  const full = () => {
    const run = one({ retry: { attempts: 1 } });
    for (let i = 0; i < CHECKPOINTS_MAX; i++)
      expect(run.stepDone("a", 0, { name: `s${i}` })).toBe("accepted");
    return run;
  };

  test("a further step is refused, and one that is journaled is still a duplicate", () => {
    const run = full();
    expect(run.stepDone("a", 0, { name: "more" })).toBe("stale");
    expect(run.stepDone("a", 0, { name: "s7" })).toBe("duplicate");
    expect(run.done("a", 0)).toEqual(["accepted"]);
    expect(run.status).toBe("done");
  });

  test.each([
    ["sleep", { name: "more", untilMs: 9_000 }],
    ["wait", { name: "more", signal: "go" }],
  ])("a further %s fails the task for good", (_what, wait) => {
    const run = full();
    expect(run.suspend("a", 0, wait)).toBe("accepted");
    expect(run.of("tasks.waiting")).toHaveLength(0);
    const [settled] = run.of("tasks.settled");
    expect(settled?.reasons).toEqual(["fatal"]);
    expect(settled?.payloads[0]).toContain(`at most ${CHECKPOINTS_MAX}`);
  });

  test("a sleep that is journaled may be slept again", () => {
    const run = one();
    run.suspend("a", 0, { name: "nap", untilMs: 5_000 });
    for (let i = 1; i < CHECKPOINTS_MAX; i++) run.stepDone("a", 0, { name: `s${i}` });
    expect(run.suspend("a", 0, { name: "nap", untilMs: 9_000 })).toBe("accepted");
    expect(run.of("tasks.waiting")).toHaveLength(2);
    expect(progress(run)?.checkpoints).toHaveLength(CHECKPOINTS_MAX);
  });
});

describe("runs of a script", () => {
  test("are journaled in order with their states, and a new attempt finds them", () => {
    const run = script();
    expect(run.runDone("a", 0, { index: 0, state: 1 })).toBe("accepted");
    expect(run.runDone("a", 0, { index: 1, state: 2, oversized: true })).toBe("accepted");
    run.receipt("a", 0, { status: "crashed", payload: "{}" });
    expect(names(run)).toEqual(["r0", "r1"]);
    expect(run.of("task.run").map(({ state, oversized }) => [state, oversized])).toEqual([
      ["1", false],
      ["2", true],
    ]);
    expect(run.runDone("a", 0, { index: 2, state: 3, attempt: 2 })).toBe("accepted");
    expect(run.done("a", 0)).toEqual(["accepted"]);
    expect(run.status).toBe("done");
  });

  test("C6 sent twice are journaled once", () => {
    const run = script();
    run.runDone("a", 0, { index: 0 });
    expect(run.runDone("a", 0, { index: 0 })).toBe("duplicate");
    run.receipt("a", 0, { status: "crashed", payload: "{}" });
    expect(run.runDone("a", 0, { index: 0, attempt: 2 })).toBe("duplicate");
    expect(run.of("task.run")).toHaveLength(1);
  });

  test("where it does not resume, count anew in each attempt, and what came before is void", () => {
    const run = script({ resume: false });
    for (const index of [0, 1, 2]) run.runDone("a", 0, { index, state: index });
    run.receipt("a", 0, { status: "crashed", payload: "{}" });
    expect(run.runDone("a", 0, { index: 0, attempt: 2 })).toBe("accepted");
    expect(names(run)).toEqual(["r0"]);
    expect(run.runDone("a", 0, { index: 0, attempt: 2 })).toBe("duplicate");
    expect(run.runDone("a", 0, { index: 1, attempt: 2 })).toBe("accepted");
    expect(names(run)).toEqual(["r0", "r1"]);
    expect(run.runDone("a", 0, { index: 2, attempt: 1, live: false })).toBe("stale");
  });

  test("where it does not resume, a script of the most runs can be done again from the first", () => {
    const most = 1_000;
    const runs = Array.from({ length: most }, (_, i) => ({ name: `r${i}`, expression: "s => s" }));
    const run = new KernelRun([{ name: "a", handlers: { a: { script: runs, resume: false } } }]);
    for (let index = 0; index < most; index++) run.runDone("a", 0, { index });
    run.receipt("a", 0, { status: "crashed", payload: "{}" });
    expect(run.runDone("a", 0, { index: 0, attempt: 2 })).toBe("accepted");
  });

  test("have names apart from those of steps", () => {
    const table = new ProgressTable();
    table.note({ task: 0, attempt: 1, round: 1 }, { kind: "step", name: "x", seq: 1 });
    table.noteRun({ task: 0, attempt: 1, round: 1 }, { index: 0, name: "x", seq: 2 });
    table.note({ task: 0, attempt: 1, round: 1 }, { kind: "step", name: "x", seq: 3 });
    expect(table.tasks.get(0)?.checkpoints).toContainEqual({ kind: "run", name: "x", seq: 2 });
  });
});

describe("late words after a later attempt (C8)", () => {
  const later: [what: string, act: (run: KernelRun) => void, isPassed: boolean][] = [
    ["nothing", () => {}, false],
    ["a start", (run) => void run.started("a", 0), false],
    ["a failure", (run) => void run.fail("a", 0), false],
    ["a step", (run) => void run.stepDone("a", 0), true],
    ["a step and a failure", (run) => (run.stepDone("a", 0), void run.fail("a", 0)), true],
    ["a sleep", (run) => void run.suspend("a", 0, { untilMs: 9_000 }), true],
    ["a wait", (run) => void run.suspend("a", 0, { signal: "go" }), true],
  ];
  test.each(later)("after %s of the next attempt", (_what, act, isPassed) => {
    const run = new KernelRun([phase("a", { tasks: [1, 2] })]);
    run.lost("a", 0);
    act(run);
    const verdict = run.receipt("a", 0, { attempt: 1, live: false, payload: "7" });
    expect(verdict).toBe(isPassed ? "late" : "accepted");
    expect(run.handler("a").tasks.settled.has(0)).toBe(!isPassed);
    expect(run.of("tasks.late").map(({ accepted }) => accepted)).toEqual([[!isPassed]]);
    // The attempt has used its one receipt.
    expect(run.receipt("a", 0, { attempt: 1, live: false, payload: "7" })).toBe("duplicate");
  });

  test("after a run of the next attempt", () => {
    const run = script({ retry: { attempts: 9 } });
    run.lost("a", 0);
    run.runDone("a", 0, { index: 0 });
    expect(run.receipt("a", 0, { attempt: 1, live: false })).toBe("late");
    expect(run.status).toBe("running");
  });

  test("of a claim that lapsed, after the next claim of the same attempt has journaled something", () => {
    for (const act of [
      (run: KernelRun) => void run.stepDone("a", 0),
      (run: KernelRun) => void run.started("a", 0),
    ]) {
      const run = new KernelRun([phase("a", { tasks: [1, 2] })]);
      act(run);
      const isPassed = run.of("task.step").length > 0;
      // The two claims differ only in that this one has no lease.
      expect(run.receipt("a", 0, { attempt: 1, live: false })).toBe(isPassed ? "stale" : "accepted");
      expect(run.handler("a").tasks.settled.has(0)).toBe(!isPassed);
      expect(run.receipt("a", 0, { attempt: 1 })).toBe(isPassed ? "accepted" : "duplicate");
    }
  });

  test("its own steps are no later ones", () => {
    const run = one();
    run.stepDone("a", 0);
    run.lost("a", 0);
    expect(run.receipt("a", 0, { attempt: 1, live: false })).toBe("accepted");
    expect(run.status).toBe("done");
  });

  test("of an earlier round count unless the present round has journaled something, even under the same number", () => {
    for (const act of [
      (run: KernelRun) => void run.stepDone("a", 0, { name: "now" }),
      (run: KernelRun) => void run.suspend("a", 0, { signal: "go", timeoutMs: 500 }),
      null,
    ]) {
      const run = new KernelRun([phase("a", { tasks: [1, 2] })]);
      // Attempt 1 of task 0 is open when the execution is cancelled; its worker says nothing.
      run.stepDone("a", 0, { name: "before" });
      run.control("cancel");
      run.drained();
      run.control("retry");
      expect(run.handler("a").tasks.nextAttempt(0)).toBe(1);
      act?.(run);
      const verdict = run.receipt("a", 0, { attempt: 1, round: 1, live: false });
      expect(run.handler("a").tasks.settled.has(0)).toBe(act === null);
      if (act === null) expect(verdict).toBe("accepted");
      else expect(verdict).not.toBe("accepted");
    }
  });
});

test("a table of checkpoints is what it was after it was written and read, in whatever order things came", () => {
  const act = fc.oneof(
    fc.record({ kind: fc.constant("step" as const), task: fc.nat(4), name: fc.nat(3) }),
    fc.record({ kind: fc.constant("sleep" as const), task: fc.nat(4), name: fc.nat(3) }),
    fc.record({ kind: fc.constant("run" as const), task: fc.nat(4), name: fc.nat(3) }),
    fc.record({ kind: fc.constant("wait" as const), task: fc.nat(4), name: fc.nat(1) }),
    fc.record({ kind: fc.constant("stop" as const), task: fc.nat(4), name: fc.constant(0) }),
    fc.record({ kind: fc.constant("forget" as const), task: fc.nat(4), name: fc.constant(0) }),
  );
  fc.assert(
    fc.property(fc.array(act, { maxLength: 40 }), (acts) => {
      const table = new ProgressTable();
      acts.forEach(({ kind, task, name }, seq) => {
        if (kind === "wait" || kind === "stop") table.stopWaiting(task);
        if (kind === "wait")
          table.wait({ task: task, attempt: 1, round: 1 }, [
            { name: "w", due: null, signals: [`g${name}`], alone: true },
            ...(seq % 3 === 0 ? [{ name: "v", due: null, signals: ["g0"] }] : []),
          ]);
        else if (kind === "forget") table.forget(task);
        else if (kind === "run")
          table.noteRun({ task: task, attempt: 1, round: 1 }, { index: name, name: `r${name}`, seq });
        else if (kind !== "stop") {
          const checkpoint: Exclude<Checkpoint, { kind: "run" }> =
            kind === "step"
              ? { kind, name: `n${name}`, seq }
              : { kind, name: `n${name}`, due: 1_000 * (seq + 1) };
          table.note({ task: task, attempt: 1, round: 1 }, checkpoint);
        }
      });
      const read = ProgressTable.fromSnapshot(table.toSnapshot());
      expect(read.toSnapshot()).toEqual(table.toSnapshot());
      expect(drainWaits(read)).toEqual(drainWaits(table));
      for (const now of [0, 5_000, 50_000]) {
        expect(read.countWaiting(now)).toBe(table.countWaiting(now));
        expect(read.countSleeping(now)).toBe(table.countSleeping(now));
      }
    }),
  );
});

/** The tasks that would get the signals, in order. */
function drainWaits(table: ProgressTable): string[] {
  const order: string[] = [];
  for (const signal of ["g0", "g1"]) {
    const first = () => table.firstWaitingFor({ signal, data: "null" }, 0)?.task;
    for (let task = first(); task !== undefined; task = first()) {
      order.push(`${signal}: ${task}`);
      table.stopWaiting(task);
    }
  }
  return order;
}
