// SIGTERM of the server and of workers with open claims and running tasks: each ends with 0, nothing is lost, and after
// the restart work goes on at once, since nothing is in doubt.
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { FaultFixture } from "../fixtures/faults/fault-fixture.ts";
import { CLAIM, expectWell, openProxy } from "../fixtures/faults/open-fault-fixture.ts";
import { until } from "../fixtures/until.ts";

vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 });

let fixture: FaultFixture;

// What is in doubt after a restart would wait for longer than any of these tests does.
beforeAll(async () => {
  fixture = await FaultFixture.open({ config: { heartbeat: "5m" } });
});

afterAll(async () => {
  try {
    await expectWell(fixture);
  } finally {
    await fixture.close();
  }
});

test("a worker with running tasks and an open claim: they end, exit 0, nothing is lost", async () => {
  const proxy = await openProxy(fixture);
  const worker = await fixture.worker({ url: proxy.url });
  const id = await fixture.startTasks({ tasks: 3, steps: ["a"], hold: { 0: ["end"], 1: ["in-a"] } });
  await fixture.ledger.seen({ what: "held", execution: id }, 2);
  await until("a claim waits", () => proxy.isOpen(CLAIM));
  worker.signal("SIGTERM");
  await worker.line(/^leaving:/);
  fixture.openGate(id, 0, "end");
  fixture.openGate(id, 1, "in-a");
  expect(await worker.ended).toMatchObject({ code: 0 });
  await fixture.ended(id);
  expect(fixture.begun(id)).toEqual(["0#1", "1#1", "2#1"]);
});

test("a worker whose tasks do not end in time: they are handed back, and go on after their last step", async () => {
  const worker = await fixture.worker({ args: ["--grace", "100ms"] });
  const id = await fixture.startTasks({ tasks: 2, steps: ["a", "b"], hold: { 0: ["in-b"], 1: ["after-a"] } });
  await fixture.ledger.seen({ what: "held", execution: id }, 2);
  await fixture.journaled(id, "task.step", 2);
  expect(await worker.terminate()).toMatchObject({ code: 0 });
  fixture.openGate(id, 0, "in-b");
  fixture.openGate(id, 1, "after-a");
  await fixture.worker();
  await fixture.ended(id);
  expect(await fixture.eventsOf(id, "tasks.lost")).toEqual([]);
  const steps = fixture.ledger.find({ what: "step", execution: id, name: "a" });
  expect(steps).toHaveLength(2);
});

test("the server with open claims and running tasks: exit 0; after the restart new and old work goes on at once", async () => {
  const id = await fixture.startTasks({ tasks: 30, steps: ["a"], hold: { 0: ["end"], 1: ["in-a"] } });
  await fixture.ledger.seen({ what: "held", execution: id }, 2);
  // More than the worker has room for: some of it is ready and nobody has it.
  const waiting = await fixture.startTasks({ tasks: 150, hold: Object.fromEntries(held(150)) });
  await fixture.ledger.seen({ what: "held", execution: waiting }, 90);
  await fixture.stopServer();
  await fixture.startServer();
  // What nobody had goes on at once: the new worker gets it.
  await fixture.worker();
  await fixture.ledger.seen({ what: "held", execution: waiting }, 150);
  for (const [task] of held(150)) fixture.openGate(waiting, task, "begin");
  fixture.openGate(id, 0, "end");
  fixture.openGate(id, 1, "in-a");
  await fixture.ended(id);
  await fixture.ended(waiting);
  const after = await fixture.startTasks({ tasks: 3 });
  await fixture.ended(after);
  // What ran through the restart was not begun again.
  expect(fixture.begun(id)).toHaveLength(30);
  expect(fixture.begun(waiting)).toHaveLength(150);
});

test("the server while a worker enumerates: the enumeration goes on, and is not begun again", async () => {
  const id = await fixture.startTasks({ tasks: 5, parts: true });
  await fixture.ledger.seen({ what: "held", execution: id, where: "enumerate" });
  await fixture.stopServer();
  await fixture.startServer();
  fixture.openGate(id, -1, "enumerate");
  await fixture.ended(id);
  expect(fixture.ledger.find({ what: "enumerates", execution: id })).toHaveLength(1);
  expect(fixture.begun(id)).toEqual(["0#1", "1#1", "2#1", "3#1", "4#1"]);
});

test("the server and a worker with a spool at once: exit 0 of both; what the worker could not say is said later", async () => {
  await fixture.dismiss();
  const worker = await fixture.worker({ args: ["--spool", "spool"] });
  const id = await fixture.startTasks({ tasks: 3, steps: ["a"], hold: { 0: ["end"], 1: ["end"] } });
  await fixture.ledger.seen({ what: "held", execution: id }, 2);
  const ended = worker.terminate();
  await fixture.stopServer();
  fixture.openGate(id, 0, "end");
  fixture.openGate(id, 1, "end");
  expect(await ended).toMatchObject({ code: 0 });
  await fixture.startServer();
  await fixture.worker({ args: ["--spool", "spool"] });
  await fixture.ended(id);
  expect(fixture.begun(id)).toEqual(["0#1", "1#1", "2#1"]);
});

test("a worker that is there before its server waits for it; told to end, it does", async () => {
  await fixture.dismiss();
  await fixture.stopServer();
  const early = [fixture.hire(), fixture.hire()] as const;
  for (const worker of early) await worker.line(/^rondo: waiting for the server/);
  expect(await early[1].terminate()).toMatchObject({ code: 0 });
  await fixture.startServer();
  await early[0].line(/^worker .* serves /);
  const id = await fixture.startTasks({ tasks: 3 });
  await fixture.ended(id);
});

function held(tasks: number): [task: number, where: string[]][] {
  return Array.from({ length: tasks }, (_, task) => [task, ["begin"]]);
}
