// How waits of tasks end but by their answer: by a timeout, or with their attempt.
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import {
  answers,
  counts,
  replayed,
  tasks,
  waiting,
} from "../../../test/fixtures/kernel/task-waits-fixture.ts";
import { writeSnapshot } from "../journal/snapshot.ts";

describe("the timeout of a wait in a task", () => {
  const timed = (more: object = {}) => {
    const run = tasks(1, more);
    run.suspend("a", 0, { name: "go", signal: "go", timeoutMs: 500 });
    return run;
  };

  test("is a timer, and its answer is an error that later attempts find", () => {
    const run = timed();
    expect([...run.execution.timers]).toEqual([["a.1.a.0", { purpose: "task", due: 1_500 }]]);
    run.now = 1_499;
    expect(run.timer("a.1.a.0")).toMatchObject({ kind: "ignored" });
    run.now = 1_500;
    expect(run.timer("a.1.a.0")).toMatchObject({ kind: "applied" });
    expect(answers(run)).toEqual([{ task: 0, name: "go", reason: "timer", result: "wait_timeout" }]);
    expect(run.handler("a").tasks.takeDue(run.now, 9)).toEqual([0]);
    expect(run.execution.timers.size).toBe(0);
    expect(run.timer("a.1.a.0")).toMatchObject({ kind: "ignored" });
    run.done("a", 0);
    expect(run.status).toBe("done");
  });

  test("against the signal: the first in the journal decides, and the other changes nothing", () => {
    const first = timed();
    first.now = 2_000;
    first.signal("go", 1);
    expect(first.timer("a.1.a.0")).toMatchObject({ kind: "ignored" });
    expect(answers(first)).toEqual([{ task: 0, name: "go", reason: "signalled", result: "1" }]);
    expect(first.of("timer.cleared")).toHaveLength(1);
    const second = timed();
    second.now = 2_000;
    second.timer("a.1.a.0");
    second.signal("go", 1);
    expect(answers(second)).toEqual([{ task: 0, name: "go", reason: "timer", result: "wait_timeout" }]);
    expect(second.execution.signalCount).toBe(1);
  });

  test("goes on while paused", () => {
    const run = timed();
    run.control("pause");
    run.now = 1_500;
    run.timer("a.1.a.0");
    expect(answers(run)).toHaveLength(1);
  });

  test("is cleared by a cancel, and does not come back with a retry", () => {
    const run = timed();
    run.control("cancel");
    expect(run.execution.timers.size).toBe(0);
    run.drained();
    run.control("retry");
    expect(run.execution.timers.size).toBe(0);
    expect(waiting(run)).toBeNull();
    expect(run.handler("a").tasks.until(0)).toBe(0);
    expect(counts(run)).toEqual([1, 0, 0, 0, 0, 0]);
    run.suspend("a", 0, { name: "go", signal: "go", timeoutMs: 500 });
    expect(run.execution.timers.size).toBe(1);
  });

  test("is cleared when the phase has failed; what waited is cancelled with it", () => {
    const run = tasks(2, { retry: { attempts: 1 } });
    run.suspend("a", 0, { name: "go", signal: "go", timeoutMs: 500 });
    run.fail("a", 1);
    expect(run.execution.draining).toBe(true);
    run.drained();
    expect(run.status).toBe("failed");
    expect(run.execution.timers.size).toBe(0);
    expect(run.of("handler.finished")).toMatchObject([{ done: 0, failed: 1, cancelled: 1 }]);
  });

  test("that has run out counts in its round; in the next one it is waited for again", () => {
    const run = timed({ retry: { attempts: 1 } });
    run.now = 1_500;
    run.timer("a.1.a.0");
    run.stepDone("a", 0, { name: "after" });
    const names = () =>
      run
        .handler("a")
        .progress.tasks.get(0)
        ?.checkpoints.map(({ name }) => name);
    expect(names()).toEqual(["go", "after"]);
    run.fail("a", 0);
    run.drained();
    run.control("retry");
    expect(names()).toEqual(["after"]);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
    run.suspend("a", 0, { name: "go", signal: "go", timeoutMs: 500 });
    run.signal("go", 1);
    expect(names()).toEqual(["after", "go"]);
  });

  test("whose payload is refused counts in its round; in the next one another is waited for", () => {
    const run = tasks(1);
    run.stepDone("a", 0, { name: "before" });
    run.suspend("a", 0, { name: "go", signal: "go" });
    run.signal("go", "bad");
    const names = () =>
      run
        .handler("a")
        .progress.tasks.get(0)
        ?.checkpoints.map(({ name }) => name);
    expect(names()).toEqual(["before", "go"]);
    const payload = JSON.stringify({ name: "Fatal", message: "no", code: "signal_refused", path: "go" });
    run.fail("a", 0, { fatal: true, payload });
    run.drained();
    run.control("retry");
    expect(names()).toEqual(["before"]);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
    run.suspend("a", 0, { name: "go", signal: "go" });
    run.signal("go", "good");
    expect(answers(run).map(({ result }) => result)).toEqual(['"bad"', '"good"']);
  });

  test("that runs out while the phase fails undoes nothing", () => {
    const run = tasks(2, { retry: { attempts: 1 } });
    run.suspend("a", 0, { name: "go", signal: "go", timeoutMs: 500 });
    run.fail("a", 1);
    run.now = 1_500;
    run.timer("a.1.a.0");
    run.signal("go", 1);
    expect(run.execution.draining).toBe(true);
    run.drained();
    expect(run.status).toBe("failed");
    expect(run.execution.signalCount).toBe(1);
  });

  test("of an earlier wait is not that of a later one, whoever repeats himself", () => {
    const run = timed();
    run.signal("go", 1);
    run.suspend("a", 0, { name: "again", signal: "again" });
    // The receipt that began the first wait comes once more.
    run.suspend("a", 0, { name: "go", signal: "go", timeoutMs: 500, attempt: 1 });
    expect(run.execution.timers.size).toBe(0);
    // The same receipt, after its attempt has lost the lease.
    run.suspend("a", 0, { name: "go", signal: "go", timeoutMs: 500, attempt: 1, live: false });
    expect(run.execution.timers.size).toBe(0);
    expect(waiting(run)?.signal).toBe("again");
  });

  test("of two tasks with numbers that begin alike are two timers", () => {
    const run = tasks(12);
    for (const task of [1, 11]) run.suspend("a", task, { name: "go", signal: "go", timeoutMs: task * 100 });
    run.now = 1_100;
    run.timer("a.1.a.1");
    expect(answers(run).map(({ task }) => task)).toEqual([1]);
    expect([...run.execution.timers.keys()]).toEqual(["a.1.a.11"]);
  });

  test("belongs to its visit", () => {
    const loop = {
      name: "w",
      phases: [phase("a", {}, { next: { use: "n", among: ["a", "b"] } }), phase("b")],
    };
    const run = new KernelRun(loop);
    run.suspend("a", 0, { name: "go", signal: "go", timeoutMs: 500 });
    run.signal("go", 1);
    run.done("a", 0);
    run.receipt("next", 0, { payload: '"a"' });
    run.suspend("a", 0, { name: "go", signal: "go", timeoutMs: 500 });
    expect([...run.execution.timers.keys()]).toEqual(["a.2.a.0"]);
  });
});

describe("a suspended attempt", () => {
  test("while the phase fails just ends: the task is cancelled with the visit", () => {
    const run = tasks(2, { retry: { attempts: 1 } });
    run.fail("a", 1);
    expect(run.suspend("a", 0, { name: "go", signal: "go", timeoutMs: 500 })).toBe("accepted");
    expect(run.of("tasks.waiting")).toHaveLength(0);
    expect(run.execution.timers.size).toBe(0);
  });

  test("of a decision or of `returns` waits like any other", () => {
    const run = new KernelRun({
      name: "w",
      phases: [phase("a", {}, { next: { use: "n", among: ["a", "b"] } }), phase("b")],
      returns: { use: "r" },
    });
    run.done("a", 0);
    expect(run.suspend("next", 0, { name: "go", signal: "go" })).toBe("accepted");
    run.signal("go", 1);
    run.receipt("next", 0, { payload: '"b"' });
    run.done("b", 0);
    expect(run.suspend("returns", 0, { name: "nap", untilMs: 2_000 })).toBe("accepted");
    run.now = 2_000;
    run.receipt("returns", 0, { payload: "42" });
    expect(run.status).toBe("done");
    expect(run.execution.output).toBe("42");
  });

  test("seals a handler of one task, as any first word does", () => {
    const run = new KernelRun([phase("a")]);
    run.suspend("a", 0, { untilMs: 9_000 });
    expect(run.kinds()).toContain("handler.enumerated");
    expect(run.handler("a").sealed).toBe(true);
  });

  test("leaves a start behind no more", () => {
    const run = tasks(1);
    run.started("a", 0);
    run.suspend("a", 0, { untilMs: 9_000 });
    expect(run.handler("a").tasks.starts()).toEqual([]);
  });

  test("a batch of a thousand is one event, and one more makes two", () => {
    const run = tasks(1_001);
    run.receipts(
      "a",
      Array.from({ length: 1_001 }, (_, task) => ({
        task,
        status: "suspended" as const,
        wait: { name: "nap", untilMs: 5_000 },
      })),
    );
    expect(run.of("tasks.waiting").map((event) => event.tasks.length)).toEqual([1_000, 1]);
  });
});
