// Failing: latched when failures exceed what is tolerated, drained, then onError or the end (DESIGN 3.1).
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../test/fixtures/kernel/kernel-run-fixture.ts";

const end = { name: "end", handlers: {}, final: true };
const fatal = { fatal: true };
const tasks = (n: number) => Array.from({ length: n }, (_, i) => i);

describe("failing", () => {
  test("is latched by the first failed task if nothing is tolerated", () => {
    const run = new KernelRun([phase("a", { tasks: [0, 1] }), end]);
    run.fail("a", 1, fatal);
    expect(run.execution.current?.failing).toMatchObject({ code: "task_failed", task: 1, attempt: 1 });
    expect(run.execution.open).toBe(false);
    expect(run.execution.draining).toBe(true);
    expect(run.of("phase.finished")).toHaveLength(0);
  });

  test("carries the code and message of the error that caused it", () => {
    const run = new KernelRun([phase("a")]);
    run.fail("a", 0, { fatal: true, payload: '{"name":"HttpError","code":"http_500","message":"no"}' });
    expect(run.execution.current?.failing).toMatchObject({ code: "http_500", message: "HttpError: no" });
  });

  test.each([
    ["null", "failed"],
    ['"text"', "failed"],
    ["[]", "failed"],
    ['{"message":7}', "failed"],
  ])("takes an error of any shape: %s", (payload, message) => {
    const run = new KernelRun([phase("a")]);
    run.fail("a", 0, { fatal: true, payload });
    expect(run.execution.current?.failing).toMatchObject({ code: "task_failed", message });
  });

  test("ends the phase only when the owner says that nothing is open", () => {
    const run = new KernelRun([phase("a", { tasks: [0, 1, 2] })]);
    run.fail("a", 0, fatal);
    run.done("a", 1);
    expect(run.status).toBe("running");
    run.drained();
    expect(run.status).toBe("failed");
    expect(run.of("handler.finished")).toMatchObject([{ done: 1, failed: 1, cancelled: 1 }]);
    expect(run.of("phase.finished")).toMatchObject([{ status: "failed", next: null }]);
  });

  test("is not undone by what comes while it drains, not even if all tasks settle", () => {
    const run = new KernelRun([phase("a", { tasks: [0, 1] })]);
    run.fail("a", 0, fatal);
    expect(run.done("a", 1)).toEqual(["accepted"]);
    expect(run.status).toBe("running");
    run.drained();
    expect(run.status).toBe("failed");
    expect(run.execution.error).toMatchObject({ task: 0 });
  });

  test("keeps its first cause", () => {
    const run = new KernelRun([phase("a", { tasks: [0, 1] })]);
    run.fail("a", 1, { fatal: true, payload: '{"message":"one"}' });
    run.fail("a", 0, { fatal: true, payload: '{"message":"two"}' });
    run.drained();
    expect(run.execution.error).toMatchObject({ message: "one", task: 1 });
  });

  test("stops enumeration: neither pages nor seals are taken any more", () => {
    const run = new KernelRun([phase("a", { enumerate: { use: "l" } })]);
    run.page("a", [0, 1]);
    run.fail("a", 0, fatal);
    expect(run.page("a", [2])).toMatchObject({ kind: "ignored" });
    expect(run.seal("a")).toMatchObject({ kind: "ignored" });
  });

  test("drains the other handlers of the phase too", () => {
    const handlers = { x: { use: "x" }, y: { use: "y", tasks: [0, 1] }, nap: { sleep: "1h" } };
    const run = new KernelRun([{ name: "a", handlers }]);
    run.fail("x", 0, fatal);
    run.drained();
    expect(run.of("handler.finished")).toMatchObject([
      { handler: "x", done: 0, failed: 1, cancelled: 0 },
      { handler: "y", done: 0, failed: 0, cancelled: 2 },
      { handler: "nap", done: 0, failed: 0, cancelled: 1 },
    ]);
    expect(run.execution.timers.size).toBe(0);
  });

  test("of another visit or round is not ended by an old word of the owner", () => {
    const run = new KernelRun([phase("a")]);
    run.fail("a", 0, fatal);
    for (const stale of [
      { phase: "b", visit: 1, round: 1 },
      { phase: "a", visit: 2, round: 1 },
      { phase: "a", visit: 1, round: 2 },
    ])
      expect(run.send({ kind: "drained", ...stale })).toMatchObject({ kind: "ignored" });
    expect(run.drained()).toMatchObject({ kind: "applied" });
    expect(run.drained()).toMatchObject({ kind: "ignored" });
  });
});

describe("tolerate", () => {
  test.each([
    [0, 0, "running"],
    [0, 1, "failing"],
    [2, 2, "running"],
    [2, 3, "failing"],
  ])("%i as a number judges at once: with %i failures it is %s", (tolerate, failures, state) => {
    const run = new KernelRun([phase("a", { enumerate: { use: "l" }, tolerate })]);
    run.page("a", tasks(10));
    for (let i = 0; i < failures; i++) run.fail("a", i, fatal);
    expect(run.execution.draining ? "failing" : "running").toBe(state);
  });

  test.each([
    ["10%", 1, false],
    ["10%", 2, true],
    ["0.5%", 1, true],
    ["100%", 10, false],
    ["25%", 2, false],
    ["25%", 3, true],
  ])("%s of 10 tasks judges when the handler is sealed: %i failures", (tolerate, failures, isFailing) => {
    const run = new KernelRun([phase("a", { enumerate: { use: "l" }, tolerate })]);
    run.page("a", tasks(10));
    for (let i = 0; i < failures; i++) run.fail("a", i, fatal);
    expect(run.execution.draining).toBe(false);
    run.seal("a");
    expect(run.execution.draining).toBe(isFailing);
  });

  test.each([7, 28, 29, 55, 57, 58])("exactly %i percent of 100 tasks is not more than that", (percent) => {
    const run = new KernelRun([phase("a", { tasks: tasks(100), tolerate: `${percent}%` })]);
    for (let i = 0; i < percent; i++) run.fail("a", i, fatal);
    expect(run.execution.draining).toBe(false);
    run.fail("a", percent, fatal);
    expect(run.execution.draining).toBe(true);
  });

  test("a percentage goes on judging after the seal", () => {
    const run = new KernelRun([phase("a", { tasks: tasks(4), tolerate: "25%" })]);
    run.fail("a", 0, fatal);
    expect(run.execution.draining).toBe(false);
    run.fail("a", 1, fatal);
    expect(run.execution.draining).toBe(true);
  });

  test("what is tolerated ends the phase done, with its failures counted", () => {
    const run = new KernelRun([phase("a", { tasks: tasks(3), tolerate: 1 })]);
    run.fail("a", 1, fatal);
    run.done("a", 0, 2);
    expect(run.status).toBe("done");
    expect(run.of("handler.finished")).toMatchObject([{ done: 2, failed: 1, cancelled: 0 }]);
  });

  test("counts per handler, not per phase", () => {
    const handlers = { x: { use: "x", tolerate: 1 }, y: { use: "y", tolerate: 1 } };
    const run = new KernelRun([{ name: "a", handlers }]);
    run.fail("x", 0, fatal);
    run.fail("y", 0, fatal);
    expect(run.status).toBe("done");
  });
});

describe("onError", () => {
  const repaired = [
    phase("a", { tasks: [0, 1] }, { onError: "fix" }),
    end,
    phase("fix", {}, { final: "failed" }),
  ];

  test("takes over when the failing phase has drained, never beside its work", () => {
    const run = new KernelRun(repaired);
    run.fail("a", 0, fatal);
    expect(run.phase).toBe("a");
    run.drained();
    expect(run.phase).toBe("fix");
    expect(run.of("phase.finished")).toMatchObject([{ phase: "a", status: "failed", next: "fix" }]);
  });

  test('with final: "failed" ends failed with the first error', () => {
    const run = new KernelRun(repaired);
    run.fail("a", 0, { fatal: true, payload: '{"message":"first"}' });
    run.drained();
    run.done("fix", 0);
    expect(run.status).toBe("failed");
    expect(run.execution.error).toMatchObject({ message: "first", phase: "a" });
  });

  test("that fails itself ends failed with the first error", () => {
    const run = new KernelRun(repaired);
    run.fail("a", 0, { fatal: true, payload: '{"message":"first"}' });
    run.drained();
    run.fail("fix", 0, { fatal: true, payload: '{"message":"second"}' });
    run.drained();
    expect(run.status).toBe("failed");
    expect(run.execution.error).toMatchObject({ message: "first" });
  });

  test("with final: true ends done, without an error", () => {
    const run = new KernelRun([phase("a", {}, { onError: "fix" }), end, phase("fix", {}, { final: true })]);
    run.fail("a", 0, fatal);
    run.drained();
    run.done("fix", 0);
    expect(run.status).toBe("done");
    expect(run.execution.error).toBeNull();
  });

  test("may lead back to the phase it repairs, in a new visit", () => {
    const run = new KernelRun([phase("a", {}, { onError: "fix" }), end, phase("fix", {}, { next: "a" })]);
    run.fail("a", 0, fatal);
    run.drained();
    run.done("fix", 0);
    expect([run.phase, run.execution.current?.visit]).toEqual(["a", 2]);
    run.done("a", 0);
    expect(run.status).toBe("done");
  });

  test("an enumeration that is out of attempts fails the phase as well", () => {
    const run = new KernelRun([
      phase("a", { enumerate: { use: "l" }, retry: { attempts: 1 } }, { onError: "fix" }),
      end,
      phase("fix"),
    ]);
    run.seal("a", { status: "failed", payload: '{"message":"no list"}' });
    expect(run.execution.draining).toBe(true);
    run.drained();
    expect(run.phase).toBe("fix");
    expect(run.execution.error).toMatchObject({ code: "enumeration_failed", message: "no list", phase: "a" });
  });
});
