// Children: tasks that are executions of another workflow (DESIGN 3.1). The messages are those that travel as letters.
import { describe, expect, test } from "vitest";
import { KernelRun, phase, type StartOptions } from "../../test/scenarios/kernel-run.ts";
import { childId } from "./children.ts";
import { encodeEntries } from "./journal-entry.ts";
import type { ControlMessage, Sent } from "./message.ts";
import { restore } from "./replay.ts";
import { writeSnapshot } from "./snapshot.ts";
import { viewExecution } from "./view.ts";

const parent = (n: number, more: object = {}, options: StartOptions & { id?: string } = {}) =>
  new KernelRun([family(n, more)], options);
const family = (n: number, more: object = {}, options: object = {}) => ({
  name: "a",
  handlers: { a: { workflow: "kid", tasks: Array.from({ length: n }, (_, i) => ({ i })), ...more } },
  ...options,
});
const kinds = (sent: readonly Sent[]) => sent.map(({ message }) => message.kind);
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

describe("the end of a child", () => {
  test("done settles its task with its output", () => {
    const run = parent(2);
    run.children("a", [0, 1]);
    run.childEnded("a", 1, { payload: '{"sum":3}' });
    expect(run.of("child.finished")).toMatchObject([{ task: 1, attempt: 1, status: "done" }]);
    expect(run.of("tasks.settled")).toMatchObject([
      {
        tasks: [1],
        attempts: [1],
        statuses: ["done"],
        payloads: ['{"sum":3}'],
        workers: [run.childOf("a", 1)],
      },
    ]);
    expect(run.status).toBe("running");
    run.childEnded("a", 0);
    expect(run.status).toBe("done");
    expect(handler(run).children.size).toBe(0);
  });

  test("told twice counts once", () => {
    const run = parent(2);
    run.children("a", [0, 1]);
    run.childEnded("a", 0);
    const { seq } = run.execution;
    expect(run.childEnded("a", 0)).toMatchObject({ kind: "ignored" });
    expect(run.execution.seq).toBe(seq);
  });

  test.each([
    ["a child that was never started", {}, 1],
    ["a child of another name under this task", { child: "someone-else" }, 0],
    ["a task that does not exist", {}, 9],
  ])("of %s changes nothing", (_what, given, task) => {
    const run = parent(2);
    run.children("a", [0]);
    expect(run.childEnded("a", task, given)).toMatchObject({ kind: "ignored" });
    expect(run.of("child.finished")).toEqual([]);
  });

  test("after its phase is over, or of a phase that never was, changes nothing", () => {
    const run = new KernelRun([family(1), phase("b")]);
    run.children("a", [0]);
    run.childEnded("a", 0);
    expect(run.childEnded("a/1/a", 0)).toMatchObject({ kind: "ignored" });
    expect(run.childEnded("x/1/x", 0)).toMatchObject({ kind: "ignored" });
    expect(run.phase).toBe("b");
  });

  test("failed is tried again by the policy: the same child, by a retry", () => {
    const run = parent(1, { retry: { attempts: 3, backoff: "constant", min: 0, max: 0 } });
    run.children("a", [0]);
    const id = run.childOf("a", 0);
    for (const attempt of [1, 2]) {
      run.childEnded("a", 0, { status: "failed" });
      expect(run.of("tasks.retrying").at(-1)).toMatchObject({ attempts: [attempt], reasons: ["failed"] });
      expect(handler(run).tasks.fails(0)).toBe(attempt);
      expect(counts(run)).toEqual([1, 0, 0, 0, 0, 0]);
      run.children("a", [0]);
      const retry = run.sent.at(-1) as Sent;
      expect(retry.to).toBe(id);
      expect(retry.message).toMatchObject({ kind: "retry", by: "parent e1", fromParent: true });
    }
    expect(new Set(run.sent.map(({ id }) => id)).size).toBe(run.sent.length);
    expect(new Set(controls(run).map(({ id }) => id)).size).toBe(2);
    run.childEnded("a", 0, { status: "failed" });
    expect(run.of("tasks.settled")).toMatchObject([{ statuses: ["failed"], reasons: ["attempts"] }]);
    run.drained();
    expect(run.execution.error).toMatchObject({ code: "child_failed", phase: "a", handler: "a", task: 0 });
    expect(run.execution.error?.message).toContain(`child ${id} failed: boom`);
  });

  test("failed waits for its backoff, and shows it", () => {
    const run = parent(1, { retry: { attempts: 3, backoff: "constant", min: 10_000 } });
    run.children("a", [0]);
    run.childEnded("a", 0, { status: "failed" });
    const [{ untils } = { untils: [0] }] = run.of("tasks.retrying");
    const until = untils[0] as number;
    expect(until).toBeGreaterThan(run.now);
    expect(counts(run)).toEqual([0, 0, 1, 0, 0, 0]);
    expect(handler(run).tasks.takeDue(until - 1, 9)).toEqual([]);
    expect(handler(run).tasks.takeDue(until, 9)).toEqual([0]);
  });

  test("cancelled fails its task at once: who cancelled it does not want it again", () => {
    const run = parent(1, { retry: { attempts: 9 } });
    run.children("a", [0]);
    run.childEnded("a", 0, { status: "cancelled", payload: '{"code":"cancelled","message":"by ann"}' });
    expect(run.of("tasks.settled")).toMatchObject([{ statuses: ["failed"], reasons: ["cancelled"] }]);
  });

  test("failed within what is tolerated lets the phase go on", () => {
    const run = parent(2, { tolerate: 1, retry: { attempts: 1 } });
    run.children("a", [0, 1]);
    run.childEnded("a", 0, { status: "failed" });
    run.childEnded("a", 1);
    expect(run.status).toBe("done");
    expect(run.of("handler.finished")).toMatchObject([{ done: 1, failed: 1 }]);
  });

  test("counts while its parent is paused", () => {
    const run = parent(1);
    run.children("a", [0]);
    run.control("pause");
    expect(run.childEnded("a", 0)).toMatchObject({ kind: "applied" });
    expect(run.of("tasks.settled")).toHaveLength(1);
  });
});

describe("what reaches the children:", () => {
  const open = (run: KernelRun, ...tasks: number[]) => tasks.map((task) => run.childOf("a", task));
  const started = (n: number, more: object = {}, options: object = {}) => {
    const run = new KernelRun([family(n, more, options), phase("fix")]);
    run.children(
      "a",
      Array.from({ length: n }, (_, i) => i),
    );
    run.sent.length = 0;
    return run;
  };

  test("a pause and a resume, once each, those that are open", () => {
    const run = started(3);
    run.childEnded("a", 1);
    run.control("pause", "p1");
    run.control("pause", "p1");
    expect(run.sent.map(({ to }) => to)).toEqual(open(run, 0, 2));
    expect(controls(run)).toEqual(
      [0, 2].map(() => ({ kind: "pause", id: "p1~parent", by: "parent e1", reason: null, fromParent: true })),
    );
    run.sent.length = 0;
    run.control("resume", "r1");
    expect(kinds(run.sent)).toEqual(["resume", "resume"]);
  });

  test("a cancel, with its reason; the parent ends when the last of them has", () => {
    const run = started(2);
    run.control("cancel", "c1", { reason: "enough" });
    expect(controls(run)).toMatchObject([
      { kind: "cancel", reason: "enough" },
      { kind: "cancel", reason: "enough" },
    ]);
    expect(run.drained()).toMatchObject({ kind: "ignored", why: "children are open" });
    run.childEnded("a", 0, { status: "cancelled" });
    expect(run.drained()).toMatchObject({ kind: "ignored" });
    // One that was quicker than the cancel counts as done.
    run.childEnded("a", 1);
    run.drained();
    expect(run.status).toBe("cancelled");
    expect(run.of("handler.finished")).toMatchObject([{ done: 1, failed: 0, cancelled: 1 }]);
    expect(run.sent).toHaveLength(2);
  });

  test("a phase that fails, once; onError waits for them", () => {
    const run = started(3, { retry: { attempts: 1 } }, { onError: "fix", final: true });
    run.childEnded("a", 0, { status: "failed" });
    expect(run.execution.draining).toBe(true);
    expect(run.sent.map(({ to }) => to)).toEqual(open(run, 1, 2));
    expect(kinds(run.sent)).toEqual(["cancel", "cancel"]);
    run.childEnded("a", 1, { status: "cancelled" });
    expect(run.sent).toHaveLength(2);
    expect(run.drained()).toMatchObject({ kind: "ignored" });
    expect(run.phase).toBe("a");
    run.childEnded("a", 2, { status: "failed" });
    run.drained();
    expect(run.phase).toBe("fix");
  });

  test("a failure of another handler of the phase", () => {
    const handlers = { a: { workflow: "kid" }, b: { use: "b", retry: { attempts: 1 } } };
    const run = new KernelRun([{ name: "a", handlers }]);
    run.children("a", [0]);
    run.fail("b", 0);
    expect(kinds(run.sent)).toEqual(["start", "cancel"]);
  });

  test("a deadline", () => {
    const run = parent(1, {}, { deadline: 5_000 });
    run.children("a", [0]);
    run.now = 5_000;
    run.timer("deadline");
    expect(controls(run)).toMatchObject([{ kind: "cancel", reason: "deadline" }]);
  });

  test("a cancel in a later round has an id of its own, and is not taken for the first", () => {
    const run = started(1);
    run.control("cancel");
    run.childEnded("a", 0, { status: "cancelled" });
    run.drained();
    run.control("retry");
    run.children("a", [0]);
    run.control("cancel");
    const ids = controls(run)
      .filter(({ kind }) => kind === "cancel")
      .map(({ id }) => id);
    expect(new Set(ids).size).toBe(2);
  });

  test("a retry of the parent: what is not done is asked for again, by a retry", () => {
    const run = started(3, { retry: { attempts: 1 } });
    run.childEnded("a", 0);
    run.childEnded("a", 1, { status: "failed" });
    run.childEnded("a", 2, { status: "cancelled" });
    run.drained();
    expect(run.status).toBe("failed");
    run.control("retry");
    run.sent.length = 0;
    expect(counts(run)).toEqual([2, 0, 0, 0, 1, 0]);
    run.children("a", [0, 1, 2]);
    expect(run.sent.map(({ to }) => to)).toEqual(open(run, 1, 1, 2, 2));
    // A start for those that were purged since, a repeat for the others.
    expect(kinds(run.sent)).toEqual(["start", "retry", "start", "retry"]);
    run.childEnded("a", 1);
    run.childEnded("a", 2);
    expect(run.phase).toBe("fix");
  });

  test("nothing, where they are of a visit that is over", () => {
    const run = new KernelRun([family(1), phase("b")]);
    run.children("a", [0]);
    run.childEnded("a", 0);
    run.sent.length = 0;
    run.control("pause");
    run.control("cancel");
    expect(run.sent).toEqual([]);
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
      hint: "it is a child: retry its parent p1",
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
    const entries = encodeEntries(run.events);
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

function controls(run: KernelRun): ControlMessage[] {
  return run.sent
    .map(({ message }) => message)
    .filter((message) => message.kind !== "start" && message.kind !== "child");
}
