// Events as others see them (INTERFACES 3): the envelope, payloads as values, lists as counts and ranges or as rows.
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { type Detail, type PublicEvent, publicEvent } from "./public-event.ts";

function shown(run: KernelRun, detail: Detail): PublicEvent[] {
  return run.events.map((recorded) => publicEvent("e1", recorded, detail));
}

/** A run with an event of every kind that has lists or payloads. */
function eventful(): KernelRun {
  const run = new KernelRun(
    [
      phase("a", { tasks: [10, 20, 30, 40, 50], tolerate: 2, retry: { attempts: 2 } }),
      { name: "b", handlers: { b: { waitFor: "go" } } },
    ],
    { input: '{"n":1}', tags: { team: "x" } },
  );
  run.started("a", 0, 1, 3);
  run.lost("a", 3);
  run.receipt("a", 3, { attempt: 1, live: false, status: "failed", payload: "{}" });
  run.fail("a", 4, { retryAfterMs: 500 });
  run.receipts("a", [
    { task: 0, payload: '{"ok":true}', ms: 12 },
    { task: 1 },
    { task: 2, status: "failed", fatal: true, payload: '{"message":"no"}' },
    { task: 3 },
    { task: 4 },
  ]);
  run.signal("go", [1, 2]);
  return run;
}

const find = (events: PublicEvent[], kind: string) =>
  events.find((event) => event.kind === `workflow.${kind}`);

describe("a public event", () => {
  test("has the envelope, and a kind with the prefix", () => {
    shown(eventful(), "summary").forEach((event, i) => {
      expect(event).toMatchObject({ seq: i + 1, at: 1_000, v: 1, execution: "e1" });
      expect(event.kind.startsWith("workflow.")).toBe(true);
    });
  });

  test("shows payloads as values", () => {
    const events = shown(eventful(), "full");
    expect(find(events, "created")).toMatchObject({
      workflow: "w",
      project: "default",
      input: { n: 1 },
      tags: { team: "x" },
    });
    expect(find(events, "signalled")).toMatchObject({ signal: "go", data: [1, 2] });
    expect(find(events, "finished")).toMatchObject({ status: "done", output: null, error: null, round: 1 });
  });

  test("in full has a row per task", () => {
    const events = shown(eventful(), "full");
    expect(find(events, "tasks.enumerated")).toMatchObject({
      from: 0,
      count: 5,
      tasks: [10, 20, 30, 40, 50],
    });
    expect(find(events, "tasks.started")).toMatchObject({
      phase: "a",
      visit: 1,
      handler: "a",
      count: 3,
      tasks: [
        { n: 0, attempt: 1, worker: "w1" },
        { n: 1, attempt: 1, worker: "w1" },
        { n: 3, attempt: 1, worker: "w1" },
      ],
    });
    expect(find(events, "tasks.late")).toMatchObject({
      tasks: [{ n: 3, attempt: 1, status: "failed", accepted: false }],
    });
    expect(find(events, "tasks.retrying")).toMatchObject({
      tasks: [{ n: 4, attempt: 1, reason: "failed", until: 1_500, error: { message: "boom" } }],
    });
    const settled = find(events, "tasks.settled") as PublicEvent & { tasks: unknown[] };
    expect(settled.tasks[0]).toEqual({
      n: 0,
      attempt: 1,
      status: "done",
      reason: null,
      worker: "w1",
      ms: 12,
      result: { ok: true },
    });
    expect(settled.tasks[2]).toMatchObject({
      n: 2,
      status: "failed",
      reason: "fatal",
      error: { message: "no" },
    });
  });

  test("in summary has counts and ranges, and no payload", () => {
    const events = shown(eventful(), "summary");
    expect(find(events, "tasks.enumerated")).not.toHaveProperty("tasks");
    expect(find(events, "tasks.started")).toMatchObject({
      count: 3,
      ranges: [
        [0, 1],
        [3, 3],
      ],
    });
    expect(find(events, "tasks.settled")).toMatchObject({ count: 5, ranges: [[0, 4]], done: 4, failed: 1 });
    // The event says why the task is retried.
    expect(find(events, "tasks.retrying")).toMatchObject({ reason: "failed", error: { message: "boom" } });
    expect(JSON.stringify(events)).not.toContain('"ok":true');
  });

  test("beyond 100 ranges shows the outer bounds", () => {
    const run = new KernelRun([phase("a", { tasks: Array.from({ length: 500 }, (_, i) => i) })]);
    run.done("a", ...Array.from({ length: 200 }, (_, i) => i * 2));
    expect(find(shown(run, "summary"), "tasks.settled")).toMatchObject({ count: 200, ranges: [[0, 398]] });
  });
});

describe("what happens inside of tasks", () => {
  const SECOND = { tasks: [1, 2] };
  const stepping = () => {
    const run = new KernelRun([phase("a", SECOND)]);
    run.stepDone("a", 0, { name: "fetch", result: { bytes: 3 } });
    run.suspend("a", 0, { name: "nap", untilMs: 5_000 });
    run.suspend("a", 1, { name: "go", signal: "go", timeoutMs: 500 });
    return run;
  };
  const H = { phase: "a", visit: 1, handler: "a" };

  test.each(["summary", "full"] as const)("a step shows its name and its result in %s", (detail) => {
    const event = find(shown(stepping(), detail), "task.step");
    expect(event).toEqual({
      seq: event?.seq,
      at: 1_000,
      kind: "workflow.task.step",
      v: 2,
      execution: "e1",
      ...H,
      n: 0,
      attempt: 1,
      name: "fetch",
      reason: "done",
      result: { bytes: 3 },
    });
  });

  test("what is waited for is a time or a signal, as a row or as a range", () => {
    const [first, second] = shown(stepping(), "full").filter(({ kind }) => kind === "workflow.tasks.waiting");
    expect(first).toMatchObject({
      ...H,
      v: 2,
      tasks: [{ n: 0, attempt: 1, name: "nap", timer: "nap", due: 5_000 }],
    });
    expect(second).toMatchObject({ ...H, tasks: [{ n: 1, attempt: 1, name: "go", signal: "go" }] });
    expect(second?.["tasks"]).toEqual([expect.not.objectContaining({ due: 0 })]);
    expect(second?.["tasks"]).toEqual([expect.not.objectContaining({ timer: "go" })]);
    const [summary] = shown(stepping(), "summary").filter(({ kind }) => kind === "workflow.tasks.waiting");
    expect(summary).toMatchObject({ ...H, count: 1, ranges: [[0, 0]] });
    expect(summary).not.toHaveProperty("tasks");
  });

  test("an answered wait says what answered it: the signal's data, or an error", () => {
    const signalled = stepping();
    signalled.signal("go", [1]);
    expect(shown(signalled, "summary").at(-1)).toMatchObject({
      kind: "workflow.task.step",
      n: 1,
      name: "go",
      reason: "signalled",
      result: [1],
    });
    const late = stepping();
    late.now = 1_500;
    late.timer("a.1.a.1");
    const answer = shown(late, "full").at(-1);
    expect(answer).toMatchObject({ reason: "timer", error: { code: "wait_timeout" } });
    expect(answer).not.toHaveProperty("result");
    expect(find(shown(late, "full"), "timer.fired")).toMatchObject({ timer: "a.1.a.1", purpose: "task" });
  });

  test("a run shows its state and its stats; a state over the limit only in full", () => {
    const script = ["r0", "r1"].map((name) => ({ name, expression: "s => s" }));
    const run = new KernelRun([{ name: "a", handlers: { a: { script } } }]);
    run.runDone("a", 0, { index: 0, state: { n: 1 } });
    run.runDone("a", 0, { index: 1, state: { n: 2 }, oversized: true });
    const stats = { durationMs: 3, memoryBytes: 1_000 };
    const runs = (detail: Detail) => shown(run, detail).filter(({ kind }) => kind === "workflow.task.run");
    expect(runs("summary")[0]).toMatchObject({
      ...H,
      v: 2,
      n: 0,
      attempt: 1,
      name: "r0",
      index: 0,
      state: { n: 1 },
      oversized: false,
      stats,
    });
    expect(runs("summary")[1]).toMatchObject({ name: "r1", oversized: true, stats });
    expect(runs("summary")[1]).not.toHaveProperty("state");
    expect(runs("full")[1]).toMatchObject({ state: { n: 2 } });
  });

  test("children show their task, their id and how they ended", () => {
    const run = new KernelRun([{ name: "a", handlers: { a: { workflow: "kid", ...SECOND } } }], {
      parent: { execution: "p", ...H, task: 4, depth: 1 },
    });
    run.children("a", [1]);
    run.childEnded("a", 1);
    const events = shown(run, "summary");
    const child = run.childOf("a", 1);
    expect(find(events, "created")).toMatchObject({ parent: { execution: "p", ...H, task: 4, depth: 1 } });
    const started = find(events, "child.started");
    expect(started).toMatchObject({ ...H, v: 2, n: 1, attempt: 1, child });
    expect(started).not.toHaveProperty("status");
    expect(started).not.toHaveProperty("task");
    expect(find(events, "child.finished")).toMatchObject({ ...H, n: 1, attempt: 1, child, status: "done" });
  });
});
