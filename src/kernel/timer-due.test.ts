// Timers: fired once in effect, never early, cleared with what they belong to (DESIGN 2.6, 3.1).
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../test/fixtures/kernel/kernel-run-fixture.ts";

const nap = (name: string, ms: number) => ({ name, handlers: { [name]: { sleep: ms } } });

describe("a sleep", () => {
  test("ends when its timer is due", () => {
    const run = new KernelRun([nap("a", 500), phase("b")]);
    expect(run.execution.timers.get("a.1.a")).toEqual({ purpose: "sleep", due: 1_500 });
    run.now = 1_500;
    expect(run.timer("a.1.a")).toMatchObject({ kind: "applied" });
    expect(run.phase).toBe("b");
  });

  test("is never over early, whoever says so", () => {
    const run = new KernelRun([nap("a", 500)]);
    run.now = 1_499;
    expect(run.timer("a.1.a")).toMatchObject({ kind: "ignored" });
    expect(run.status).toBe("running");
    expect(run.last).toHaveLength(0);
  });

  test("of no time at all still takes a timer", () => {
    const run = new KernelRun([nap("a", 0)]);
    expect(run.status).toBe("running");
    run.timer("a.1.a");
    expect(run.status).toBe("done");
  });

  test("fires once: a second trigger changes nothing", () => {
    const run = new KernelRun([nap("a", 500), phase("b")]);
    run.now = 1_500;
    run.timer("a.1.a");
    expect(run.timer("a.1.a")).toMatchObject({ kind: "ignored" });
    expect(run.of("timer.fired")).toHaveLength(1);
  });

  test("goes on while the execution is paused", () => {
    const run = new KernelRun([nap("a", 500), nap("b", 500)]);
    run.control("pause");
    run.now = 1_500;
    run.timer("a.1.a");
    expect(run.of("timer.fired")).toHaveLength(1);
    expect(run.execution.timers.size).toBe(0);
    run.now = 9_000;
    run.control("resume");
    expect(run.execution.timers.get("b.1.b")).toEqual({ purpose: "sleep", due: 9_500 });
  });

  test("has another timer in another visit", () => {
    const run = new KernelRun([
      nap("a", 500),
      { name: "b", handlers: {}, next: { use: "n", among: ["a", "b"] } },
    ]);
    run.now = 1_500;
    run.timer("a.1.a");
    run.receipt("next", 0, { payload: '"a"' });
    expect([...run.execution.timers.keys()]).toEqual(["a.2.a"]);
    run.now = 9_000;
    expect(run.timer("a.1.a")).toMatchObject({ kind: "ignored" });
  });
});

test("a timer of something that is over is removed: cancel, failing and the end clear them", () => {
  const handlers = { x: { use: "x" }, nap: { sleep: "1h" } };
  const closes: ((run: KernelRun) => void)[] = [
    (run) => run.control("cancel"),
    (run) => {
      run.fail("x", 0, { fatal: true });
      run.drained();
    },
  ];
  for (const close of closes) {
    const run = new KernelRun([{ name: "a", handlers }]);
    close(run);
    expect(run.execution.timers.size).toBe(0);
    expect(run.of("timer.cleared")).toHaveLength(1);
    run.now = 9_999_999;
    expect(run.timer("a.1.nap")).toMatchObject({ kind: "ignored" });
  }
});

describe("startAt", () => {
  test("holds the first phase until then", () => {
    const run = new KernelRun([phase("a")], { startAt: 5_000 });
    expect(run.kinds()).toEqual(["created", "timer.set"]);
    run.now = 4_999;
    run.timer("start");
    expect(run.execution.current).toBeNull();
    run.now = 5_000;
    run.timer("start");
    expect(run.phase).toBe("a");
  });

  test.each([1_000, 999, 0])("that is not in the future (%i) starts at once", (startAt) => {
    const run = new KernelRun([phase("a")], { startAt });
    expect(run.phase).toBe("a");
    expect(run.execution.timers.size).toBe(0);
  });

  test("lets signals be kept meanwhile", () => {
    const run = new KernelRun([{ name: "a", handlers: { a: { waitFor: "go" } } }], { startAt: 5_000 });
    run.signal("go", 1);
    run.now = 5_000;
    run.timer("start");
    expect(run.status).toBe("done");
  });
});

describe("a deadline", () => {
  test("cancels with the reason deadline", () => {
    const run = new KernelRun([phase("a")], { deadline: 5_000 });
    run.now = 5_000;
    run.timer("deadline");
    expect(run.of("cancelling")).toMatchObject([{ by: "engine", reason: "deadline" }]);
    run.drained();
    expect(run.status).toBe("cancelled");
    expect(run.execution.error).toMatchObject({ code: "deadline" });
  });

  test("is met after a retry too, unless it had passed by then", () => {
    const run = new KernelRun([phase("a")], { deadline: 5_000 });
    run.fail("a", 0, { fatal: true });
    run.drained();
    expect([run.status, run.execution.timers.size]).toEqual(["failed", 0]);
    run.now = 3_000;
    run.control("retry");
    expect([...run.execution.timers]).toEqual([["deadline", { purpose: "deadline", due: 5_000 }]]);
    run.now = 5_000;
    run.timer("deadline");
    run.drained();
    expect([run.status, run.execution.error?.code]).toEqual(["cancelled", "deadline"]);
    run.control("retry");
    expect(run.execution.timers.size).toBe(0);
    run.done("a", 0);
    expect(run.status).toBe("done");
  });

  test("is met also while paused, and before the start time", () => {
    const paused = new KernelRun([phase("a")], { deadline: 5_000 });
    paused.control("pause");
    const early = new KernelRun([phase("a")], { deadline: 5_000, startAt: 9_000 });
    for (const run of [paused, early]) {
      run.now = 5_000;
      run.timer("deadline");
      run.drained();
      expect(run.status).toBe("cancelled");
      expect(run.execution.timers.size).toBe(0);
    }
  });

  test("goes on over phases, failures and repairs", () => {
    const run = new KernelRun(
      [phase("a", {}, { onError: "fix" }), { name: "end", final: true }, phase("fix")],
      { deadline: 5_000 },
    );
    run.fail("a", 0, { fatal: true });
    run.drained();
    expect([...run.execution.timers.keys()]).toEqual(["deadline"]);
  });

  test("of an execution that ended in time is cleared", () => {
    const run = new KernelRun([phase("a")], { deadline: 5_000 });
    run.done("a", 0);
    expect(run.execution.timers.size).toBe(0);
    run.now = 5_000;
    expect(run.timer("deadline")).toMatchObject({ kind: "ignored" });
    expect(run.status).toBe("done");
  });
});

test("time never goes back within an execution", () => {
  const run = new KernelRun([phase("a"), phase("b")], { now: 5_000 });
  run.now = 1_000;
  run.done("a", 0);
  expect(run.events.map(({ at }) => at)).toEqual(run.events.map(() => 5_000));
  expect(run.execution.now).toBe(5_000);
});
