// Commands in the engine: whoever serves the topic gets them, with their references resolved, in time.
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
  const bench = running([command("a")]);
  const { grant, item } = first(bench);
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
  const bench = running([command("a"), b({ n: "${steps[0].cmd_result.n}" })]);
  bench.receipt(first(bench), RESULT);
  bench.settle();
  expect(JSON.parse(first(bench).item.task ?? "")).toMatchObject({ cmd_data: { n: 1 } });
  const other = running([command("a"), b("${steps[0].cmd_result.nope}")]);
  other.receipt(first(other), RESULT);
  other.settle();
  expect(other.attempts()).toHaveLength(1);
  expect(other.status("e1")).toBe("failed");
  expect(other.inspect("e1").view.error).toMatchObject({ code: "unresolved_reference" });
  expect(other.events("e1", "command.receipted")).toHaveLength(1);
});

test("it is said what a command waits for, and how it stands", () => {
  const bench = new NodeFixture();
  bench.start(bench.plan([command("a"), command("b")]), "e1");
  bench.settle();
  expect(bench.inspect("e1").why).toBe('"a" waits for a worker: none serves the topic "CMD_A" now.');
  bench.join("w1", TOPICS);
  bench.settle();
  bench.started(first(bench));
  bench.sleep(7_000);
  const { why, commands } = bench.inspect("e1");
  expect(why).toBe('"a" has waited 7 s for a receipt of "A", sent to CMD_A, on RECEIPT_A.');
  expect(commands?.map(({ procStatus }) => procStatus)).toEqual(["RUNNING", "PENDING"]);
});

test("a receipt for an execution, a step or an attempt that is not there changes nothing", () => {
  const bench = running([command("a", PERSIST)]);
  const { seq } = bench.journal("e1").at(-1) as { seq: number };
  const { worker, grant, item } = first(bench);
  const reports = [
    bench.receipt({ worker, item, grant: { ...grant, execution: "nowhere" } }, RESULT),
    bench.receipt({ worker, item, grant: { ...grant, handler: "z" } }, RESULT),
    bench.receipt({ worker, grant, item: { ...item, number: 5 } }, RESULT),
  ];
  bench.settle();
  expect(reports.map((report) => bench.verdicts(report)?.[0]?.[0])).toEqual(["stale", "gone", "stale"]);
  expect(bench.journal("e1").at(-1)?.seq).toBe(seq);
  expect(bench.errands).toEqual([]);
});

test("receipts for two workflows of one project at the same moment both survive", () => {
  const bench = new NodeFixture();
  bench.join("w1", TOPICS);
  const plan = bench.plan([command("a", tell(1))]);
  for (const id of ["e1", "e2"]) bench.start(plan, id, { project: "p" });
  bench.settle();
  for (const attempt of bench.attempts()) bench.receipt(attempt, RESULT);
  bench.settle();
  expect(["e1", "e2"].map((id) => bench.status(id))).toEqual(["done", "done"]);
  expect(bench.errands.map(({ execution }) => execution).sort()).toEqual(["e1", "e2"]);
});

describe("a command whose worker is alive and says nothing", () => {
  const LIMITED = { timeout: "1m", retry: { attempts: 2, min: 0, max: 0 } };
  const REMOTE = { claimLeaseMs: 30_000, sweepMs: 1_000, suspectMs: 30_000 };
  function held(): { bench: NodeFixture; hold: (ms: number, attempt?: Attempt) => void } {
    const bench = new NodeFixture(REMOTE);
    bench.join("w1", TOPICS, { local: false });
    bench.claim("w1", 10);
    bench.start(bench.plan([command("a", {}, LIMITED)]), "e1");
    bench.settle();
    const hold = (ms: number, attempt = first(bench)) => {
      for (const end = bench.now + ms; bench.now < end; ) {
        bench.beat(attempt);
        bench.sleep(5_000);
        bench.settle();
      }
    };
    return { bench, hold };
  }

  test("is sent again when its time is over, then it has failed", () => {
    const { bench, hold } = held();
    bench.started(first(bench));
    hold(55_000);
    expect(bench.attempts()).toHaveLength(1);
    hold(15_000);
    expect(bench.attempts()).toHaveLength(2);
    expect(bench.of("cancel")[0]).toMatchObject({ worker: "w1", why: "lost" });
    bench.started(first(bench));
    hold(70_000);
    expect(bench.status("e1")).toBe("failed");
    expect(
      bench
        .journal("e1")
        .map(({ event }) => JSON.stringify(event))
        .join(),
    ).toContain("no receipt arrived within 1 m");
  });

  test("is late with the receipt of an attempt whose time is over", () => {
    const { bench, hold } = held();
    const late = first(bench);
    bench.started(late);
    hold(70_000);
    const report = bench.receipt(late, { status: "failed", payload: "{}" });
    bench.settle();
    expect(bench.verdicts(report)).toEqual([["duplicate"]]);
    bench.receipt(first(bench), RESULT);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });

  test("has its time again at an engine that was opened anew", () => {
    const { bench, hold } = held();
    const before = first(bench);
    bench.started(before);
    hold(10_000);
    bench.restart();
    bench.join("w1", TOPICS, { local: false });
    bench.claim("w1", 10);
    hold(55_000, before);
    expect(bench.attempts()).toHaveLength(0);
    hold(15_000, before);
    expect(bench.attempts().map(({ item }) => item.attempt)).toEqual([2]);
  });
});
