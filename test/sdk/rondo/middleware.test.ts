// Middleware around enumerations, tasks, answers and steps: its order, what it adds, and what it may hold.
import { AsyncLocalStorage } from "node:async_hooks";
import { flow, type LogLine, type Middleware, workflow } from "rondo";
import { connect } from "rondo/client";
import { simulate, testRondo } from "rondo/testing";
import { describe, expect, test } from "vitest";
import { openRondo } from "../../../src/index.ts";
import { all, failure, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

type Extended = { readonly tenant: string };
const tenantOf = (context: object): string => (context as Extended).tenant;

function recorder(name: string, calls: string[]): Middleware {
  return async ({ kind, workflow: of, phase, task, step }, next) => {
    calls.push(
      `${name} > ${of}.${phase} ${kind}${task === null ? "" : ` ${task}`}${step === undefined ? "" : ` ${step}`}`,
    );
    try {
      return await next();
    } finally {
      calls.push(`${name} < ${kind}`);
    }
  };
}

test("it runs around all code of a workflow, the general one outermost", async () => {
  const calls: string[] = [];
  const sum = workflow<{ n: number }>({ name: "sum", use: [recorder("own", calls)] })
    .phase("add", {
      *enumerate({ input }) {
        for (let i = 0; i < input.n; i++) yield i;
      },
      process: ({ task, step }) => step("twice", () => task * 2),
    })
    .returns(({ phases }) => phases.add.reduce((a, b) => a + b, 0));
  const rondo = await open([sum]);
  rondo.use(recorder("all", calls));
  expect(await rondo.run(sum, { n: 1 })).toBe(0);
  expect(calls).toEqual([
    ...["all > sum.add enumerate", "own > sum.add enumerate", "own < enumerate", "all < enumerate"],
    ...[
      "all > sum.add process 0",
      "own > sum.add process 0",
      "all > sum.add step 0 twice",
      "own > sum.add step 0 twice",
    ],
    ...["own < step", "all < step", "own < process", "all < process"],
    ...["all > sum.returns returns", "own > sum.returns returns", "own < returns", "all < returns"],
  ]);
});

describe("a middleware", () => {
  test("adds fields to the context, also of enumerations, and keeps asynchronous state", async () => {
    const storage = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    const w = workflow({ name: "extended" }).phase("a", {
      async *enumerate(context) {
        yield `${tenantOf(context)} ${storage.getStore()}`;
      },
      process(context) {
        seen.push(context.task, tenantOf(context), storage.getStore());
        return 1;
      },
    });
    const rondo = await open([w]);
    rondo.use((_, next) => storage.run("inside", () => next({ tenant: "acme" } as object)));
    await rondo.run(w, null);
    expect(seen).toEqual(["acme inside", "acme", "inside"]);
  });

  test("replaces the result, and can leave out the code", async () => {
    const w = workflow({ name: "replaced" })
      .phase("a", { process: () => 1 })
      .returns(({ phases }) => phases.a.first());
    const rondo = await open([w]);
    rondo.use(async ({ kind }, next) => (kind === "process" ? { cached: true } : next()));
    expect(await rondo.run(w, null)).toEqual({ cached: true });
  });

  test("sees errors, and its own errors fail the attempt", async () => {
    let attempts = 0;
    const w = workflow({ name: "errors" }).phase("a", {
      process: () => {
        attempts++;
        throw new TypeError("of the code");
      },
      retry: { attempts: 1 },
    });
    const rondo = await open([w]);
    const seen: unknown[] = [];
    rondo.use(async (_, next) => {
      try {
        return await next();
      } catch (error) {
        seen.push((error as Error).message);
        throw new RangeError("of the middleware", { cause: error });
      }
    });
    expect(await failure(rondo.run(w, null))).toMatchObject({
      message: expect.stringContaining("of the middleware"),
    });
    expect({ attempts, seen }).toEqual({ attempts: 1, seen: ["of the code"] });
  });

  test("a failed enumeration stays failed, and a field of the context cannot be replaced", async () => {
    const w = workflow({ name: "listing" }).phase("a", {
      *enumerate() {
        yield 1;
        throw new Error("half a list");
      },
      process: ({ task }) => task,
      retry: { attempts: 1 },
    });
    const rondo = await open([w]);
    rondo.use(async (_, next) => next().catch(() => null));
    expect((await failure(rondo.run(w, null))).message).toContain("half a list");
    const other = workflow({ name: "taken", use: [(_, next) => next({ task: 2 } as object)] }).phase("a", {
      process: () => 1,
    });
    const second = await open([other]);
    expect((await failure(second.run(other, null))).message).toContain('adds "task"');
    expect(() => rondo.use("x" as never)).toThrow("must be a function");
    expect(() => workflow({ name: "odd", use: [1 as never] })).toThrow("must be a function");
  });

  test("releases what it holds when the attempt ends before its code", async () => {
    let held = 0;
    const f = flow(
      "sleeper",
      async ({ sleep, waitFor }) => {
        await sleep("nap", "1h");
        return waitFor("go");
      },
      {
        use: [
          async (_, next) => {
            held++;
            try {
              return await next();
            } finally {
              held--;
            }
          },
        ],
      },
    );
    await using t = await testRondo({ workflows: [f] });
    const output = t.run(f, null, { id: "s" });
    await t.settle();
    expect(held).toBe(0);
    await t.clock.advance("1h");
    expect(held).toBe(0);
    await t.execution("s").signal("go", 7);
    expect(await output).toBe(7);
    expect(held).toBe(0);
  });

  test("runs in testRondo, in simulate and in a worker of a client", async () => {
    const calls: string[] = [];
    const w = workflow<null>({ name: "everywhere" }).phase("a", { process: (context) => tenantOf(context) });
    const use: Middleware[] = [(_, next) => next({ tenant: "acme" })];
    await using t = await testRondo({ workflows: [w], use: [recorder("test", calls), ...use] });
    expect(await t.run(w, null)).toBe("acme");
    expect(calls).toContain("test > everywhere.a process 0");
    await simulate(w, { seeds: 4, input: null, use });
    await using rondo = await openRondo({ store: "memory:", server: { port: 0 } });
    const client = connect({ url: rondo.url as string });
    await using worker = await client.serve(w, { use });
    expect(await client.run(w, null)).toBe("acme");
    expect(worker.id).not.toBe("");
  });
});

describe("log lines", () => {
  test("have workflow, time and fields, in onLog and where they are stored", async () => {
    const lines: LogLine[] = [];
    const w = workflow({ name: "logging" }).phase("a", {
      process({ log }) {
        log.info({ order: 7, big: 1n }, "paid", 3);
        log.warn(new TypeError("odd"));
        log("plain");
        return 1;
      },
    });
    const rondo = await open([w], { onLog: (line) => lines.push(line) });
    const before = Date.now();
    await rondo.run(w, null, { id: "l" });
    expect(lines.map(({ level, fields, message }) => [level, Object.keys(fields), message])).toEqual([
      ["info", ["order", "big"], "paid 3"],
      ["warn", ["err"], expect.stringContaining("TypeError: odd")],
      ["info", [], "plain"],
    ]);
    expect(lines[0]).toMatchObject({
      workflow: "logging",
      execution: "l",
      phase: "a",
      task: 0,
      fields: { order: 7 },
    });
    expect(lines[0]?.at).toBeGreaterThanOrEqual(before);
    const stored = await all(rondo.logs("l"));
    expect(stored.map(({ fields }) => fields ?? null)[0]).toEqual({ order: 7, big: "1" });
    expect(stored.find(({ level }) => level === "warn")?.fields).toMatchObject({
      err: { type: "TypeError" },
    });
    expect(stored.at(-1)?.fields).toBeUndefined();
    expect(stored[0]?.text).toContain("order: 7");
  });

  test("have no secrets in their fields", async () => {
    const lines: LogLine[] = [];
    const w = workflow({ name: "quiet" }).phase("a", {
      process({ log }) {
        log.info({ token: "hunter22" }, "hunter22");
        return 1;
      },
    });
    const rondo = await open([w], { secrets: ["hunter22"], onLog: (line) => lines.push(line) });
    await rondo.run(w, null, { id: "q" });
    expect(lines[0]).toMatchObject({ fields: { token: "[redacted]" }, message: "[redacted]" });
    expect(JSON.stringify(await all(rondo.logs("q")))).not.toContain("hunter22");
  });
});
