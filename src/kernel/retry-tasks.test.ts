// Retry of chosen tasks: in the open visit, and in an execution that has ended, however it ended.
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../test/fixtures/kernel/kernel-run-fixture.ts";
import { Execution } from "./execution.ts";
import { encodeEntries, versionNeeded } from "./journal/journal-entry.ts";
import { replay } from "./journal/replay.ts";
import { readSnapshot, writeSnapshot } from "./journal/snapshot.ts";
import type { ChosenTasks } from "./message.ts";
import { step } from "./step.ts";

const fatal = { fatal: true };
const entered = (run: KernelRun) =>
  run.of("phase.started").map(({ phase: name, visit }) => `${name}/${visit}`);

function retry(run: KernelRun, tasks: Partial<ChosenTasks> = {}, id = "r") {
  const chosen = { phase: "a", handler: "a", ...tasks };
  return run.send({ kind: "retry", id, by: "ann", reason: null, tasks: chosen });
}

/** Tasks 1 and 3 of 4 fail; then `b` and `returns` run, and it is done. */
function doneWithFailures(more: object = {}): KernelRun {
  const phases = [phase("a", { tasks: [0, 1, 2, 3], tolerate: 2 }), phase("b"), phase("z")];
  const run = new KernelRun({ name: "w", phases, returns: { use: "w.returns" }, ...more });
  run.done("a", 0, 2);
  run.fail("a", 1, fatal);
  run.fail("a", 3, fatal);
  run.done("b", 0);
  if (run.phase === "z") run.done("z", 0);
  run.receipt("returns", 0, { payload: '"old"' });
  return run;
}

describe("in an execution that is done", () => {
  test("only the chosen tasks run again, then returns; later phases do not, and the answer says so", () => {
    const run = doneWithFailures();
    expect([run.status, run.execution.output]).toEqual(["done", '"old"']);
    expect(retry(run, { numbers: [1, 1, 2] })).toEqual({
      kind: "applied",
      seq: run.execution.seq,
      retried: { tasks: 1, skipped: ["b", "z"] },
    });
    expect([run.phase, run.execution.round, run.execution.current?.round]).toEqual(["a", 2, 2]);
    const { settled } = run.handler("a").tasks;
    expect([0, 1, 2, 3].map((task) => settled.has(task))).toEqual([true, false, true, true]);
    run.done("a", 1);
    expect(run.phase).toBe("returns");
    run.receipt("returns", 0, { payload: '"new"' });
    expect([run.status, run.execution.output]).toEqual(["done", '"new"']);
    expect(entered(run)).toEqual(["a/1", "b/1", "z/1", "returns/1", "returns/2"]);
    expect(run.of("handler.finished").at(-2)).toMatchObject({ handler: "a", done: 3, failed: 1 });
  });

  test("more tasks can be chosen while some run again; the answer says what does not run again, too", () => {
    const run = doneWithFailures();
    retry(run, { numbers: [1] });
    const answer = { tasks: 1, skipped: ["b", "z"] };
    expect(retry(run, { numbers: [3], dryRun: true }, "r2")).toMatchObject({ retried: answer });
    expect(retry(run, { numbers: [3] }, "r2")).toMatchObject({ kind: "applied", retried: answer });
    run.done("a", 1, 3);
    run.receipt("returns", 0);
    expect([run.status, entered(run).length]).toEqual(["done", 5]);
  });

  test("all failed tasks of the handler run again by default, with fresh budgets, and may fail again", () => {
    const run = doneWithFailures();
    expect(retry(run)).toMatchObject({ retried: { tasks: 2 } });
    expect(run.fail("a", 1)).toBe("accepted");
    expect(run.handler("a").tasks.settled.has(1)).toBe(false);
    run.done("a", 1);
    run.fail("a", 3, fatal);
    run.receipt("returns", 0);
    expect(run.status).toBe("done");
    expect(retry(run, {}, "r2")).toMatchObject({ kind: "applied", retried: { tasks: 1 } });
  });

  test("a dry run counts them and changes nothing; a repeat changes nothing either, and gets the first answer", () => {
    const run = doneWithFailures();
    const { seq } = run.execution;
    expect(retry(run, { dryRun: true })).toMatchObject({ kind: "ignored", retried: { tasks: 2 } });
    expect([run.execution.seq, run.status]).toEqual([seq, "done"]);
    const first = retry(run);
    expect(first).toMatchObject({ retried: { tasks: 2, skipped: ["b", "z"] } });
    const after = run.execution.seq;
    expect(retry(run)).toEqual(first);
    expect(run.execution.seq).toBe(after);
    run.done("a", 1);
    run.fail("a", 3, fatal);
    run.receipt("returns", 0);
    const restored = readSnapshot("e1", run.plan, writeSnapshot(run.execution));
    const again = { kind: "retry", id: "r", by: "ann", reason: null } as const;
    expect(step(restored, { ...again, tasks: { phase: "a", handler: "a" } }, run.now).answer).toEqual(first);
  });

  test("a repeat of a retry of many tasks, which are several events, gets their sum", () => {
    const tasks = Array.from({ length: 1_500 }, (_, task) => task);
    const run = new KernelRun({ name: "w", phases: [phase("a", { tasks, tolerate: 1_500 })] });
    for (const task of tasks) run.fail("a", task, fatal);
    const first = retry(run);
    expect(first).toMatchObject({ kind: "applied", retried: { tasks: 1_500, skipped: [] } });
    expect(run.of("tasks.retried").length).toBeGreaterThan(1);
    expect(retry(run)).toEqual(first);
  });

  test("the state is the same after a snapshot and after a replay, and older nodes do not get the event", () => {
    const run = doneWithFailures();
    const restored = readSnapshot("e1", run.plan, writeSnapshot(run.execution));
    expect(writeSnapshot(restored)).toBe(writeSnapshot(run.execution));
    retry(run, { numbers: [3] });
    const again = new Execution("e1", run.plan);
    replay(again, encodeEntries(run.events, "e1"));
    expect(writeSnapshot(again)).toBe(writeSnapshot(run.execution));
    expect(versionNeeded(run.last, "e1")).toBe(5);
  });

  test("a retry of all tasks after a cancelled round of chosen ones drains at the first failure too many", () => {
    const a = phase("a", { tasks: [0] }, { onError: "mend", final: true });
    const run = new KernelRun([a, phase("mend")]);
    run.fail("a", 0, fatal);
    run.drained();
    run.done("mend", 0);
    expect(run.status).toBe("done");
    retry(run);
    run.control("cancel");
    run.drained();
    run.control("retry");
    run.fail("a", 0, fatal);
    expect(run.execution.draining).toBe(true);
  });

  test("it is refused after a clean-up, for tasks that did not fail, and for a place that is not there", () => {
    const cleaned = doneWithFailures({ finally: "z" });
    cleaned.done("z", 0);
    expect(cleaned.status).toBe("done");
    expect(retry(cleaned)).toMatchObject({ code: "wrong_status" });
    const run = doneWithFailures();
    expect(retry(run, { numbers: [0, 9] })).toMatchObject({ code: "wrong_status" });
    expect(retry(run, { numbers: [0, 9] })).toMatchObject({
      message: 'no task of 0, 9 of "a" has failed',
      hint: "to list the failed tasks: rondo tasks e1 --failed",
    });
    expect(retry(run, { phase: "b", handler: "b" })).toMatchObject({
      code: "wrong_status",
      message: 'no task of "b" has failed',
    });
    expect(retry(run, { visit: 7 })).toMatchObject({
      code: "not_found",
      message: 'phase "a" has no visit 7',
    });
    expect(retry(run, { phase: "nope", handler: "nope" })).toMatchObject({
      code: "not_found",
      message: 'there is no phase "nope"; there are: a, b, z',
    });
    expect(retry(run, { handler: "x" })).toMatchObject({
      code: "not_found",
      message: 'phase "a" has no handler "x"; there are: a',
    });
    expect(run.control("retry")).toMatchObject({
      code: "wrong_status",
      hint: "only a failed or cancelled execution can be retried; to retry its failed tasks: rondo retry e1 --phase a",
    });
  });
});

describe("in an open visit", () => {
  const open = () => {
    const run = new KernelRun([phase("a", { tasks: [0, 1, 2], tolerate: 2 }), phase("b")]);
    run.fail("a", 1, fatal);
    return run;
  };

  test("a failed task is pending again in the same round, and the phases go on after it", () => {
    const run = open();
    expect(retry(run)).toMatchObject({ kind: "applied", retried: { tasks: 1, skipped: [] } });
    expect(run.execution.round).toBe(1);
    run.done("a", 0, 2);
    expect(run.phase).toBe("a");
    expect(run.receipt("a", 1, { attempt: 1 })).not.toBe("accepted");
    run.done("a", 1);
    expect(run.phase).toBe("b");
    expect(run.of("handler.finished")[0]).toMatchObject({ done: 3, failed: 0 });
  });

  test("it is refused once the phase is over, and while it drains", () => {
    const over = open();
    over.done("a", 0, 2);
    expect(over.phase).toBe("b");
    expect(retry(over)).toMatchObject({ code: "wrong_status" });
    const draining = open();
    draining.control("cancel");
    expect(retry(draining)).toMatchObject({ code: "wrong_status" });
  });
});

describe("in an execution that failed or was cancelled", () => {
  /** Task 1 of `a` failed within the tolerance; tasks 0 and 1 of `b` fail, and its task 2 does not run. */
  function failed(more: object = {}): KernelRun {
    const a = phase("a", { tasks: [0, 1], tolerate: 1 });
    const b = phase("b", { tasks: [0, 1, 2], tolerate: 1 }, more);
    const run = new KernelRun([a, b, phase("c", {}, { final: true }), phase("mend", {}, { next: "c" })]);
    run.done("a", 0);
    run.fail("a", 1, fatal);
    run.fail("b", 0, fatal);
    run.fail("b", 1, fatal);
    run.drained();
    return run;
  }
  const onB = (run: KernelRun, numbers: number[], id = "r") =>
    retry(run, { phase: "b", handler: "b", numbers }, id);
  const pending = (run: KernelRun) => {
    const { settled } = run.handler().tasks;
    return [0, 1, 2].filter((task) => task < run.handler().total && !settled.has(task));
  };

  test("only the chosen tasks are pending; it goes on once its last visit is done", () => {
    const run = failed();
    expect([run.status, run.execution.error?.code]).toEqual(["failed", "task_failed"]);
    expect(onB(run, [1, 2])).toMatchObject({ retried: { tasks: 2, skipped: [] } });
    expect([run.phase, pending(run), run.execution.round]).toEqual(["b", [1, 2], 2]);
    expect(run.of("tasks.retried")[0]?.failures.map((seq) => seq > 0)).toEqual([true, false]);
    run.done("b", 1, 2);
    expect(run.phase).toBe("c");
    expect(run.of("phase.finished").at(-1)).toMatchObject({ phase: "b", status: "done", next: "c" });
    run.done("c", 0);
    expect([run.status, run.execution.error]).toEqual(["done", null]);
    expect(entered(run)).toEqual(["a/1", "b/1", "c/1"]);
  });

  test("while tasks of the visit have not run it ends as failed again, and a retry runs them", () => {
    const run = failed();
    onB(run, [0]);
    run.done("b", 0);
    expect([run.status, run.execution.error]).toEqual([
      "failed",
      {
        code: "tasks_cancelled",
        message: '1 tasks of the phase "b" have not run: retry the execution',
        phase: "b",
      },
    ]);
    expect(run.of("handler.finished").at(-1)).toMatchObject({ done: 1, failed: 1, cancelled: 1 });
    run.control("retry");
    expect(pending(run)).toEqual([1, 2]);
    run.done("b", 1, 2);
    expect(run.phase).toBe("c");
  });

  test("every chosen task runs to its end, and it fails again if failures exceed the tolerance", () => {
    const run = failed({ onError: "mend" });
    expect(run.phase).toBe("mend");
    run.fail("mend", 0, fatal);
    run.drained();
    expect(run.status).toBe("failed");
    expect(onB(run, [0, 1, 2])).toMatchObject({ retried: { tasks: 3, skipped: ["mend"] } });
    run.fail("b", 0, { ...fatal, payload: JSON.stringify({ message: "still" }) });
    run.fail("b", 1, fatal);
    expect([run.execution.draining, pending(run)]).toEqual([false, [2]]);
    run.done("b", 2);
    expect([run.status, run.execution.error?.message]).toEqual(["failed", "boom"]);
    expect(entered(run)).toEqual(["a/1", "b/1", "mend/1"]);
    onB(run, [0], "r2");
    run.done("b", 0);
    expect(run.phase).toBe("c");
  });

  test("tasks of an earlier visit are repaired, and it ends as it had ended", () => {
    const run = failed();
    const { error } = run.execution;
    expect(retry(run)).toMatchObject({ retried: { tasks: 1, skipped: ["b"] } });
    expect([run.phase, pending(run)]).toEqual(["a", [1]]);
    run.done("a", 1);
    expect([run.status, run.execution.error]).toEqual(["failed", error]);
    expect(run.execution.visited.map(({ phase: name, status }) => `${name} ${status}`)).toEqual([
      "a done",
      "b failed",
    ]);
    run.control("retry");
    expect([run.phase, pending(run)]).toEqual(["b", [0, 1, 2]]);
    run.done("b", 0, 1, 2);
    expect(run.phase).toBe("c");
  });

  test("a cancel in such a round leaves the execution cancelled, and a retry goes on where it had failed", () => {
    const run = failed();
    retry(run);
    run.control("cancel");
    run.drained();
    expect([run.status, run.execution.error?.code]).toEqual(["cancelled", "cancelled"]);
    expect(retry(run, { numbers: [1] }, "r2")).toMatchObject({ retried: { tasks: 1 } });
    run.done("a", 1);
    expect(run.status).toBe("cancelled");
    run.control("retry");
    expect(run.phase).toBe("b");
  });

  test("a cancelled execution runs chosen tasks that had not run, and is cancelled again", () => {
    const run = new KernelRun([phase("a", { tasks: [0, 1, 2] }), phase("b")]);
    run.done("a", 0);
    run.control("cancel");
    run.drained();
    const { error } = run.execution;
    expect(retry(run)).toMatchObject({ code: "wrong_status" });
    expect(retry(run, { numbers: [0, 1, 7] })).toMatchObject({ retried: { tasks: 1, skipped: [] } });
    run.done("a", 1);
    expect([run.status, run.execution.error]).toEqual(["cancelled", error]);
    retry(run, { numbers: [2] }, "r2");
    run.done("a", 2);
    expect(run.phase).toBe("b");
  });

  test("a cancel between two phases is kept: the next phase starts with a retry, not with the round", () => {
    const run = new KernelRun([phase("a", { tasks: [0, 1], tolerate: 1 }), phase("b")]);
    run.fail("a", 0, fatal);
    run.control("pause");
    run.done("a", 1);
    run.control("cancel");
    run.drained();
    expect(retry(run)).toMatchObject({ retried: { tasks: 1 } });
    run.done("a", 0);
    expect(run.status).toBe("cancelled");
    run.control("retry");
    expect(run.phase).toBe("b");
  });

  test("an enumeration that is not finished does not go on in such a round", () => {
    const run = new KernelRun([phase("a", { enumerate: { use: "a.list" } }), phase("b")]);
    run.page("a", [0, 1]);
    run.fail("a", 1, fatal);
    run.drained();
    retry(run);
    expect(run.handler("a").enumeration.failed).toBe(true);
    run.done("a", 1);
    expect([run.status, run.execution.error?.code]).toEqual(["failed", "tasks_cancelled"]);
    run.control("retry");
    expect([run.handler("a").enumeration.failed, run.handler("a").tasks.settled.has(0)]).toEqual([
      false,
      false,
    ]);
  });

  test("after an onError that ended well, failed tasks are repaired and nothing else runs", () => {
    const run = failed({ onError: "mend" });
    run.done("mend", 0);
    run.done("c", 0);
    expect(run.status).toBe("done");
    expect(onB(run, [0])).toMatchObject({ retried: { tasks: 1, skipped: ["mend", "c"] } });
    expect([run.phase, pending(run)]).toEqual(["b", [0]]);
    run.done("b", 0);
    expect(run.status).toBe("done");
    expect(run.of("phase.finished").at(-1)).toMatchObject({ phase: "b", status: "failed", next: null });
    onB(run, [1, 2], "r2");
    run.done("b", 1, 2);
    expect(run.of("phase.finished").at(-1)).toMatchObject({ phase: "b", status: "done", next: null });
    expect(entered(run)).toEqual(["a/1", "b/1", "mend/1", "c/1"]);
  });

  test("the state is the same after a snapshot and after a replay, in the round and after it", () => {
    const same = (run: KernelRun) => {
      const text = writeSnapshot(run.execution);
      expect(writeSnapshot(readSnapshot("e1", run.plan, text))).toBe(text);
      const again = new Execution("e1", run.plan);
      replay(again, encodeEntries(run.events, "e1"));
      expect(writeSnapshot(again)).toBe(text);
    };
    const run = failed();
    retry(run);
    same(run);
    run.fail("a", 1, fatal);
    same(run);
    onB(run, [2], "r2");
    same(run);
    run.done("b", 2);
    same(run);
  });

  test("the visit that had ended the execution is one visit after a snapshot, also while its chosen tasks run", () => {
    const more = { next: { use: "n", among: ["a"] }, maxVisits: 1 };
    const run = new KernelRun([phase("a", { tasks: [0, 1], tolerate: 1 }, more)]);
    run.done("a", 0);
    run.fail("a", 1, fatal);
    run.receipt("next", 0, { payload: '"a"' });
    expect(run.execution.error).toMatchObject({ code: "visits_exceeded" });
    retry(run);
    const known = run.events.length;
    const restored = readSnapshot("e1", run.plan, writeSnapshot(run.execution));
    run.done("a", 1);
    replay(restored, encodeEntries(run.events.slice(known), "e1"));
    expect(run.status).toBe("failed");
    expect(writeSnapshot(restored)).toBe(writeSnapshot(run.execution));
  });

  test("a chosen wait that a kept signal ends at once lets the execution go on", () => {
    const handlers = { a: { waitFor: "go", timeout: "1s" }, other: { use: "w.other", tasks: [0] } };
    const run = new KernelRun([{ name: "a", handlers }]);
    run.now += 1_000;
    run.timer(run.of("timer.set")[0]?.timer ?? "");
    run.signal("go", 7);
    run.receipt("other", 0);
    run.drained();
    expect(run.status).toBe("failed");
    expect(retry(run)).toMatchObject({ kind: "applied", retried: { tasks: 1 } });
    expect(run.status).toBe("done");
  });

  test("it is refused once a clean-up has begun, and for a child", () => {
    const cleaned = new KernelRun({ name: "w", phases: [phase("a"), phase("z")], onFailure: "z" });
    cleaned.fail("a", 0, fatal);
    cleaned.drained();
    cleaned.done("z", 0);
    expect(cleaned.status).toBe("failed");
    expect(retry(cleaned)).toMatchObject({ code: "wrong_status" });
    const parent = { execution: "p", phase: "a", visit: 1, handler: "a", task: 0, depth: 1, since: 1 };
    const child = new KernelRun([phase("a")], { parent });
    child.fail("a", 0, fatal);
    child.drained();
    expect(retry(child)).toMatchObject({ code: "wrong_status" });
  });
});
