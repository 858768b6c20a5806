// Commands in the engine: the worker that serves the topic gets them, with their references resolved, in time.
import { describe, expect, test } from "vitest";
import {
  first,
  PERSIST,
  RESULT,
  running,
  TOPICS,
  tell,
} from "../../../test/fixtures/engine/command-node-fixture.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { command } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

test("a command goes to whoever serves its topic, with hashes, and says which it is", () => {
  const fixture = running([command("a")]);
  const { grant, item } = first(fixture);
  expect(grant).toMatchObject({
    do: "command",
    use: "topic:CMD_A",
    command: { step: 0, topic: "CMD_A", receiptTopic: "RECEIPT_A" },
  });
  expect(JSON.parse(item.task ?? "")).toMatchObject({
    cmd_type: "A",
    cmd_metadata: { cmd_hash: expect.any(String), workflow_hash: expect.any(String) },
  });
});

test("a command that refers to an earlier result has it; one that refers to nothing fails without being sent", () => {
  const b = (cmd_data: unknown) => ({
    name: "b",
    handlers: { b: { command: { cmd_type: "B", cmd_data }, topic: "CMD_B" } },
  });
  const fixture = running([command("a"), b({ n: "${steps[0].cmd_result.n}" })]);
  fixture.receipt(first(fixture), RESULT);
  fixture.settle();
  expect(JSON.parse(first(fixture).item.task ?? "")).toMatchObject({ cmd_data: { n: 1 } });
  const other = running([command("a"), b("${steps[0].cmd_result.nope}")]);
  other.receipt(first(other), RESULT);
  other.settle();
  expect(other.attempts()).toHaveLength(1);
  expect(other.status("e1")).toBe("failed");
  expect(other.inspect("e1").view.error).toMatchObject({ code: "unresolved_reference" });
  expect(other.events("e1", "command.receipted")).toHaveLength(1);
});

test("it is said what a command waits for, and how it stands", () => {
  const fixture = new NodeFixture();
  fixture.start(fixture.plan([command("a"), command("b")]), "e1");
  fixture.settle();
  expect(fixture.inspect("e1").why).toBe('"a" waits for a worker: none serves the topic "CMD_A" now.');
  fixture.join("w1", TOPICS);
  fixture.settle();
  fixture.started(first(fixture));
  fixture.sleep(7_000);
  const { why, commands } = fixture.inspect("e1");
  expect(why).toBe('"a" has waited 7 s for a receipt of "A", sent to CMD_A, on RECEIPT_A.');
  expect(commands?.map(({ procStatus }) => procStatus)).toEqual(["RUNNING", "PENDING"]);
});

test("a receipt for an execution, a step or an attempt that is not there changes nothing", () => {
  const fixture = running([command("a", PERSIST)]);
  const { seq } = fixture.journal("e1").at(-1) as { seq: number };
  const { worker, grant, item } = first(fixture);
  const reports = [
    fixture.receipt({ worker, item, grant: { ...grant, execution: "nowhere" } }, RESULT),
    fixture.receipt({ worker, item, grant: { ...grant, handler: "z" } }, RESULT),
    fixture.receipt({ worker, grant, item: { ...item, number: 5 } }, RESULT),
  ];
  fixture.settle();
  expect(reports.map((report) => fixture.verdicts(report)?.[0]?.[0])).toEqual(["stale", "gone", "stale"]);
  expect(fixture.journal("e1").at(-1)?.seq).toBe(seq);
  expect(fixture.postOps).toEqual([]);
});

test("receipts for two workflows of one project at the same moment both survive", () => {
  const fixture = new NodeFixture();
  fixture.join("w1", TOPICS);
  const plan = fixture.plan([command("a", tell(1))]);
  for (const id of ["e1", "e2"]) fixture.start(plan, id, { project: "p" });
  fixture.settle();
  for (const attempt of fixture.attempts()) fixture.receipt(attempt, RESULT);
  fixture.settle();
  expect(["e1", "e2"].map((id) => fixture.status(id))).toEqual(["done", "done"]);
  expect(fixture.postOps.map(({ execution }) => execution).sort()).toEqual(["e1", "e2"]);
});

describe("a command whose worker is alive and says nothing", () => {
  const LIMITED = { timeout: "1m", retry: { attempts: 2, min: 0, max: 0 } };
  const REMOTE = { claimLeaseMs: 30_000, sweepMs: 1_000, suspectMs: 30_000 };
  function held(): { fixture: NodeFixture; hold: (ms: number, attempt?: Attempt) => void } {
    const fixture = new NodeFixture(REMOTE);
    fixture.join("w1", TOPICS, { local: false });
    fixture.claim("w1", 10);
    fixture.start(fixture.plan([command("a", {}, LIMITED)]), "e1");
    fixture.settle();
    const hold = (ms: number, attempt = first(fixture)) => {
      for (const end = fixture.now + ms; fixture.now < end; ) {
        fixture.beat(attempt);
        fixture.sleep(5_000);
        fixture.settle();
      }
    };
    return { fixture, hold };
  }

  test("is sent again when its time is over, then it has failed", () => {
    const { fixture, hold } = held();
    fixture.started(first(fixture));
    hold(55_000);
    expect(fixture.attempts()).toHaveLength(1);
    hold(15_000);
    expect(fixture.attempts()).toHaveLength(2);
    expect(fixture.of("cancel")[0]).toMatchObject({ worker: "w1", why: "lost" });
    fixture.started(first(fixture));
    hold(70_000);
    expect(fixture.status("e1")).toBe("failed");
    expect(
      fixture
        .journal("e1")
        .map(({ event }) => JSON.stringify(event))
        .join(),
    ).toContain("no receipt arrived within 1 m");
  });

  test("is late with the receipt of an attempt whose time is over", () => {
    const { fixture, hold } = held();
    const late = first(fixture);
    fixture.started(late);
    hold(70_000);
    const report = fixture.receipt(late, { status: "failed", payload: "{}" });
    fixture.settle();
    expect(fixture.verdicts(report)).toEqual([["duplicate"]]);
    fixture.receipt(first(fixture), RESULT);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
  });

  test("has its time again at an engine that was opened anew", () => {
    const { fixture, hold } = held();
    const before = first(fixture);
    fixture.started(before);
    hold(10_000);
    fixture.restart();
    fixture.join("w1", TOPICS, { local: false });
    fixture.claim("w1", 10);
    hold(55_000, before);
    expect(fixture.attempts()).toHaveLength(0);
    hold(15_000, before);
    expect(fixture.attempts().map(({ item }) => item.attempt)).toEqual([2]);
  });
});
