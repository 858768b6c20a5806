// Receipts: every outcome counted once; the late rule; the two budgets (DESIGN 3.2).
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { readSnapshot, writeSnapshot } from "../journal/snapshot.ts";
import type { Outcome, Verdict } from "../message.ts";

const STATUSES = ["done", "failed", "crashed", "killed", "exception", "cancelled"] as const;
const listed = (n: number, more: object = {}) =>
  phase("a", { tasks: Array.from({ length: n }, (_, i) => i), ...more });

/** Puts task 0 of two into a state; the receipt under test is of attempt 1, sent without a lease unless it says so. */
const states: Record<string, (run: KernelRun) => void> = {
  "running, lease held": () => {},
  "running, lease lapsed before it was recorded": () => {},
  lost: (run) => {
    run.started("a", 0);
    run.lost("a", 0);
  },
  "lost, and the next attempt has failed": (run) => {
    run.lost("a", 0);
    run.fail("a", 0);
  },
  "lost, and its late word is known": (run) => {
    run.lost("a", 0);
    run.receipt("a", 0, { attempt: 1, live: false, status: "failed" });
  },
  "failed before, so that attempt 2 is due": (run) => {
    run.fail("a", 0);
  },
  "done by the same attempt": (run) => {
    run.done("a", 0);
  },
  "done by the next attempt after a loss": (run) => {
    run.lost("a", 0);
    run.done("a", 0);
  },
  "failed for good": (run) => {
    run.fail("a", 0, { fatal: true });
  },
};

describe("the late rule", () => {
  const table: [state: string, answers: Record<(typeof STATUSES)[number], Verdict>][] = [
    [
      "running, lease held",
      {
        done: "accepted",
        failed: "accepted",
        crashed: "accepted",
        killed: "accepted",
        exception: "accepted",
        cancelled: "accepted",
      },
    ],
    [
      "running, lease lapsed before it was recorded",
      {
        done: "accepted",
        failed: "stale",
        crashed: "stale",
        killed: "stale",
        exception: "stale",
        cancelled: "stale",
      },
    ],
    [
      "lost",
      {
        done: "accepted",
        failed: "late",
        crashed: "late",
        killed: "late",
        exception: "late",
        cancelled: "late",
      },
    ],
    ["lost, and the next attempt has failed", { ...all("late"), done: "accepted" }],
    ["lost, and its late word is known", all("duplicate")],
    ["failed before, so that attempt 2 is due", all("duplicate")],
    ["done by the same attempt", all("duplicate")],
    ["done by the next attempt after a loss", all("late")],
    ["failed for good", all("duplicate")],
  ];
  for (const [state, answers] of table) {
    test.each(Object.entries(answers) as [(typeof STATUSES)[number], Verdict][])(
      `${state}: %s is %s`,
      (status, verdict) => {
        const run = new KernelRun([listed(2, { tolerate: 2 })]);
        states[state]?.(run);
        const { settled, failed } = run.handler("a").tasks;
        const before = { settled: settled.size, failed: failed.size, ended: run.handler("a").tasks.ended(0) };
        const live = state === "running, lease held";
        expect(run.receipt("a", 0, { attempt: 1, live, status, payload: "{}" })).toBe(verdict);
        const { tasks } = run.handler("a");
        const after = { settled: tasks.settled.size, failed: tasks.failed.size, ended: tasks.ended(0) };
        const kinds = run.last.map(({ event }) => event.kind);
        const isUnchanged = verdict !== "accepted";
        expect(isUnchanged ? after : before).toEqual(before);
        expect(isUnchanged ? kinds : []).toEqual(verdict === "late" ? ["tasks.late"] : []);
        expect(isUnchanged || kinds.length > 0).toBe(true);
        expect(isUnchanged || tasks.settled.has(0)).toBe(isUnchanged || status === "done");
      },
    );
  }

  function all(verdict: Verdict): Record<(typeof STATUSES)[number], Verdict> {
    return Object.fromEntries(STATUSES.map((status) => [status, verdict])) as never;
  }

  test("a late word is recorded once, with what became of it", () => {
    const run = new KernelRun([listed(2)]);
    run.lost("a", 0, 1);
    run.receipts("a", [
      { task: 0, attempt: 1, live: false, status: "failed", payload: "{}" },
      { task: 1, attempt: 1, live: false },
    ]);
    expect(run.of("tasks.late")).toMatchObject([
      { tasks: [0, 1], attempts: [1, 1], statuses: ["failed", "done"], accepted: [false, true] },
    ]);
  });

  test("a late done that settles the task leaves nothing for the newer attempt to settle", () => {
    const run = new KernelRun([listed(1)]);
    run.lost("a", 0);
    expect(run.receipt("a", 0, { attempt: 1, live: false })).toBe("accepted");
    expect(run.status).toBe("done");
    expect(run.receipt("a/1/a", 0, { attempt: 2 })).toBe("gone");
    expect(run.of("tasks.settled")).toHaveLength(1);
  });

  test("a receipt for a phase that is over is gone", () => {
    const run = new KernelRun([phase("a"), phase("b")]);
    run.done("a", 0);
    expect(run.receipt("a/1/a", 0, { attempt: 1 })).toBe("gone");
    expect(run.receipt("b/2/b", 0)).toBe("gone");
    expect(run.receipt("b/1/c", 0)).toBe("gone");
  });

  test.each([2, -1, 1.5, 1e9])("a receipt for a task that does not exist (%d) is stale", (task) => {
    const run = new KernelRun([listed(2)]);
    expect(run.receipt("a", task, { attempt: 1 })).toBe("stale");
    expect(run.last).toHaveLength(0);
    run.done("a", 0);
    expect(run.status).toBe("running");
  });

  test("a receipt for a sleep or a wait is stale", () => {
    const run = new KernelRun([{ name: "a", handlers: { nap: { sleep: 5 }, go: { waitFor: "go" } } }]);
    expect(run.receipt("nap", 0)).toBe("stale");
    expect(run.receipt("go", 0)).toBe("stale");
  });
});

describe("counting", () => {
  test("the same receipt twice in one batch counts once", () => {
    const run = new KernelRun([listed(2)]);
    expect(run.receipts("a", [{ task: 0 }, { task: 0, attempt: 1 }, { task: 0, attempt: 1 }])).toEqual([
      "accepted",
      "duplicate",
      "duplicate",
    ]);
    expect(run.handler("a").tasks.done).toBe(1);
  });

  test("two attempts of one task in one batch are taken in their order", () => {
    const run = new KernelRun([listed(2)]);
    const verdicts = run.receipts("a", [
      { task: 0, attempt: 1, status: "failed", payload: "{}" },
      { task: 0, attempt: 2 },
      { task: 1, attempt: 1 },
    ]);
    expect(verdicts).toEqual(["accepted", "accepted", "accepted"]);
    expect(run.status).toBe("done");
    expect(run.kinds(5)).toEqual([
      "tasks.retrying",
      "tasks.settled",
      "handler.finished",
      "phase.finished",
      "finished",
    ]);
  });

  test("more than 1,000 receipts become several events, each of at most 1,000", () => {
    const run = new KernelRun([listed(2_500)]);
    run.done("a", ...Array.from({ length: 2_500 }, (_, i) => i));
    expect(run.of("tasks.settled").map(({ tasks }) => tasks.length)).toEqual([1_000, 1_000, 500]);
    expect(run.status).toBe("done");
  });

  test("large results become several events, each of at most 256 KiB", () => {
    const run = new KernelRun([listed(5)]);
    const payload = JSON.stringify("x".repeat(100_000));
    run.receipts(
      "a",
      [0, 1, 2, 3, 4].map((task) => ({ task, payload })),
    );
    expect(run.of("tasks.settled").map(({ tasks }) => tasks)).toEqual([[0, 1], [2, 3], [4]]);
  });

  test("the worker, the time it took and the result are in the journal", () => {
    const run = new KernelRun([phase("a")]);
    run.receipt("a", 0, { worker: "w7", ms: 42, payload: '{"n":1}' });
    expect(run.of("tasks.settled")).toMatchObject([
      {
        workers: ["w7"],
        ms: [42],
        payloads: ['{"n":1}'],
        attempts: [1],
        statuses: ["done"],
        reasons: [null],
      },
    ]);
  });
});

describe("starts", () => {
  test("are recorded once, for tasks that are open", () => {
    const run = new KernelRun([listed(3)]);
    run.done("a", 2);
    run.started("a", 0, 1, 2);
    expect(run.of("tasks.started")).toMatchObject([
      { tasks: [0, 1], attempts: [1, 1], workers: ["w1", "w1"] },
    ]);
    run.started("a", 0, 1);
    expect(run.last).toHaveLength(0);
  });

  test("are recorded again by a later owner that holds them, and keep its epoch", () => {
    const run = new KernelRun([listed(2)]);
    const attempts = [{ task: 0, attempt: 1, worker: "w1" }];
    const place = { phase: "a", visit: 1, handler: "a", round: 1 };
    const begin = (epoch: number | undefined, given = attempts) =>
      run.send({ kind: "started", ...place, attempts: given, ...(epoch === undefined ? {} : { epoch }) });
    begin(2);
    expect(run.last).toMatchObject([{ event: { kind: "tasks.started", tasks: [0], epoch: 2 } }]);
    for (const epoch of [2, 1, undefined]) {
      expect(begin(epoch)).toMatchObject({ kind: "applied" });
      expect(run.last).toEqual([]);
    }
    // The start of another attempt is not this one.
    begin(3, [{ task: 0, attempt: 2, worker: "w2" }]);
    expect(run.last).toEqual([]);
    begin(3);
    expect(run.last).toMatchObject([{ event: { kind: "tasks.started", attempts: [1], epoch: 3 } }]);
    expect(run.handler("a").tasks.starts()).toEqual([[0, { attempt: 1, worker: "w1", epoch: 3 }]]);
    const copy = readSnapshot("e1", run.plan, writeSnapshot(run.execution));
    expect(copy.current?.handlers[0]?.tasks.startOf(0)).toEqual({ attempt: 1, worker: "w1", epoch: 3 });
  });

  test("end with the attempt: settled, failed, lost or handed back", () => {
    const run = new KernelRun([listed(4)]);
    run.started("a", 0, 1, 2, 3);
    run.done("a", 0);
    run.fail("a", 1);
    run.lost("a", 2);
    run.receipt("a", 3, { status: "cancelled", payload: "{}" });
    expect(run.handler("a").tasks.starts()).toEqual([]);
  });

  test("of a phase that is over are ignored", () => {
    const run = new KernelRun([phase("a"), phase("b")]);
    run.done("a", 0);
    const attempts = [{ task: 0, attempt: 1, worker: "w1" }];
    const place = { phase: "a", visit: 1, handler: "a", round: 1, attempts };
    expect(run.send({ kind: "started", ...place })).toMatchObject({ kind: "ignored" });
    expect(run.send({ kind: "lost", ...place })).toMatchObject({ kind: "ignored" });
  });
});

describe("the two budgets", () => {
  /** Ends attempts of task 0 one after another; the last word says how the task ended, or "open". */
  function after(ends: readonly (Outcome["status"] | "lost")[], retry: object): string {
    const run = new KernelRun([listed(2, { retry, tolerate: 1 })]);
    for (const end of ends) {
      if (run.handler("a").tasks.settled.has(0)) return "settled early";
      if (end === "lost") run.lost("a", 0);
      else run.receipt("a", 0, { status: end, payload: "{}" });
    }
    const settled = run.of("tasks.settled")[0];
    return settled === undefined ? "open" : `${settled.statuses[0]} (${settled.reasons[0]})`;
  }

  test.each<[string, (Outcome["status"] | "lost")[], object, string]>([
    ["the third failed is the last by default", ["failed", "failed", "failed"], {}, "failed (attempts)"],
    ["two failed leave one", ["failed", "failed"], {}, "open"],
    ["killed and exception count as failed", ["killed", "exception", "failed"], {}, "failed (attempts)"],
    ["attempts: 1 means no second", ["failed"], { attempts: 1 }, "failed (attempts)"],
    [
      "the fourth crash is the last by default",
      ["lost", "crashed", "lost", "crashed"],
      {},
      "failed (crashes)",
    ],
    ["three crashes leave one", ["lost", "lost", "lost"], {}, "open"],
    ["crashes: 1 means no second", ["lost"], { crashes: 1 }, "failed (crashes)"],
    ["crashes do not burn attempts", ["lost", "failed", "crashed", "failed", "lost"], {}, "open"],
    ["failures do not burn crashes", ["failed", "failed", "lost", "lost", "lost"], {}, "open"],
    [
      "each ends by its own reason",
      ["lost", "failed", "crashed", "failed", "failed"],
      {},
      "failed (attempts)",
    ],
    ["handing back burns nothing", Array.from({ length: 20 }, () => "cancelled" as const), {}, "open"],
    ["done ends it whatever was before", ["failed", "lost", "done"], {}, "done (null)"],
  ])("%s", (_name, ends, retry, expected) => {
    expect(after(ends, retry)).toBe(expected);
  });

  test("fatal ends the task at once, whatever attempts are left", () => {
    const run = new KernelRun([listed(2, { tolerate: 1 })]);
    run.fail("a", 0, { fatal: true });
    expect(run.of("tasks.settled")).toMatchObject([{ statuses: ["failed"], reasons: ["fatal"] }]);
    expect(run.of("tasks.retrying")).toHaveLength(0);
  });

  test("RetryAfter replaces the backoff, and counts as an attempt", () => {
    const run = new KernelRun([phase("a", { retry: { attempts: 2 } })]);
    run.fail("a", 0, { retryAfterMs: 86_400_000 });
    expect(run.of("tasks.retrying")).toMatchObject([{ untils: [1_000 + 86_400_000], reasons: ["failed"] }]);
    run.fail("a", 0, { retryAfterMs: 0 });
    expect(run.of("tasks.settled")).toMatchObject([{ reasons: ["attempts"] }]);
  });

  test("a lost attempt may run again at once; one that was handed back too", () => {
    const run = new KernelRun([listed(2)]);
    run.lost("a", 0);
    run.receipt("a", 1, { status: "cancelled", payload: "{}" });
    expect(run.handler("a").tasks.until(0)).toBe(1_000);
    expect(run.handler("a").tasks.until(1)).toBe(1_000);
    expect(run.handler("a").tasks.takeDue(1_000, 10)).toEqual([0, 1]);
  });

  test("a loss is counted once", () => {
    const run = new KernelRun([listed(1)]);
    const attempts = [{ task: 0, attempt: 1, worker: "w1" }];
    const message = { kind: "lost" as const, ...run.place("a"), round: 1, attempts };
    run.send(message);
    expect(run.send(message)).toMatchObject({ kind: "ignored" });
    expect(run.handler("a").tasks.crashes(0)).toBe(1);
  });

  test("a loss after the receipt changes nothing", () => {
    const run = new KernelRun([listed(2)]);
    run.fail("a", 0);
    const attempts = [{ task: 0, attempt: 1, worker: "w1" }];
    expect(run.send({ kind: "lost", ...run.place("a"), round: 1, attempts })).toMatchObject({
      kind: "ignored",
    });
  });

  test("neighbours in one message have their own budgets", () => {
    const run = new KernelRun([listed(3, { retry: { crashes: 2 }, tolerate: 3 })]);
    run.lost("a", 0);
    run.lost("a", 0, 1);
    expect(run.of("tasks.settled")).toMatchObject([{ tasks: [0], reasons: ["crashes"] }]);
    run.done("a", 1, 2);
    expect(run.status).toBe("done");
  });
});
