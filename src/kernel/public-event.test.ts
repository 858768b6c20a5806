// Events as others see them (INTERFACES 3): the envelope, payloads as values, lists as counts and ranges or as rows.
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../test/scenarios/kernel-run.ts";
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
    expect(JSON.stringify(events)).not.toContain('"ok":true');
  });

  test("beyond 100 ranges shows the outer bounds", () => {
    const run = new KernelRun([phase("a", { tasks: Array.from({ length: 500 }, (_, i) => i) })]);
    run.done("a", ...Array.from({ length: 200 }, (_, i) => i * 2));
    expect(find(shown(run, "summary"), "tasks.settled")).toMatchObject({ count: 200, ranges: [[0, 398]] });
  });
});
