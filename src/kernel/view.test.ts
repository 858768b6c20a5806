// An execution as others see it: phases in the order of their visits, tasks counted by state.
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../test/fixtures/kernel/kernel-run-fixture.ts";
import { viewExecution } from "./view.ts";

const view = (run: KernelRun, running: Record<string, number> = {}, now = run.now) =>
  viewExecution(run.execution, now, new Map(Object.entries(running)));

describe("the view", () => {
  test("counts tasks by state while a phase runs", () => {
    const run = new KernelRun([phase("a", { tasks: [0, 1, 2, 3, 4, 5, 6, 7], tolerate: 5 })]);
    run.done("a", 0);
    run.fail("a", 1, { fatal: true });
    run.fail("a", 2, { retryAfterMs: 5_000 });
    expect(view(run, { a: 3 }).phases[0]?.handlers).toEqual([
      {
        name: "a",
        total: 8,
        sealed: true,
        pending: 2,
        running: 3,
        retrying: 1,
        waiting: 0,
        done: 1,
        failed: 1,
        cancelled: 0,
      },
    ]);
    expect(view(run, {}, 7_000).phases[0]?.handlers[0]).toMatchObject({ retrying: 0, pending: 6 });
  });

  test("shows every visit in order, then what is still to come", () => {
    const run = new KernelRun([
      phase("a", {}, { next: { use: "n", among: ["a", "b"] } }),
      phase("b"),
      { name: "end", handlers: {}, final: true },
    ]);
    run.done("a", 0);
    run.receipt("next", 0, { payload: '"a"' });
    run.done("a", 0);
    run.receipt("next", 0, { payload: '"b"' });
    expect(view(run).phases.map(({ name, visit, status }) => [name, visit, status])).toEqual([
      ["a", 1, "done"],
      ["a", 2, "done"],
      ["b", 1, "running"],
      ["end", 0, "pending"],
    ]);
    expect(view(run).phase).toBe("b");
  });

  test("shows what was never reached as skipped once it is over, and the error only then", () => {
    const run = new KernelRun([
      phase("a", {}, { onError: "fix" }),
      { name: "end", final: true },
      phase("fix", {}, { final: "failed" }),
    ]);
    run.fail("a", 0, { fatal: true });
    run.drained();
    expect(view(run)).toMatchObject({ status: "running", error: null });
    run.done("fix", 0);
    expect(view(run)).toMatchObject({ status: "failed", phase: null, error: { message: "boom" } });
    expect(view(run).phases.map(({ name, status }) => [name, status])).toEqual([
      ["a", "failed"],
      ["fix", "done"],
      ["end", "skipped"],
    ]);
  });

  test("of a visit that is open again in a new round shows it once, as running", () => {
    const run = new KernelRun([phase("a", { tasks: [0, 1] })]);
    run.done("a", 0);
    run.fail("a", 1, { fatal: true });
    run.drained();
    run.control("retry");
    expect(view(run).phases).toMatchObject([
      { name: "a", visit: 1, status: "running", handlers: [{ done: 1, failed: 0, pending: 1 }] },
    ]);
    expect(view(run)).toMatchObject({ status: "running", error: null, finishedAt: null });
  });

  test("counts a sleep or a wait as waiting", () => {
    const run = new KernelRun([{ name: "a", handlers: { nap: { sleep: 5 }, go: { waitFor: "go" } } }]);
    for (const handler of view(run).phases[0]?.handlers ?? [])
      expect(handler).toMatchObject({ total: 1, waiting: 1, pending: 0 });
  });

  test("shows input, output, tags and the revision", () => {
    const run = new KernelRun(
      { name: "w", phases: [{ name: "a" }], returns: { use: "r" } },
      { input: '{"x":[1]}', tags: { t: "1" } },
    );
    run.receipt("returns", 0, { payload: '{"y":2}' });
    expect(view(run)).toMatchObject({
      id: "e1",
      workflow: "w",
      input: { x: [1] },
      output: { y: 2 },
      tags: { t: "1" },
      revision: run.execution.seq,
      createdAt: 1_000,
      finishedAt: 1_000,
    });
  });
});
