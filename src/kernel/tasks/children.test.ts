// Children: tasks that are executions of another workflow (DESIGN 3.1). The messages are those that travel as letters.
import { describe, expect, test } from "vitest";
import { KernelRun, phase, type StartOptions } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { encodeEntries } from "../journal/journal-entry.ts";
import { restore } from "../journal/replay.ts";
import { writeSnapshot } from "../journal/snapshot.ts";
import { viewExecution } from "../view.ts";
import { childId } from "./child-messages.ts";

const parent = (n: number, more: object = {}, options: StartOptions & { id?: string } = {}) =>
  new KernelRun([family(n, more)], options);

const family = (n: number, more: object = {}, options: object = {}) => ({
  name: "a",
  handlers: { a: { workflow: "kid", tasks: Array.from({ length: n }, (_, i) => ({ i })), ...more } },
  ...options,
});
const handler = (run: KernelRun) => run.handler("a");

const counts = (run: KernelRun) => {
  const [view] = viewExecution(run.execution, run.now).phases[0]?.handlers ?? [];
  return view && [view.pending, view.running, view.retrying, view.waiting, view.done, view.failed];
};
const PLACE = { phase: "a", visit: 1, handler: "a" };

const child = (depth = 1) => ({ execution: "p1", ...PLACE, task: 3, depth });

describe("the id of a child", () => {
  test("is derived from its place alone", () => {
    expect(childId("e1", PLACE, 0)).toBe(childId("e1", PLACE, 0));
    const others = [
      childId("e2", PLACE, 0),
      childId("e1", { ...PLACE, phase: "b" }, 0),
      childId("e1", { ...PLACE, visit: 2 }, 0),
      childId("e1", { ...PLACE, handler: "b" }, 0),
      childId("e1", PLACE, 1),
    ];
    expect(new Set([childId("e1", PLACE, 0), ...others]).size).toBe(6);
  });

  test("begins with the root of its family, and fits where ids go", () => {
    let id = "x".repeat(100);
    for (let depth = 1; depth <= 16; depth++) {
      id = childId(id, PLACE, 9_999_999);
      expect(id).toMatch(/^[A-Za-z0-9][A-Za-z0-9_:~-]{0,99}$/);
      expect(id.startsWith(`${"x".repeat(75)}~`)).toBe(true);
    }
    expect(childId("nightly", PLACE, 0)).toMatch(/^nightly~[0-9a-f]{24}$/);
  });
});

describe("a child is started", () => {
  test("with its task as input, its place as parent, and the family's project and trace", () => {
    const run = parent(2, {}, { trace: "00-a-b-01" });
    expect(run.children("a", [1], { input: '{"i":1}' })).toMatchObject({ kind: "applied" });
    const id = run.childOf("a", 1);
    expect(run.of("child.started")).toEqual([
      { kind: "child.started", ...PLACE, task: 1, attempt: 1, child: id },
    ]);
    expect(run.sent).toEqual([
      {
        id: `e1/${run.execution.seq}/0`,
        to: id,
        message: {
          kind: "start",
          execution: id,
          workflow: "kid",
          hash: "hash-of-kid",
          project: "default",
          input: '{"i":1}',
          tags: {},
          parent: { execution: "e1", ...PLACE, task: 1, depth: 1, since: run.execution.createdAt },
          trace: "00-a-b-01",
        },
      },
    ]);
    expect(counts(run)).toEqual([1, 1, 0, 0, 0, 0]);
  });

  test("once, however often it is asked for", () => {
    const run = parent(2);
    run.children("a", [0]);
    run.children("a", [0, 1]);
    run.children("a", [0, 1]);
    expect(run.sent.map(({ to }) => to)).toEqual([run.childOf("a", 0), run.childOf("a", 1)]);
    expect(handler(run).openChildren).toBe(2);
  });

  test("not again before its retry is due, though it is asked for again", () => {
    const run = parent(1, { retry: { attempts: 2, backoff: "constant", min: 1_000 } });
    run.children("a", [0]);
    run.childEnded("a", 0, { status: "failed" });
    run.children("a", [0]);
    expect(run.of("child.started")).toHaveLength(1);
    run.now = handler(run).tasks.until(0);
    run.children("a", [0]);
    expect(run.of("child.started")).toHaveLength(2);
  });

  test("without tasks or enumeration there is one, of the input", () => {
    const run = new KernelRun([{ name: "a", handlers: { a: { workflow: "kid" } } }], { input: "7" });
    run.children("a", [0], { input: "7" });
    expect(run.kinds()).toContain("handler.enumerated");
    run.childEnded("a", 0);
    expect(run.status).toBe("done");
  });

  test("by an enumeration, as its pages come", () => {
    const run = new KernelRun([{ name: "a", handlers: { a: { workflow: "kid", enumerate: { use: "l" } } } }]);
    run.page("a", [1, 2]);
    run.children("a", [0, 1]);
    run.childEnded("a", 0);
    run.childEnded("a", 1);
    expect(run.status).toBe("running");
    run.seal("a");
    expect(run.status).toBe("done");
  });

  test.each([
    ["paused", (run: KernelRun) => void run.control("pause")],
    ["being cancelled", (run: KernelRun) => void run.control("cancel")],
    ["in another round", () => {}],
  ])("not while its parent is %s", (what, prepare) => {
    const run = parent(1);
    prepare(run);
    expect(run.children("a", [0], what === "in another round" ? { round: 2 } : {})).toMatchObject({
      kind: "ignored",
    });
    expect(run.sent).toEqual([]);
  });

  test("to a depth of 16, and no further: then the task fails for good", () => {
    const deep = parent(1, {}, { parent: child(15) });
    deep.children("a", [0]);
    expect(deep.sent[0]?.message).toMatchObject({ kind: "start", parent: { depth: 16 } });
    const tooDeep = parent(1, {}, { parent: child(16) });
    tooDeep.children("a", [0]);
    expect(tooDeep.of("child.started")).toHaveLength(0);
    expect(tooDeep.of("tasks.settled")).toMatchObject([{ statuses: ["failed"], reasons: ["fatal"] }]);
    tooDeep.drained();
    expect(tooDeep.execution.error).toMatchObject({ code: "too_deep" });
  });

  test("a receipt or a step for its task is not a worker's to give", () => {
    const run = parent(1);
    run.children("a", [0]);
    expect(run.receipt("a", 0, { attempt: 1 })).toBe("stale");
    expect(run.receipt("a", 0)).toBe("stale");
    expect(run.stepDone("a", 0)).toBe("stale");
    expect(handler(run).openChildren).toBe(1);
  });
});

describe("a child itself", () => {
  const kid = (options: StartOptions = {}) =>
    new KernelRun([phase("b", { retry: { attempts: 1 } })], { id: "p1~k", parent: child(), ...options });

  test("tells its parent how it ended, once", () => {
    const done = kid();
    done.done("b", 0);
    expect(done.sent).toEqual([
      {
        id: `p1~k/${done.execution.seq}/0`,
        to: "p1",
        message: { kind: "child", ...PLACE, task: 3, child: "p1~k", status: "done", payload: "null" },
      },
    ]);
    const failed = kid();
    failed.fail("b", 0);
    expect(failed.sent).toEqual([]);
    failed.drained();
    expect(failed.sent).toMatchObject([{ message: { status: "failed" } }]);
    const cancelled = kid();
    cancelled.control("cancel");
    cancelled.drained();
    expect(cancelled.sent).toMatchObject([{ message: { status: "cancelled" } }]);
  });

  test("sends its output", () => {
    const run = new KernelRun(
      { name: "kid", phases: [phase("b")], returns: { use: "r" } },
      { id: "p1~k", parent: child() },
    );
    run.done("b", 0);
    run.receipt("returns", 0, { payload: '{"sum":3}' });
    expect(run.sent).toMatchObject([{ message: { status: "done", payload: '{"sum":3}' } }]);
  });

  test("that ends as it starts tells so at once", () => {
    const run = new KernelRun([{ name: "b", handlers: {} }], { id: "p1~k", parent: child() });
    expect(run.sent).toMatchObject([{ to: "p1", message: { status: "done" } }]);
  });

  test("is retried through its parent only, and says so", () => {
    const run = kid();
    run.fail("b", 0);
    run.drained();
    expect(run.control("retry")).toMatchObject({
      code: "wrong_status",
      hint: "the execution is a child: retry its parent p1",
    });
    expect(run.control("retry", "x", { fromParent: true })).toMatchObject({ kind: "applied" });
    run.sent.length = 0;
    run.done("b", 0);
    expect(run.sent).toMatchObject([{ message: { kind: "child", status: "done" } }]);
  });

  test("can be paused, resumed and cancelled by itself", () => {
    const run = kid();
    expect(run.control("pause")).toMatchObject({ kind: "applied" });
    expect(run.control("resume")).toMatchObject({ kind: "applied" });
    expect(run.control("cancel")).toMatchObject({ kind: "applied" });
  });

  test("a parent's word that comes twice counts once", () => {
    const run = kid();
    for (let i = 0; i < 2; i++) run.control("pause", "x~parent", { fromParent: true });
    run.control("resume");
    expect(run.control("pause", "x~parent", { fromParent: true })).toMatchObject({ kind: "applied" });
    expect(run.status).toBe("running");
  });
});

test("a parent is the same from its journal and from a snapshot, in the middle of its children", () => {
  const run = parent(4, { retry: { attempts: 2 } });
  const check = () => {
    const entries = encodeEntries(run.events, run.execution.id);
    const { id } = run.execution;
    const now = writeSnapshot(run.execution);
    expect(writeSnapshot(restore(id, run.plan, { snapshot: null, entries }))).toBe(now);
    const read = restore(id, run.plan, { snapshot: now, entries: [] });
    expect(writeSnapshot(read)).toBe(now);
    expect(read.current?.openChildren).toBe(run.execution.current?.openChildren);
  };
  run.children("a", [0, 1, 2]);
  check();
  run.childEnded("a", 0);
  run.childEnded("a", 1, { status: "failed" });
  check();
  run.children("a", [1, 3]);
  check();
  run.control("cancel");
  check();
  for (const task of [1, 2, 3]) run.childEnded("a", task, { status: "cancelled" });
  run.drained();
  check();
  run.control("retry");
  check();
});
