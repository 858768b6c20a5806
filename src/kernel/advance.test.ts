// Phases: what starts them, what ends them, and where they lead (DESIGN 3.1, first rule).
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../test/fixtures/kernel/kernel-run-fixture.ts";

const end = { name: "end", handlers: {}, final: true };

describe("a phase", () => {
  test("without handlers finishes at once", () => {
    const run = new KernelRun([{ name: "a", handlers: {} }, { name: "b" }]);
    expect(run.kinds()).toEqual([
      "created",
      "phase.started",
      "phase.finished",
      "phase.started",
      "phase.finished",
      "finished",
    ]);
    expect(run.status).toBe("done");
  });

  test("that is the first one starts with the execution", () => {
    const run = new KernelRun([phase("a"), phase("b")]);
    expect(run.phase).toBe("a");
    expect(run.execution.current?.visit).toBe(1);
  });

  test("goes on to the one after it unless it names its next", () => {
    const run = new KernelRun([phase("a", {}, { next: "c" }), phase("b"), phase("c")]);
    run.done("a", 0);
    expect(run.phase).toBe("c");
    run.done("c", 0);
    expect(run.status).toBe("done");
    expect(run.of("phase.finished").map(({ phase, next }) => [phase, next])).toEqual([
      ["a", "c"],
      ["c", null],
    ]);
  });

  test("that is final ends the execution, whatever stands behind it", () => {
    const run = new KernelRun([phase("a", {}, { final: true }), phase("b")]);
    run.done("a", 0);
    expect(run.status).toBe("done");
    expect(run.of("phase.started")).toHaveLength(1);
  });

  test('that is final: "failed" ends the execution as failed', () => {
    const run = new KernelRun([phase("a", {}, { final: "failed" })]);
    run.done("a", 0);
    expect(run.status).toBe("failed");
    expect(run.execution.error).toMatchObject({ code: "failed", phase: "a" });
  });

  test("ends once, after the last of its handlers, in any order of their ends", () => {
    const handlers = { x: { use: "x" }, y: { use: "y", tasks: [1, 2] }, z: { use: "z" } };
    for (const order of ["xyz", "zyx", "yxz", "zxy"]) {
      const run = new KernelRun([{ name: "a", handlers }, end]);
      for (const name of order) {
        expect(run.of("phase.finished")).toHaveLength(0);
        if (name === "y") run.done("y", 1, 0);
        else run.done(name, 0);
      }
      expect(run.of("handler.finished").map(({ handler }) => handler)).toEqual(order.split(""));
      expect(run.of("phase.finished").filter(({ phase }) => phase === "a")).toHaveLength(1);
      expect(run.status).toBe("done");
    }
  });

  test("has its one task from the input, sealed by the first word on it", () => {
    const run = new KernelRun([phase("a")], { input: '{"x":1}' });
    expect(run.handler("a").offered).toBe(1);
    expect(run.of("handler.enumerated")).toHaveLength(0);
    run.done("a", 0);
    expect(run.of("handler.enumerated")).toMatchObject([{ total: 1 }]);
  });

  test("with no listed tasks at all ends at once", () => {
    const run = new KernelRun([phase("a", { tasks: [] })]);
    expect(run.status).toBe("done");
    expect(run.of("handler.finished")).toMatchObject([{ done: 0, failed: 0, cancelled: 0 }]);
  });
});

describe("a decision", () => {
  const choosing = (more: object = {}) => [
    phase("a", {}, { next: { use: "w.a.next", among: ["a", "b"] }, ...more }),
    phase("b"),
  ];

  test("is asked after the handlers of its phase, and only then", () => {
    const run = new KernelRun(choosing());
    expect(run.execution.current?.handler("next")).toBeUndefined();
    run.done("a", 0);
    expect(run.execution.current?.handler("next")).toBeDefined();
    expect(run.of("phase.finished")).toHaveLength(0);
  });

  test("leads to the phase it names, back to its own too, in a new visit", () => {
    const run = new KernelRun(choosing());
    run.done("a", 0);
    run.receipt("next", 0, { payload: '"a"' });
    expect([run.phase, run.execution.current?.visit]).toEqual(["a", 2]);
    run.done("a", 0);
    run.receipt("next", 0, { payload: '"b"' });
    expect([run.phase, run.execution.current?.visit]).toEqual(["b", 1]);
  });

  test.each(['"c"', "null", "1", '["a"]', '"a "'])("that answers %s has failed for good", (payload) => {
    const run = new KernelRun(choosing());
    run.done("a", 0);
    run.receipt("next", 0, { payload });
    run.drained();
    expect(run.status).toBe("failed");
    expect(run.execution.error).toMatchObject({ code: "invalid_next", phase: "a", handler: "next" });
  });

  test("that throws is tried again within its budget", () => {
    const run = new KernelRun(choosing());
    run.done("a", 0);
    run.fail("next", 0);
    run.fail("next", 0);
    expect(run.execution.open).toBe(true);
    run.receipt("next", 0, { payload: '"b"' });
    expect(run.phase).toBe("b");
  });

  test("goes to onError of its phase when it fails", () => {
    const run = new KernelRun([...choosing({ onError: "fix" }), end, phase("fix")]);
    run.done("a", 0);
    run.fail("next", 0, { fatal: true });
    run.drained();
    expect(run.phase).toBe("fix");
  });
});

describe("visits", () => {
  const loop = (maxVisits?: number) => [
    { name: "a", handlers: {}, ...(maxVisits === undefined ? {} : { maxVisits }) },
    { name: "b", handlers: {}, next: { use: "n", among: ["a", "end"] } },
    end,
  ];

  test("are bounded by maxVisits; beyond it the execution has failed", () => {
    const run = new KernelRun(loop(3));
    for (let i = 0; i < 3; i++) run.receipt("next", 0, { payload: '"a"' });
    expect(run.status).toBe("failed");
    expect(run.execution.error).toMatchObject({ code: "visits_exceeded", phase: "a" });
    expect(run.of("phase.started").filter(({ phase }) => phase === "a")).toHaveLength(3);
  });

  test("are 1,000 by default", () => {
    const run = new KernelRun(loop());
    let rounds = 0;
    while (run.status === "running" && rounds < 2_000) {
      run.receipt("next", 0, { payload: '"a"' });
      rounds++;
    }
    expect(rounds).toBe(1_000);
    expect(run.execution.error?.code).toBe("visits_exceeded");
  });

  test("of a loop without any task are bounded as well", () => {
    const run = new KernelRun([
      { name: "a", handlers: {}, next: "b" },
      { name: "b", handlers: {}, next: "a" },
    ]);
    expect(run.status).toBe("failed");
    expect(run.execution.error?.code).toBe("visits_exceeded");
  });
});

describe("returns", () => {
  const definition = (phases: object[]) => ({ name: "w", phases, returns: { use: "w.returns" } });

  test("runs after the last phase and gives the output", () => {
    const run = new KernelRun(definition([phase("a")]));
    run.done("a", 0);
    expect(run.phase).toBe("returns");
    run.receipt("returns", 0, { payload: '{"n":1}' });
    expect(run.status).toBe("done");
    expect(run.execution.output).toBe('{"n":1}');
    expect(run.of("finished")).toMatchObject([{ status: "done", output: '{"n":1}' }]);
  });

  test("runs after a final phase, but not after one that is final: failed", () => {
    const phases = (final: unknown) => [phase("a", {}, { final }), phase("b")];
    const good = new KernelRun(definition(phases(true)));
    good.done("a", 0);
    expect(good.phase).toBe("returns");
    const bad = new KernelRun(definition(phases("failed")));
    bad.done("a", 0);
    expect(bad.status).toBe("failed");
  });

  test("that fails makes the execution fail", () => {
    const run = new KernelRun(definition([end]));
    run.fail("returns", 0, { fatal: true });
    run.drained();
    expect(run.status).toBe("failed");
    expect(run.execution.output).toBeNull();
  });

  test("without it the output is null", () => {
    const run = new KernelRun([phase("a")]);
    run.receipt("a", 0, { payload: '{"n":1}' });
    expect(run.execution.output).toBeNull();
  });
});
