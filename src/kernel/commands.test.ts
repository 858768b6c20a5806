// Commands and what is done with their results: receipts count once, persistence before the next command, broadcasts
// owed after it, and what is owed follows from the journal alone (DESIGN 5; CONFORMANCE L).
import { describe, expect, test } from "vitest";
import { command, KernelRun, phase } from "../../test/scenarios/kernel-run.ts";
import { viewCommands } from "./command-view.ts";
import type { PostOpRef } from "./event.ts";
import { encodeEntries } from "./journal-entry.ts";
import { publicEvent } from "./public-event.ts";
import { restore } from "./replay.ts";
import { resolveCommand } from "./resolve-command.ts";
import { writeSnapshot } from "./snapshot.ts";

const PERSIST = {
  cmd_result_persistence: {
    target_statestore_name: "s",
    target_statestore_key: "k",
    retry: { attempts: 2, min: 8_000, backoff: "constant" },
  },
};
const tell = (...urls: string[]) => ({
  cmd_result_broadcasts: urls.map((url) => ({ url, retry: { attempts: 1 } })),
});
const statuses = (run: KernelRun, running = new Map<string, number>()) =>
  viewCommands(run.execution, run.now, running).map(({ procStatus }) => procStatus);
const owed = (run: KernelRun) => [...run.execution.postops.values()].map(({ op, index }) => `${op} ${index}`);
const result = (value: unknown) => ({ payload: JSON.stringify(value) });

describe("commands one after another", () => {
  test("each goes only after the receipt of the one before; all are COMPLETE at the end", () => {
    const run = new KernelRun([command("a"), command("b"), command("c")]);
    expect(statuses(run)).toEqual(["PENDING", "PENDING", "PENDING"]);
    expect(statuses(run, new Map([["a", 1]]))).toEqual(["RUNNING", "PENDING", "PENDING"]);
    run.receipt("a", 0, result({ n: 1 }));
    expect(run.phase).toBe("b");
    expect(statuses(run)).toEqual(["COMPLETE", "PENDING", "PENDING"]);
    run.receipt("b", 0);
    run.receipt("c", 0);
    expect(run.status).toBe("done");
    expect(statuses(run)).toEqual(["COMPLETE", "COMPLETE", "COMPLETE"]);
  });

  test("two equal commands are told apart by their step", () => {
    const same = (name: string) => ({
      name,
      handlers: { [name]: { command: { cmd_type: "X" }, topic: "T" } },
    });
    const run = new KernelRun([same("a"), same("b")]);
    run.receipt("a", 0, result({ of: "a" }));
    expect(statuses(run)).toEqual(["COMPLETE", "PENDING"]);
    expect(run.receipt("a/1/a", 0, result({ again: true }))).toBe("gone");
    expect(run.of("command.receipted")).toHaveLength(1);
  });

  test("a receipt that comes twice leads to nothing twice", () => {
    const run = new KernelRun([command("a", { ...PERSIST, ...tell("http://x") }), command("b")]);
    run.receipt("a", 0, result(1));
    const { seq } = run.execution;
    expect(run.receipt("a", 0, { attempt: 1, ...result(2) })).toBe("duplicate");
    expect(run.receipt("a", 0, { attempt: 1, live: false, ...result(3) })).toBe("duplicate");
    expect(run.receipt("a", 0, { attempt: 2, ...result(4) })).toBe("duplicate");
    expect(run.execution.seq).toBe(seq);
    run.postOp("persistence");
    expect(run.receipt("a/1/a", 0, { attempt: 1, ...result(5) })).toBe("gone");
    expect(owed(run)).toEqual(["broadcast 0"]);
  });

  test("a late receipt counts if the command is open, and the newer attempt's word then does not", () => {
    const run = new KernelRun([command("a", PERSIST), command("b")]);
    run.started("a", 0);
    run.lost("a", 0);
    expect(run.receipt("a", 0, { attempt: 1, live: false, ...result({ late: 1 }) })).toBe("accepted");
    expect(run.receipt("a", 0, { attempt: 2, ...result({ newer: 1 }) })).toBe("duplicate");
    expect(run.receipt("a", 0, { attempt: 2, status: "failed", payload: "{}" })).toBe("duplicate");
    expect(run.of("command.receipted").map(({ result: text }) => text)).toEqual(['{"late":1}']);
    expect(run.of("tasks.late")).toMatchObject([{ attempts: [1], accepted: [true] }]);
  });

  test("losses and starts of a command that has its result are not recorded", () => {
    const run = new KernelRun([command("a", PERSIST)]);
    run.receipt("a", 0);
    const { seq } = run.execution;
    run.started("a", 0);
    run.lost("a", 0);
    expect(run.stepDone("a", 0)).toBe("stale");
    expect(run.execution.seq).toBe(seq);
  });
});

describe("an error receipt", () => {
  test("is ERROR with its error, is tried again by policy, then fails the workflow; retry sends the same command", () => {
    const run = new KernelRun([command("a", {}, { retry: { attempts: 2, min: 0, max: 0 } }), command("b")]);
    run.fail("a", 0);
    expect(viewCommands(run.execution, run.now)[0]).toMatchObject({
      procStatus: "ERROR",
      procErr: { name: "Error", message: "boom" },
    });
    expect(statuses(run, new Map([["a", 1]]))[0]).toBe("RUNNING");
    run.fail("a", 0, { payload: JSON.stringify({ name: "Error", message: "m", proc_err: ["raw"] }) });
    run.drained();
    expect(run.status).toBe("failed");
    expect(
      viewCommands(run.execution, run.now).map(({ procStatus, procErr }) => [procStatus, procErr]),
    ).toEqual([
      ["ERROR", ["raw"]],
      ["PENDING", null],
    ]);
    run.control("retry");
    expect(statuses(run)).toEqual(["PENDING", "PENDING"]);
    expect(run.execution.current?.plan.name).toBe("a");
    run.receipt("a", 0);
    expect(run.phase).toBe("b");
    expect(run.of("command.receipted").map(({ procStatus }) => procStatus)).toEqual([
      "ERROR",
      "ERROR",
      "COMPLETE",
    ]);
  });

  test("what ends without a receipt is no receipt: killed, crashed, given back", () => {
    const run = new KernelRun([command("a", {}, { retry: { attempts: 9, min: 0, max: 0 } })]);
    for (const status of ["killed", "crashed", "cancelled", "exception"] as const)
      run.receipt("a", 0, { status, payload: '{"name":"Timeout","message":"too long"}' });
    expect(run.of("command.receipted")).toEqual([]);
    run.receipt("a", 0, {
      status: "killed",
      fatal: true,
      payload: '{"name":"Timeout","message":"too long"}',
    });
    expect(viewCommands(run.execution, run.now)[0]).toMatchObject({
      procStatus: "ERROR",
      procErr: { name: "Timeout", message: "too long" },
    });
  });
});

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
      const entries = encodeEntries(run.events);
      expect(writeSnapshot(restore("e1", run.plan, { snapshot: null, entries }))).toBe(text);
      expect(writeSnapshot(restore("e1", run.plan, { snapshot: text, entries }))).toBe(text);
    }
    expect(run.execution.referred.get("steps[0].cmd_result.n")).toBe("7");
  });
});

describe("a command is sent", () => {
  const b = (cmd_data: unknown, handler: object = {}) => ({
    name: "b",
    handlers: { b: { command: { cmd_type: "B", cmd_data }, topic: "B", ...handler } },
  });
  const sent = (run: KernelRun, task = "null") => {
    const { command: plan } = run.handler("b").plan;
    return plan === null ? null : resolveCommand(run.execution, plan, task);
  };

  test("with both hashes, and with references to results, the input and the task replaced", () => {
    const data = { n: "${steps[0].cmd_result.n}", who: "by ${input.who}", t: "${task.id}" };
    const run = new KernelRun([command("a"), b(data, { tasks: [{ id: 4 }] })], { input: '{"who":"me"}' });
    run.receipt("a", 0, result({ n: [1] }));
    const cmd = sent(run, '{"id":4}');
    const hashes = run.plan.commands[1]?.command;
    expect(cmd !== null && "text" in cmd && JSON.parse(cmd.text)).toEqual({
      cmd_type: "B",
      cmd_data: { n: [1], who: "by me", t: 4 },
      cmd_metadata: { cmd_hash: hashes?.hash, workflow_hash: hashes?.workflowHash },
    });
  });

  test("not at all if its references make it too large", () => {
    const run = new KernelRun([command("a"), b(new Array(1_000).fill("${steps[0].cmd_result.text}"))]);
    run.receipt("a", 0, result({ text: "x".repeat(200_000) }));
    const cmd = sent(run);
    expect(cmd !== null && "error" in cmd && JSON.parse(cmd.error)).toMatchObject({ code: "too_large" });
  });

  test("not at all if a reference leads nowhere", () => {
    const run = new KernelRun([command("a"), b("${steps[0].cmd_result.nope}")]);
    run.receipt("a", 0, result({ n: 1 }));
    const cmd = sent(run);
    expect(cmd !== null && "error" in cmd && JSON.parse(cmd.error)).toMatchObject({
      code: "unresolved_reference",
    });
  });
});

test("events are shown with the fields of the interface", () => {
  const run = new KernelRun([
    command("a", { ...PERSIST, ...tell("http://x") }, { retry: { min: 0, max: 0 } }),
  ]);
  run.fail("a", 0);
  run.receipt("a", 0, result({ n: 1 }));
  run.postOp("persistence", { error: "down" });
  run.postOp("persistence");
  const envelope = { v: 3, execution: "e1" };
  const shown = run.events
    .filter(({ event }) => event.kind === "command.receipted" || event.kind.startsWith("postop."))
    .map((recorded) => publicEvent("e1", recorded, "summary"))
    .map(({ seq: _, at: __, ...rest }) => rest);
  const at = { phase: "a", visit: 1, handler: "a" };
  expect(shown).toEqual([
    {
      ...envelope,
      kind: "workflow.command.receipted",
      ...at,
      n: 0,
      attempt: 1,
      proc_status: "ERROR",
      proc_err: { name: "Error", message: "boom" },
    },
    {
      ...envelope,
      kind: "workflow.command.receipted",
      ...at,
      n: 0,
      attempt: 2,
      proc_status: "COMPLETE",
      cmd_result: { n: 1 },
    },
    {
      ...envelope,
      kind: "workflow.postop.failed",
      step: 0,
      op: "persistence",
      target: "s",
      attempt: 1,
      error: { name: "Error", message: "down" },
    },
    { ...envelope, kind: "workflow.postop.done", step: 0, op: "persistence", target: "s", attempt: 2 },
  ]);
});

test("a workflow without commands owes nothing and is as it was", () => {
  const run = new KernelRun([phase("a")]);
  run.done("a", 0);
  expect(run.execution.postops.size + run.execution.commands.size + run.plan.commands.length).toBe(0);
  expect(viewCommands(run.execution, run.now)).toEqual([]);
});
