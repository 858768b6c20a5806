// Post-operations that follow the result of a command: writes to state stores, and broadcasts to listeners.
import { describe, expect, test } from "vitest";
import { owed, PERSIST, result, statuses, tell } from "../../../test/fixtures/kernel/command-run-fixture.ts";
import { command, KernelRun } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import type { PostOpRef } from "../event.ts";
import { encodeEntries } from "../journal/journal-entry.ts";
import { restore } from "../journal/replay.ts";
import { writeSnapshot } from "../journal/snapshot.ts";

describe("what is done with a result", () => {
  test("enrichment and status come in the step of the receipt; then persistence; then broadcasts and the next command", () => {
    const enrichment = { cmd_result_enrichment: { prop_map: [{ key: "__metadata__", val: { p: 1 } }] } };
    const run = new KernelRun([
      command("a", { ...enrichment, ...PERSIST, ...tell("http://x", "http://y") }),
      command("b"),
    ]);
    run.receipt("a", 0, result({ n: 1 }));
    expect(run.last.map(({ event }) => event.kind)).toEqual(["command.receipted"]);
    expect(run.of("command.receipted")[0]?.result).toBe('{"n":1,"__metadata__":{"p":1}}');
    expect(owed(run)).toEqual(["persistence 0"]);
    expect(statuses(run)).toEqual(["COMPLETE", "PENDING"]);
    expect(run.handler("a").held).toBe(1);
    run.postOp("persistence");
    expect(run.last.map(({ event }) => event.kind)).toEqual([
      "postop.done",
      "tasks.settled",
      "handler.finished",
      "phase.finished",
      "phase.started",
      "handler.started",
    ]);
    expect(owed(run)).toEqual(["broadcast 0", "broadcast 1"]);
    expect(run.of("tasks.settled")[0]?.payloads).toEqual(['{"n":1,"__metadata__":{"p":1}}']);
  });

  test("ids of post-operations are the same in every try and every round", () => {
    const run = new KernelRun([command("a", PERSIST)]);
    run.receipt("a", 0);
    const [id] = [...run.execution.postops.keys()];
    expect(id).toBe("e1/a/1/a/0/persistence/0");
    run.postOp("persistence", { error: "down" });
    run.postOp("persistence", { error: "down" });
    run.drained();
    run.control("retry");
    expect([...run.execution.postops.keys()]).toEqual([id]);
  });

  test("a persistence that fails is tried again by its own policy, and the next step is held", () => {
    const run = new KernelRun([command("a", PERSIST), command("b")]);
    run.receipt("a", 0);
    run.postOp("persistence", { error: "down" });
    const [op] = [...run.execution.postops.values()];
    expect(op).toMatchObject({ ended: 1, lastError: "down", awaited: true });
    expect(op?.until).toBeLessThanOrEqual(run.now + 8_000);
    expect(run.phase).toBe("a");
    expect(run.postOp("persistence", { attempt: 1 })).toMatchObject({ kind: "ignored" });
    expect(run.postOp("persistence", { attempt: 3 })).toMatchObject({ kind: "ignored" });
    run.postOp("persistence");
    expect(run.phase).toBe("b");
  });

  test("a target that asks for time gets it; one that says no for good is not asked again", () => {
    const run = new KernelRun([command("a", { ...PERSIST, ...tell("http://x") })]);
    run.receipt("a", 0);
    run.postOp("persistence", { error: "busy", retryAfterMs: 60_000 });
    expect([...run.execution.postops.values()][0]?.until).toBe(run.now + 60_000);
    run.postOp("persistence");
    run.postOp("broadcast", { error: "gone", fatal: true });
    expect(run.of("postop.failed").at(-1)).toMatchObject({ op: "broadcast", until: null });
    expect(run.status).toBe("done");
  });

  test("persistence out of attempts: COMPLETE turns into ERROR, nothing is broadcast, and retry redoes only it", () => {
    const run = new KernelRun([command("a", { ...PERSIST, ...tell("http://x") }), command("b")]);
    run.receipt("a", 0, result({ n: 1 }));
    run.postOp("persistence", { error: "down" });
    run.postOp("persistence", { error: "down" });
    expect(run.of("tasks.settled")[0]).toMatchObject({ statuses: ["failed"], reasons: ["persistence"] });
    run.drained();
    expect(run.status).toBe("failed");
    expect(run.execution.error?.code).toBe("persistence_failed");
    expect(statuses(run)).toEqual(["ERROR", "PENDING"]);
    expect(owed(run)).toEqual([]);
    run.control("retry");
    expect(statuses(run)).toEqual(["COMPLETE", "PENDING"]);
    expect(owed(run)).toEqual(["persistence 0"]);
    expect(run.handler("a").tasks.until(0)).toBe(Number.MAX_SAFE_INTEGER);
    run.postOp("persistence", { error: "down" });
    run.postOp("persistence");
    expect(run.phase).toBe("b");
    expect(run.of("command.receipted")).toHaveLength(1);
    expect(run.of("tasks.settled").at(-1)).toMatchObject({ statuses: ["done"], payloads: ['{"n":1}'] });
  });

  test("a broadcast that is awaited holds its command until it has ended, done or not; the others do not", () => {
    const awaited = {
      cmd_result_broadcasts: [{ url: "http://x" }, { url: "http://y", await: true, retry: { attempts: 1 } }],
    };
    const run = new KernelRun([command("a", awaited), command("b")]);
    run.receipt("a", 0);
    expect(owed(run)).toEqual(["broadcast 0", "broadcast 1"]);
    expect(run.phase).toBe("a");
    run.postOp("broadcast", { index: 0 });
    expect(run.phase).toBe("a");
    run.postOp("broadcast", { index: 1, error: "gone" });
    expect(run.phase).toBe("b");
    expect(statuses(run)[0]).toBe("COMPLETE");
  });

  test("a failed broadcast can be asked for again, once per message; a persistence cannot", () => {
    const run = new KernelRun([command("a", tell("http://x"))]);
    run.receipt("a", 0);
    run.postOp("broadcast", { error: "gone" });
    const {
      kind: _,
      attempt: __,
      target: ___,
      error: ____,
      until: _____,
      ...op
    } = run.of("postop.failed")[0] as never as Record<string, unknown>;
    const again = (id: string, more: object = {}) =>
      run.send({ kind: "postop.retry", id, by: "ann", op: { ...op, ...more } as never });
    expect(again("m1")).toMatchObject({ kind: "applied" });
    const { seq } = run.execution;
    expect(again("m1")).toMatchObject({ kind: "applied", seq });
    expect(again("m2")).toMatchObject({ kind: "ignored" });
    expect(again("m3", { op: "persistence" })).toMatchObject({ kind: "rejection", code: "not_found" });
    expect(again("m4", { index: 9 })).toMatchObject({ kind: "rejection", code: "not_found" });
    expect(run.execution.undelivered.size).toBe(0);
    run.postOp("broadcast");
    expect(again("m5")).toMatchObject({ kind: "rejection", code: "wrong_status" });
    expect(run.execution.postops.size).toBe(0);
    expect(run.kinds().slice(-3)).toEqual(["postop.failed", "postop.retried", "postop.done"]);
  });

  test("one that was awaited, asked for again, holds nothing up: its command is settled", () => {
    const awaited = { cmd_result_broadcasts: [{ url: "http://x", await: true, retry: { attempts: 1 } }] };
    const run = new KernelRun([command("a", awaited), command("b")]);
    run.receipt("a", 0);
    run.postOp("broadcast", { error: "gone" });
    expect(run.phase).toBe("b");
    const [{ phase, visit, handler, task, step, op, index, receipt }] = run.of("postop.failed") as never as [
      PostOpRef,
    ];
    run.send({
      kind: "postop.retry",
      id: "m",
      by: "ann",
      op: { phase, visit, handler, task, step, op, index, receipt },
    });
    run.control("cancel");
    run.drained();
    expect(run.status).toBe("cancelled");
    run.postOp("broadcast");
    expect(run.kinds().at(-1)).toBe("postop.done");
  });

  test("of several tasks each has its own persistence and broadcasts", () => {
    const run = new KernelRun([command("a", { ...PERSIST, ...tell("http://x") }, { tasks: [1, 2, 3] })]);
    run.receipts("a", [{ task: 0 }, { task: 2 }, { task: 1, status: "failed", fatal: true, payload: "{}" }]);
    expect(owed(run)).toEqual(["persistence 0", "persistence 0"]);
    expect(run.execution.draining).toBe(true);
    expect(run.drained()).toMatchObject({ kind: "ignored" });
    run.postOp("persistence", { task: 2 });
    run.postOp("persistence", { task: 0 });
    run.drained();
    expect(run.status).toBe("failed");
    expect(run.of("handler.finished")[0]).toMatchObject({ done: 2, failed: 1 });
    expect(run.execution.postops.size).toBe(2);
  });
});

describe("while something is owed", () => {
  test("a pause stops no post-operation, but the next command", () => {
    const run = new KernelRun([command("a", PERSIST), command("b")]);
    run.receipt("a", 0);
    run.control("pause");
    run.postOp("persistence");
    expect(run.kinds().at(-1)).toBe("phase.finished");
    run.control("resume");
    expect(run.phase).toBe("b");
  });

  test("a cancel waits for the persistence of a journaled result, and a receipt that comes meanwhile still counts", () => {
    const run = new KernelRun([command("a", { ...PERSIST, ...tell("http://x") })]);
    run.control("cancel");
    expect(run.receipt("a", 0, result({ n: 1 }))).toBe("accepted");
    expect(run.drained()).toMatchObject({ kind: "ignored", why: "post-operations are owed" });
    run.postOp("persistence");
    run.drained();
    expect(run.status).toBe("cancelled");
    expect(statuses(run)).toEqual(["COMPLETE"]);
    expect(owed(run)).toEqual(["broadcast 0"]);
    run.postOp("broadcast");
    expect(run.kinds().at(-1)).toBe("postop.done");
  });

  test("what is cancelled before its receipt is CANCELLED", () => {
    const run = new KernelRun([command("a"), command("b")]);
    run.control("cancel");
    run.drained();
    expect(statuses(run)).toEqual(["CANCELLED", "CANCELLED"]);
  });

  test("the fold of the journal and the snapshot at any point owe the same", () => {
    const run = new KernelRun([
      command("a", { ...PERSIST, ...tell("http://x", "http://y") }),
      {
        name: "b",
        handlers: { b: { command: { cmd_type: "B", cmd_data: "${steps[0].cmd_result.n}" }, topic: "B" } },
      },
    ]);
    const steps: (() => unknown)[] = [
      () => run.receipt("a", 0, result({ n: 7 })),
      () => run.postOp("persistence", { error: "down" }),
      () => run.postOp("persistence"),
      () => run.postOp("broadcast", { index: 0, error: "gone" }),
      () => run.fail("b", 0, { fatal: true }),
      () => run.drained(),
      () => run.control("retry"),
      () => run.postOp("broadcast", { index: 1 }),
    ];
    for (const act of steps) {
      act();
      const text = writeSnapshot(run.execution);
      const entries = encodeEntries(run.events, run.execution.id);
      expect(writeSnapshot(restore("e1", run.plan, { snapshot: null, entries }))).toBe(text);
      expect(writeSnapshot(restore("e1", run.plan, { snapshot: text, entries }))).toBe(text);
    }
    expect(run.execution.referred.get("steps[0].cmd_result.n")).toBe("7");
  });
});
