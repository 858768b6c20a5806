// Retry of chosen tasks: in the open visit, and in an execution that is done though some of its tasks failed.
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../test/fixtures/kernel/kernel-run-fixture.ts";
import { Execution } from "./execution.ts";
import { encodeEntries, versionNeeded } from "./journal/journal-entry.ts";
import { replay } from "./journal/replay.ts";
import { readSnapshot, writeSnapshot } from "./journal/snapshot.ts";
import type { ChosenTasks } from "./message.ts";

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

  test("a dry run counts them and changes nothing; a repeat changes nothing either", () => {
    const run = doneWithFailures();
    const { seq } = run.execution;
    expect(retry(run, { dryRun: true })).toMatchObject({ kind: "ignored", retried: { tasks: 2 } });
    expect([run.execution.seq, run.status]).toEqual([seq, "done"]);
    retry(run);
    const after = run.execution.seq;
    expect(retry(run)).toMatchObject({ kind: "applied" });
    expect(run.execution.seq).toBe(after);
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

  test("it is refused after a clean-up, for tasks that did not fail, and for a place that is not there", () => {
    const cleaned = doneWithFailures({ finally: "z" });
    cleaned.done("z", 0);
    expect(cleaned.status).toBe("done");
    expect(retry(cleaned)).toMatchObject({ code: "wrong_status" });
    const run = doneWithFailures();
    expect(retry(run, { numbers: [0, 9] })).toMatchObject({ code: "wrong_status" });
    expect(retry(run, { phase: "b", handler: "b" })).toMatchObject({ code: "not_found" });
    expect(retry(run, { visit: 7 })).toMatchObject({ code: "not_found" });
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

  test("it is refused once the phase is over, while it drains, and after a failure", () => {
    const over = open();
    over.done("a", 0, 2);
    expect(over.phase).toBe("b");
    expect(retry(over)).toMatchObject({ code: "wrong_status" });
    const draining = open();
    draining.control("cancel");
    expect(retry(draining)).toMatchObject({ code: "wrong_status" });
    draining.drained();
    expect(retry(draining)).toMatchObject({ code: "wrong_status" });
  });
});
