// The end of a child in its parent, and what reaches children while they run.
import { describe, expect, test } from "vitest";
import { KernelRun, phase, type StartOptions } from "../../test/fixtures/kernel/kernel-run-fixture.ts";
import type { ControlMessage, Sent } from "./message.ts";
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
    // A child that ended before the cancel reached it counts as done.
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
    // Each child gets a start, in case it was purged, and a retry.
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

function controls(run: KernelRun): ControlMessage[] {
  return run.sent
    .map(({ message }) => message)
    .filter((message): message is ControlMessage =>
      ["pause", "resume", "cancel", "retry"].includes(message.kind),
    );
}
