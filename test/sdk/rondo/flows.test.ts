// Workflows as a program writes them, over an engine in this process.
import { ExecutionFailed, Fatal, handler, workflow } from "rondo";
import { testRondo } from "rondo/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { all, failure, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

/** The example of the README, with a bucket that is a list. */
const thumbnails = workflow({ name: "thumbnails", input: z.object({ bucket: z.string() }) })
  .phase("resize", {
    async *enumerate({ input }) {
      for (const n of [1, 2, 3]) yield { key: `${input.bucket}/${n}` };
    },
    async process({ task }) {
      return { key: task.key, bytes: task.key.length };
    },
    retry: { attempts: 5, backoff: "exponential", min: "1s", max: "5m" },
    timeout: "30s",
    concurrency: 200,
  })
  .phase(
    "publish",
    {
      index: handler({ process: () => "indexed" }),
      notify: handler({ tasks: [{ to: "ops" }, { to: "dev" }], process: ({ task }) => task.to }),
    },
    { onError: "cleanup" },
  )
  .sleep("cool-off", "10m")
  .waitFor("approved", { timeout: "2d" })
  .phase("end", {}, { final: true })
  .phase("cleanup", { process: async () => {} }, { final: "failed" })
  .returns(async ({ phases, input }) => ({
    files: phases.resize.count,
    bytes: await phases.resize.reduce((sum, file) => sum + file.bytes, 0),
    told: await all(phases.publish.notify.results()),
    approvedBy: phases.approved.value,
    bucket: input.bucket,
  }));

describe("the example of the README", () => {
  test("runs from start to output, with its sleep and its approval", async () => {
    await using t = await testRondo({ workflows: [thumbnails] });
    const execution = await t.start(thumbnails, { bucket: "b" }, { id: "nightly-2026-11-15" });
    const output = execution.result();
    await t.settle();
    expect((await execution.describe()).phase).toBe("cool-off");
    expect(await execution.why()).toBe('"cool-off" sleeps for another 10 m.');
    await t.clock.advance("10m");
    expect((await execution.describe()).phase).toBe("approved");
    await execution.signal("approved", "ann");
    expect(await output).toEqual({
      files: 3,
      bytes: 9,
      told: ["ops", "dev"],
      approvedBy: "ann",
      bucket: "b",
    });
    const { status, phases } = await execution.describe();
    expect(status).toBe("done");
    expect(phases.map(({ name, status }) => [name, status])).toEqual([
      ["resize", "done"],
      ["publish", "done"],
      ["cool-off", "done"],
      ["approved", "done"],
      ["end", "done"],
      ["returns", "done"],
      ["cleanup", "skipped"],
    ]);
  });

  test("fails with wait_timeout if nobody approves", async () => {
    await using t = await testRondo({ workflows: [thumbnails] });
    const output = failure(t.run(thumbnails, { bucket: "b" }));
    await t.clock.advance("3d");
    expect(await output).toBeInstanceOf(ExecutionFailed);
    expect(await output).toMatchObject({ code: "wait_timeout" });
  });

  test("survives a crash in every one of its phases", async () => {
    await using t = await testRondo({ workflows: [thumbnails] });
    const execution = await t.start(thumbnails, { bucket: "b" });
    const output = execution.result();
    await t.crash();
    await t.settle();
    await t.crash();
    await t.clock.advance("5m");
    await t.crash();
    await t.clock.advance("5m");
    await t.crash();
    await execution.signal("approved", "ann", { id: "s1" });
    await t.crash();
    await t.settle();
    expect(await output).toMatchObject({ files: 3, approvedBy: "ann" });
  });
});

describe("results of earlier phases", () => {
  const numbers = workflow<{ n: number }>({ name: "numbers" })
    .phase("square", {
      enumerate: ({ input }) => Array.from({ length: input.n }, (_, i) => i),
      process: ({ task }) => {
        if (task % 5 === 4) throw new Fatal(`no ${task}`);
        return { n: task, squared: task * task };
      },
      tolerate: "50%",
    })
    .phase("sum", {
      process: async ({ phases }) => phases.square.reduce((sum, { squared }) => sum + squared, 0),
    })
    .returns(async ({ phases }) => {
      const [sum] = await all(phases.sum.results());
      const failed = await all(phases.square.failures());
      return {
        sum,
        count: phases.square.count,
        failed: phases.square.failed,
        total: phases.square.total,
        names: failed.map(({ task, error }) => [task, error.message]),
      };
    });

  test("are streamed, folded and counted, failures apart", async () => {
    const rondo = await open([numbers]);
    expect(await rondo.run(numbers, { n: 12 })).toEqual({
      sum: 0 + 1 + 4 + 9 + 25 + 36 + 49 + 64 + 100 + 121,
      count: 10,
      failed: 2,
      total: 12,
      names: [
        [4, "no 4"],
        [9, "no 9"],
      ],
    });
  });

  test("of many tasks come one after another, each once", async () => {
    const many = workflow({ name: "many" })
      .phase("a", {
        enumerate: () => Array.from({ length: 5_000 }, (_, i) => i),
        process: ({ task }) => task,
      })
      .returns(async ({ phases }) => {
        const found = await all(phases.a.results());
        return { n: found.length, distinct: new Set(found).size };
      });
    const rondo = await open([many]);
    expect(await rondo.run(many, null)).toEqual({ n: 5_000, distinct: 5_000 });
  });

  test("of another round: only the last word on each task", async () => {
    let isBroken = true;
    const twice = workflow({ name: "twice" })
      .phase("a", {
        tasks: [0, 1, 2],
        process: ({ task }) => {
          if (isBroken && task === 1) throw new Fatal("broken");
          return task * 10;
        },
      })
      .returns(async ({ phases }) => ({
        results: (await all(phases.a.results())).sort((a, b) => a - b),
        failures: await all(phases.a.failures()),
        failed: phases.a.failed,
      }));
    const rondo = await open([twice]);
    const execution = await rondo.start(twice, null);
    expect(await failure(execution.result())).toBeInstanceOf(ExecutionFailed);
    isBroken = false;
    await execution.retry();
    expect(await execution.result()).toEqual({ results: [0, 10, 20], failures: [], failed: 0 });
  });

  test("of a map, even of one, are by handler", async () => {
    const mapped = workflow({ name: "mapped" })
      .phase("a", { only: handler({ process: () => 7 }) })
      .phase("b", {
        b: handler({ process: () => 8 }),
        c: handler({ tasks: [1, 2], process: ({ task }) => task }),
      })
      .returns(async ({ phases }) => [
        await all(phases.a.only.results()),
        await all(phases.b.b.results()),
        phases.b.c.count,
      ]);
    const rondo = await open([mapped]);
    expect(await rondo.run(mapped, null)).toEqual([[7], [8], 2]);
  });
});

describe("decisions and loops", () => {
  const poll = workflow<{ rounds: number }>({ name: "poll" })
    .phase(
      "ask",
      { process: ({ execution }) => `asked by ${execution.length > 0}` },
      {
        next: async ({ phases, input }) => {
          const found = await all(phases.ask.visit(input.rounds).results());
          return found.length > 0 ? "end" : "ask";
        },
        among: ["ask", "end"],
        maxVisits: 10,
      },
    )
    .phase("end", {}, { final: true })
    .returns(async ({ phases }) => ({
      last: await all(phases.ask.results()),
      first: await all(phases.ask.visit(1).results()),
    }));

  test("a loop ends by its decision, which sees its own phase and earlier visits of it", async () => {
    const rondo = await open([poll]);
    const execution = await rondo.start(poll, { rounds: 3 });
    expect(await execution.result()).toEqual({ last: ["asked by true"], first: ["asked by true"] });
    const { phases } = await execution.describe();
    expect(phases.filter(({ name }) => name === "ask").map(({ visit }) => visit)).toEqual([1, 2, 3]);
  });

  test("an earlier visit has its own results, counts and value", async () => {
    let n = 0;
    const looping = workflow({ name: "looping" })
      .phase("count", {
        enumerate: () => Array.from({ length: ++n }, (_, i) => `${n}.${i}`),
        process: ({ task }) => task,
      })
      .waitFor("go", {}, { next: () => (n < 3 ? "count" : "end"), among: ["count", "end"] })
      .phase("end", {}, { final: true })
      .returns(async ({ phases }) => ({
        now: await all(phases.count.results()),
        counts: [1, 2, 3].map((visit) => phases.count.visit(visit).count),
        first: await all(phases.count.visit(1).results()),
        values: [1, 2, 3].map((visit) => phases.go.visit(visit).value),
      }));
    const rondo = await open([looping]);
    const execution = await rondo.start(looping, null);
    for (const value of ["a", "b", "c"]) await execution.signal("go", value);
    expect(await execution.result()).toEqual({
      now: ["3.0", "3.1", "3.2"],
      counts: [1, 2, 3],
      first: ["1.0"],
      values: ["a", "b", "c"],
    });
  });

  test("a decision that names no phase fails the execution and says what it answered", async () => {
    const lost = workflow({ name: "lost" })
      .phase("a", {}, { next: () => "nowhere", among: ["b"] })
      .phase("b", {});
    const rondo = await open([lost]);
    expect(await failure(rondo.run(lost, null))).toMatchObject({
      code: "invalid_next",
      message: expect.stringContaining('the decision answered "nowhere", which is none of b'),
    });
  });
});

describe("waiting for signals", () => {
  const approval = workflow({ name: "approval" })
    .waitFor("approved", { schema: z.object({ by: z.string() }) })
    .waitFor("second", { signal: "approved" })
    .waitFor("maybe", { timeout: "1h", optional: true })
    .returns(({ phases }) => [phases.approved.value.by, phases.second.value, phases.maybe.value]);

  test("each wait takes one signal, the oldest, also one that came before", async () => {
    await using t = await testRondo({ workflows: [approval] });
    const execution = await t.start(approval, null);
    await execution.signal("approved", { by: "ann" });
    await execution.signal("approved", { by: "bob" });
    await execution.signal("maybe", 7);
    expect(await execution.result()).toEqual(["ann", { by: "bob" }, 7]);
  });

  test("an optional wait past its timeout has the value null", async () => {
    await using t = await testRondo({ workflows: [approval] });
    const execution = await t.start(approval, null);
    for (const by of ["ann", "bob"]) await execution.signal("approved", { by });
    await t.clock.advance("1h");
    expect(await execution.result()).toEqual(["ann", { by: "bob" }, null]);
  });
});

describe("failures", () => {
  test("are retried by the policy, then end the execution with the last error", async () => {
    const attempts: number[] = [];
    const flaky = workflow({ name: "flaky" }).phase("a", {
      process: ({ attempt }) => {
        attempts.push(attempt);
        throw Object.assign(new Error(`try ${attempt}`), { code: "E_FLAKY" });
      },
      retry: { attempts: 3, min: "1s" },
    });
    await using t = await testRondo({ workflows: [flaky] });
    const output = failure(t.run(flaky, null));
    await t.clock.advance("10m");
    expect(attempts).toEqual([1, 2, 3]);
    expect(await output).toMatchObject({
      name: "ExecutionFailed",
      code: "E_FLAKY",
      execution: { status: "failed", error: { message: "try 3", task: 0, attempt: 3, phase: "a" } },
    });
  });

  test("onError repairs, and never beside work of the phase that failed", async () => {
    const log: string[] = [];
    let finish: () => void = () => {};
    const repaired = workflow({ name: "repaired" })
      .phase(
        "load",
        {
          tasks: ["slow", "bad"],
          process: async ({ task, signal }) => {
            if (task === "bad") throw new Fatal("bad file");
            log.push("slow begins");
            await new Promise<void>((resolve) => {
              finish = resolve;
            });
            log.push(`slow ends, ${signal.aborted ? "told to stop" : "undisturbed"}`);
          },
        },
        { onError: "undo" },
      )
      .phase("end", {}, { final: true })
      .phase("undo", { process: () => void log.push("undo") }, { final: "failed" });
    await using t = await testRondo({ workflows: [repaired] });
    const execution = await t.start(repaired, null);
    await t.settle();
    expect(log).toEqual(["slow begins"]);
    expect(await execution.why()).toBe('Phase "load" is failing: 1 open attempt must still end.');
    finish();
    await t.settle();
    expect(log).toEqual(["slow begins", "slow ends, told to stop", "undo"]);
    expect((await execution.describe()).error).toMatchObject({ message: "Fatal: bad file", phase: "load" });
  });

  test("a timeout kills the attempt, and the next one may do better", async () => {
    const slowOnce = workflow({ name: "slowOnce" })
      .phase("a", {
        process: ({ attempt }) => (attempt === 1 ? new Promise<string>(() => {}) : "quick"),
        timeout: "30s",
      })
      .returns(({ phases }) => all(phases.a.results()));
    await using t = await testRondo({ workflows: [slowOnce] });
    const execution = await t.start(slowOnce, null);
    await t.clock.advance("5m");
    expect(await execution.result()).toEqual(["quick"]);
    const retrying = t.events(execution.id).find(({ kind }) => kind === "workflow.tasks.retrying");
    expect(retrying).toMatchObject({ tasks: [{ n: 0, attempt: 1, reason: "killed" }] });
  });
});

test("two workflows may share a handler, each with its own input", async () => {
  const shared = handler({ name: "shared", process: ({ input }: { input: unknown }) => input });
  const one = workflow({ name: "one", input: z.object({ a: z.number() }) })
    .phase("p", { s: shared as never })
    .returns(async ({ phases }) =>
      all((phases as never as { p: { s: { results(): AsyncIterable<unknown> } } }).p.s.results()),
    );
  const two = workflow({ name: "two", input: z.object({ b: z.string().transform((text) => text.length) }) })
    .phase("p", { s: shared as never })
    .returns(async ({ phases }) =>
      all((phases as never as { p: { s: { results(): AsyncIterable<unknown> } } }).p.s.results()),
    );
  const rondo = await open([one, two]);
  expect(await rondo.run(one, { a: 1 })).toEqual([{ a: 1 }]);
  expect(await rondo.run(two, { b: "four" })).toEqual([{ b: 4 }]);
});

test("two workflows may share the name of a handler, though only one of them enumerates", async () => {
  const process = ({ task }: { task: unknown }) => task;
  const many = workflow({ name: "many" })
    .phase("p", { s: handler({ name: "shared", enumerate: () => [1, 2, 3], process }) as never })
    .returns(({ phases }) => (phases as never as { p: { s: { total: number } } }).p.s.total);
  const one = workflow({ name: "one" })
    .phase("p", { s: handler({ name: "shared", process }) as never })
    .returns(({ phases }) => (phases as never as { p: { s: { total: number } } }).p.s.total);
  for (const workflows of [
    [many, one],
    [one, many],
  ]) {
    await using t = await testRondo({ workflows });
    expect(await t.run(many as never, null as never)).toBe(3);
    expect(await t.run(one as never, null as never)).toBe(1);
  }
});
