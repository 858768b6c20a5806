// Runs of a script are identified by name and index; whatever is not the next run changes nothing.
import { describe, expect, test } from "vitest";
import { KernelRun } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import type { Verdict } from "../message.ts";

const RUNS = ["r0", "r1", "r2"].map((name) => ({ name, expression: "s => s" }));

function scripted(more: object = {}): KernelRun {
  return new KernelRun([{ name: "a", handlers: { a: { script: RUNS, ...more } } }]);
}

function journaled(run: KernelRun): unknown[] {
  return run.events.flatMap(({ event }) =>
    event.kind === "task.run" ? [[event.attempt, event.index, event.name, event.state]] : [],
  );
}

function code(verdict: Verdict | undefined): string {
  return typeof verdict === "object" ? verdict.code : String(verdict);
}

describe("a run that is finished", () => {
  test("counts once, however often and with whatever state it is said", () => {
    const run = scripted();
    expect(run.runDone("a", 0, { index: 0, state: "a" })).toBe("accepted");
    expect(run.runDone("a", 0, { index: 0, state: "b" })).toBe("duplicate");
    expect(run.runDone("a", 0, { name: "r0", index: null, state: "c" })).toBe("duplicate");
    expect(run.runDone("a", 0, { name: "r1", index: null, state: "d" })).toBe("accepted");
    expect(run.runDone("a", 0, { index: 0, state: "e" })).toBe("duplicate");
    expect(journaled(run)).toEqual([
      [1, 0, "r0", '"a"'],
      [1, 1, "r1", '"d"'],
    ]);
  });

  test.each([
    ["that the script does not have", { name: "typo", index: null }, "invalid_input", /no run typo/],
    [
      "that the script does not have, with an index",
      { name: "typo", index: 0 },
      "invalid_input",
      /no run typo/,
    ],
    ["before those that come first", { name: "r2", index: 2 }, "wrong_status", /r2 is not the next one/],
    ["before those that come first, by its name", { name: "r1", index: null }, "wrong_status", /r1 is not/],
    ["with the index of another", { name: "r0", index: 2 }, "invalid_input", /has the index 0, not 2/],
    ["with an index beyond the last", { name: "r0", index: 7 }, "invalid_input", /has the index 0, not 7/],
  ])("is refused %s", (_, given, expected, message) => {
    const run = scripted();
    const verdict = run.runDone("a", 0, { ...given, state: "wrong" });
    expect(verdict).toMatchObject({
      kind: "rejection",
      code: expected,
      message: expect.stringMatching(message),
    });
    expect((verdict as { hint?: string }).hint).toBeTruthy();
    expect(journaled(run)).toEqual([]);
    expect(run.runDone("a", 0, { index: 0 })).toBe("accepted");
  });

  test("is refused where the handler is not a script", () => {
    const run = new KernelRun([{ name: "a", handlers: { a: { use: "x" } } }]);
    expect(code(run.runDone("a", 0, { index: 0 }))).toBe("invalid_input");
    expect(journaled(run)).toEqual([]);
  });

  test("is stale from an attempt that is over, be it the right one", () => {
    const run = scripted();
    run.lost("a", 0);
    expect(run.runDone("a", 0, { index: 0, attempt: 1, live: false })).toBe("stale");
    expect(journaled(run)).toEqual([]);
  });
});

describe("a new attempt", () => {
  test("goes on after the last finished run", () => {
    const run = scripted();
    run.runDone("a", 0, { index: 0 });
    run.receipt("a", 0, { status: "failed", retryAfterMs: 0 });
    expect(run.runDone("a", 0, { index: 0, attempt: 2 })).toBe("duplicate");
    expect(code(run.runDone("a", 0, { index: 2, attempt: 2 }))).toBe("wrong_status");
    expect(run.runDone("a", 0, { index: 1, attempt: 2 })).toBe("accepted");
  });

  test("starts over with resume: false, and no run of an earlier attempt counts for it", () => {
    const run = scripted({ resume: false });
    run.runDone("a", 0, { index: 0 });
    run.runDone("a", 0, { index: 1 });
    run.receipt("a", 0, { status: "failed", retryAfterMs: 0 });
    expect(code(run.runDone("a", 0, { index: 2, attempt: 2 }))).toBe("wrong_status");
    expect(run.runDone("a", 0, { index: 0, attempt: 2 })).toBe("accepted");
    expect(run.runDone("a", 0, { index: 0, attempt: 2 })).toBe("duplicate");
    expect(journaled(run)).toHaveLength(3);
  });
});

describe("the receipt of a script", () => {
  test("that says done before the last run is finished fails the attempt", () => {
    const run = scripted({ retry: { attempts: 2, min: "1ms", max: "1ms" } });
    run.runDone("a", 0, { index: 0 });
    run.receipt("a", 0, { payload: "1" });
    const errors = run.events.flatMap(({ event }) => (event.kind === "tasks.retrying" ? event.errors : []));
    expect(JSON.parse(errors[0] as string)).toMatchObject({
      name: "RunsUnfinished",
      message: "the attempt reports done, but only 1 of 3 runs are finished (r1 is next)",
    });
    for (const index of [1, 2]) run.runDone("a", 0, { index, attempt: 2 });
    run.receipt("a", 0, { attempt: 2, payload: "1" });
    expect(run.execution.status).toBe("done");
  });
});

describe("notices about runs", () => {
  /** The facts about runs in the journal, in order. */
  function facts(run: KernelRun): unknown[] {
    return run.events.flatMap(({ event }) =>
      event.kind === "task.run" || event.kind === "task.run.started"
        ? [[event.kind, event.attempt, event.name]]
        : event.kind === "task.run.crashed"
          ? [[event.kind, event.attempt, event.name, event.reason, event.stats]]
          : event.kind === "tasks.accepted" || event.kind === "tasks.lost" || event.kind === "tasks.retrying"
            ? [[event.kind, ...event.attempts]]
            : [],
    );
  }
  const STATS = { durationMs: 4, memoryBytes: 2_000 };

  test("2.11 2.19 2.23: accepted, run_started and run_crashed are events, each once", () => {
    const run = scripted();
    run.accepted("a", 0);
    run.accepted("a", 0);
    expect([run.runStarted("a", 0), run.runStarted("a", 0)]).toEqual(["accepted", "duplicate"]);
    run.runDone("a", 0);
    expect(run.runStarted("a", 0, { index: 0 })).toBe("duplicate");
    expect(run.runStarted("a", 0, { index: null, name: "r1" })).toBe("accepted");
    expect(run.runCrashed("a", 0, { index: 1 })).toBe("accepted");
    expect(run.runCrashed("a", 0, { index: 1 })).toBe("duplicate");
    run.fail("a", 0);
    expect(facts(run)).toEqual([
      ["tasks.accepted", 1],
      ["task.run.started", 1, "r0"],
      ["task.run", 1, "r0"],
      ["task.run.started", 1, "r1"],
      ["task.run.crashed", 1, "r1", "crashed", STATS],
      ["tasks.retrying", 1],
    ]);
  });

  test("2.31 C5: the open run of a lost attempt is marked as crashed, before the attempt is lost", () => {
    const run = scripted();
    run.started("a", 0);
    run.runStarted("a", 0);
    run.runDone("a", 0);
    run.runStarted("a", 0, { index: 1 });
    run.lost("a", 0);
    run.started("a", 0);
    run.lost("a", 0);
    expect(facts(run).slice(2)).toEqual([
      ["task.run.started", 1, "r1"],
      ["task.run.crashed", 1, "r1", "lost", null],
      ["tasks.lost", 1],
      ["tasks.lost", 2],
    ]);
  });

  test.each([
    ["failed", (run: KernelRun) => run.fail("a", 0)],
    ["handed back", (run: KernelRun) => run.receipt("a", 0, { status: "cancelled" })],
    ["failed for good", (run: KernelRun) => run.fail("a", 0, { fatal: true })],
  ])("a run is open no longer than its attempt, which is %s", (_, end) => {
    const run = scripted();
    run.runStarted("a", 0);
    end(run);
    expect(facts(run)[1]).toEqual(["task.run.crashed", 1, "r0", "ended", null]);
    expect(run.handler("a").notices.size).toBe(0);
  });

  test("an attempt with an open run that is handed back in a cancelled visit leaves it crashed", () => {
    const run = scripted();
    run.runStarted("a", 0);
    run.control("cancel", "c1");
    run.receipt("a", 0, { status: "cancelled" });
    run.drained();
    expect(run.status).toBe("cancelled");
    expect(facts(run)).toEqual([
      ["task.run.started", 1, "r0"],
      ["task.run.crashed", 1, "r0", "ended", null],
      ["tasks.retrying", 1],
    ]);
  });

  test.each([
    ["is not the next one", { index: 1 }, "wrong_status"],
    ["is not in the script", { index: null, name: "typo" }, "invalid_input"],
    ["is of an attempt without its lease", { live: false }, "stale"],
  ])("a run that %s is not recorded", (_, given, expected) => {
    const run = scripted();
    expect(code(run.runStarted("a", 0, given))).toBe(expected);
    expect(code(run.runCrashed("a", 0, given))).toBe(expected);
    expect(facts(run)).toEqual([]);
  });

  test("a start of a run does not overrule a late done of an earlier attempt", () => {
    const run = scripted();
    for (const index of [0, 1, 2]) run.runDone("a", 0, { index });
    run.lost("a", 0);
    run.accepted("a", 0);
    expect(run.receipt("a", 0, { attempt: 1, live: false })).toBe("accepted");
    expect(run.status).toBe("done");
  });
});
