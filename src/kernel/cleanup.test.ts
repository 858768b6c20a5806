// The clean-up after a cancel, a deadline, a failure and a done: its order, its tasks, and what ends it.
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../test/fixtures/kernel/kernel-run-fixture.ts";
import { Execution } from "./execution.ts";
import { encodeEntries, versionNeeded } from "./journal/journal-entry.ts";
import { replay } from "./journal/replay.ts";
import { readSnapshot, writeSnapshot } from "./journal/snapshot.ts";
import type { StartMessage } from "./message.ts";
import { create, type Stepped, step } from "./step.ts";
import { compensatedTask } from "./tasks/compensation.ts";
import { viewExecution } from "./view.ts";

const compensate = { compensate: { use: "undo" } };
const fatal = { fatal: true };

const order = (more: object = {}, ends: object = {}) => ({
  name: "shop",
  phases: [
    phase("reserve", { ...compensate }),
    phase("charge", { tasks: [1, 2, 3], ...compensate, ...more }),
    phase("ship"),
    phase("tell"),
    phase("mend"),
    phase("close"),
  ],
  onCancel: "tell",
  onFailure: "mend",
  finally: "close",
  ...ends,
});

/** The phases that were entered, with their visits. */
const entered = (run: KernelRun) => run.of("phase.started").map(({ phase, visit }) => `${phase}/${visit}`);

/** An order that is cancelled while it charges: task 0 is done, task 1 was lost, task 2 was never given out. */
function cancelledWhileCharging(): KernelRun {
  const run = new KernelRun(order());
  run.done("reserve", 0);
  run.receipt("charge", 0, { payload: '"receipt 0"' });
  run.started("charge", 1);
  run.lost("charge", 1);
  run.control("cancel");
  run.drained();
  return run;
}

describe("the order of a clean-up", () => {
  test("is compensation in reverse order of the ends of visits, onCancel, finally, and the end", () => {
    const run = cancelledWhileCharging();
    expect(run.of("ending")).toMatchObject([{ status: "cancelled", error: { code: "cancelled" } }]);
    expect(run.execution.shownStatus).toBe("cleaning");
    run.done("charge", 0, 1);
    run.done("reserve", 0);
    run.done("tell", 0);
    run.done("close", 0);
    expect(entered(run)).toEqual([
      "reserve/1",
      "charge/1",
      "charge~compensate/1",
      "reserve~compensate/1",
      "tell/1",
      "close/1",
    ]);
    expect(run.of("finished")).toMatchObject([{ status: "cancelled", error: { code: "cancelled" } }]);
    expect(run.execution.timers.size).toBe(0);
  });

  test("after a failure has onFailure in place of onCancel, and keeps the error", () => {
    const run = new KernelRun(order({ retry: { attempts: 1 } }));
    run.done("reserve", 0);
    run.fail("charge", 1);
    run.drained();
    // The task that failed has begun, and its outcome is not known.
    expect(compensatedTask(run.execution, run.handler("charge"), 1)).toEqual({
      outcome: "unknown",
      result: 0,
    });
    run.done("charge", 1);
    run.done("reserve", 0);
    run.done("mend", 0);
    run.done("close", 0);
    expect(entered(run).slice(2)).toEqual([
      "charge~compensate/1",
      "reserve~compensate/1",
      "mend/1",
      "close/1",
    ]);
    expect(run.execution.error).toMatchObject({ code: "task_failed", phase: "charge", task: 1 });
    expect(run.status).toBe("failed");
  });

  test("after done is finally alone, and keeps the output", () => {
    const run = new KernelRun({ ...order(), returns: { use: "r" } });
    for (const [name, tasks] of [
      ["reserve", [0]],
      ["charge", [0, 1, 2]],
      ["ship", [0]],
    ] as const)
      run.done(name, ...tasks);
    run.receipt("returns", 0, { payload: "42" });
    expect(run.phase).toBe("close");
    expect(run.execution.shownStatus).toBe("cleaning");
    run.fail("close", 0, fatal);
    expect(run.status).toBe("done");
    expect(run.execution.output).toBe("42");
    expect(run.of("phase.finished").at(-1)).toMatchObject({ phase: "close", status: "failed" });
  });

  test("compensates each visit of a phase by its number, the last one first", () => {
    const loop = { next: { use: "n", among: ["a", "b"] } };
    const run = new KernelRun([phase("a", { tasks: [1, 2], ...compensate }, loop), phase("b")]);
    for (const next of ['"a"', '"b"']) {
      run.done("a", 0, 1);
      run.receipt("next", 0, { payload: next });
    }
    run.control("cancel");
    run.drained();
    run.done("a", 0, 1);
    run.done("a", 0, 1);
    expect(entered(run).slice(3)).toEqual(["a~compensate/2", "a~compensate/1"]);
    expect(run.status).toBe("cancelled");
  });

  test("is left out before the first phase", () => {
    const run = new KernelRun(order(), { startAt: 9_000 });
    run.control("cancel");
    run.drained();
    expect(run.kinds()).not.toContain("ending");
    expect(run.status).toBe("cancelled");
  });

  test("is left out where there is nothing to do, so that a retry goes on with the work", () => {
    const run = new KernelRun([phase("a", { tasks: [1], ...compensate })]);
    run.control("cancel");
    run.drained();
    expect(run.kinds()).not.toContain("ending");
    run.control("retry");
    run.done("a", 0);
    expect(run.status).toBe("done");
  });

  test("comes after onError, which is no end", () => {
    const run = new KernelRun({
      name: "w",
      phases: [
        phase("a", compensate, { onError: "fix", final: true }),
        phase("fix", {}, { final: "failed" }),
        phase("close"),
      ],
      finally: "close",
    });
    run.fail("a", 0, fatal);
    run.drained();
    expect(run.phase).toBe("fix");
    run.done("fix", 0);
    expect(run.phase).toBe("a~compensate");
    run.done("a", 0);
    run.done("close", 0);
    expect(run.execution.error).toMatchObject({ phase: "a" });
    expect(run.status).toBe("failed");
  });
});

describe("the tasks of a compensation", () => {
  test("are those that are done or may have begun, with their numbers and pages", () => {
    const run = cancelledWhileCharging();
    const handler = run.handler("charge");
    const settled = run.events.find(
      ({ event }) => event.kind === "tasks.settled" && event.phase === "charge",
    );
    expect(compensatedTask(run.execution, handler, 0)).toEqual({ outcome: "done", result: settled?.seq });
    expect(compensatedTask(run.execution, handler, 1)).toEqual({ outcome: "unknown", result: 0 });
    expect(handler.tasks.settled.has(2)).toBe(true);
    expect(handler.pageOf(1)).toBe(run.events.find(({ event }) => event.kind === "tasks.enumerated")?.seq);
    const view = viewExecution(run.execution, run.now);
    expect(view.status).toBe("cleaning");
    expect(view.ending).toMatchObject({ status: "cancelled" });
    expect(view.phases.find(({ name }) => name === "charge~compensate")?.handlers).toMatchObject([
      { total: 2, pending: 2, done: 0 },
    ]);
    run.done("charge", 0, 1);
    expect(run.of("handler.finished").at(-1)).toMatchObject({ done: 2, failed: 0, cancelled: 0 });
  });

  test("include one whose start is journaled and whose attempt left no other trace", () => {
    const run = new KernelRun(order());
    run.done("reserve", 0);
    run.started("charge", 2);
    run.control("cancel");
    run.drained();
    expect(run.handler("charge").tasks.settled.has(2)).toBe(false);
    expect(run.handler("charge").tasks.exempt).toBe(2);
  });

  test("a late done of a compensated task is recorded once and changes nothing", () => {
    const run = cancelledWhileCharging();
    const late = () => run.receipt("charge/1/charge", 1, { attempt: 1, live: false });
    expect(late()).toBe("late");
    expect(run.last.map(({ event }) => event)).toMatchObject([{ kind: "tasks.late", accepted: [false] }]);
    expect(late()).toBe("gone");
    expect(compensatedTask(run.execution, run.handler("charge"), 1).outcome).toBe("unknown");
    expect(run.receipt("charge/1/charge", 0, { attempt: 1 })).toBe("gone");
  });

  test("that fail for good stop no other clean-up and do not change the end", () => {
    const run = cancelledWhileCharging();
    run.fail("charge", 0, fatal);
    expect(run.phase).toBe("charge~compensate");
    run.done("charge", 1);
    expect(run.of("phase.finished").at(-1)).toMatchObject({ phase: "charge~compensate", status: "failed" });
    run.done("reserve", 0);
    run.fail("tell", 0, fatal);
    run.done("close", 0);
    expect(run.status).toBe("cancelled");
  });

  test("an enumeration of a clean-up phase that fails for good stops no other handler", () => {
    const run = new KernelRun({
      name: "w",
      phases: [
        phase("a"),
        { name: "end", handlers: { x: { use: "x", enumerate: { use: "x" } }, y: { use: "y" } } },
      ],
      finally: "end",
    });
    run.done("a", 0);
    run.seal("x", { status: "failed", payload: '{"message":"no"}', fatal: true });
    expect(run.phase).toBe("end");
    run.done("y", 0);
    expect(run.status).toBe("done");
    expect(run.of("phase.finished").at(-1)).toMatchObject({ phase: "end", status: "failed" });
  });
});

describe("while it cleans up", () => {
  test("a cancel changes nothing, and one with force leaves out the rest", () => {
    const run = cancelledWhileCharging();
    expect(run.control("cancel")).toMatchObject({ kind: "ignored" });
    run.control("cancel", "f1", { force: true });
    expect(run.execution.draining).toBe(true);
    expect(run.execution.shownStatus).toBe("cleaning");
    run.drained();
    expect(run.status).toBe("cancelled");
    expect(run.of("finished")).toMatchObject([
      { status: "cancelled", error: { message: "cancelled by ann" } },
    ]);
    expect(entered(run).at(-1)).toBe("charge~compensate/1");
  });

  test("a cancel with force while the work drains leaves out all of the clean-up, and a retry runs it", () => {
    const run = new KernelRun(order());
    run.done("reserve", 0);
    run.control("cancel");
    expect(run.control("cancel", "again")).toMatchObject({ kind: "ignored" });
    const forced = run.control("cancel", "f1", { force: true, by: "bob" });
    expect(forced).toEqual({ kind: "applied", seq: run.execution.seq });
    expect(run.control("cancel", "f1", { force: true })).toEqual(forced);
    const restored = readSnapshot("e1", run.plan, writeSnapshot(run.execution));
    expect(restored.cancelling).toEqual({ by: "ann", reason: null, force: true });
    run.drained();
    expect(run.status).toBe("cancelled");
    expect(run.of("ending")).toHaveLength(1);
    expect(run.of("finished")).toMatchObject([{ error: { message: "cancelled by ann" } }]);
    expect(entered(run)).toEqual(["reserve/1", "charge/1"]);
    expect(run.execution.timers.size).toBe(0);
    run.control("retry");
    expect(entered(run).at(-1)).toBe("reserve~compensate/1");
  });

  test("a cancel with force of a phase that fails and drains leaves out the clean-up", () => {
    const run = new KernelRun(order());
    run.done("reserve", 0);
    run.started("charge", 1);
    run.fail("charge", 0, fatal);
    expect(run.execution.draining).toBe(true);
    run.control("cancel", "f1", { force: true });
    run.drained();
    expect([run.status, entered(run).at(-1)]).toEqual(["cancelled", "charge/1"]);
  });

  test("a cancel with force of work that goes on is a cancel: the clean-up runs", () => {
    const run = new KernelRun(order());
    run.done("reserve", 0);
    run.control("cancel", "f1", { force: true });
    run.drained();
    expect(run.execution.shownStatus).toBe("cleaning");
  });

  test("the deadline no longer counts, and cleanupTimeout does", () => {
    const run = new KernelRun(order({}, { cleanupTimeout: "5m" }), { deadline: 90_000 });
    run.done("reserve", 0);
    run.now = 90_000;
    run.timer("deadline");
    run.drained();
    expect(run.of("ending")).toMatchObject([{ status: "cancelled", error: { code: "deadline" } }]);
    expect([...run.execution.timers]).toEqual([["cleanup", { purpose: "cleanup", due: 390_000 }]]);
    run.now = 390_000;
    run.timer("cleanup");
    run.drained();
    expect(run.of("finished")).toMatchObject([{ status: "cancelled", error: { code: "deadline" } }]);
  });

  test("a pause stops it, also between two visits", () => {
    const run = cancelledWhileCharging();
    run.control("pause");
    expect(run.execution.shownStatus).toBe("paused");
    run.done("charge", 0, 1);
    expect(run.execution.current?.status).toBe("done");
    expect(run.execution.shownStatus).toBe("paused");
    run.control("resume");
    expect(run.phase).toBe("reserve~compensate");
  });
});

describe("retry after a clean-up", () => {
  test("runs only tasks of the clean-up that are not done", () => {
    const run = cancelledWhileCharging();
    run.fail("charge", 0, fatal);
    run.done("charge", 1);
    run.done("reserve", 0);
    run.fail("tell", 0, fatal);
    run.done("close", 0);
    const { seq } = run.execution;
    const isCleanedUp = () => viewExecution(run.execution, 0).cleanedUp === true;
    expect(isCleanedUp()).toBe(false);
    run.control("retry");
    expect(run.execution.shownStatus).toBe("cleaning");
    expect(run.execution.redoneFrom).toBe(run.events.find(({ event }) => event.kind === "ending")?.seq);
    expect(run.phase).toBe("charge~compensate");
    expect(run.done("charge", 1)).toEqual(["duplicate"]);
    run.done("charge", 0);
    run.done("tell", 0);
    expect(run.status).toBe("cancelled");
    expect(run.kinds(seq).filter((kind) => kind === "phase.started")).toHaveLength(2);
    expect(isCleanedUp()).toBe(true);
    expect(run.control("retry")).toMatchObject({
      code: "wrong_status",
      hint: expect.stringContaining("new"),
    });
  });

  test("runs what a force or the end of its time left out", () => {
    const run = cancelledWhileCharging();
    run.done("charge", 0);
    run.control("cancel", "f1", { force: true });
    run.drained();
    run.control("retry");
    run.done("charge", 1);
    run.done("reserve", 0);
    run.done("tell", 0);
    run.done("close", 0);
    expect(run.status).toBe("cancelled");
    expect(run.of("finished")).toHaveLength(2);
  });

  test("of a child tells its parent the end again, which is fatal", () => {
    const parent = { execution: "p", phase: "kids", visit: 1, handler: "kids", task: 0, depth: 1 };
    const run = new KernelRun(order({}, { onCancel: undefined, finally: undefined }), { parent });
    run.done("reserve", 0);
    run.control("cancel", "c", { fromParent: true });
    run.drained();
    expect(run.sent).toHaveLength(0);
    run.done("reserve", 0);
    const end = { kind: "child", status: "cancelled", payload: expect.stringContaining('"fatal":true') };
    expect(run.sent.map(({ message }) => message)).toMatchObject([end]);
    run.control("retry", "r", { fromParent: true });
    expect(run.sent.map(({ message }) => message)).toMatchObject([end, end]);
    expect(new Set(run.sent.map(({ id }) => id)).size).toBe(2);
  });

  test("of a child runs what is left of its clean-up, without its parent, which cannot ask for it", () => {
    const parent = { execution: "p", phase: "kids", visit: 1, handler: "kids", task: 0, depth: 1 };
    const run = new KernelRun(order({}, { onCancel: undefined, finally: undefined }), { parent });
    run.done("reserve", 0);
    run.control("cancel", "c", { fromParent: true });
    run.drained();
    run.fail("reserve", 0, fatal);
    expect(run.status).toBe("cancelled");
    expect(run.control("retry")).toMatchObject({ kind: "applied" });
    expect(run.phase).toBe("reserve~compensate");
    run.done("reserve", 0);
    expect(run.status).toBe("cancelled");
    expect(run.control("retry")).toMatchObject({ code: "wrong_status" });
  });
});

describe("an execution that continues as another one after its clean-up", () => {
  function continuing(): KernelRun {
    const run = new KernelRun({
      name: "w",
      phases: [phase("a"), phase("close")],
      finally: "close",
      unread: { item: "a" },
    });
    run.receipt("a", 0, { continueAs: '"next"' });
    expect(run.execution.shownStatus).toBe("cleaning");
    return run;
  }

  test("keeps signals of names that must be read, and passes them on", () => {
    const run = continuing();
    expect(run.signal("item", 7, "s1")).toMatchObject({ kind: "applied", signal: "kept" });
    run.done("close", 0);
    expect(run.status).toBe("done");
    expect(run.sent.map(({ message }) => message)).toMatchObject([
      { kind: "start", execution: "e1~2", kept: [{ id: "s1", signal: "item", data: "7" }] },
    ]);
  });

  /** The execution that a run continues as, once it has begun. */
  function successorOf(run: KernelRun): Stepped & { readonly execution: Execution } {
    const start = run.sent.map(({ message }) => message).find(({ kind }) => kind === "start");
    return create(start as StartMessage, run.plan, 1);
  }

  test("hands a cancel on: its clean-up goes on, and the other one begins cancelled", () => {
    const run = continuing();
    expect(run.control("cancel", "c")).toMatchObject({ kind: "applied" });
    expect(run.execution.shownStatus).toBe("cleaning");
    // A repeat and a further cancel change nothing.
    expect(run.control("cancel", "c")).toMatchObject({ kind: "applied" });
    expect(run.control("cancel", "d")).toMatchObject({ kind: "ignored" });
    expect(run.of("continuing")).toHaveLength(2);
    const restored = readSnapshot(run.execution.id, run.plan, writeSnapshot(run.execution));
    expect(restored.nextCancelled).toMatchObject({ id: "c" });
    run.done("close", 0);
    expect(run.of("finished")).toMatchObject([{ status: "done", continuedAs: "e1~2" }]);
    const { execution, events } = successorOf(run);
    expect([execution.status, execution.draining, execution.current]).toEqual(["cancelling", true, null]);
    expect(events.map(({ event }) => event.kind)).toEqual(["created", "cancelling"]);
    step(execution, { kind: "drained", phase: "", visit: 0, round: 1 }, 2);
    expect([execution.status, execution.visitCounts.size]).toEqual(["cancelled", 0]);
    // The request was applied, so a repeat finds it.
    expect(execution.applied.has("c")).toBe(true);
  });

  test("leaves out its clean-up if the cancel has force, and the other one begins cancelled, too", () => {
    const run = continuing();
    run.control("cancel", "f", { force: true });
    run.drained();
    expect(run.of("finished")).toMatchObject([{ status: "done", continuedAs: "e1~2" }]);
    expect(successorOf(run).execution.status).toBe("cancelling");
  });
});

test("a parent that is cancelled does not leave its child paused in its clean-up", () => {
  const run = cancelledWhileCharging();
  run.control("pause", "p~parent", { fromParent: true });
  expect(run.control("cancel")).toMatchObject({ kind: "ignored" });
  run.control("cancel", "c~parent", { fromParent: true });
  expect(run.execution.shownStatus).toBe("cleaning");
  expect(run.execution.open).toBe(true);
});

test("older versions of Rondo do not read the journal of a clean-up", () => {
  const run = cancelledWhileCharging();
  expect(versionNeeded(run.events, run.execution.id)).toBe(5);
});

test("a clean-up goes on from a snapshot and from its journal", () => {
  const run = cancelledWhileCharging();
  run.done("charge", 0);
  const text = writeSnapshot(run.execution);
  const { id } = run.execution;
  const restored = readSnapshot(id, run.plan, text);
  const current = restored.currentVisit().handlers[0];
  expect(current && compensatedTask(restored, current, 0).outcome).toBe("done");
  const replayed = replay(new Execution(id, run.plan), encodeEntries(run.events, id));
  expect(writeSnapshot(replayed)).toBe(text);
});

test("a hundred thousand tasks are compensated by reference: the journal and the state stay small", () => {
  const [pages, size] = [100, 1_000];
  const run = new KernelRun([phase("a", { enumerate: { use: "a" }, ...compensate }), phase("b")]);
  for (let page = 0; page < pages; page++)
    run.page(
      "a",
      Array.from({ length: size }, (_, i) => page * size + i),
    );
  run.seal("a");
  for (let page = 0; page < pages; page++)
    run.done("a", ...Array.from({ length: size }, (_, i) => page * size + i));
  expect(run.phase).toBe("b");
  const { seq } = run.execution;
  run.control("cancel");
  run.drained();
  expect(run.kinds(seq)).toHaveLength(7);
  expect(run.handler("a").tasks.settled.size).toBe(0);
  expect(writeSnapshot(run.execution).length).toBeLessThan(100_000);
  expect(compensatedTask(run.execution, run.handler("a"), 99_999).outcome).toBe("done");
});

test("a visit with nothing that may have begun is not compensated", () => {
  const run = new KernelRun([phase("a", { tasks: [], ...compensate }), phase("b", compensate)]);
  run.started("b", 0);
  run.control("cancel");
  run.drained();
  expect(entered(run).slice(2)).toEqual(["b~compensate/1"]);
});
