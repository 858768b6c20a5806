// rondo/testing itself: virtual time, settling, crashes, determinism.
import { Fatal, RetryAfter, RondoError, workflow } from "rondo";
import { simulate, testRondo } from "rondo/testing";
import { describe, expect, test } from "vitest";
import { all, failure } from "../../fixtures/sdk/open-rondo-fixture.ts";

const HOUR = 3_600_000;

describe("virtual time", () => {
  test("stands still unless it is advanced", async () => {
    await using t = await testRondo({ workflows: [] });
    const before = t.clock.now();
    await t.settle();
    expect(t.clock.now()).toBe(before);
    await t.clock.advance("1h");
    expect(t.clock.now()).toBe(before + HOUR);
    await t.clock.advance(0);
    expect(t.clock.now()).toBe(before + HOUR);
    expect(await failure(t.clock.advance("soon"))).toMatchObject({ path: "advance" });
  });

  test("lets a workflow sleep a day without anybody waiting, and not a moment less", async () => {
    const nap = workflow({ name: "nap" })
      .sleep("a", "1d")
      .phase("b", { process: () => "awake" });
    await using t = await testRondo({ workflows: [nap] });
    const execution = await t.start(nap, null);
    await t.clock.advance(24 * HOUR - 1);
    expect((await execution.describe()).phase).toBe("a");
    await t.clock.advance(1);
    expect(await execution.status()).toBe("done");
  });

  test("run() of a workflow that sleeps waits until the test has advanced the clock", async () => {
    const nap = workflow({ name: "nap" })
      .sleep("a", "30d")
      .returns(() => "slept");
    await using t = await testRondo({ workflows: [nap] });
    const output = t.run(nap, null);
    await t.clock.advance("30d");
    expect(await output).toBe("slept");
  });

  test("fires timers in the order of their times, each at its time", async () => {
    await using t = await testRondo({ workflows: [] });
    const start = t.clock.now();
    const fired: [string, number][] = [];
    const note = (name: string) => () => void fired.push([name, t.clock.now() - start]);
    t.clock.after(300, note("c"));
    t.clock.after(100, () => {
      note("a")();
      t.clock.after(50, note("b"));
    });
    t.clock.after(200, note("cancelled"))();
    t.clock.after(300, note("d"));
    t.clock.after(301, note("later"));
    await t.clock.advance(300);
    expect(fired).toEqual([
      ["a", 100],
      ["b", 150],
      ["c", 300],
      ["d", 300],
    ]);
  });

  test("lets everything settle between two timers", async () => {
    const steps: string[] = [];
    const chain = workflow({ name: "chain" })
      .sleep("one", "1m")
      .phase("work", {
        process: async () => {
          for (let i = 0; i < 10; i++) await new Promise((resolve) => setImmediate(resolve));
          steps.push("work");
        },
      })
      .sleep("two", "1m");
    await using t = await testRondo({ workflows: [chain] });
    t.clock.after(60_001, () => void steps.push("a moment later"));
    const execution = await t.start(chain, null);
    await t.clock.advance("1h");
    expect(steps).toEqual(["work", "a moment later"]);
    const { createdAt, finishedAt } = await execution.describe();
    expect((finishedAt ?? 0) - createdAt).toBe(120_000);
  });

  test("drives retries, RetryAfter and timeouts", async () => {
    const seen: [number, number][] = [];
    const flaky = workflow({ name: "flaky" }).phase("a", {
      process: ({ attempt }) => {
        seen.push([attempt, t.clock.now() - start]);
        if (attempt === 1) throw new RetryAfter("2h");
        if (attempt === 2) return new Promise<never>(() => {});
        return "ok";
      },
      timeout: "30m",
      retry: { attempts: 5, backoff: "constant", min: 0, max: 0 },
    });
    await using t = await testRondo({ workflows: [flaky] });
    const start = t.clock.now();
    const execution = await t.start(flaky, null);
    await t.clock.advance("1d");
    expect(seen).toEqual([
      [1, 0],
      [2, 2 * HOUR],
      [3, 2.5 * HOUR],
    ]);
    expect(await execution.status()).toBe("done");
  });

  test("serves handlers that take time, through the same clock", async () => {
    const slow = workflow({ name: "slow" }).phase("a", {
      process: () => new Promise<string>((resolve) => t.clock.after(HOUR, () => resolve("done"))),
    });
    await using t = await testRondo({ workflows: [slow] });
    const execution = await t.start(slow, null);
    await t.clock.advance("59m");
    expect(await execution.why()).toBe('"a" runs 1 of 1 open tasks.');
    await t.clock.advance("1m");
    expect(await execution.status()).toBe("done");
  });

  test("passes a year of timers quickly", async () => {
    const daily = workflow({ name: "daily" })
      .phase("work", { process: () => null })
      .sleep("nap", "1d", {
        next: ({ phases }) => (phases.work.count > 0 ? "work" : "end"),
        among: ["work", "end"],
      })
      .phase("end", {}, { final: true });
    await using t = await testRondo({ workflows: [daily] });
    const execution = await t.start(daily, null);
    await t.clock.advance("365d");
    expect((await execution.describe()).phases.filter(({ name }) => name === "work").length).toBe(366);
  });
});

describe("a crash", () => {
  test("loses what was not acknowledged, and keeps what was", async () => {
    const waits = workflow<number>({ name: "waits" }).waitFor("go");
    await using t = await testRondo({ workflows: [waits] });
    const kept = await t.start(waits, 1, { id: "kept" });
    const lost = failure(t.start(waits, 2, { id: "lost" }));
    await Promise.resolve();
    await t.crash();
    expect(await lost).toMatchObject({ code: "not_ready" });
    expect(await kept.status()).toBe("running");
    expect(await failure(t.execution("lost").describe())).toMatchObject({ code: "not_found" });
    expect((await t.start(waits, 2, { id: "lost" })).id).toBe("lost");
  });

  test("ends attempts without a word; they run again, and a handle waits on through it", async () => {
    let runs = 0;
    const stuck = workflow({ name: "stuck" })
      .phase("a", { process: () => (++runs < 3 ? new Promise<never>(() => {}) : "third time") })
      .returns(async ({ phases }) => all(phases.a.results()));
    await using t = await testRondo({ workflows: [stuck] });
    const execution = await t.start(stuck, null);
    const output = execution.result();
    const kinds = all(execution.events());
    await t.settle();
    expect(runs).toBe(1);
    await t.crash();
    await t.settle();
    expect(runs).toBe(2);
    await t.crash();
    expect(await output).toEqual(["third time"]);
    const seqs = (await kinds).map(({ seq }) => seq);
    expect(seqs).toEqual(seqs.map((_, i) => i + 1));
  });

  test("leaves nothing of the old life: its handlers' results are ignored, its timers never fire", async () => {
    const finish: (() => void)[] = [];
    const held = workflow({ name: "held" })
      .phase("a", {
        process: () => new Promise<number>((resolve) => finish.push(() => resolve(finish.length))),
      })
      .returns(async ({ phases }) => all(phases.a.results()));
    await using t = await testRondo({ workflows: [held] });
    const execution = await t.start(held, null);
    await t.settle();
    await t.crash();
    await t.settle();
    expect(finish).toHaveLength(2);
    finish[0]?.();
    await t.settle();
    expect(await execution.status()).toBe("running");
    finish[1]?.();
    expect(await execution.result()).toEqual([2]);
    expect(t.events(execution.id).filter(({ kind }) => kind === "workflow.tasks.settled")).toHaveLength(2);
  });

  test("does not lose a timer", async () => {
    const nap = workflow({ name: "nap" }).sleep("a", "1h");
    await using t = await testRondo({ workflows: [nap] });
    const execution = await t.start(nap, null);
    for (let i = 0; i < 4; i++) {
      await t.clock.advance("15m");
      await t.crash();
    }
    await t.settle();
    expect(await execution.status()).toBe("done");
  });

  test("again and again at every turn does not keep a workflow from its end", async () => {
    const work = workflow({ name: "work" })
      .phase("a", { enumerate: () => [1, 2, 3, 4, 5], process: ({ task }) => task, retry: { crashes: 100 } })
      .phase("b", { process: () => "b", retry: { crashes: 100 } })
      .returns(async ({ phases }) => (await all(phases.a.results())).sort((a, b) => a - b));
    await using t = await testRondo({ workflows: [work] });
    const execution = await t.start(work, null);
    for (let turns = 0; turns < 30; turns++) {
      for (let i = 0; i < turns; i++) await new Promise((resolve) => setImmediate(resolve));
      await t.crash();
    }
    expect(await execution.result()).toEqual([1, 2, 3, 4, 5]);
  });
});

describe("a run", () => {
  const busy = workflow({ name: "busy" })
    .phase("a", {
      enumerate: () => Array.from({ length: 50 }, (_, i) => i),
      process: async ({ task, attempt }) => {
        if (task % 7 === 3 && attempt < 2) throw new Error("once");
        if (task === 11) throw new Fatal("never");
        return task;
      },
      tolerate: 1,
    })
    .sleep("nap", "1h")
    .phase("b", { process: () => "b" });

  async function journal(seed?: number): Promise<{ id: string; events: string }> {
    await using t = await testRondo({ workflows: [busy], ...(seed === undefined ? {} : { seed }) });
    const { id } = await t.start(busy, null);
    await t.clock.advance("30m");
    await t.crash();
    await t.clock.advance("2h");
    const events = t.events(id).map((event) => ({ ...event, stack: null }));
    return {
      id,
      events: JSON.stringify(events, (key, value) => (key === "stack" ? null : (value as unknown))),
    };
  }

  test("is the same for the same seed: ids, times and the whole journal", async () => {
    expect(await journal(5)).toEqual(await journal(5));
    expect(await journal()).toEqual(await journal());
    expect((await journal(5)).id).not.toBe((await journal(6)).id);
  });
});

test("events() is the journal as committed, in full or in summary", async () => {
  const one = workflow({ name: "one" }).phase("a", { tasks: [1, 2], process: ({ task }) => task });
  await using t = await testRondo({ workflows: [one] });
  const { id } = await t.start(one, null);
  await t.settle();
  expect(t.events(id).at(-1)).toMatchObject({ kind: "workflow.finished", execution: id });
  const settled = (detail?: "summary") =>
    t.events(id, detail).find(({ kind }) => kind === "workflow.tasks.settled");
  expect(settled()).toMatchObject({ tasks: [{ result: 1 }, { result: 2 }] });
  expect(settled("summary")).toMatchObject({ count: 2, ranges: [[0, 1]] });
  expect(t.events("nobody")).toEqual([]);
});

test("what handlers log is told to the test", async () => {
  const lines: unknown[] = [];
  const talk = workflow({ name: "talk" }).phase("a", { process: ({ log }) => log.warn("careful", 7) });
  await using t = await testRondo({
    workflows: [talk],
    onLog: ({ execution: _, ...line }) => void lines.push(line),
  });
  await t.run(talk, null);
  const attemptId = expect.stringMatching(/^ex_\w+\.a\.1\.a\.1\.0\.1\.0\.\d+$/);
  expect(lines).toEqual([
    {
      ...{ workflow: "talk", phase: "a", handler: "a", task: 0, attempt: 1, attemptId, level: "warn" },
      ...{ at: t.clock.now(), parts: ["careful", 7], fields: {}, message: "careful 7" },
    },
  ]);
});

test("disposing aborts handlers that still run, and waits for nothing real", async () => {
  let signal: AbortSignal | undefined;
  const hang = workflow({ name: "hang" }).phase("a", {
    process: (context) => {
      signal = context.signal;
      return new Promise<never>(() => {});
    },
  });
  {
    await using t = await testRondo({ workflows: [hang] });
    await t.start(hang, null);
    await t.settle();
    expect(signal?.aborted).toBe(false);
  }
  expect(signal?.aborted).toBe(true);
});

test("scripts run for real, in their sandbox", async () => {
  const double = workflow<{ n: number }>({ name: "double" }).script("twice", {
    runs: [{ name: "one", expression: "(state) => ({ n: state.n * 2 })" }],
  });
  await using t = await testRondo({ workflows: [double], unsafeNoJail: true });
  const execution = await t.start(double, { n: 21 });
  await execution.result();
  expect(await execution.describe()).toMatchObject({
    status: "done",
    phases: [{ name: "twice", status: "done" }],
  });
});

test("what is given wrongly is refused with what to write", async () => {
  const mine = workflow({ name: "mine" }).sleep("nap", 1);
  const refused: [call: () => Promise<unknown>, message: string][] = [
    [() => testRondo(undefined as never), "testRondo takes an object of options"],
    [() => testRondo({} as never), "workflows: nothing is not a list of workflows and topics"],
    [() => testRondo({ workflows: mine } as never), "(testRondo({ workflows: [mine] }))"],
    [() => simulate(undefined as never, { input: {} as never }), "this is not a workflow"],
    [() => simulate(mine, undefined as never), "simulate takes an object of options"],
    [() => simulate(mine, { seeds: 2.5, input: {} }), "seeds: 2.5 is not a whole number, or a list of them"],
    [() => simulate(mine, { within: "5 days", input: {} }), 'within: "5 days" is not a duration'],
  ];
  for (const [call, message] of refused) {
    const error = await failure(call());
    expect(error).toBeInstanceOf(RondoError);
    expect(error.message).toContain(message);
  }
});
