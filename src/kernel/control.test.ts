// Pause, resume, cancel and retry: applied once by id, allowed or refused by status (DESIGN 3.1 and 4).
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../test/fixtures/kernel/kernel-run-fixture.ts";

const end = { name: "end", handlers: {}, final: true };
const fatal = { fatal: true };

type Control = "pause" | "resume" | "cancel" | "retry";

/** Executions in every status. */
const inStatus: Record<string, () => KernelRun> = {
  running: () => new KernelRun([phase("a")]),
  paused: () => {
    const run = new KernelRun([phase("a")]);
    run.control("pause");
    return run;
  },
  cancelling: () => {
    const run = new KernelRun([phase("a")]);
    run.control("cancel");
    return run;
  },
  done: () => {
    const run = new KernelRun([phase("a")]);
    run.done("a", 0);
    return run;
  },
  failed: () => {
    const run = new KernelRun([phase("a")]);
    run.fail("a", 0, fatal);
    run.drained();
    return run;
  },
  cancelled: () => {
    const run = new KernelRun([phase("a")]);
    run.control("cancel");
    run.drained();
    return run;
  },
};

describe("what may be asked of an execution", () => {
  const table: [status: string, answers: Record<Control, string>][] = [
    ["running", { pause: "applied", resume: "wrong_status", cancel: "applied", retry: "wrong_status" }],
    ["paused", { pause: "ignored", resume: "applied", cancel: "applied", retry: "wrong_status" }],
    [
      "cancelling",
      { pause: "wrong_status", resume: "wrong_status", cancel: "ignored", retry: "wrong_status" },
    ],
    [
      "done",
      { pause: "wrong_status", resume: "wrong_status", cancel: "wrong_status", retry: "wrong_status" },
    ],
    ["failed", { pause: "wrong_status", resume: "wrong_status", cancel: "wrong_status", retry: "applied" }],
    ["cancelled", { pause: "wrong_status", resume: "wrong_status", cancel: "ignored", retry: "applied" }],
  ];
  for (const [status, answers] of table) {
    test.each(Object.entries(answers))(`${status}: %s is %s`, (kind, expected) => {
      const run = inStatus[status]?.() as KernelRun;
      expect(run.status).toBe(status);
      const before = run.events.length;
      const answer = run.control(kind as Control);
      expect(answer.kind === "rejection" ? answer.code : answer.kind).toBe(expected);
      expect(run.events.length > before).toBe(expected === "applied");
    });
  }

  test.each(["pause", "resume", "cancel", "retry"] as const)("%s twice with one id is done once", (kind) => {
    const from = { pause: "running", resume: "paused", cancel: "running", retry: "failed" }[kind];
    const run = inStatus[from]?.() as KernelRun;
    const first = run.control(kind, "x");
    const events = run.events.length;
    expect(run.control(kind, "x")).toEqual(first);
    expect(run.events).toHaveLength(events);
  });

  test("a repeat gets its first answer also when the status has changed since", () => {
    const run = new KernelRun([phase("a")]);
    const first = run.control("pause", "p");
    run.control("resume");
    expect(run.control("pause", "p")).toEqual(first);
    expect(run.status).toBe("running");
  });
});

describe("pause", () => {
  test("closes the execution for new work at once", () => {
    const run = new KernelRun([phase("a")]);
    expect(run.execution.open).toBe(true);
    run.control("pause");
    expect(run.execution.open).toBe(false);
    expect(run.execution.paused).toMatchObject({ by: "ann", reason: null, at: 1_000 });
  });

  test("lets receipts count and the phase end, but holds the next one until resume", () => {
    const run = new KernelRun([phase("a"), phase("b")]);
    run.control("pause");
    run.done("a", 0);
    expect(run.of("phase.finished")).toMatchObject([{ phase: "a", next: "b" }]);
    expect(run.of("phase.started")).toHaveLength(1);
    run.control("resume");
    expect(run.phase).toBe("b");
  });

  test("lets pages and seals of the running enumeration be journaled", () => {
    const run = new KernelRun([phase("a", { enumerate: { use: "l" } }), phase("b")]);
    run.page("a", [1]);
    run.control("pause");
    expect(run.page("a", [2])).toMatchObject({ kind: "applied" });
    expect(run.seal("a")).toMatchObject({ kind: "applied" });
  });

  test("lets an execution end if nothing is left to start", () => {
    const run = new KernelRun([phase("a")]);
    run.control("pause");
    run.done("a", 0);
    expect(run.status).toBe("done");
    expect(run.execution.paused).toBeNull();
  });

  test("holds the repair phase of a phase that failed meanwhile", () => {
    const run = new KernelRun([phase("a", {}, { onError: "fix" }), end, phase("fix")]);
    run.control("pause");
    run.fail("a", 0, fatal);
    run.drained();
    expect(run.of("phase.finished")).toMatchObject([{ phase: "a", status: "failed", next: "fix" }]);
    expect(run.status).toBe("paused");
    run.control("resume");
    expect(run.phase).toBe("fix");
  });

  test("holds the first phase of an execution whose start time comes meanwhile", () => {
    const run = new KernelRun([phase("a")], { startAt: 5_000 });
    run.control("pause");
    run.now = 5_000;
    run.timer("start");
    expect(run.execution.current).toBeNull();
    run.control("resume");
    expect(run.phase).toBe("a");
  });

  test("before the start time does not let resume start early", () => {
    const run = new KernelRun([phase("a")], { startAt: 5_000 });
    run.control("pause");
    run.control("resume");
    expect(run.execution.current).toBeNull();
    run.now = 5_000;
    run.timer("start");
    expect(run.phase).toBe("a");
  });
});

describe("cancel", () => {
  test("drains: what is open may end and counts, the rest is cancelled", () => {
    const run = new KernelRun([phase("a", { tasks: [0, 1, 2] }), phase("b")]);
    run.control("cancel");
    expect(run.status).toBe("cancelling");
    expect(run.execution.open).toBe(false);
    expect(run.receipt("a", 0)).toBe("accepted");
    expect(run.receipt("a", 1, { status: "cancelled" })).toBe("accepted");
    run.drained();
    expect(run.status).toBe("cancelled");
    expect(run.of("handler.finished")).toMatchObject([{ done: 1, failed: 0, cancelled: 2 }]);
    expect(run.execution.error).toMatchObject({ code: "cancelled", message: "cancelled by ann" });
  });

  test("starts no repair", () => {
    const run = new KernelRun([phase("a", {}, { onError: "fix" }), end, phase("fix")]);
    run.control("cancel");
    run.drained();
    expect(run.status).toBe("cancelled");
    expect(run.of("phase.started")).toHaveLength(1);
  });

  test("of a failing phase ends as cancelled", () => {
    const run = new KernelRun([phase("a", { tasks: [0, 1] }, { onError: "fix" }), end, phase("fix")]);
    run.fail("a", 0, fatal);
    run.control("cancel");
    run.drained();
    expect(run.status).toBe("cancelled");
  });

  test("between two phases, while paused, ends without touching either", () => {
    const run = new KernelRun([phase("a"), phase("b")]);
    run.control("pause");
    run.done("a", 0);
    run.control("cancel");
    run.drained();
    expect(run.status).toBe("cancelled");
    expect(run.of("phase.finished")).toMatchObject([{ phase: "a", status: "done" }]);
  });

  test("before the start time ends without any phase", () => {
    const run = new KernelRun([phase("a")], { startAt: 5_000 });
    run.control("cancel");
    run.drained();
    expect(run.status).toBe("cancelled");
    expect(run.execution.timers.size).toBe(0);
    expect(run.of("phase.started")).toHaveLength(0);
  });
});
