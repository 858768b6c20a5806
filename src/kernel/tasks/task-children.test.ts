// Children that the code of tasks runs: one start, one end, and none that outlives its handler.
import { describe, expect, test } from "vitest";
import { answers, counts, replayed, tasks } from "../../../test/fixtures/kernel/task-waits-fixture.ts";
import { writeSnapshot } from "../journal/snapshot.ts";
import { startedId, taskChildId } from "./child-messages.ts";

type Run = ReturnType<typeof tasks>;

const kid = (run: Run, name = "kid") => taskChildId(run.execution.id, run.place("a"), 0, name);

/** What the execution has sent, in its order. Each message has an id of its own. */
function sent(run: Run): string[] {
  expect(new Set(run.sent.map(({ id }) => id)).size).toBe(run.sent.length);
  return run.sent.map(({ to, message }) => `${message.kind} ${to === kid(run) ? "kid" : to}`);
}

const ends = (run: Run, status: "done" | "failed" | "cancelled", payload = "7") =>
  run.send({ kind: "child", ...run.place("a"), task: 0, name: "kid", child: kid(run), status, payload });

describe("a child of code", () => {
  test("is started once, and its end continues the task that waits for it", () => {
    const run = tasks(1);
    expect(run.askForChild("a", 0)).toBe("accepted");
    expect(run.askForChild("a", 0)).toBe("duplicate");
    expect(sent(run)).toEqual(["start kid"]);
    run.receipt("a", 0, { status: "suspended", waits: [{ name: "kid", child: true }] });
    expect(counts(run)).toEqual([0, 0, 0, 1, 0, 0]);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
    ends(run, "done");
    expect(ends(run, "done")).toMatchObject({ kind: "ignored" });
    expect(answers(run)).toEqual([{ task: 0, name: "kid", reason: "child", result: "7" }]);
    expect(counts(run)).toEqual([1, 0, 0, 0, 0, 0]);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
  });

  test("that ends while an attempt runs comes after the steps of that attempt, for later ones", () => {
    const run = tasks(1);
    run.askForChild("a", 0);
    const { seq: seen } = run.execution;
    ends(run, "done");
    run.stepDone("a", 0, { name: "first", seen });
    run.stepFailed("a", 0, { name: "second", tries: 1, seen });
    run.receipt("a", 0, { status: "failed", payload: '{"message":"no"}' });
    run.stepDone("a", 0, { name: "third" });
    const { checkpoints } = run.handler("a").progress.tasks.get(0) ?? {};
    expect(checkpoints?.map(({ name }) => name)).toEqual(["first", "second", "kid", "third"]);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
  });

  test("of a map gets the places of the pages of its items, in their order, also from a snapshot and in a new round", () => {
    const run = tasks(1);
    const page = (map: string, n: number) =>
      run.checkpoint("a", 0, { kind: "step", name: `${map}/${n}`, result: `[${n}]`, map });
    const asked = {
      kind: "child",
      name: "m",
      workflow: "kid",
      input: "3",
      hash: "hash of kid",
      mapped: true,
    } as const;
    const seqs: number[] = [];
    for (const [map, n] of [
      ["m", 1],
      ["m/1", 1],
      ["m", 2],
      ["m", 2],
      ["m", 3],
    ] as const) {
      const isNew = page(map, n) === "accepted";
      if (isNew && map === "m") seqs.push(run.execution.seq);
    }
    run.stepDone("a", 0, { name: "m/4" });
    expect(seqs).toHaveLength(3);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
    const inputs = () => run.sent.flatMap(({ message }) => (message.kind === "start" ? [message.input] : []));
    expect(run.checkpoint("a", 0, asked)).toBe("accepted");
    expect(inputs()).toEqual([JSON.stringify({ total: 3, pages: seqs })]);
    run.send({
      ...{ kind: "child", ...run.place("a"), task: 0, name: "m", child: kid(run, "m") },
      ...{ status: "failed", payload: '{"code":"task_failed","message":"no"}' },
    });
    run.fail("a", 0, { fatal: true });
    run.drained();
    run.control("retry");
    expect(run.checkpoint("a", 0, asked)).toBe("accepted");
    expect(new Set(inputs()).size).toBe(1);
  });

  test("that ends before the task waits continues it at once", () => {
    const run = tasks(1);
    run.askForChild("a", 0);
    ends(run, "done");
    run.receipt("a", 0, { status: "suspended", waits: [{ name: "kid", child: true }] });
    expect(counts(run)).toEqual([1, 0, 0, 0, 0, 0]);
    expect(run.handler("a").progress.tasks.get(0)?.waits).toEqual([]);
  });

  test("that fails is an error of the task's step, and a new round starts it again", () => {
    const run = tasks(1);
    run.askForChild("a", 0);
    ends(run, "failed", '{"code":"task_failed","message":"no"}');
    expect(answers(run)).toEqual([{ task: 0, name: "kid", reason: "child", result: "child_failed" }]);
    run.fail("a", 0, { fatal: true });
    run.drained();
    run.control("retry");
    expect(run.askForChild("a", 0)).toBe("accepted");
    expect(sent(run)).toEqual(["start kid", "start kid", "retry kid"]);
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
  });

  test("is asked to stop when its task is done, and its handler waits for its end", () => {
    const run = tasks(1);
    run.askForChild("a", 0);
    run.receipt("a", 0, { status: "done", payload: "1" });
    expect(sent(run)).toEqual(["start kid", "cancel kid"]);
    expect(run.execution.status).toBe("running");
    expect(replayed(run)).toBe(writeSnapshot(run.execution));
    ends(run, "cancelled", "null");
    expect(run.execution.status).toBe("done");
    expect(answers(run)).toEqual([]);
  });

  test("is cancelled with its parent, which ends after it", () => {
    const run = tasks(1);
    run.askForChild("a", 0);
    run.receipt("a", 0, { status: "suspended", waits: [{ name: "kid", child: true }] });
    run.control("cancel");
    expect(sent(run)).toEqual(["start kid", "cancel kid"]);
    run.drained();
    expect(run.execution.status).toBe("cancelling");
    ends(run, "cancelled", "null");
    run.drained();
    expect(run.execution.status).toBe("cancelled");
    expect(answers(run)).toEqual([]);
  });

  test("that a draining phase asks for is not started; one that a paused execution asks for is paused", () => {
    const run = tasks(1);
    run.control("pause");
    run.askForChild("a", 0);
    expect(sent(run)).toEqual(["start kid", "pause kid"]);
    run.control("cancel");
    expect(run.askForChild("a", 0, { name: "other" })).toBe("stale");
  });

  test("of a workflow that nobody knows fails the attempt", () => {
    const run = tasks(1, { retry: { attempts: 2 } });
    expect(run.askForChild("a", 0, { hash: null })).toBe("stale");
    expect(run.of("tasks.retrying")).toHaveLength(1);
    expect(run.sent).toEqual([]);
  });

  test("that nobody asked for is not waited for", () => {
    const run = tasks(1);
    run.receipt("a", 0, { status: "suspended", waits: [{ name: "kid", child: true }] });
    expect(counts(run)?.at(-1)).toBe(1);
  });

  test("that is on its own is a step with its id", () => {
    const run = tasks(1);
    expect(run.askForChild("a", 0, { detached: true })).toBe("accepted");
    const id = startedId(run.execution.id, run.place("a"), 0, "kid");
    expect(run.of("task.step")).toMatchObject([{ name: "kid", result: JSON.stringify(id) }]);
    expect(run.sent).toMatchObject([{ to: id, message: { kind: "start", execution: id } }]);
    expect(run.sent[0]?.message).not.toHaveProperty("parent");
  });
});
