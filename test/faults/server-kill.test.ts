// kill -9 of the server at moments that a proxy chooses; it comes back on the same directory and port. Workers reconnect,
// what they run is adopted and not repeated, what they kept is taken.
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { rowsOf } from "../fixtures/faults/audit.ts";
import { FaultFixture, type TasksInput } from "../fixtures/faults/fault-fixture.ts";
import { CLAIM, EVENTS, expectWell, RECEIPT, STEP } from "../fixtures/faults/open-fault-fixture.ts";
import { RequestProxy } from "../fixtures/faults/request-proxy-fixture.ts";
import { until } from "../fixtures/until.ts";

vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 });

let fixture: FaultFixture;
let proxy: RequestProxy;

beforeAll(async () => {
  fixture = await FaultFixture.open();
  proxy = await RequestProxy.start(fixture.url);
  await fixture.worker({ url: proxy.url });
});

// All of it is looked at in the end: whatever was acknowledged is there, once.
afterAll(async () => {
  try {
    await expectWell(fixture);
  } finally {
    proxy.close();
    await fixture.close();
  }
});

describe("kill -9 of the server in the middle of a claim", () => {
  test("that waits: the worker claims again, and what is started later is done once", async () => {
    await until("a claim waits", () => proxy.isOpen(CLAIM));
    await fixture.restartServer();
    const id = await fixture.startTasks({ tasks: 3 });
    await fixture.ended(id);
    expect(fixture.begun(id)).toEqual(["0#1", "1#1", "2#1"]);
  });

  test("whose answer holds work and was never read: the work is given out again, no attempt is burnt", async () => {
    const held = await fixture.startTasks({ tasks: 3, hold: { 0: ["begin"] } });
    await fixture.ledger.seen({ what: "held", execution: held });
    const claimed = proxy.trap(CLAIM, "answered");
    const id = await fixture.startTasks({ tasks: 1 }, "brisk");
    const { answer, cut } = await claimed;
    expect(answer?.body).toContain(`"execution":"${id}"`);
    await fixture.killServer();
    cut();
    await fixture.startServer();
    fixture.openGate(held, 0, "begin");
    await fixture.ended(id);
    await fixture.ended(held);
    expect(fixture.begun(id)).toEqual(["0#1"]);
    expect(fixture.begun(held)).toEqual(["0#1", "1#1", "2#1"]);
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
    const id = await fixture.startTasks(input, workflow);
    const { cut } = await stopped;
    await fixture.killServer();
    cut();
    await fixture.startServer();
    await fixture.ended(id);
    return id;
  }

  test.each(["asked", "answered"] as const)(
    "a step that is only %s is journaled once, does not run again, and its attempt goes on",
    async (moment) => {
      const id = await killedAt(moment, STEP, { tasks: 2, steps: ["a", "b"] });
      expect(fixture.begun(id)).toEqual(["0#1", "1#1"]);
      expect(fixture.ledger.find({ what: "step", execution: id })).toHaveLength(4);
      expect(await fixture.eventsOf(id, "task.step")).toHaveLength(4);
      expect(await fixture.eventsOf(id, "tasks.lost")).toEqual([]);
    },
  );

  test.each(["asked", "answered"] as const)(
    "receipts that are only %s count once, and nothing runs again",
    async (moment) => {
      const id = await killedAt(moment, RECEIPT, { tasks: 5, steps: ["a"] });
      expect(fixture.begun(id)).toEqual(["0#1", "1#1", "2#1", "3#1", "4#1"]);
      const settled = (await fixture.eventsOf(id, "tasks.settled")).flatMap(rowsOf);
      expect(settled.map(({ attempt }) => attempt)).toEqual([1, 1, 1, 1, 1]);
    },
  );

  test.each(["asked", "answered"] as const)(
    "a page that is only %s is journaled once, and its tasks run once",
    async (moment) => {
      const id = await killedAt(moment, /"kind":"page"/, { tasks: 4 }, "brisk");
      const enumerated = await fixture.eventsOf(id, "handler.enumerated");
      expect(enumerated.map(({ total }) => total)).toEqual([4]);
      expect(fixture.begun(id)).toEqual(["0#1", "1#1", "2#1", "3#1"]);
    },
  );
});

test("kill -9 of the server again and again while tasks run: they run through, and say so in the end", async () => {
  const hold = { 0: ["in-a"], 1: ["after-a"], 2: ["end"] };
  const id = await fixture.startTasks({ tasks: 3, steps: ["a"], hold, log: true });
  await fixture.ledger.seen({ what: "held", execution: id }, 3);
  await fixture.journaled(id, "tasks.started");
  for (let i = 0; i < 2; i++) {
    await fixture.restartServer();
    await until("the tasks are adopted", async () => {
      const view = await fixture.ask("GET", `/v1/executions/${id}`);
      const { phases = [] } = (view?.body ?? {}) as { phases?: { handlers: { running: number }[] }[] };
      return phases[0]?.handlers[0]?.running === 3;
    });
  }
  fixture.openGate(id, 0, "in-a");
  fixture.openGate(id, 1, "after-a");
  // The last of them ends while the server is away.
  await fixture.killServer();
  fixture.openGate(id, 2, "end");
  await fixture.ledger.seen({ what: "ends", execution: id });
  await fixture.startServer();
  await fixture.ended(id);
  expect(fixture.begun(id)).toEqual(["0#1", "1#1", "2#1"]);
  expect(fixture.ledger.find({ what: "step", execution: id })).toHaveLength(3);
  expect(await fixture.eventsOf(id, "tasks.lost")).toEqual([]);
});

test("a cancel reaches what was adopted, also after a step that the new life had heard of before", async () => {
  const stopped = proxy.trap(EVENTS, "answered", STEP);
  const input = { tasks: 1, steps: ["a"], hold: { 0: ["after-a"] } };
  await fixture.insist("POST", "/v1/executions", { workflow: "tasks", id: "cancelled", input });
  const { cut } = await stopped;
  await fixture.killServer();
  cut();
  await fixture.startServer();
  await fixture.ledger.seen({ what: "held", execution: "cancelled" });
  await fixture.insist("POST", "/v1/executions/cancelled/cancel");
  // At once, long before its next beat; the execution ends when nobody else can show itself any more.
  await fixture.ledger.seen({ what: "stopped", execution: "cancelled" });
  expect(fixture.begun("cancelled")).toEqual(["0#1"]);
});

test.each([
  ["without a spool: the task runs again", [], ["0#1", "0#2"]],
  ["with a spool: the receipt survives", ["--spool", "spool"], ["0#1"]],
])(
  "kill -9 of server and worker while a receipt is on its way, %s, and counts once",
  async (_, args, ran) => {
    await fixture.dismiss();
    const worker = await fixture.worker({ url: proxy.url, args });
    const id = await fixture.startTasks({ tasks: 1, hold: { 0: ["end"] } }, "brisk");
    await fixture.ledger.seen({ what: "held", execution: id });
    await fixture.journaled(id, "tasks.started");
    const last = proxy.trap(EVENTS, "asked", RECEIPT);
    fixture.openGate(id, 0, "end");
    const { cut } = await last;
    await Promise.all([fixture.killServer(), worker.kill()]);
    cut();
    await fixture.startServer();
    await fixture.worker({ url: proxy.url, args });
    await fixture.ended(id);
    expect(fixture.begun(id)).toEqual(ran);
  },
);
