// Logs of attempts on their way out of a worker: in order, in batches, within bounds.
import { describe, expect, test } from "vitest";
import { WorkerFixture, type WorkerFixtureOptions } from "../../test/fixtures/workers/worker-fixture.ts";
import type { ReportedLine } from "../protocol/work.ts";
import type { EnumerateContext, HandlerCode, ProcessContext } from "./handler-code.ts";

const kinds = (fixture: WorkerFixture) => fixture.reports.map(({ kind }) => kind);
const linesOf = (fixture: WorkerFixture): ReportedLine[] =>
  fixture.of("logs").flatMap(({ lines }) => [...lines]);
const textsOf = (fixture: WorkerFixture) => linesOf(fixture).map(({ text }) => text);

/** A task that goes on when it is told to. */
function paced(options: WorkerFixtureOptions = {}, more: Partial<HandlerCode> = {}) {
  let open: (context: ProcessContext) => void = () => {};
  let end: (value: unknown) => void = () => {};
  const context = new Promise<ProcessContext>((resolve) => {
    open = resolve;
  });
  const fixture = new WorkerFixture(
    {
      process: (given) => {
        open(given);
        return new Promise((resolve) => {
          end = resolve;
        });
      },
      ...more,
    },
    options,
  );
  return { fixture, context, end: (value?: unknown) => end(value) };
}

describe("order (C13)", () => {
  test("lines of a task that returns at once go before its receipt, in one report", async () => {
    const fixture = new WorkerFixture({
      process: ({ log, task }) => {
        log("one", task);
        log.warn("two");
        log.error("three\nfour");
        log.debug("five");
      },
    });
    await fixture.give([7]);
    expect(kinds(fixture)).toEqual(["logs", "receipts"]);
    expect(fixture.of("logs")).toMatchObject([{ task: 0, attempt: 1, claim: 0, execution: "e1", round: 1 }]);
    expect(linesOf(fixture).map(({ n, level, text }) => [n, level, text])).toEqual([
      [1, "info", "one 7"],
      [2, "warn", "two"],
      [3, "error", "three"],
      [4, "error", "four"],
      [5, "debug", "five"],
    ]);
    expect(linesOf(fixture).every(({ at }) => at === fixture.clock.now())).toBe(true);
  });

  test("tasks side by side keep their lines apart, each before its own receipt", async () => {
    const fixture = new WorkerFixture({ process: ({ log, task }) => log("task", task) });
    await fixture.give(["a", "b"]);
    expect(fixture.of("logs").map(({ task, lines }) => [task, lines[0]?.n, lines[0]?.text])).toEqual([
      [0, 1, "task a"],
      [1, 1, "task b"],
    ]);
    expect(kinds(fixture)).toEqual(["logs", "logs", "receipts"]);
  });

  test("lines, steps and the receipt of an attempt come as they were written", async () => {
    const fixture = new WorkerFixture({
      process: async ({ log, step }) => {
        log("before");
        await step("s", () => log("in"));
        log("after");
      },
    });
    await fixture.give([1]);
    expect(kinds(fixture)).toEqual(["started", "logs", "step", "logs", "receipts"]);
    expect(textsOf(fixture)).toEqual(["before", "in", "after"]);
    expect(linesOf(fixture).map(({ n }) => n)).toEqual([1, 2, 3]);
  });

  test("lines of an enumeration go before the page and the end they precede", async () => {
    const fixture = new WorkerFixture({
      async *enumerate({ log }: EnumerateContext) {
        log("first");
        for (let i = 0; i < 1_000; i++) yield i;
        log("second");
        yield 1_000;
        log("third");
      },
    });
    await fixture.give([], { do: "enumerate" });
    const told = fixture.reports.map((report) =>
      report.kind === "logs" ? report.lines.map(({ text }) => text).join() : report.kind,
    );
    expect(told).toEqual(["first", "page", "second,third", "page", "enumeration"]);
    expect(fixture.of("logs").every(({ task }) => task === -1)).toBe(true);
  });

  test("C18 a cancelled task ends with its last logs", async () => {
    const fixture = new WorkerFixture({
      process: ({ log, signal }) =>
        new Promise((_, fail) => {
          log("running");
          signal.addEventListener("abort", () => {
            log("cleaning up");
            fail(new Error("stopped"));
          });
        }),
    });
    const grant = await fixture.give([1]);
    const { execution, phase, visit, handler, round, epoch } = grant;
    const attempts = [{ task: 0, attempt: 1, claim: 0 }];
    fixture.worker.cancel([{ execution, phase, visit, handler, round, epoch, attempts }], "cancel");
    await fixture.clock.settle();
    expect(kinds(fixture)).toEqual(["started", "logs", "receipts"]);
    expect(textsOf(fixture)).toEqual(["running", "cleaning up"]);
    expect(fixture.outcomes.get(0)?.status).toBe("cancelled");
  });
});

describe("when they go out", () => {
  test("after a tenth of a second, though nothing else is said", async () => {
    const { fixture, context, end } = paced();
    await fixture.give([1]);
    const { log } = await context;
    log("a");
    await fixture.clock.advance(50);
    log("b");
    expect(linesOf(fixture)).toEqual([]);
    await fixture.clock.advance(50);
    expect(textsOf(fixture)).toEqual(["a", "b"]);
    expect(fixture.clock.nextAt).toBe(Number.POSITIVE_INFINITY);
    log("c");
    end();
    await fixture.clock.settle();
    expect(linesOf(fixture).map(({ n, text }) => [n, text])).toEqual([
      [1, "a"],
      [2, "b"],
      [3, "c"],
    ]);
    expect(fixture.clock.nextAt).toBe(Number.POSITIVE_INFINITY);
  });

  test("at once when they are many", async () => {
    const { fixture, context } = paced();
    await fixture.give([1]);
    const { log } = await context;
    for (let i = 0; i < 20; i++) log("x".repeat(5_000));
    await fixture.clock.settle();
    expect(fixture.of("logs").map(({ lines }) => lines.length)).toEqual([14]);
    await fixture.clock.advance(100);
    expect(fixture.of("logs").map(({ lines }) => lines.length)).toEqual([14, 6]);
  });

  test("a task that does not log sets no timer and sends nothing more", async () => {
    const { fixture, end } = paced();
    await fixture.give([1]);
    expect(fixture.clock.nextAt).toBe(Number.POSITIVE_INFINITY);
    end();
    await fixture.clock.settle();
    expect(kinds(fixture)).toEqual(["started", "receipts"]);
  });
});

describe("progress", () => {
  test("of one batch only the newest is kept, in its place among the lines", async () => {
    const { fixture, context } = paced();
    await fixture.give([1]);
    const { log, progress } = await context;
    progress(1, 10);
    log("a");
    progress(2, 10);
    log("b");
    progress(3);
    await fixture.clock.advance(100);
    progress(4, 10);
    await fixture.clock.advance(100);
    expect(linesOf(fixture).map(({ n, level, text }) => [n, level, text])).toEqual([
      [1, "info", "a"],
      [2, "info", "b"],
      [3, "progress", "3"],
      [4, "progress", "4/10"],
    ]);
  });
});

describe("bounds", () => {
  test("10,000 lines, one notice, then silence", async () => {
    const fixture = new WorkerFixture({
      process: ({ log }) => {
        for (let i = 0; i < 12_000; i++) log(i);
      },
    });
    await fixture.give([1]);
    const lines = linesOf(fixture);
    expect(lines).toHaveLength(10_001);
    expect(lines[9_999]).toMatchObject({ n: 10_000, text: "9999" });
    expect(lines[10_000]).toMatchObject({ level: "warn", text: expect.stringContaining("logs end here") });
  });

  test("a mebibyte, one notice, then silence", async () => {
    const fixture = new WorkerFixture({
      process: ({ log }) => {
        for (let i = 0; i < 300; i++) log("x".repeat(8_000));
      },
    });
    await fixture.give([1]);
    const lines = linesOf(fixture);
    expect(lines).toHaveLength(132);
    expect(lines.at(-1)).toMatchObject({ n: 132, text: expect.stringContaining("logs end here") });
  });

  test("the next attempt logs again, from 1", async () => {
    const fixture = new WorkerFixture({ process: ({ log }) => log("hello") });
    await fixture.give([1]);
    const grant = await fixture.give([], {
      items: [{ number: 0, attempt: 2, claim: 0, task: "1", checkpoints: null }],
    });
    expect(fixture.of("logs").map(({ attempt, lines }) => [attempt, lines[0]?.n])).toEqual([
      [1, 1],
      [grant.items[0]?.attempt, 1],
    ]);
  });

  test("what is logged after the attempt has ended is not stored", async () => {
    const { fixture, context, end } = paced();
    await fixture.give([1], { timeoutMs: 1_000 });
    const { log } = await context;
    await fixture.clock.advance(1_000);
    log("too late");
    end();
    await fixture.clock.advance(200);
    expect(linesOf(fixture)).toEqual([]);
    expect(fixture.logs).toEqual([[0, "info", "too late"]]);
  });
});

describe("secrets", () => {
  const secrets = ["hunter2-hunter2"];

  test("are redacted in lines, in errors and their stacks, and in what is shown live", async () => {
    const fixture = new WorkerFixture(
      {
        process: async ({ log }) => {
          log("the key is hunter2-hunter2", { key: "hunter2-hunter2" });
          throw Object.assign(new Error("refused hunter2-hunter2"), { code: "hunter2-hunter2" });
        },
      },
      { secrets },
    );
    await fixture.give([1]);
    expect(JSON.stringify([fixture.reports, fixture.logs])).not.toContain("hunter2");
    expect(textsOf(fixture)).toEqual(["the key is [redacted] { key: '[redacted]' }"]);
    expect(JSON.parse(fixture.outcomes.get(0)?.payload ?? "")).toMatchObject({
      message: "refused [redacted]",
      code: "[redacted]",
      stack: expect.stringContaining("[redacted]"),
    });
  });

  test("that a task brings hold for the whole worker", async () => {
    const fixture = new WorkerFixture({
      process: ({ log, secret, task }) => {
        if (task === 0) expect(secret("abcd-efgh")).toBe("abcd-efgh");
        log("task", task, "abcd-efgh");
      },
    });
    await fixture.give([0, 1]);
    expect(textsOf(fixture)).toEqual(["task 0 [redacted]", "task 1 [redacted]"]);
  });

  test("too short ones are refused, and results are data: never touched", async () => {
    const fixture = new WorkerFixture(
      {
        process: ({ secret, task }) => {
          if (task === 0) secret("abc");
          return "hunter2-hunter2";
        },
      },
      { secrets },
    );
    await fixture.give([0, 1]);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "failed" });
    expect(fixture.outcomes.get(1)).toMatchObject({ status: "done", payload: '"hunter2-hunter2"' });
  });
});
