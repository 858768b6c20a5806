// The worker over AMQP against a real broker, with something that stands in for the engine.
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import type { AmqpWorker, AmqpWorkerOptions } from "../../../src/worker/amqp/amqp-worker.ts";
import type { HandlerCode, ProcessContext } from "../../../src/worker/handler-code.ts";
import { testWorker } from "../../fixtures/broker/amqp-worker-fixture.ts";
import { attempt, StandIn } from "../../fixtures/broker/engine-stand-in-fixture.ts";
import { openTestBroker } from "../../fixtures/broker/rabbitmq-server-fixture.ts";
import type { TestBroker } from "../../fixtures/broker/test-broker-fixture.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory-fixture.ts";
import { until } from "../../fixtures/until.ts";

const USE = "flow.work";
const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end();
});

/** A vhost of its own, an engine's stand-in and a worker with this code. */
async function open(
  code: Partial<HandlerCode>,
  options: {
    capacity?: number;
    url?: (broker: TestBroker) => Promise<string>;
    more?: Partial<AmqpWorkerOptions>;
  } = {},
): Promise<{ engine: StandIn; worker: AmqpWorker; notes: string[]; broker: TestBroker }> {
  const broker = await openTestBroker();
  ends.push(() => broker.remove());
  const engine = await StandIn.open(broker.url, USE);
  ends.push(() => engine.close());
  const notes: string[] = [];
  const url = (await options.url?.(broker)) ?? broker.url;
  const worker = testWorker(url, [{ name: "flow", handlers: [{ use: USE, ...code }] }], {
    capacity: options.capacity ?? 10,
    onNote: (what) => notes.push(what),
    ...options.more,
  });
  ends.push(() => worker.stop(0));
  await worker.start();
  return { engine, worker, notes, broker };
}

/** Code that waits until it is told to end. */
function gate(): { process: NonNullable<HandlerCode["process"]>; begun: number[]; open: () => void } {
  const begun: number[] = [];
  let release = (): void => {};
  const opened = new Promise<void>((resolve) => {
    release = resolve;
  });
  const process = async ({ number, signal }: ProcessContext): Promise<number> => {
    begun.push(number);
    const aborted = new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason)));
    await Promise.race([opened, aborted]);
    return number;
  };
  return { process, begun, open: () => release() };
}

describe("an enumeration", () => {
  test("goes to its intake, task by task, and ends in a total", async () => {
    const at = await open({
      *enumerate({ input }) {
        for (let i = 0; i < (input as { n: number }).n; i++) yield { i };
      },
      process: () => null,
      key: (task) => `k${(task as { i: number }).i}`,
    });
    await at.engine.enumerate();
    await until("it has ended", () => at.engine.enumerated.length === 1 && at.engine.intake.length === 3);
    expect(at.engine.intake.map(({ position, data, key }) => [position, data, key])).toEqual([
      [0, { i: 0 }, "k0"],
      [1, { i: 1 }, "k1"],
      [2, { i: 2 }, "k2"],
    ]);
    expect(at.engine.enumerated[0]).toMatchObject({ status: "done", total: 3, token: "of the enumeration" });
    await until("its delivery is acknowledged", () => at.worker.held === 0);
  });

  test("is not asked of a worker whose code does not enumerate", async () => {
    const at = await open({ process: () => null });
    expect(await at.engine.consumersOf("rondo.workflow.handler.flow.work.enumerate")).toBe(0);
  });

  test("that fails says so", async () => {
    const at = await open({
      enumerate() {
        throw new Error("no list");
      },
      process: () => null,
    });
    await at.engine.enumerate();
    await until("it has ended", () => at.engine.enumerated.length === 1);
    expect(at.engine.enumerated[0]).toMatchObject({ status: "failed", error: { message: "no list" } });
  });

  test("a second attempt skips what is journaled, and goes on with its numbers", async () => {
    const at = await open({
      *enumerate({ resume }) {
        for (let i = resume?.count ?? 0; i < 5; i++) yield i;
      },
      process: () => null,
    });
    await at.engine.enumerate({ resume: { count: 3, last: 2, checksum: 0 } });
    await until("it has ended", () => at.engine.enumerated.length === 1 && at.engine.intake.length === 2);
    expect(at.engine.intake.map(({ position }) => position)).toEqual([3, 4]);
    expect(at.engine.enumerated[0]?.total).toBe(5);
  });
});

describe("tasks", () => {
  test("are done with the input beside them; results and errors come back", async () => {
    const at = await open({
      process({ task, input, idempotencyKey }) {
        const { number } = task as { number: number };
        if (number === 1) throw new Error("not this one");
        return { number, n: (input as { n: number }).n, idempotencyKey };
      },
    });
    await at.engine.task(0);
    await at.engine.task(1);
    await at.engine.process();
    await at.engine.settled(2);
    const byTask = at.engine.finished.toSorted((a, b) => a.task - b.task);
    expect(byTask).toMatchObject([
      {
        task: 0,
        status: "done",
        token: "of 0",
        result: { number: 0, n: 3, idempotencyKey: ["ex_1", "work", 1, "work", 0].join("/") },
      },
      { task: 1, status: "failed", token: "of 1", error: { name: "Error", message: "not this one" } },
    ]);
    await until("both are acknowledged", () => at.worker.held === 0);
    expect(await at.engine.messagesIn(at.engine.taskQueue)).toBe(0);
  });

  test("no more than the capacity are taken at a time", async () => {
    const code = gate();
    const at = await open(code, { capacity: 2 });
    for (let i = 0; i < 5; i++) await at.engine.task(i);
    await at.engine.process();
    await until("two run", () => code.begun.length === 2);
    expect(await at.engine.messagesIn(at.engine.taskQueue)).toBe(3);
    code.open();
    await at.engine.settled(5);
    expect(new Set(at.engine.finished.map(({ task }) => task)).size).toBe(5);
  });

  test("steps are refused with the way out, and not tried again", async () => {
    const at = await open({ process: ({ step }) => step("one", () => 1) });
    await at.engine.task(0);
    await at.engine.process();
    await at.engine.settled(1);
    expect(at.engine.finished[0]).toMatchObject({
      status: "failed",
      error: { fatal: true, message: expect.stringContaining("by workers without --broker") },
    });
  });

  test("a message that cannot be read is put aside, and harms no other", async () => {
    const at = await open({ process: () => "fine" });
    await at.engine.send(at.engine.taskQueue, Buffer.from("not json"));
    await at.engine.task(0);
    await at.engine.process();
    await at.engine.settled(1);
    expect(at.notes).toEqual([expect.stringContaining(at.engine.taskQueue)]);
  });
});

describe("cancel.consumer", () => {
  test("stops the consuming, tells running code to stop, and hands everything back", async () => {
    const code = gate();
    const at = await open(code, { capacity: 2 });
    await at.engine.task(0);
    await at.engine.process();
    await until("one runs", () => code.begun.length === 1);
    await at.engine.cancelConsumer();
    await at.engine.settled(1);
    expect(at.engine.finished[0]?.status).toBe("cancelled");
    await until("nobody consumes", async () => (await at.engine.consumersOf(at.engine.taskQueue)) === 0);
  });

  test("for a pause lets running code end; resumed, the queue is consumed again", async () => {
    const code = gate();
    const at = await open(code);
    await at.engine.task(0);
    await at.engine.process();
    await until("one runs", () => code.begun.length === 1);
    await at.engine.cancelConsumer("paused");
    await until("it consumes no more", () => at.worker.queues === 0);
    expect(at.engine.finished).toEqual([]);
    code.open();
    await at.engine.settled(1);
    expect(at.engine.finished[0]?.status).toBe("done");
    await at.engine.task(1);
    await at.engine.process();
    await at.engine.settled(2);
  });
});

describe("commands", () => {
  const cmd = { cmd_type: "ADD", cmd_data: { a: 1, b: 2 } };
  const mark = { workflow_id: "ex_1", step: 0, attempt: attempt(0, 1), token: "of 0" };
  const commands: Partial<HandlerCode> = {
    use: "topic:SUM_CMD",
    process({ task }) {
      const { a, b } = (task as { cmd_data: { a: number; b: number } }).cmd_data;
      if (b === 0) throw new Error("nothing to add");
      return { sum: a + b };
    },
  };

  test("are done, and their receipts repeat them with the result or the error", async () => {
    const at = await open(commands);
    const receipts = await at.engine.listen("SUM_RECEIPT");
    await at.engine.send("SUM_CMD", { ...cmd, cmd_metadata: { user: "u", rondo: mark } });
    await until("the receipt is there", () => receipts.length === 1);
    expect(receipts[0]).toEqual({ ...cmd, cmd_metadata: { user: "u", rondo: mark }, cmd_result: { sum: 3 } });
    await at.engine.send("SUM_CMD", { ...cmd, cmd_data: { a: 1, b: 0 }, cmd_metadata: { rondo: mark } });
    await until("the other too", () => receipts.length === 2);
    expect(receipts[1]).toMatchObject({
      proc_err: { message: "nothing to add" },
      cmd_metadata: { rondo: mark },
    });
    expect(receipts[1]).not.toHaveProperty("cmd_result");
  });

  test("that no engine sent are done as well; one that cannot be read is put aside", async () => {
    const at = await open(commands);
    const receipts = await at.engine.listen("SUM_RECEIPT");
    await at.engine.send("SUM_CMD", Buffer.from("{"));
    await at.engine.send("SUM_CMD", cmd);
    await until("the receipt is there", () => receipts.length === 1);
    expect(receipts[0]).toEqual({ ...cmd, cmd_result: { sum: 3 } });
    expect(at.notes).toHaveLength(1);
  });

  test("that are cancelled are stopped where they run, dropped where they wait, and not run when they come later", async () => {
    const code = gate();
    const at = await open({ use: "topic:SUM_CMD", process: code.process }, { capacity: 1 });
    const receipts = await at.engine.listen("SUM_RECEIPT");
    const marked = (n: number) => ({
      ...cmd,
      cmd_metadata: { rondo: { ...mark, attempt: attempt(n, 1), token: `of ${n}` } },
    });
    await at.engine.send("SUM_CMD", marked(0));
    await until("it runs", () => code.begun.length === 1);
    // The next one is still in the topic when it is cancelled, as is a second copy of the one that runs.
    await at.engine.send("SUM_CMD", marked(1));
    await at.engine.send("SUM_CMD", marked(0));
    await at.engine.send("SUM_CMD", marked(2));
    await at.engine.cancelCommands(attempt(0, 1), attempt(1, 1));
    await until("the one that is not cancelled runs", () => code.begun.includes(2));
    code.open();
    await until("it has its receipt", () => receipts.length === 1);
    expect(receipts).toMatchObject([{ cmd_metadata: { rondo: { token: "of 2" } } }]);
    expect(code.begun).toEqual([0, 2]);
    await until("nothing is held", () => at.worker.held === 0);
    expect(await at.engine.messagesIn("SUM_CMD")).toBe(0);
  });

  test("answer where they ask for it", async () => {
    const at = await open(commands);
    const receipts = await at.engine.listen("ELSEWHERE");
    await at.engine.send("SUM_CMD", cmd, { replyTo: "ELSEWHERE" });
    await until("the receipt is there", () => receipts.length === 1);
  });
});

describe("what the world does", () => {
  test("a cut connection: what runs is not run again, and its word arrives once it has ended", async () => {
    const code = gate();
    let cut = (): void => {};
    const at = await open(code, {
      url: async (here) => {
        const proxy = await here.proxy();
        cut = proxy.cut;
        return proxy.url;
      },
    });
    await at.engine.task(0);
    await at.engine.process();
    await until("one runs", () => code.begun.length === 1);
    cut();
    await until("it consumes again", async () => (await at.engine.consumersOf(at.engine.taskQueue)) === 1);
    code.open();
    await at.engine.settled(1);
    await at.engine.task(1);
    await until("both are done", () => at.engine.finished.some(({ task }) => task === 1));
    expect(code.begun).toEqual([0, 1]);
    // A word may come twice; it is the same then.
    expect([...new Set(at.engine.finished.map((word) => JSON.stringify(word)))]).toHaveLength(2);
  });

  test("queues that are deleted and made again are consumed again", async () => {
    const at = await open({ enumerate: () => [1], process: ({ number }) => number });
    await at.engine.process();
    await at.engine.remake(at.engine.taskQueue);
    await at.engine.task(0);
    // The broker may not have told anybody that it is another queue.
    await until("it is done", async () => {
      await at.engine.tell();
      return at.engine.finished.length > 0;
    });
    await at.engine.delete("rondo.workflow.handler.flow.work.enumerate");
    await until("its queue is there again", async () => {
      const queues = await at.broker.queues();
      return queues.some(({ name }) => name === "rondo.workflow.handler.flow.work.enumerate");
    });
    await at.engine.enumerate();
    await until("it enumerates", () => at.engine.enumerated.length === 1);
  });

  test("a stop hands back what has not begun, lets the rest end, and leaves nobody consuming", async () => {
    const code = gate();
    const at = await open(code, { capacity: 1 });
    await at.engine.task(0);
    await at.engine.task(1);
    await at.engine.process();
    await until("one runs", () => code.begun.length === 1);
    const stopped = at.worker.stop(20_000);
    code.open();
    await stopped;
    expect(code.begun).toEqual([0]);
    await until(
      "both are where they belong",
      async () => {
        const isBack = at.engine.finished.some(({ task, status }) => task === 1 && status === "cancelled");
        return isBack || (await at.engine.messagesIn(at.engine.taskQueue)) === 1;
      },
      {
        state: async () => ({
          finished: at.engine.finished,
          left: await at.engine.messagesIn(at.engine.taskQueue),
        }),
      },
    );
    expect(at.engine.finished.filter(({ status }) => status === "done").map(({ task }) => task)).toEqual([0]);
  });
});

describe("2.42 the status API", () => {
  test("says how the worker is, and which attempts it has", async () => {
    const code = gate();
    const at = await open(code, { more: { status: { host: "127.0.0.1", port: 0 } } });
    const get = async (path: string): Promise<unknown[]> => {
      const answer = await fetch(`${at.worker.url}${path}`);
      return [answer.status, await answer.json()];
    };
    const attemptPath = `/attempts/${encodeURIComponent(attempt(0, 1))}`;
    expect(await get("/healthz")).toMatchObject([200, { ok: true, capacity: 10, held: 0, connected: true }]);
    expect((await get(attemptPath))[0]).toBe(404);
    await at.engine.task(0);
    await at.engine.process();
    await until(
      "it runs",
      async () => ((await get(attemptPath))[1] as { status?: string }).status === "running",
    );
    expect(await get("/healthz")).toMatchObject([200, { held: 1 }]);
    code.open();
    await at.engine.settled(1);
    await until("it is not held", async () => (await get(attemptPath))[0] === 404);
  });
});

describe("2.42 the spool", () => {
  const FILE = "999999999-0-1.spool";

  test("a receipt that a former process left is published, and its task does not run again", async () => {
    const spool = temporaryDirectory();
    const body = JSON.stringify({ task: 0, status: "done", result: "before", attempt: attempt(0, 1) });
    const event = { queue: "rondo.workflow.ex_1.work.work.finished", body };
    const line = { attempt: attempt(0, 1), token: "", n: 1, isReceipt: true, event };
    writeFileSync(join(spool, FILE), `${JSON.stringify(line)}\n`);
    const runs: number[] = [];
    const at = await open(
      {
        process: ({ number }) => {
          runs.push(number);
          return "now";
        },
      },
      { more: { spool } },
    );
    await until("the receipt is there", () => at.engine.finished.length > 0);
    await at.engine.task(0);
    await at.engine.task(1);
    await at.engine.process();
    await until("the other task is done", () => at.engine.finished.some(({ task }) => task === 1));
    expect(runs).toEqual([1]);
    expect(new Set(at.engine.finished.filter(({ task }) => task === 0).map(({ result }) => result))).toEqual(
      new Set(["before"]),
    );
  });

  test("holds a receipt until the broker has confirmed it", async () => {
    const spool = temporaryDirectory();
    const at = await open({ process: () => "done" }, { more: { spool } });
    await at.engine.task(0);
    await at.engine.process();
    await at.engine.settled(1);
    const [file = ""] = readdirSync(spool);
    await until("the file is empty", () => readFileSync(join(spool, file)).length === 0);
    await at.worker.stop(0);
    expect(readdirSync(spool)).toEqual([]);
  });
});
