// Conformance, seeds 000 and 001 (groups A and B of the list of cases): phases, handlers, tasks.
import { workflow } from "rondo";
import { testRondo } from "rondo/testing";
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../fixtures/engine/node-fixture.ts";
import { KernelRun, phase } from "../fixtures/kernel/kernel-run-fixture.ts";

const end = { name: "end", handlers: {}, final: true };

/** Counts of the kinds that the seeds speak of, in their order. */
function milestones(kinds: readonly string[]): string[] {
  return kinds
    .map((kind) => kind.replace(/^workflow\./, ""))
    .filter((kind) => ["handler.finished", "phase.finished", "finished"].includes(kind));
}

describe("group A", () => {
  test("A1 start -> work (1 handler, 3 tasks) -> end: 3 tasks processed; each finished event once, in order", async () => {
    const processed: number[] = [];
    const three = workflow({ name: "three" })
      .phase("start", {})
      .phase("work", {
        enumerate: () => [1, 2, 3],
        process: ({ task }) => {
          processed.push(task);
        },
      })
      .phase("end", {}, { final: true });
    await using t = await testRondo({ workflows: [three] });
    const execution = await t.start(three, null);
    await t.settle();
    expect(processed.toSorted((a, b) => a - b)).toEqual([1, 2, 3]);
    const events = t.events(execution.id);
    expect(events.filter(({ kind }) => kind === "workflow.handler.finished")).toHaveLength(1);
    expect(milestones(events.map(({ kind }) => kind))).toEqual([
      "phase.finished",
      "handler.finished",
      "phase.finished",
      "phase.finished",
      "finished",
    ]);
    expect(events.filter(({ kind }) => kind === "workflow.phase.finished").map(({ phase }) => phase)).toEqual(
      ["start", "work", "end"],
    );
  });

  test("A2 two handlers (2 and 5 tasks): phase.finished only after all 7", () => {
    const handlers = { two: { use: "two", tasks: [0, 1] }, five: { use: "five", tasks: [0, 1, 2, 3, 4] } };
    const run = new KernelRun([{ name: "work", handlers }, end]);
    run.done("two", 0, 1);
    expect(run.of("handler.finished")).toMatchObject([{ handler: "two" }]);
    expect(run.of("phase.finished")).toHaveLength(0);
    for (const task of [4, 0, 3, 1]) run.done("five", task);
    expect(run.of("phase.finished")).toHaveLength(0);
    run.done("five", 2);
    expect(run.of("phase.finished")[0]).toMatchObject({ phase: "work", status: "done" });
    expect(run.status).toBe("done");
  });

  test("A3 enumeration yields 0 tasks: handler finished at once; the execution completes", async () => {
    const none = workflow({ name: "none" }).phase("work", { enumerate: () => [], process: () => "never" });
    await using t = await testRondo({ workflows: [none] });
    const execution = await t.start(none, null);
    await execution.result();
    expect(t.events(execution.id).find(({ kind }) => kind === "workflow.handler.finished")).toMatchObject({
      done: 0,
      failed: 0,
      cancelled: 0,
    });
  });

  test("A4 the same finished message twice: the second changes nothing; no early finish", () => {
    const run = new KernelRun([phase("work", { tasks: [0, 1] }), end]);
    expect(run.receipt("work", 0, { attempt: 1 })).toBe("accepted");
    const { length } = run.events;
    for (let i = 0; i < 3; i++) expect(run.receipt("work", 0, { attempt: 1 })).toBe("duplicate");
    expect(run.events).toHaveLength(length);
    expect(run.of("handler.finished")).toHaveLength(0);
    run.done("work", 1);
    expect(run.status).toBe("done");
  });

  test("A5 a fast worker completes task 1 before the enumerator emits task 2: no early finish", async () => {
    const done: string[] = [];
    let firstDone: () => void = () => {};
    const first = new Promise<void>((resolve) => {
      firstDone = resolve;
    });
    const slow = workflow({ name: "slow" }).phase("work", {
      async *enumerate() {
        yield "one";
        await first;
        yield "two";
      },
      process: ({ task }) => {
        done.push(task);
        firstDone();
      },
    });
    await using t = await testRondo({ workflows: [slow] });
    const execution = await t.start(slow, null);
    await t.clock.advance("1s");
    await execution.result();
    expect(done).toEqual(["one", "two"]);
    const kinds = t.events(execution.id).map(({ kind }) => kind.slice("workflow.".length));
    expect(kinds.filter((kind) => kind === "tasks.enumerated" || kind === "tasks.settled")).toEqual([
      "tasks.enumerated",
      "tasks.settled",
      "tasks.enumerated",
      "tasks.settled",
    ]);
    expect(kinds.filter((kind) => kind === "handler.finished")).toHaveLength(1);
  });
});

describe("group B", () => {
  test("B1 phase with no handlers: phase.finished immediately", () => {
    const run = new KernelRun([{ name: "empty", handlers: {} }, phase("work")]);
    expect(run.kinds().slice(0, 4)).toEqual(["created", "phase.started", "phase.finished", "phase.started"]);
    expect(run.phase).toBe("work");
  });

  test("B3 the end of a phase that is no longer current: no state change, no message", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a", "w.b"]);
    fixture.start(fixture.plan([phase("a"), phase("b")]), "e1");
    fixture.settle();
    const last = fixture.attempts()[0] as Attempt;
    fixture.receipt(last);
    fixture.settle();
    const journal = fixture.kinds("e1");
    const outputs = fixture.outputs.length;
    const report = fixture.receipt(last);
    fixture.settle();
    expect(fixture.verdicts(report)).toEqual([["gone"]]);
    expect(fixture.kinds("e1")).toEqual(journal);
    expect(fixture.outputs.slice(outputs).map(({ kind }) => kind)).toEqual(["verdicts"]);
  });

  test("B4 the message that ends the last phase, twice: one workflow.finished", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"]);
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.settle();
    const last = fixture.attempts()[0] as Attempt;
    const reports = [fixture.receipt(last), fixture.receipt(last)];
    fixture.settle();
    reports.push(fixture.receipt(last));
    fixture.settle();
    expect(reports.map((report) => fixture.verdicts(report)?.[0]?.[0])).toEqual(["accepted", "gone", "gone"]);
    expect(fixture.events("e1", "finished")).toHaveLength(1);
    expect(fixture.of("progressed").filter(({ end }) => end !== null)).toHaveLength(1);
  });

  test("B5 three handlers finish in any order: one phase.finished, after the third", () => {
    const orders = ["xyz", "xzy", "yxz", "yzx", "zxy", "zyx"];
    for (const order of orders) {
      const run = new KernelRun([
        { name: "a", handlers: { x: { use: "x" }, y: { use: "y" }, z: { use: "z" } } },
      ]);
      order.split("").forEach((handler, i) => {
        run.done(handler, 0);
        expect(run.of("phase.finished")).toHaveLength(i === 2 ? 1 : 0);
      });
      expect(run.kinds().slice(-3)).toEqual(["handler.finished", "phase.finished", "finished"]);
    }
  });

  test("B8 a finished message for a phase already closed: ignored", () => {
    const run = new KernelRun([phase("a", { tasks: [0, 1], tolerate: 1 }), phase("b")]);
    run.fail("a", 0, { fatal: true });
    run.done("a", 1);
    expect(run.phase).toBe("b");
    const { length } = run.events;
    expect(run.receipt("a/1/a", 0, { attempt: 2 })).toBe("gone");
    expect(run.receipt("a/1/a", 1, { attempt: 1, live: false })).toBe("gone");
    expect(run.events).toHaveLength(length);
  });

  test("B10 pause with tasks queued: none start; resume: all of them run; cancel while paused: allowed", async () => {
    let hold: (() => void)[] = [];
    const ran: number[] = [];
    const queue = workflow({ name: "queue" }).phase("work", {
      tasks: [0, 1, 2, 3, 4, 5],
      concurrency: 1,
      process: ({ task }) => {
        ran.push(task);
        return new Promise<void>((resolve) => hold.push(resolve));
      },
    });
    await using t = await testRondo({ workflows: [queue] });
    const release = async () => {
      for (const go of hold.splice(0)) go();
      await t.settle();
    };
    const execution = await t.start(queue, null);
    await t.settle();
    expect(ran).toEqual([0]);
    await execution.pause();
    await release();
    await t.clock.advance("1h");
    expect(ran).toEqual([0]);
    await execution.resume();
    for (let i = 0; i < 6; i++) await release();
    expect(ran).toEqual([0, 1, 2, 3, 4, 5]);
    expect(await execution.status()).toBe("done");

    hold = [];
    const other = await t.start(queue, null);
    await t.settle();
    await other.pause();
    await other.cancel();
    await release();
    expect(await other.status()).toBe("cancelled");
    expect(ran).toHaveLength(7);
  });

  test("B11 task fails for good with onError set: goes to that phase; unset: failed, visibly", async () => {
    const fail = () => {
      throw new Error("no such file");
    };
    const plain = workflow({ name: "plain" }).phase("load", { process: fail, retry: { attempts: 1 } });
    const repaired = workflow({ name: "repaired" })
      .phase("load", { process: fail, retry: { attempts: 1 } }, { onError: "undo" })
      .phase("end", {}, { final: true })
      .phase("undo", { process: () => "undone" }, { final: "failed" });
    await using t = await testRondo({ workflows: [plain, repaired] });
    const one = await t.start(plain, null);
    const two = await t.start(repaired, null);
    await t.settle();
    expect(await one.describe()).toMatchObject({
      status: "failed",
      error: {
        code: "task_failed",
        message: "no such file",
        phase: "load",
        handler: "load",
        task: 0,
        attempt: 1,
      },
    });
    expect(await one.why()).toBe("It is failed: no such file.");
    expect(await two.describe()).toMatchObject({ status: "failed", error: { message: "no such file" } });
    const phases = (await two.describe()).phases.map(({ name, status }) => [name, status]);
    expect(phases).toEqual([
      ["load", "failed"],
      ["undo", "done"],
      ["end", "skipped"],
    ]);
  });
});
