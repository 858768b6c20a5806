// kill -9 of the server at moments that a proxy chooses; it comes back on the same directory and port. Workers reconnect,
// what they run is adopted and not repeated, what they kept is taken.
import { describe, expect, test } from "vitest";
import { rowsOf } from "./audit.ts";
import type { FaultBench } from "./fault-bench.ts";
import { CLAIM, EVENTS, expectWell, openBench, openProxy, RECEIPT, STEP } from "./open-bench.ts";
import { until } from "./until.ts";

/** What has begun, as (task, attempt). */
function begun(bench: FaultBench, id: string): string[] {
  return bench.ledger
    .find({ what: "begins", execution: id })
    .map(({ key, attempt }) => `${key?.split("/").at(-1)}#${attempt}`)
    .sort();
}

describe("kill -9 of the server in the middle of a claim", () => {
  test("that waits: the worker claims again, and what is started later is done once", async () => {
    const bench = await openBench();
    const proxy = await openProxy(bench);
    await bench.worker({ url: proxy.url });
    await bench.worker({ url: proxy.url });
    await until("claims wait", () => proxy.isOpen(CLAIM));
    await bench.restartServer();
    const id = await bench.startTasks({ tasks: 3 });
    await bench.ended(id);
    expect(begun(bench, id)).toEqual(["0#1", "1#1", "2#1"]);
    await expectWell(bench);
  });

  test("whose answer holds work and was never read: the work is given out again, no attempt is burnt", async () => {
    const bench = await openBench();
    const proxy = await openProxy(bench);
    await bench.worker({ url: proxy.url });
    const id = await bench.startTasks({ tasks: 3, hold: { 0: ["begin"] } });
    await bench.ledger.seen({ what: "held", execution: id });
    // Three more are claimed: the worker does not hear of it.
    const claimed = proxy.trap(CLAIM, "answered");
    const other = await bench.startTasks({ tasks: 1 });
    const { answer, cut } = await claimed;
    expect(answer?.body).toContain(`"execution":"${other}"`);
    await bench.killServer();
    cut();
    await bench.startServer();
    bench.openGate(id, 0, "begin");
    await bench.ended(other);
    await bench.ended(id);
    expect(begun(bench, id)).toEqual(["0#1", "1#1", "2#1"]);
    expect(begun(bench, other)).toEqual(["0#1"]);
    await expectWell(bench);
  });
});

describe("kill -9 of the server in the middle of events", () => {
  test.each(["asked", "answered"] as const)(
    "a step is on its way and only %s: it is journaled once, does not run again, and the attempt goes on",
    async (moment) => {
      const bench = await openBench();
      const proxy = await openProxy(bench);
      await bench.worker({ url: proxy.url });
      const stopped = proxy.trap(EVENTS, moment, STEP);
      const id = await bench.startTasks({ tasks: 2, steps: ["a", "b"] });
      const { cut } = await stopped;
      await bench.killServer();
      cut();
      await bench.startServer();
      await bench.ended(id);
      expect(begun(bench, id)).toEqual(["0#1", "1#1"]);
      expect(bench.ledger.find({ what: "step", execution: id })).toHaveLength(4);
      expect(await bench.eventsOf(id, "task.step")).toHaveLength(4);
      expect(await bench.eventsOf(id, "tasks.lost")).toEqual([]);
      await expectWell(bench);
    },
  );

  test.each(["asked", "answered"] as const)(
    "receipts are on their way and only %s: they count once, and nothing runs again",
    async (moment) => {
      const bench = await openBench();
      const proxy = await openProxy(bench);
      await bench.worker({ url: proxy.url });
      const stopped = proxy.trap(EVENTS, moment, /"kind":"receipt","status":"done".*"sum"/);
      const id = await bench.startTasks({ tasks: 5, steps: ["a"] });
      const { cut } = await stopped;
      await bench.killServer();
      cut();
      await bench.startServer();
      await bench.ended(id);
      expect(begun(bench, id)).toEqual(["0#1", "1#1", "2#1", "3#1", "4#1"]);
      const settled = (await bench.eventsOf(id, "tasks.settled")).flatMap(rowsOf);
      expect(settled.map(({ attempt }) => attempt)).toEqual(settled.map(() => 1));
      await expectWell(bench);
    },
  );

  test.each(["asked", "answered"] as const)(
    "the receipt of an enumeration is on its way and only %s: its tasks exist once",
    async (moment) => {
      const bench = await openBench();
      const proxy = await openProxy(bench);
      await bench.worker({ url: proxy.url });
      const stopped = proxy.trap(EVENTS, moment, /"kind":"page"|"total":/);
      const id = await bench.startTasks({ tasks: 4 });
      const { cut } = await stopped;
      await bench.killServer();
      cut();
      await bench.startServer();
      await bench.ended(id);
      const enumerated = await bench.eventsOf(id, "handler.enumerated");
      expect(enumerated.map(({ phase, total }) => [phase, total])).toContainEqual(["work", 4]);
      expect(begun(bench, id)).toEqual(["0#1", "1#1", "2#1", "3#1"]);
      await expectWell(bench);
    },
  );
});

test("kill -9 of the server three times while tasks run: they run through, and say so in the end", async () => {
  const bench = await openBench();
  const hold = { 0: ["in-a"], 1: ["after-a"], 2: ["end"] };
  const [one, other] = [await bench.worker(), await bench.worker()];
  const id = await bench.startTasks({ tasks: 3, steps: ["a"], hold, log: true });
  await bench.ledger.seen({ what: "held", execution: id }, 3);
  const receipt = bench.journaled(id, "tasks.started");
  await receipt;
  for (let i = 0; i < 3; i++) {
    await bench.restartServer();
    await until("the tasks are adopted", async () => {
      const view = await bench.ask("GET", `/v1/executions/${id}`);
      const { phases } = (view?.body ?? { phases: [] }) as {
        phases: { handlers: { running: number }[] }[];
      };
      return phases[0]?.handlers[0]?.running === 3;
    });
  }
  bench.openGate(id, 0, "in-a");
  bench.openGate(id, 1, "after-a");
  // The last of them ends while the server is away.
  await bench.killServer();
  bench.openGate(id, 2, "end");
  await bench.ledger.seen({ what: "ends", execution: id }, 1);
  await bench.startServer();
  await bench.ended(id);
  expect(begun(bench, id)).toEqual(["0#1", "1#1", "2#1"]);
  expect(bench.ledger.find({ what: "step", execution: id })).toHaveLength(3);
  expect(await bench.eventsOf(id, "tasks.lost")).toEqual([]);
  expect([one.hasEnded, other.hasEnded]).toEqual([false, false]);
  await expectWell(bench);
});

test.each([[[]], [["--spool", "spool"]]])(
  "kill -9 of server and worker while a receipt is on its way (worker %j): counted once",
  async (args) => {
    const bench = await openBench();
    const proxy = await openProxy(bench);
    const worker = await bench.worker({ url: proxy.url, args });
    const stopped = proxy.trap(EVENTS, "asked", RECEIPT);
    const id = await bench.startTasks({ tasks: 1, hold: { 0: ["end"] } });
    (await stopped).pass();
    await bench.ledger.seen({ what: "held", execution: id });
    const last = proxy.trap(EVENTS, "asked", RECEIPT);
    bench.openGate(id, 0, "end");
    const { cut } = await last;
    await Promise.all([bench.killServer(), worker.kill()]);
    cut();
    await bench.startServer();
    await bench.worker({ url: proxy.url, args });
    await bench.ended(id);
    // On disk it survives; in memory it went with the worker, and the task runs again.
    const isSpooled = args.length > 0;
    expect(begun(bench, id)).toEqual(isSpooled ? ["0#1"] : ["0#1", "0#2"]);
    await expectWell(bench);
  },
);
