// SIGSTOP of a worker for longer than its attempts may be silent, then SIGCONT: they are lost and run elsewhere, and what
// the frozen one says late is handled by rule: a late `done` counts while the task is open and no later attempt has left
// a checkpoint; anything else is acknowledged and changes nothing.
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { rowsOf } from "../fixtures/faults/audit.ts";
import { FaultFixture, type TasksInput } from "../fixtures/faults/fault-fixture.ts";
import type { FaultProcess } from "../fixtures/faults/fault-process-fixture.ts";
import { EVENTS, expectWell, openProxy, RECEIPT } from "../fixtures/faults/open-fault-fixture.ts";
import type { Stopped } from "../fixtures/faults/request-proxy-fixture.ts";
import { until } from "../fixtures/until.ts";

vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 });

let fixture: FaultFixture;

beforeAll(async () => {
  fixture = await FaultFixture.open({ config: { heartbeat: "1s", claimLease: "1s" } });
});

afterEach(() => fixture.dismiss());

afterAll(async () => {
  try {
    await expectWell(fixture);
  } finally {
    await fixture.close();
  }
});

/** A worker that is frozen while its receipt is on its way, until its attempt is lost. */
async function frozenWithReceipt(
  id: string,
  frozen: FaultProcess,
  receipt: Promise<Stopped>,
): Promise<Stopped> {
  await fixture.ledger.seen({ what: "held", execution: id, where: "end" });
  await fixture.journaled(id, "tasks.started");
  fixture.openGate(id, 0, "end", 1);
  const stopped = await receipt;
  frozen.signal("SIGSTOP");
  await fixture.journaled(id, "tasks.lost");
  return stopped;
}

/** Another attempt runs, and stands at the same gate, when the frozen one goes on and its receipt arrives. */
async function thawed(input: TasksInput): Promise<string> {
  const proxy = await openProxy(fixture);
  const frozen = await fixture.worker({ url: proxy.url, args: ["--capacity", "1"], heartbeat: "1s" });
  const receipt = proxy.trap(EVENTS, "asked", RECEIPT);
  const id = await fixture.startTasks({ ...input, hold: { 0: ["end"] } }, "brisk");
  const { pass } = await frozenWithReceipt(id, frozen, receipt);
  await fixture.worker({ heartbeat: "1s" });
  await fixture.ledger.seen({ what: "held", execution: id, attempt: 2 });
  frozen.signal("SIGCONT");
  pass();
  await fixture.journaled(id, "tasks.late");
  return id;
}

/** Rows of a kind as (attempt, status, accepted). */
async function told(id: string, kind: string): Promise<unknown[]> {
  const rows = (await fixture.eventsOf(id, kind)).flatMap(rowsOf);
  return rows.map(({ attempt, status, accepted }) => [attempt, status, accepted]);
}

test("a late done settles the task if the other attempt has left nothing, and that one is told to stop", async () => {
  const id = await thawed({ tasks: 1 });
  await fixture.ended(id);
  await fixture.ledger.seen({ what: "stopped", execution: id, attempt: 2 });
  expect(await told(id, "tasks.late")).toEqual([[1, "done", true]]);
  expect(await told(id, "tasks.settled")).toEqual([[1, "done", undefined]]);
});

test("a late done changes nothing if the other attempt has left a step: that one's outcome counts", async () => {
  const id = await thawed({ tasks: 1, again: true });
  expect(await told(id, "tasks.late")).toEqual([[1, "done", false]]);
  expect(await told(id, "tasks.settled")).toEqual([]);
  fixture.openGate(id, 0, "end");
  await fixture.ended(id);
  expect(await told(id, "tasks.settled")).toEqual([[2, "done", undefined]]);
});

test("one that is frozen in the middle of its tasks hears that they are lost, stops them, and does other work", async () => {
  const frozen = await fixture.worker({ heartbeat: "1s" });
  const hold = { 0: ["begin"], 1: ["in-a"], 2: ["after-a"] };
  const id = await fixture.startTasks({ tasks: 3, steps: ["a"], hold }, "brisk");
  await fixture.ledger.seen({ what: "held", execution: id }, 3);
  await fixture.journaled(id, "tasks.started");
  await fixture.journaled(id, "task.step");
  frozen.signal("SIGSTOP");
  await until("all are lost", async () => (await told(id, "tasks.lost")).length === 3);
  const other = await fixture.worker({ heartbeat: "1s" });
  await fixture.ledger.seen({ what: "begins", execution: id, attempt: 2 }, 3);
  frozen.signal("SIGCONT");
  await fixture.ledger.seen({ what: "stopped", execution: id, attempt: 1 }, 3);
  for (const [task, [where = ""]] of Object.entries(hold)) fixture.openGate(id, Number(task), where);
  await fixture.ended(id);
  expect(await told(id, "tasks.settled")).toHaveLength(3);
  expect(await other.terminate()).toMatchObject({ code: 0 });
  const next = await fixture.startTasks({ tasks: 5 }, "brisk");
  await fixture.ended(next);
  expect(new Set(fixture.ledger.find({ what: "begins", execution: next }).map(({ pid }) => pid))).toEqual(
    new Set([frozen.pid]),
  );
});

test("the server frozen for longer than the heartbeat, then continued: what was silent meanwhile is not lost for that", async () => {
  const worker = await fixture.worker({ heartbeat: "1s" });
  const id = await fixture.startTasks({ tasks: 3, steps: ["a"], hold: { 0: ["end"], 1: ["end"] } }, "brisk");
  await fixture.ledger.seen({ what: "held", execution: id }, 2);
  await fixture.journaled(id, "tasks.started");
  fixture.server.signal("SIGSTOP");
  const silentUntil = Date.now() + 1_500;
  await until("the silence is over", () => Date.now() > silentUntil);
  fixture.server.signal("SIGCONT");
  fixture.openGate(id, 0, "end");
  fixture.openGate(id, 1, "end");
  await fixture.ended(id);
  expect(worker.hasEnded).toBe(false);
  expect(fixture.begun(id)).toEqual(["0#1", "1#1", "2#1"]);
  expect(await told(id, "tasks.lost")).toEqual([]);
});
