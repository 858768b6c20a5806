// Children that code runs and starts, and the clock of code, over a real engine.
import { AsyncLocalStorage } from "node:async_hooks";
import { ChildFailed, ExecutionFailed, Fatal, flow, workflow } from "rondo";
import { simulate, testRondo } from "rondo/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { failure, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

const double = flow("double", async ({ step }, { n }) => step("double", () => n * 2), {
  input: z.object({ n: z.number() }),
});

describe("run", () => {
  test("gives the output of another workflow, which is served with its parent", async () => {
    const parent = flow(
      "parent",
      async ({ run }, n: number) => {
        const two = await run(double, { n });
        return run(double, { n: two }, { name: "again" });
      },
      { children: [double] },
    );
    const rondo = await open([parent]);
    expect(await rondo.run(parent, 5)).toBe(20);
  });

  test("runs children side by side, each once, though the attempt begins anew with each end", async () => {
    let runs = 0;
    let attempts = 0;
    const kid = flow("kid", ({ execution }, n: number) => {
      expect(execution).toMatch(/^wide~[0-9a-f]{24}$/);
      runs++;
      return n + 1;
    });
    const wide = flow(
      "wide",
      async ({ run }) => {
        attempts++;
        const all = await Promise.all([1, 2, 3].map((n) => run(kid, n, { name: `kid ${n}` })));
        return all.reduce((sum, n) => sum + n, 0);
      },
      { children: [kid] },
    );
    const rondo = await open([wide]);
    expect(await rondo.run(wide, null, { id: "wide" })).toBe(9);
    expect(runs).toBe(3);
    expect(attempts).toBeGreaterThan(1);
  });

  test("throws ChildFailed with the child's error as its cause, in every attempt", async () => {
    const thrown: ChildFailed[] = [];
    const fails = flow("fails", () => {
      throw new Fatal("no stock", { cause: new Error("sold out") });
    });
    const parent = flow(
      "parent",
      async ({ run, sleep }) => {
        try {
          return await run(fails, null);
        } catch (error) {
          thrown.push(error as ChildFailed);
          await sleep("a while", "1m");
          throw error;
        }
      },
      { children: [fails] },
    );
    await using t = await testRondo({ workflows: [parent] });
    const execution = await t.start(parent, null);
    await t.clock.advance("5m");
    const failed = (await failure(execution.result())) as ExecutionFailed;
    expect(failed).toBeInstanceOf(ExecutionFailed);
    expect(thrown).toHaveLength(2);
    for (const error of thrown) {
      expect(error).toBeInstanceOf(ChildFailed);
      expect(error.message).toContain("no stock");
      expect((error.cause as Error).message).toBe("no stock");
      expect(((error.cause as Error).cause as Error).message).toBe("sold out");
      expect(error.child).toMatch(/~[0-9a-f]{24}$/);
    }
  });

  test("that failed is done again when a user retries the execution", async () => {
    let isBroken = true;
    const kid = flow(
      "kid",
      async ({ step }) => {
        const first = await step("first", () => 1);
        if (isBroken) throw new Fatal("broken");
        return first + 1;
      },
      {},
    );
    const parent = flow("parent", async ({ run }) => run(kid, null), { children: [kid] });
    const rondo = await open([parent]);
    const execution = await rondo.start(parent, null);
    await failure(execution.result());
    isBroken = false;
    await execution.retry();
    expect(await execution.result()).toBe(2);
  });

  test("is cancelled with its parent, and also when the task ends without it", async () => {
    const slow = flow("slow", async ({ waitFor }) => waitFor("never"));
    const parent = flow("parent", async ({ run }) => run(slow, null), { children: [slow] });
    const hasty = flow(
      "hasty",
      async ({ run, sleep }) => Promise.race([run(slow, null), sleep("limit", "1m").then(() => "late")]),
      { children: [slow] },
    );
    await using t = await testRondo({ workflows: [parent, hasty] });
    const execution = await t.start(parent, null);
    await t.settle();
    expect(await execution.why()).toMatch(/1 task waits for a child, such as \S+~[0-9a-f]{24}\.$/);
    await execution.cancel();
    await t.settle();
    expect(await execution.status()).toBe("cancelled");
    const race = await t.start(hasty, null);
    await t.clock.advance("2m");
    expect(await race.result()).toBe("late");
    const { data } = await t.list({ workflow: "slow" });
    expect(data.map(({ status }) => status)).toEqual(["cancelled", "cancelled"]);
  });

  test("twice of one workflow needs a name, and says how to give it", async () => {
    const parent = flow(
      "parent",
      async ({ run }) => Promise.all([run(double, { n: 1 }), run(double, { n: 2 })]),
      {
        children: [double],
      },
    );
    const rondo = await open([parent]);
    await expect(rondo.run(parent, null)).rejects.toThrow(
      '"double" is used twice in one attempt: each step, sleep, wait and child of a task needs a name of its own, as in run(workflow, input, { name: "second" })',
    );
  });

  test("refuses an input that the schema refuses, and a workflow that nobody has registered", async () => {
    const typed = flow("typed", async ({ run }) => run(double, { n: "x" as unknown as number }), {
      children: [double],
    });
    const rondo = await open([typed]);
    expect((await failure(rondo.run(typed, null))).message).toContain("input");
    const unknown = flow("unknown", async ({ run }) => run("nobody", 1), { retry: { attempts: 2, min: 1 } });
    rondo.serve(unknown);
    expect((await failure(rondo.run(unknown, null))).message).toContain('there is no workflow "nobody"');
  });

  test("starts no child twice under faults", async () => {
    const kid = workflow<number>({ name: "kid" })
      .phase("list", { enumerate: ({ input }) => [input, input + 1], process: ({ task }) => task * 2 })
      .returns(async ({ phases }) => phases.list.reduce((sum, n) => sum + n, 0));
    const parent = flow(
      "parent",
      async ({ run, start, now, step, sleep }, n: number) => {
        const began = now("began");
        const sums = await Promise.all([run(kid, n), run(kid, n * 10, { name: "tens" })]);
        await sleep("nap", "1m");
        const { id } = await start(kid, 7, { name: "alone" });
        const same = await step("began", () => now("began") === began);
        return { sum: sums[0] + sums[1], same, id: id.replace(/^.*~/, "") };
      },
      { children: [kid] },
    );
    const { runs } = await simulate(parent, { seeds: 8, input: 1 });
    expect(runs).toBe(8);
  }, 60_000);
});

describe("start", () => {
  test("begins the code of the other execution outside of the asynchronous context of its caller", async () => {
    const context = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    const kid = flow("kid", async ({ sleep }) => {
      seen.push(context.getStore());
      await sleep("nap", "1m");
      return "awake";
    });
    const parent = flow(
      "parent",
      async ({ map, start, run }) => {
        await map("in a map", [1, 2], (n) =>
          context.run("parent", () => start(kid, null, { name: `kid ${n}` })),
        );
        return run(kid, null);
      },
      { children: [kid] },
    );
    await using t = await testRondo({ workflows: [parent] });
    const execution = await t.start(parent, null);
    await t.clock.advance("5m");
    expect(await execution.result()).toBe("awake");
    expect(seen).toEqual(Array(6).fill(undefined));
  });

  test("starts an execution of its own once, which a cancel of the first leaves alone", async () => {
    const slow = flow("slow", async ({ waitFor }) => waitFor("go"));
    let attempts = 0;
    const parent = flow(
      "parent",
      async ({ start, sleep }) => {
        attempts++;
        const { id } = await start(slow, null);
        await sleep("a while", "1h");
        return id;
      },
      { children: [slow] },
    );
    await using t = await testRondo({ workflows: [parent] });
    const execution = await t.start(parent, null);
    await t.clock.advance("2h");
    const id = await execution.result();
    expect(attempts).toBe(2);
    const { data } = await t.list({ workflow: "slow" });
    expect(data.map((one) => [one.id, one.status])).toEqual([[id, "running"]]);
    await t.execution(id).signal("go", 1);
    expect(await t.execution(id).result()).toBe(1);
  });
});

describe("now", () => {
  test("is the same in later attempts, by name and by the number of the call", async () => {
    const seen: number[][] = [];
    const clock = flow("clock", async ({ now, sleep, step }) => {
      const first = now();
      const named = now("named");
      await step("one", () => 1);
      const second = now();
      await sleep("a while", "1h");
      seen.push([first, named, second, now()]);
      await sleep("again", "1h");
      return now() - first;
    });
    await using t = await testRondo({ workflows: [clock] });
    const execution = await t.start(clock, null);
    await t.clock.advance("3h");
    expect(await execution.result()).toBe(2 * 3_600_000);
    expect(seen[0]?.slice(0, 3)).toEqual(seen[1]?.slice(0, 3));
    expect(seen[0]).toEqual(seen[1]);
  });
});

test("a step that failed beside others is tried again after a retry, though another one ended later", async () => {
  let isBroken = true;
  let runs = 0;
  let release: (value: number) => void = () => {};
  const both = flow("both", async ({ step }) => {
    const all = await Promise.allSettled([
      step("breaks", { retry: { attempts: 1 } }, () => {
        if (isBroken) throw new Error("broken");
        return 1;
      }),
      step("slow", () => {
        runs++;
        return new Promise<number>((resolve) => {
          release = resolve;
        });
      }),
    ]);
    return all.map((one) => {
      if (one.status === "rejected") throw one.reason;
      return one.value;
    });
  });
  const rondo = await open([both]);
  const execution = await rondo.start(both, null);
  for await (const { kind } of execution.events()) if (kind === "workflow.task.step.failed") break;
  release(2);
  await failure(execution.result());
  isBroken = false;
  await execution.retry();
  expect(await execution.result()).toEqual([1, 2]);
  expect(runs).toBe(1);
});
