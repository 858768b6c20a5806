// SIGTERM of the server and of workers with open claims and running tasks: each ends with 0, nothing is lost, and after
// the restart work goes on at once, since nothing is in doubt.
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { FaultFixture } from "../fixtures/faults/fault-fixture.ts";
import { CLAIM, expectWell, openProxy } from "../fixtures/faults/open-fault-fixture.ts";
import { until } from "../fixtures/until.ts";

vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 });

let bench: FaultFixture;

// What is in doubt after a restart would wait for longer than any of these tests does.
beforeAll(async () => {
  bench = await FaultFixture.open({ config: { heartbeat: "5m" } });
});

afterAll(async () => {
  try {
    await expectWell(bench);
  } finally {
    await bench.close();
  }
});

test("a worker with running tasks and an open claim: they end, exit 0, nothing is lost", async () => {
  const proxy = await openProxy(bench);
  const worker = await bench.worker({ url: proxy.url });
  const id = await bench.startTasks({ tasks: 3, steps: ["a"], hold: { 0: ["end"], 1: ["in-a"] } });
  await bench.ledger.seen({ what: "held", execution: id }, 2);
  await until("a claim waits", () => proxy.isOpen(CLAIM));
  worker.signal("SIGTERM");
  await worker.line(/^leaving:/);
  bench.openGate(id, 0, "end");
  bench.openGate(id, 1, "in-a");
  expect(await worker.ended).toMatchObject({ code: 0 });
  await bench.ended(id);
  expect(bench.begun(id)).toEqual(["0#1", "1#1", "2#1"]);
});

test("a worker whose tasks do not end in time: they are handed back, and go on after their last step", async () => {
  const worker = await bench.worker({ args: ["--grace", "100ms"] });
  const id = await bench.startTasks({ tasks: 2, steps: ["a", "b"], hold: { 0: ["in-b"], 1: ["after-a"] } });
  await bench.ledger.seen({ what: "held", execution: id }, 2);
  await bench.journaled(id, "task.step", 2);
  expect(await worker.terminate()).toMatchObject({ code: 0 });
  bench.openGate(id, 0, "in-b");
  bench.openGate(id, 1, "after-a");
  await bench.worker();
  await bench.ended(id);
  expect(await bench.eventsOf(id, "tasks.lost")).toEqual([]);
  const steps = bench.ledger.find({ what: "step", execution: id, name: "a" });
  expect(steps).toHaveLength(2);
});

test("the server with open claims and running tasks: exit 0; after the restart new and old work goes on at once", async () => {
  const id = await bench.startTasks({ tasks: 30, steps: ["a"], hold: { 0: ["end"], 1: ["in-a"] } });
  await bench.ledger.seen({ what: "held", execution: id }, 2);
  // More than the worker has room for: some of it is ready and nobody has it.
  const waiting = await bench.startTasks({ tasks: 150, hold: Object.fromEntries(held(150)) });
  await bench.ledger.seen({ what: "held", execution: waiting }, 90);
  await bench.stopServer();
  await bench.startServer();
  // What nobody had goes on at once: the new worker gets it.
  await bench.worker();
  await bench.ledger.seen({ what: "held", execution: waiting }, 150);
  for (const [task] of held(150)) bench.openGate(waiting, task, "begin");
  bench.openGate(id, 0, "end");
  bench.openGate(id, 1, "in-a");
  await bench.ended(id);
  await bench.ended(waiting);
  const after = await bench.startTasks({ tasks: 3 });
  await bench.ended(after);
  // What ran through the restart was not begun again.
  expect(bench.begun(id)).toHaveLength(30);
  expect(bench.begun(waiting)).toHaveLength(150);
});

test("the server while a worker enumerates: the enumeration goes on, and is not begun again", async () => {
  const id = await bench.startTasks({ tasks: 5, parts: true });
  await bench.ledger.seen({ what: "held", execution: id, where: "enumerate" });
  await bench.stopServer();
  await bench.startServer();
  bench.openGate(id, -1, "enumerate");
  await bench.ended(id);
  expect(bench.ledger.find({ what: "enumerates", execution: id })).toHaveLength(1);
  expect(bench.begun(id)).toEqual(["0#1", "1#1", "2#1", "3#1", "4#1"]);
});

test("the server and a worker with a spool at once: exit 0 of both; what the worker could not say is said later", async () => {
  await bench.dismiss();
  const worker = await bench.worker({ args: ["--spool", "spool"] });
  const id = await bench.startTasks({ tasks: 3, steps: ["a"], hold: { 0: ["end"], 1: ["end"] } });
  await bench.ledger.seen({ what: "held", execution: id }, 2);
  const ended = worker.terminate();
  await bench.stopServer();
  bench.openGate(id, 0, "end");
  bench.openGate(id, 1, "end");
  expect(await ended).toMatchObject({ code: 0 });
  await bench.startServer();
  await bench.worker({ args: ["--spool", "spool"] });
  await bench.ended(id);
  expect(bench.begun(id)).toEqual(["0#1", "1#1", "2#1"]);
});

test("a worker that is there before its server waits for it; told to end, it does", async () => {
  await bench.dismiss();
  await bench.stopServer();
  const early = [bench.hire(), bench.hire()] as const;
  for (const worker of early) await worker.line(/^rondo: waiting for the server/);
  expect(await early[1].terminate()).toMatchObject({ code: 0 });
  await bench.startServer();
  await early[0].line(/^worker .* serves /);
  const id = await bench.startTasks({ tasks: 3 });
  await bench.ended(id);
});

function held(tasks: number): [task: number, where: string[]][] {
  return Array.from({ length: tasks }, (_, task) => [task, ["begin"]]);
}
