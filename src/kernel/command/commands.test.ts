// Commands and what is done with their results: receipts count once, persistence before the next command, broadcasts
// owed after it, and what is owed follows from the journal alone (DESIGN 5; CONFORMANCE L).
import { describe, expect, test } from "vitest";
import { owed, PERSIST, result, statuses, tell } from "../../../test/fixtures/kernel/command-run-fixture.ts";
import { command, KernelRun, phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { publicEvent } from "../journal/public-event.ts";
import { viewCommands } from "./command-view.ts";
import { resolveCommand } from "./own-command.ts";

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
