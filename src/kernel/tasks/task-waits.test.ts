// Sleeps and waits inside a task: the attempt ends as suspended, no budget is used, the answer is a step (DESIGN 3.1, 3.2).
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { KernelRun } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import {
  answers,
  counts,
  replayed,
  tasks,
  waiting,
} from "../../../test/fixtures/kernel/task-waits-fixture.ts";
import { restore } from "../journal/replay.ts";
import { writeSnapshot } from "../journal/snapshot.ts";

describe("a sleep", () => {
  test("burns nothing, and its task may run again once its time has come", () => {
    const run = tasks(2);
    expect(run.suspend("a", 0, { name: "nap", untilMs: 5_000 })).toBe("accepted");
    const { tasks: table } = run.handler("a");
    expect([table.ended(0), table.fails(0), table.crashes(0), table.until(0)]).toEqual([1, 0, 0, 5_000]);
    expect(counts(run)).toEqual([1, 0, 0, 1, 0, 0]);
    expect(table.takeDue(4_999, 9)).toEqual([]);
    expect(table.takeDue(5_000, 9)).toEqual([0]);
    run.now = 5_000;
    expect(counts(run)).toEqual([2, 0, 0, 0, 0, 0]);
    expect(run.done("a", 0, 1)).toEqual(["accepted", "accepted"]);
    expect(run.status).toBe("done");
  });

  test("is a checkpoint for the attempts after it, and needs no timer of its own", () => {
    const run = tasks(1);
    run.suspend("a", 0, { name: "nap", untilMs: 5_000 });
    expect(run.handler("a").progress.tasks.get(0)?.checkpoints).toEqual([
      { kind: "sleep", name: "nap", due: 5_000 },
    ]);
    expect(run.execution.timers.size).toBe(0);
    expect(run.of("tasks.waiting")).toMatchObject([
      { tasks: [0], attempts: [1], names: ["nap"], dues: [5_000], signals: [null] },
    ]);
  });

  test("does not count as a failure, however often", () => {
    const run = tasks(1, { retry: { attempts: 1, crashes: 1 } });
    for (let n = 1; n <= 50; n++) {
      expect(run.suspend("a", 0, { name: `nap${n}`, untilMs: run.now + 10 }), `${n}`).toBe("accepted");
      run.now += 10;
    }
    expect(run.handler("a").tasks.nextAttempt(0)).toBe(51);
    run.done("a", 0);
    expect(run.status).toBe("done");
  });

  test.each([
    ["in the past is over at once", { untilMs: 10 }, 10],
    [
      "by its length counts from the receipt, whatever the worker's clock says",
      { untilMs: 10, forMs: 500 },
      1_500,
    ],
    ["of no length is over at once", {}, 1_000],
    ["beyond all bounds is cut", { untilMs: Number.MAX_SAFE_INTEGER }, expect.any(Number)],
  ])("%s", (_what, wait, due) => {
    const run = tasks(1);
    run.suspend("a", 0, wait);
    expect(waiting(run)?.due).toEqual(due);
    expect(waiting(run)?.due).toBeLessThan(Number.MAX_SAFE_INTEGER / 2);
  });

  test("goes on while the execution is paused", () => {
    const run = tasks(1);
    run.control("pause");
    expect(run.suspend("a", 0, { untilMs: 5_000 })).toBe("accepted");
    expect(waiting(run)?.due).toBe(5_000);
  });

  test.each([
    ["stale", { live: false }],
    ["duplicate", { attempt: 1 }],
    ["stale", { round: 2 }],
  ] as const)("of an attempt without a lease is %s: %j", (verdict, given) => {
    const run = tasks(1);
    if (verdict === "duplicate") run.suspend("a", 0, { untilMs: 5_000 });
    const { seq } = run.execution;
    expect(run.suspend("a", 0, { untilMs: 9_000, ...given })).toBe(verdict);
    expect(run.execution.seq).toBe(seq);
  });

  test("of a lost attempt is noted as late, and the task does not wait", () => {
    const run = tasks(1);
    run.lost("a", 0);
    expect(run.suspend("a", 0, { untilMs: 9_000, attempt: 1, live: false })).toBe("late");
    expect(run.of("tasks.late")).toMatchObject([{ statuses: ["suspended"], accepted: [false] }]);
    expect(waiting(run)).toBeNull();
  });
});

describe("a wait for a signal", () => {
  test("is answered by a signal, as a step that later attempts find", () => {
    const run = tasks(1);
    expect(run.suspend("a", 0, { name: "go", signal: "go" })).toBe("accepted");
    expect(counts(run)).toEqual([0, 0, 0, 1, 0, 0]);
    expect(run.handler("a").tasks.takeDue(Number.MAX_SAFE_INTEGER, 9)).toEqual([]);
    run.signal("go", { n: 1 });
    expect(answers(run)).toEqual([{ task: 0, name: "go", reason: "signalled", result: '{"n":1}' }]);
    expect(run.handler("a").tasks.takeDue(run.now, 9)).toEqual([0]);
    expect(counts(run)).toEqual([1, 0, 0, 0, 0, 0]);
    expect(run.execution.signalCount).toBe(0);
    expect(run.execution.signalBytes).toBe(0);
  });

  test("takes a signal that came before it, the oldest, and only one", () => {
    const run = tasks(1);
    run.signal("go", 1);
    run.signal("go", 2);
    run.suspend("a", 0, { name: "first", signal: "go", timeoutMs: 9_000 });
    expect(answers(run)).toEqual([{ task: 0, name: "first", reason: "signalled", result: "1" }]);
    expect(run.of("timer.set")).toHaveLength(0);
    run.suspend("a", 0, { name: "second", signal: "go" });
    expect(answers(run).at(-1)).toMatchObject({ name: "second", result: "2" });
    expect(run.execution.signalCount).toBe(0);
  });

  test("several tasks are served in the order in which they began to wait, also after a snapshot", () => {
    const run = tasks(4);
    run.stepDone("a", 3);
    run.stepDone("a", 0);
    for (const task of [2, 0, 3, 1]) run.suspend("a", task, { name: "go", signal: "go" });
    const { id } = run.execution;
    const restored = restore(id, run.plan, { snapshot: writeSnapshot(run.execution), entries: [] });
    for (const execution of [run.execution, restored]) {
      const order: (number | undefined)[] = [];
      const table = execution.currentVisit().handler("a")?.progress;
      for (let i = 0; i < 4; i++) {
        const task = table?.firstWaitingFor({ signal: "go", data: "null" }, run.now)?.task;
        order.push(task);
        if (execution !== run.execution) table?.stopWaiting(task ?? -1);
        else run.signal("go", i);
      }
      expect(order).toEqual([2, 0, 3, 1]);
    }
    expect(answers(run).map(({ task, result }) => [task, result])).toEqual([
      [2, "0"],
      [0, "1"],
      [3, "2"],
      [1, "3"],
    ]);
  });

  test("a batch of tasks that begin to wait together share the signals that are there", () => {
    const run = tasks(3);
    run.signal("go", 1);
    run.signal("go", 2);
    const wait = { name: "go", signal: "go" };
    run.receipts(
      "a",
      [0, 1, 2].map((task) => ({ task, status: "suspended" as const, wait })),
    );
    expect(answers(run).map(({ task, result }) => [task, result])).toEqual([
      [0, "1"],
      [1, "2"],
    ]);
    expect(waiting(run, 2)?.signal).toBe("go");
  });

  test("a wait of the phase and one in a task: each takes one", () => {
    const run = new KernelRun([{ name: "a", handlers: { a: { use: "u" }, w: { waitFor: "go" } } }]);
    run.suspend("a", 0, { name: "go", signal: "go" });
    run.signal("go", 1);
    run.signal("go", 2);
    expect(run.handler("w").value).toBe("1");
    expect(answers(run)).toEqual([{ task: 0, name: "go", reason: "signalled", result: "2" }]);
    run.done("a", 0);
    expect(run.status).toBe("done");
  });

  test("tasks of two handlers each take one", () => {
    const run = new KernelRun([{ name: "a", handlers: { a: { use: "u" }, b: { use: "v" } } }]);
    run.suspend("b", 0, { name: "go", signal: "go" });
    run.suspend("a", 0, { name: "go", signal: "go" });
    run.signal("go", 1);
    run.signal("go", 2);
    expect(run.of("task.step").map(({ result }) => result)).toEqual(["1", "2"]);
    expect(run.execution.signalCount).toBe(0);
  });

  test("another name is kept, and the same id is taken once", () => {
    const run = tasks(2);
    for (const task of [0, 1]) run.suspend("a", task, { name: "go", signal: "go" });
    run.signal("stop", 1);
    expect(answers(run)).toEqual([]);
    run.signal("go", 1, "x");
    run.signal("go", 2, "x");
    expect(answers(run)).toHaveLength(1);
  });

  test("needs no room among kept signals", () => {
    const run = tasks(1);
    for (let i = 0; i < 10_000; i++) run.signal(`other-${i % 10}`, i);
    expect(run.signal("other", 0)).toMatchObject({ code: "rate_limited" });
    expect(run.signal("go", 0)).toMatchObject({ code: "rate_limited" });
    run.suspend("a", 0, { name: "go", signal: "go" });
    expect(run.signal("go", 1)).toMatchObject({ kind: "applied" });
    expect(answers(run)).toHaveLength(1);
  });

  test("is answered while paused; what it lets go starts after the resume", () => {
    const run = tasks(1);
    run.suspend("a", 0, { name: "go", signal: "go" });
    run.control("pause");
    run.signal("go", 1);
    expect(answers(run)).toHaveLength(1);
    expect(run.execution.open).toBe(false);
    run.control("resume");
    expect(run.execution.open).toBe(true);
  });
});

test("whatever tasks wait for and whatever comes, each wait gets one answer, and the journal is the state", () => {
  const act = fc.oneof(
    fc.record({ kind: fc.constant("sleep" as const), task: fc.nat(3), ms: fc.nat(500) }),
    fc.record({ kind: fc.constant("wait" as const), task: fc.nat(3), ms: fc.nat(500) }),
    fc.record({ kind: fc.constant("signal" as const), task: fc.nat(1), ms: fc.constant(0) }),
    fc.record({ kind: fc.constant("pass" as const), task: fc.nat(0), ms: fc.nat(400) }),
    fc.record({ kind: fc.constantFrom("pause", "resume", "fail" as const), task: fc.nat(3), ms: fc.nat(9) }),
  );
  fc.assert(
    fc.property(fc.array(act, { maxLength: 60 }), (acts) => {
      const run = tasks(4, { retry: { attempts: 100, backoff: "constant", min: 0 } });
      let signals = 0;
      acts.forEach(({ kind, task, ms }, i) => {
        if (kind === "pass") run.now += ms;
        else if (kind === "signal" && run.signal(`g${task}`, i).kind === "applied") signals++;
        else if (kind === "pause" || kind === "resume") run.control(kind);
        else if (waiting(run, task)?.signal === undefined || waiting(run, task)?.signal === null) {
          if (kind === "fail") run.fail("a", task);
          else if (kind === "sleep") run.suspend("a", task, { name: `n${i}`, untilMs: run.now + ms });
          else if (kind === "wait")
            run.suspend("a", task, {
              name: `n${i}`,
              signal: `g${task % 2}`,
              ...(ms % 3 === 0 ? {} : { timeoutMs: ms }),
            });
        }
        for (const [timer, { due }] of [...run.execution.timers]) if (due <= run.now) run.timer(timer);
        expect(replayed(run)).toBe(writeSnapshot(run.execution));
        // No task waits for a signal that is kept.
        for (const kept of run.execution.signals.keys())
          expect(
            run.handler("a").progress.firstWaitingFor({ signal: kept, data: "null" }, run.now),
          ).toBeUndefined();
        // A timer is there only for a task that waits for a signal.
        for (const timer of run.execution.timers.keys())
          expect(waiting(run, Number(timer.split(".").at(-1)))?.signal).toMatch(/^g/);
      });
      const asked = run
        .of("tasks.waiting")
        .flatMap(({ names, signals: of }) => names.filter((_, i) => of[i]));
      const answered = run.of("task.step").map(({ name }) => name);
      expect(new Set(answered).size).toBe(answered.length);
      for (const name of answered) expect(asked).toContain(name);
      const taken = run.of("task.step").filter(({ reason }) => reason === "signalled").length;
      expect(run.execution.signalCount).toBe(signals - taken);
    }),
    { numRuns: 60 },
  );
});
