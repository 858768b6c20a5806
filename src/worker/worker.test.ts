// A worker without an engine: how it handles grants, in virtual time.
import { describe, expect, test } from "vitest";
import { WorkerFixture } from "../../test/fixtures/workers/worker-fixture.ts";
import type { BatchContext, ProcessContext } from "./handler-code.ts";

const parse = (text: string | undefined) => JSON.parse(text ?? "null") as Record<string, unknown>;

describe("a task", () => {
  test("that returns at once is reported done, without a start of its own", async () => {
    const fixture = new WorkerFixture({ process: ({ task }) => ({ twice: (task as number) * 2 }) });
    await fixture.give([1, 2, 3]);
    expect(fixture.reports).toHaveLength(1);
    expect([...fixture.outcomes.values()].map(({ payload }) => payload)).toEqual([
      '{"twice":2}',
      '{"twice":4}',
      '{"twice":6}',
    ]);
  });

  test("that takes time is reported as started, then as done with the time it took", async () => {
    let finish: (value: string) => void = () => {};
    const fixture = new WorkerFixture({
      process: () =>
        new Promise<string>((resolve) => {
          finish = resolve;
        }),
    });
    await fixture.give([1]);
    expect(fixture.of("started")).toMatchObject([{ attempts: [{ task: 0, attempt: 1, claim: 0 }] }]);
    expect(fixture.of("receipts")).toHaveLength(0);
    await fixture.clock.advance("5s");
    finish("yes");
    await fixture.clock.settle();
    expect(fixture.of("receipts")).toMatchObject([
      { receipts: [{ ms: 5_000, outcome: { payload: '"yes"' } }] },
    ]);
  });

  test("sees its task, its number, its attempt, the input and a key that is the same for all attempts", async () => {
    const seen: unknown[] = [];
    const fixture = new WorkerFixture({
      process: ({ task, number, attempt, input, idempotencyKey, execution }: ProcessContext) =>
        void seen.push([task, number, attempt, input, idempotencyKey, execution]),
    });
    await fixture.give(["x"]);
    expect(seen).toEqual([["x", 0, 1, { n: 1 }, "e1/a/1/a/0", "e1"]]);
  });

  test("that looks like the input is a task of its own all the same", async () => {
    const seen: unknown[] = [];
    const fixture = new WorkerFixture({
      parseInput: () => "parsed",
      process: ({ task, input }) => void seen.push([task, input]),
    });
    await fixture.give([{ n: 1 }, { n: 1 }]);
    expect(seen).toEqual([
      [{ n: 1 }, "parsed"],
      [{ n: 1 }, "parsed"],
    ]);
    expect((seen[0] as unknown[])[0]).not.toBe((seen[1] as unknown[])[0]);
  });

  test.each([
    [
      "throws",
      () => {
        throw new Error("boom");
      },
    ],
    ["rejects", () => Promise.reject(new Error("boom"))],
  ])("that %s has failed with what was thrown", async (_how, process) => {
    const fixture = new WorkerFixture({ process });
    await fixture.give([1]);
    const outcome = fixture.outcomes.get(0);
    expect(outcome).toMatchObject({ status: "failed" });
    expect(outcome?.fatal).toBeUndefined();
    expect(parse(outcome?.payload)).toMatchObject({
      name: "Error",
      message: "boom",
      stack: expect.any(String),
    });
  });

  test("that throws a brand is fatal, or says when to try again", async () => {
    const fixture = new WorkerFixture({
      process: ({ task }) => {
        const brand =
          task === 0 ? { [Symbol.for("rondo.fatal")]: true } : { [Symbol.for("rondo.retryAfter")]: 7_000 };
        throw Object.assign(new Error("x"), brand);
      },
    });
    await fixture.give([0, 1]);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "failed", fatal: true });
    expect(fixture.outcomes.get(1)).toMatchObject({ status: "failed", retryAfterMs: 7_000 });
  });

  test.each<[string, unknown]>([
    ["nothing", undefined],
    ["a text", "boom"],
    ["null", null],
    ["an object", { code: 7 }],
    ["a function", () => 1],
    [
      "an error with getters that throw",
      {
        get message(): string {
          throw new Error("no");
        },
      },
    ],
    ["an error with an odd message", Object.assign(new Error("x"), { message: { toString: null } })],
    [
      "a proxy that throws",
      new Proxy(
        {},
        {
          has() {
            throw new Error("no");
          },
          get() {
            throw new Error("no");
          },
        },
      ),
    ],
  ])("that throws %s has failed, and the worker lives", async (_what, thrown) => {
    for (const isAsync of [false, true]) {
      const fixture = new WorkerFixture({
        process: () => {
          if (isAsync) return Promise.reject(thrown);
          throw thrown;
        },
      });
      await fixture.give([1, 2]);
      expect(fixture.outcomes.get(0)?.status).toBe("failed");
      expect(fixture.outcomes.get(1)?.status).toBe("failed");
      expect(typeof parse(fixture.outcomes.get(0)?.payload)["message"]).toBe("string");
      expect(fixture.bugs).toEqual([]);
    }
  });

  test.each<[string, () => unknown]>([
    ["a Map", () => new Map()],
    ["NaN", () => ({ deep: [Number.NaN] })],
    [
      "a toJSON that throws",
      () => ({
        toJSON: () => {
          throw new Error("no");
        },
      }),
    ],
    [
      "a getter that throws",
      () => ({
        get x(): number {
          throw new Error("no");
        },
      }),
    ],
    [
      "a proxy that throws",
      () =>
        new Proxy(
          {},
          {
            getPrototypeOf: () => {
              throw new Error("no");
            },
          },
        ),
    ],
    ["a value that is too large", () => "x".repeat(300_000)],
  ])("whose result is %s has failed for good or failed, and the worker lives", async (_what, make) => {
    for (const isAsync of [false, true]) {
      const fixture = new WorkerFixture({ process: () => (isAsync ? Promise.resolve(make()) : make()) });
      await fixture.give([1, 2]);
      expect([fixture.outcomes.get(0)?.status, fixture.outcomes.get(1)?.status]).toEqual([
        "failed",
        "failed",
      ]);
      expect(fixture.bugs).toEqual([]);
    }
  });

  test("whose result is a thenable that throws has failed", async () => {
    const fixture = new WorkerFixture({
      process: () =>
        Object.defineProperty({}, "then", {
          get: () => {
            throw new Error("no");
          },
        }),
    });
    await fixture.give([1]);
    expect(fixture.outcomes.get(0)?.status).toBe("failed");
  });

  test("ends with the first answer of a promise or thenable, however odd that is", async () => {
    const replaced = (result: string) =>
      Object.defineProperty(Promise.resolve(result), "constructor", {
        get: () => {
          throw new Error("no");
        },
      });
    class Own<T> extends Promise<T> {}
    const odd = [
      () => replaced("replaced"),
      () => Own.resolve("subclass"),
      () =>
        new Proxy(Promise.resolve("proxy"), {
          get: (promise, field) => {
            const value = Reflect.get(promise, field) as unknown;
            return typeof value === "function" ? (value.bind(promise) as unknown) : value;
          },
        }),
      () =>
        Object.create(Promise.prototype, {
          then: { value: (done: (value: string) => void) => done("fake") },
        }),
      // A thenable that answers twice.
      () => ({ then: (done: (value: string) => void) => [done("once"), done("twice")] }),
      // A thenable that throws after its answer.
      () => ({
        then: (done: (value: string) => void) => {
          done("answered");
          throw new Error("late");
        },
      }),
    ];
    const fixture = new WorkerFixture({ process: ({ task }) => odd[task as number]?.() });
    await fixture.give([0, 1, 2, 3, 4, 5]);
    const results = [0, 1, 2, 3, 4, 5].map((task) => fixture.outcomes.get(task)?.payload);
    expect(results.slice(1)).toEqual(['"subclass"', '"proxy"', '"fake"', '"once"', '"answered"']);
    expect(fixture.outcomes.get(0)?.status).toBe("failed");
    expect(fixture.bugs).toEqual([]);
  });

  test("out of time is killed, its signal aborted, and a late result of it ignored", async () => {
    let signal: AbortSignal | undefined;
    let finish: (value: string) => void = () => {};
    const fixture = new WorkerFixture({
      process: (context) => {
        signal = context.signal;
        return new Promise((resolve) => {
          finish = resolve;
        });
      },
    });
    await fixture.give([1], { timeoutMs: 1_000 });
    await fixture.clock.advance(999);
    expect(fixture.outcomes.size).toBe(0);
    await fixture.clock.advance(1);
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "killed" });
    expect(parse(fixture.outcomes.get(0)?.payload)).toMatchObject({ code: "timeout" });
    expect(signal?.aborted).toBe(true);
    finish("late");
    await fixture.clock.settle();
    expect(fixture.of("receipts")).toHaveLength(1);
  });

  test("within its time leaves no timer behind", async () => {
    const fixture = new WorkerFixture({ process: async () => "ok" });
    await fixture.give([1], { timeoutMs: 3_600_000 });
    expect(fixture.outcomes.get(0)?.status).toBe("done");
    expect(fixture.clock.nextAt).toBe(Number.POSITIVE_INFINITY);
  });

  test("of a handler that is not hosted is handed back", async () => {
    const fixture = new WorkerFixture({ process: () => 1 });
    await fixture.give([1], { use: "unknown", workflow: "v" });
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "cancelled" });
  });

  test("logs and progress go out with the task they belong to", async () => {
    const fixture = new WorkerFixture({
      process: (context) => {
        context.log("hello", 1);
        context.log.warn("careful");
        context.progress(3, 10);
      },
    });
    await fixture.give([1]);
    expect(fixture.logs).toEqual([
      [0, "info", "hello", 1],
      [0, "warn", "careful"],
      [0, "progress", 3, 10],
    ]);
  });
});

describe("how many run", () => {
  test("is bounded by the concurrency, the rest waits its turn", async () => {
    let running = 0;
    let most = 0;
    const open: (() => void)[] = [];
    const fixture = new WorkerFixture(
      {
        process: () => {
          most = Math.max(most, ++running);
          return new Promise<void>((resolve) => open.push(resolve)).then(() => void running--);
        },
      },
      { concurrency: 3 },
    );
    await fixture.give([1, 2, 3, 4, 5, 6, 7]);
    expect(running).toBe(3);
    while (open.length > 0) {
      open.shift()?.();
      await fixture.clock.settle();
    }
    expect(most).toBe(3);
    expect(fixture.outcomes.size).toBe(7);
  });

  test("a thousand tasks at once come back in few reports", async () => {
    const fixture = new WorkerFixture({ process: ({ task }) => task });
    await fixture.give(Array.from({ length: 1_000 }, (_, i) => i));
    expect(fixture.outcomes.size).toBe(1_000);
    expect(fixture.reports.length).toBeLessThanOrEqual(3);
  });
});

describe("input", () => {
  test("is parsed once per grant, and a promise is waited for", async () => {
    let parses = 0;
    const fixture = new WorkerFixture({
      parseInput: async (input) => {
        parses++;
        return { ...(input as object), parsed: true };
      },
      process: ({ input }) => input,
    });
    await fixture.give([1, 2]);
    expect(parses).toBe(1);
    expect(fixture.outcomes.get(1)?.payload).toBe('{"n":1,"parsed":true}');
  });

  test.each([
    [
      "throws",
      () => {
        throw new Error("bad input");
      },
    ],
    ["rejects", () => Promise.reject(new Error("bad input"))],
  ])("whose parser %s fails every task of the grant", async (_how, parseInput) => {
    const fixture = new WorkerFixture({ parseInput, process: () => 1 });
    await fixture.give([1, 2]);
    expect([...fixture.outcomes.values()].map(({ status }) => status)).toEqual(["failed", "failed"]);
  });
});

describe("batches", () => {
  test("one value per task, an Error is that task's failure", async () => {
    const fixture = new WorkerFixture({
      processBatch: ({ tasks }: BatchContext) => tasks.map((task) => (task === 2 ? new Error("two") : task)),
    });
    await fixture.give([1, 2, 3]);
    expect([...fixture.outcomes.values()].map(({ status }) => status).sort()).toEqual([
      "done",
      "done",
      "failed",
    ]);
  });

  test.each<[string, unknown]>([
    ["too few values", []],
    ["too many values", [1, 2]],
    ["no list", "x"],
    ["nothing", undefined],
  ])("%s is a failure, not a result", async (_what, given) => {
    const fixture = new WorkerFixture({ processBatch: () => given });
    await fixture.give([1]);
    expect(fixture.outcomes.get(0)?.status).toBe("failed");
  });
});

describe("decisions and outputs", () => {
  test("answer with their value", async () => {
    const fixture = new WorkerFixture({ answer: ({ input }) => (input as { n: number }).n });
    await fixture.give([null], { do: "next" });
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "done", payload: "1" });
  });

  test("may be async, and may throw", async () => {
    const fixture = new WorkerFixture({
      answer: async () => {
        throw new Error("no");
      },
    });
    await fixture.give([null], { do: "returns" });
    expect(fixture.outcomes.get(0)).toMatchObject({ status: "failed" });
  });
});
