// Retry: the next round of the phase visit where it ended (DESIGN 3.1): done is never cleared, budgets restart.
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../test/fixtures/kernel/kernel-run-fixture.ts";

const end = { name: "end", handlers: {}, final: true };
const fatal = { fatal: true };

function failed(
  tasks: readonly number[],
  handler: object = {},
  phases: readonly object[] = [end],
): KernelRun {
  const run = new KernelRun([phase("a", { tasks, ...handler }), ...phases]);
  run.done("a", 0);
  run.fail("a", 1, fatal);
  run.drained();
  expect(run.status).toBe("failed");
  return run;
}

describe("a round", () => {
  test("makes everything pending again that is not done", () => {
    const run = failed([0, 1, 2]);
    run.control("retry");
    expect(run.status).toBe("running");
    const { settled } = run.handler("a").tasks;
    expect([0, 1, 2].map((task) => settled.has(task))).toEqual([true, false, false]);
    expect(run.execution.round).toBe(2);
    run.done("a", 1, 2);
    expect(run.status).toBe("done");
    expect(run.of("phase.started").map(({ phase, visit }) => `${phase}/${visit}`)).toEqual(["a/1", "end/1"]);
  });

  test("never clears done: the results of earlier rounds stand", () => {
    const run = failed([0, 1]);
    run.control("retry");
    expect(run.receipt("a", 0, { attempt: 1 })).toBe("duplicate");
    run.done("a", 1);
    const settled = run
      .of("tasks.settled")
      .flatMap((event) => event.tasks.map((t, i) => [t, event.statuses[i]]));
    expect(settled).toEqual([
      [0, "done"],
      [1, "failed"],
      [1, "done"],
    ]);
  });

  test("numbers attempts on", () => {
    const run = failed([0, 1]);
    run.control("retry");
    expect(run.handler("a").tasks.nextAttempt(1)).toBe(2);
  });

  test("numbers attempts on also when no task had any trouble before", () => {
    const run = new KernelRun([phase("a")]);
    run.fail("a", 0, fatal);
    run.drained();
    run.control("retry");
    expect(run.handler("a").tasks.nextAttempt(0)).toBe(2);
  });

  test("restarts both budgets", () => {
    const run = new KernelRun([phase("a", { retry: { attempts: 2, crashes: 2 } })]);
    run.fail("a", 0);
    run.lost("a", 0);
    run.fail("a", 0);
    run.drained();
    expect(run.status).toBe("failed");
    run.control("retry");
    run.fail("a", 0);
    run.lost("a", 0);
    expect(run.execution.draining).toBe(false);
    run.lost("a", 0);
    expect(run.execution.draining).toBe(true);
  });

  test("forgets retry times", () => {
    const run = new KernelRun([phase("a", { tasks: [0, 1], retry: { min: "1h", max: "1h" } })]);
    run.fail("a", 1);
    run.fail("a", 0, fatal);
    run.drained();
    run.control("retry");
    expect(run.handler("a").tasks.until(1)).toBe(0);
    expect(run.handler("a").tasks.nextDue()).toBe(Number.POSITIVE_INFINITY);
  });

  test("can be followed by another", () => {
    const run = failed([0, 1]);
    run.control("retry");
    run.fail("a", 1, fatal);
    run.drained();
    run.control("retry");
    expect(run.execution.round).toBe(3);
    run.done("a", 1);
    expect(run.status).toBe("done");
    expect(run.of("finished").map(({ status, round }) => [status, round])).toEqual([
      ["failed", 1],
      ["failed", 2],
      ["done", 3],
    ]);
  });

  test("clears the error and the end", () => {
    const run = failed([0, 1]);
    expect(run.execution.finishedAt).not.toBeNull();
    run.control("retry");
    expect([run.execution.error, run.execution.finishedAt, run.execution.cancelling]).toEqual([
      null,
      null,
      null,
    ]);
  });

  test("of a cancelled execution goes on where it was cancelled", () => {
    const run = new KernelRun([phase("a"), phase("b", { tasks: [0, 1] }), end]);
    run.done("a", 0);
    run.done("b", 0);
    run.control("cancel");
    run.drained();
    run.control("retry");
    expect(run.phase).toBe("b");
    run.done("b", 1);
    expect(run.status).toBe("done");
  });

  test("of an execution that was cancelled between two phases starts the second", () => {
    const run = new KernelRun([phase("a"), phase("b")]);
    run.control("pause");
    run.done("a", 0);
    run.control("cancel");
    run.drained();
    run.control("retry");
    expect(run.phase).toBe("b");
  });

  test("of an execution that was cancelled before its start starts it, not before its time", () => {
    const run = new KernelRun([phase("a")], { startAt: 5_000 });
    run.control("cancel");
    run.drained();
    run.control("retry");
    expect(run.phase).toBeNull();
    run.now = 5_000;
    run.timer("start");
    expect(run.phase).toBe("a");
    run.done("a", 0);
    expect(run.status).toBe("done");
  });

  test("of a phase with a wait and a sleep arms them again", () => {
    const handlers = { x: { use: "x" }, nap: { sleep: "10s" }, go: { waitFor: "go", timeout: "20s" } };
    const run = new KernelRun([{ name: "a", handlers }]);
    run.fail("x", 0, fatal);
    run.drained();
    expect(run.execution.timers.size).toBe(0);
    run.now = 50_000;
    run.control("retry");
    expect([...run.execution.timers].map(([id, { due }]) => [id, due])).toEqual([
      ["a.1.nap", 60_000],
      ["a.1.go", 70_000],
    ]);
  });

  test("does not wait again for what has been waited for", () => {
    const handlers = { x: { use: "x" }, go: { waitFor: "go" } };
    const run = new KernelRun([{ name: "a", handlers }, end]);
    run.signal("go", "yes");
    run.fail("x", 0, fatal);
    run.drained();
    run.control("retry");
    run.done("x", 0);
    expect(run.status).toBe("done");
    expect(run.execution.visited[0]?.handlers.find(({ name }) => name === "go")?.value).toBe('"yes"');
  });
});

describe("where a round opens", () => {
  const repaired = (fix: object = { final: "failed" }, more: object[] = []) => [
    phase("a", { tasks: [0, 1] }, { onError: "fix" }),
    end,
    phase("fix", {}, fix),
    ...more,
  ];

  test("is the visit that failed, where the end was reached by onError", () => {
    const run = new KernelRun(repaired());
    run.done("a", 0);
    run.fail("a", 1, fatal);
    run.drained();
    run.done("fix", 0);
    run.control("retry");
    expect(run.of("retried")).toMatchObject([{ phase: "a", visit: 1, round: 2 }]);
    run.done("a", 1);
    expect(run.status).toBe("done");
  });

  test("is the visit that failed, where the repair failed too", () => {
    const run = new KernelRun(repaired());
    run.fail("a", 1, fatal);
    run.drained();
    run.fail("fix", 0, fatal);
    run.drained();
    run.control("retry");
    expect(run.phase).toBe("a");
  });

  test("is the visit that failed, where the repair was cancelled", () => {
    const run = new KernelRun(repaired());
    run.fail("a", 1, fatal);
    run.drained();
    run.control("cancel");
    run.drained();
    run.control("retry");
    expect(run.phase).toBe("a");
  });

  test("is the visit that failed, where the repair was held by a pause and cancelled", () => {
    const run = new KernelRun(repaired());
    run.control("pause");
    run.fail("a", 1, fatal);
    run.drained();
    run.control("cancel");
    run.drained();
    run.control("retry");
    expect([run.phase, run.execution.current?.visit]).toEqual(["a", 1]);
    expect(run.of("phase.started")).toHaveLength(1);
  });

  test("is a later phase, if the repair led on to it and it failed by itself", () => {
    const run = new KernelRun(repaired({ next: "later" }, [phase("later")]));
    run.fail("a", 1, fatal);
    run.drained();
    run.done("fix", 0);
    run.fail("later", 0, fatal);
    run.drained();
    run.control("retry");
    expect(run.phase).toBe("later");
  });

  test("is a later phase, if the repair led on to it and it was cancelled there", () => {
    const run = new KernelRun(repaired({ next: "later" }, [phase("later")]));
    run.fail("a", 1, fatal);
    run.drained();
    run.done("fix", 0);
    run.control("cancel");
    run.drained();
    run.control("retry");
    expect(run.phase).toBe("later");
  });

  test("a repaired phase can fail and be repaired again after a retry", () => {
    const run = new KernelRun(repaired());
    for (let round = 1; round <= 3; round++) {
      run.fail("a", 1, fatal);
      run.drained();
      expect([run.phase, run.execution.current?.visit]).toEqual(["fix", round]);
      run.done("fix", 0);
      expect(run.status).toBe("failed");
      run.control("retry");
    }
    run.done("a", 0, 1);
    expect(run.status).toBe("done");
  });
});

describe("a receipt of an earlier round", () => {
  test.each([
    ["done", "accepted"],
    ["failed", "stale"],
    ["cancelled", "stale"],
    ["crashed", "stale"],
  ] as const)("that says %s is %s", (status, verdict) => {
    const run = failed([0, 1, 2]);
    run.control("retry");
    // Task 2 was running in round 1 and has not reported.
    for (const live of [true, false]) {
      const given = { attempt: 1, round: 1, live, status };
      expect(run.receipt("a", 2, given)).toBe(live || verdict === "stale" ? verdict : "duplicate");
    }
    expect(run.handler("a").tasks.settled.has(2)).toBe(status === "done");
    expect(run.handler("a").tasks.failed.has(2)).toBe(false);
  });

  test("that says done does not count twice", () => {
    const run = failed([0, 1, 2]);
    run.control("retry");
    run.receipt("a", 2, { attempt: 1, round: 1, live: false });
    expect(run.receipt("a", 2, { attempt: 1, round: 1, live: false })).toBe("duplicate");
    expect(run.handler("a").tasks.done).toBe(2);
  });

  test("pages, seals, starts and losses of an earlier round change nothing", () => {
    const run = new KernelRun([phase("a", { enumerate: { use: "l" } })]);
    run.page("a", [0, 1]);
    run.fail("a", 0, fatal);
    run.drained();
    run.control("retry");
    const { length } = run.events;
    expect(run.page("a", [2], { round: 1 })).toMatchObject({ kind: "ignored" });
    expect(run.seal("a", { round: 1 })).toMatchObject({ kind: "ignored" });
    for (const kind of ["started", "lost"] as const) {
      const attempts = [{ task: 1, attempt: 1, worker: "w1" }];
      expect(run.send({ kind, ...run.place("a"), round: 1, attempts })).toMatchObject({ kind: "ignored" });
    }
    expect(run.events).toHaveLength(length);
  });
});

describe("an unsealed enumeration", () => {
  test("gets a new attempt in the next round, and goes on from what is journaled", () => {
    const run = new KernelRun([phase("a", { enumerate: { use: "l" }, retry: { attempts: 1 } })]);
    run.page("a", [0, 1]);
    run.seal("a", { status: "failed", payload: '{"message":"x"}' });
    run.drained();
    expect(run.status).toBe("failed");
    run.control("retry");
    const { enumeration } = run.handler("a");
    expect(enumeration).toMatchObject({ ended: 1, fails: 0, crashes: 0, failed: false });
    run.page("a", [2]);
    run.seal("a", { total: 3 });
    run.done("a", 0, 1, 2);
    expect(run.status).toBe("done");
  });
});
