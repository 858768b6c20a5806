// kill -9 of the server at moments that a proxy chooses; it comes back on the same directory and port. Workers reconnect,
// what they run is adopted and not repeated, what they kept is taken.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { rowsOf } from "../fixtures/faults/audit.ts";
import { FaultFixture, type TasksInput } from "../fixtures/faults/fault-fixture.ts";
import { CLAIM, EVENTS, expectWell, RECEIPT, STEP } from "../fixtures/faults/open-fault-fixture.ts";
import { RequestProxy } from "../fixtures/faults/request-proxy-fixture.ts";
import { until } from "../fixtures/until.ts";

vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 });

let bench: FaultFixture;
let proxy: RequestProxy;

beforeAll(async () => {
  bench = await FaultFixture.open();
  proxy = await RequestProxy.start(bench.url);
  await bench.worker({ url: proxy.url });
});

// All of it is looked at in the end: whatever was acknowledged is there, once.
afterAll(async () => {
  try {
    await expectWell(bench);
  } finally {
    proxy.close();
    await bench.close();
  }
});

describe("kill -9 of the server in the middle of a claim", () => {
  test("that waits: the worker claims again, and what is started later is done once", async () => {
    await until("a claim waits", () => proxy.isOpen(CLAIM));
    await bench.restartServer();
    const id = await bench.startTasks({ tasks: 3 });
    await bench.ended(id);
    expect(bench.begun(id)).toEqual(["0#1", "1#1", "2#1"]);
  });

  test("whose answer holds work and was never read: the work is given out again, no attempt is burnt", async () => {
    const held = await bench.startTasks({ tasks: 3, hold: { 0: ["begin"] } });
    await bench.ledger.seen({ what: "held", execution: held });
    const claimed = proxy.trap(CLAIM, "answered");
    const id = await bench.startTasks({ tasks: 1 }, "brisk");
    const { answer, cut } = await claimed;
    expect(answer?.body).toContain(`"execution":"${id}"`);
    await bench.killServer();
    cut();
    await bench.startServer();
    bench.openGate(held, 0, "begin");
    await bench.ended(id);
    await bench.ended(held);
    expect(bench.begun(id)).toEqual(["0#1"]);
    expect(bench.begun(held)).toEqual(["0#1", "1#1", "2#1"]);
  });
});

describe("kill -9 of the server in the middle of events", () => {
  /** Kills it when the next request with such a body stands at this moment; resolves with the execution that is over. */
  async function killedAt(
    moment: "asked" | "answered",
    body: RegExp,
    input: TasksInput,
    workflow?: "tasks" | "brisk",
  ): Promise<string> {
    const stopped = proxy.trap(EVENTS, moment, body);
    const id = await bench.startTasks(input, workflow);
    const { cut } = await stopped;
    await bench.killServer();
    cut();
    await bench.startServer();
    await bench.ended(id);
    return id;
  }

  test.each(["asked", "answered"] as const)(
    "a step that is only %s is journaled once, does not run again, and its attempt goes on",
    async (moment) => {
      const id = await killedAt(moment, STEP, { tasks: 2, steps: ["a", "b"] });
      expect(bench.begun(id)).toEqual(["0#1", "1#1"]);
      expect(bench.ledger.find({ what: "step", execution: id })).toHaveLength(4);
      expect(await bench.eventsOf(id, "task.step")).toHaveLength(4);
      expect(await bench.eventsOf(id, "tasks.lost")).toEqual([]);
    },
  );

  test.each(["asked", "answered"] as const)(
    "receipts that are only %s count once, and nothing runs again",
    async (moment) => {
      const id = await killedAt(moment, RECEIPT, { tasks: 5, steps: ["a"] });
      expect(bench.begun(id)).toEqual(["0#1", "1#1", "2#1", "3#1", "4#1"]);
      const settled = (await bench.eventsOf(id, "tasks.settled")).flatMap(rowsOf);
      expect(settled.map(({ attempt }) => attempt)).toEqual([1, 1, 1, 1, 1]);
    },
  );

  test.each(["asked", "answered"] as const)(
    "a page that is only %s is journaled once, and its tasks run once",
    async (moment) => {
      const id = await killedAt(moment, /"kind":"page"/, { tasks: 4 }, "brisk");
      const enumerated = await bench.eventsOf(id, "handler.enumerated");
      expect(enumerated.map(({ total }) => total)).toEqual([4]);
      expect(bench.begun(id)).toEqual(["0#1", "1#1", "2#1", "3#1"]);
    },
  );
});

test("kill -9 of the server again and again while tasks run: they run through, and say so in the end", async () => {
  const hold = { 0: ["in-a"], 1: ["after-a"], 2: ["end"] };
  const id = await bench.startTasks({ tasks: 3, steps: ["a"], hold, log: true });
  await bench.ledger.seen({ what: "held", execution: id }, 3);
  await bench.journaled(id, "tasks.started");
  for (let i = 0; i < 2; i++) {
    await bench.restartServer();
    await until("the tasks are adopted", async () => {
      const view = await bench.ask("GET", `/v1/executions/${id}`);
      const { phases = [] } = (view?.body ?? {}) as { phases?: { handlers: { running: number }[] }[] };
      return phases[0]?.handlers[0]?.running === 3;
    });
  }
  bench.openGate(id, 0, "in-a");
  bench.openGate(id, 1, "after-a");
  // The last of them ends while the server is away.
  await bench.killServer();
  bench.openGate(id, 2, "end");
  await bench.ledger.seen({ what: "ends", execution: id });
  await bench.startServer();
  await bench.ended(id);
  expect(bench.begun(id)).toEqual(["0#1", "1#1", "2#1"]);
  expect(bench.ledger.find({ what: "step", execution: id })).toHaveLength(3);
  expect(await bench.eventsOf(id, "tasks.lost")).toEqual([]);
});

test("a cancel reaches what was adopted, also after a step that the new life had heard of before", async () => {
  const stopped = proxy.trap(EVENTS, "answered", STEP);
  const input = { tasks: 1, steps: ["a"], hold: { 0: ["after-a"] } };
  await bench.insist("POST", "/v1/executions", { workflow: "tasks", id: "cancelled", input });
  const { cut } = await stopped;
  await bench.killServer();
  cut();
  await bench.startServer();
  await bench.ledger.seen({ what: "held", execution: "cancelled" });
  await bench.insist("POST", "/v1/executions/cancelled/cancel");
  // At once, long before its next beat; the execution ends when nobody else can show itself any more.
  await bench.ledger.seen({ what: "stopped", execution: "cancelled" });
  expect(bench.begun("cancelled")).toEqual(["0#1"]);
});

test.each([
  ["without a spool: the task runs again", [], ["0#1", "0#2"]],
  ["with a spool: the receipt survives", ["--spool", "spool"], ["0#1"]],
])(
  "kill -9 of server and worker while a receipt is on its way, %s, and counts once",
  async (_, args, ran) => {
    await bench.dismiss();
    const worker = await bench.worker({ url: proxy.url, args });
    const id = await bench.startTasks({ tasks: 1, hold: { 0: ["end"] } }, "brisk");
    await bench.ledger.seen({ what: "held", execution: id });
    await bench.journaled(id, "tasks.started");
    const last = proxy.trap(EVENTS, "asked", RECEIPT);
    bench.openGate(id, 0, "end");
    const { cut } = await last;
    await Promise.all([bench.killServer(), worker.kill()]);
    cut();
    await bench.startServer();
    await bench.worker({ url: proxy.url, args });
    await bench.ended(id);
    expect(bench.begun(id)).toEqual(ran);
  },
);
