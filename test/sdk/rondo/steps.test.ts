// step, sleep and waitFor inside process, over a real engine.
import { Fatal, workflow } from "rondo";
import { testRondo } from "rondo/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { all, failure, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

describe("step", () => {
  test("is not run again after a failure: its result is the one it had", async () => {
    const ran: string[] = [];
    const order = workflow<{ id: string }>({ name: "order" })
      .phase("ship", {
        process: async ({ step, attempt, input }) => {
          ran.push(`attempt ${attempt}`);
          const charged = await step("charge", () => {
            ran.push("charge");
            return { id: input.id, at: new Date(attempt) };
          });
          if (attempt < 3) throw new Error("no parcel");
          const label = await step("label", () => `for ${charged.id}`);
          return { label, at: charged.at };
        },
      })
      .returns(({ phases }) => all(phases.ship.results()));
    await using t = await testRondo({ workflows: [order] });
    const execution = await t.start(order, { id: "o1" });
    await t.clock.advance("10m");
    expect(await execution.result()).toEqual([{ label: "for o1", at: "1970-01-01T00:00:00.001Z" }]);
    expect(ran).toEqual(["attempt 1", "charge", "attempt 2", "attempt 3"]);
    const steps = t.events(execution.id).filter(({ kind }) => kind === "workflow.task.step");
    expect(steps).toMatchObject([
      { name: "charge", attempt: 1, result: { id: "o1" } },
      { name: "label", attempt: 3, result: "for o1" },
    ]);
  });

  test("is not run again after a crash between steps, and is after a crash within one", async () => {
    const ran: string[] = [];
    let crashAt = "between";
    const long = workflow({ name: "long" })
      .phase("a", {
        process: async ({ step }) => {
          const one = await step("one", () => {
            ran.push("one");
            return 1;
          });
          if (crashAt === "between") await new Promise(() => {});
          const two = await step("two", async () => {
            ran.push("two");
            if (crashAt === "within") await new Promise(() => {});
            return 2;
          });
          return one + two;
        },
      })
      .returns(({ phases }) => all(phases.a.results()));
    await using t = await testRondo({ workflows: [long] });
    const execution = await t.start(long, null);
    await t.settle();
    crashAt = "within";
    await t.crash();
    await t.clock.advance("1m");
    expect(ran).toEqual(["one", "two"]);
    crashAt = "nowhere";
    await t.crash();
    await t.clock.advance("5m");
    expect(await execution.result()).toEqual([3]);
    expect(ran).toEqual(["one", "two", "two"]);
  });

  test("many of many tasks: each runs once, all come to their end", async () => {
    const ran = new Map<string, number>();
    const many = workflow({ name: "many" })
      .phase("a", {
        enumerate: () => Array.from({ length: 300 }, (_, i) => i),
        process: async ({ step, task }) => {
          let sum = 0;
          for (const name of ["x", "y", "z"])
            sum += await step(name, () => {
              const key = `${task}/${name}`;
              ran.set(key, (ran.get(key) ?? 0) + 1);
              return task;
            });
          return sum;
        },
      })
      .returns(({ phases }) => phases.a.reduce((sum, n) => sum + n, 0));
    const rondo = await open([many]);
    expect(await rondo.run(many, null)).toBe(3 * ((299 * 300) / 2));
    expect(ran.size).toBe(900);
    expect(new Set(ran.values())).toEqual(new Set([1]));
  });
});

describe("sleep", () => {
  const naps = workflow({ name: "naps" })
    .phase("a", {
      process: async ({ step, sleep, attempt }) => {
        const begun = await step("begun", () => attempt);
        await sleep("nap", "1h");
        await sleep("again", "30m");
        return { begun, attempt };
      },
    })
    .returns(({ phases }) => all(phases.a.results()));

  test("holds no worker and burns no attempt; the task is waiting and says why", async () => {
    await using t = await testRondo({ workflows: [naps], capacity: 2 });
    const execution = await t.start(naps, null);
    await t.settle();
    const [phase] = (await execution.describe()).phases;
    expect(phase?.handlers[0]).toMatchObject({ waiting: 1, running: 0, pending: 0 });
    expect(await execution.why()).toMatch(/1 h|60 m/);
    await t.clock.advance("59m");
    expect(await execution.status()).toBe("running");
    await t.clock.advance("1m");
    await t.clock.advance("29m");
    expect(await execution.status()).toBe("running");
    await t.clock.advance("1m");
    expect(await execution.result()).toMatchObject([{ begun: 1 }]);
  });

  test("survives crashes, and ends at its own time", async () => {
    await using t = await testRondo({ workflows: [naps] });
    const execution = await t.start(naps, null);
    await t.settle();
    await t.crash();
    await t.clock.advance("59m");
    await t.crash();
    await t.clock.advance("30s");
    expect(await execution.status()).toBe("running");
    await t.clock.advance("30s");
    await t.crash();
    await t.clock.advance("31m");
    expect(await execution.result()).toMatchObject([{ begun: 1 }]);
  });

  test("of very many tasks needs the worker only at its ends", async () => {
    const crowd = workflow({ name: "crowd" })
      .phase("a", {
        enumerate: () => Array.from({ length: 2_000 }, (_, i) => i),
        process: async ({ sleep }) => sleep("nap", "1d"),
      })
      .returns(({ phases }) => phases.a.count);
    await using t = await testRondo({ workflows: [crowd], capacity: 10 });
    const execution = await t.start(crowd, null);
    await t.settle();
    expect((await execution.describe()).phases[0]?.handlers[0]).toMatchObject({ waiting: 2_000 });
    await t.clock.advance("25h");
    expect(await execution.result()).toBe(2_000);
  });

  test("is broken off by cancel", async () => {
    await using t = await testRondo({ workflows: [naps] });
    const execution = await t.start(naps, null);
    await t.settle();
    await execution.cancel();
    await t.settle();
    expect(await execution.status()).toBe("cancelled");
  });
});

describe("waitFor", () => {
  const approval = workflow({ name: "approval" })
    .phase("ask", {
      process: async ({ waitFor, step }) => {
        await step("asked", () => true);
        const { by } = await waitFor("approved", { schema: z.object({ by: z.string() }), timeout: "2d" });
        return by;
      },
    })
    .returns(({ phases }) => all(phases.ask.results()));

  test("gets a signal that comes after the wait began", async () => {
    await using t = await testRondo({ workflows: [approval] });
    const execution = await t.start(approval, null);
    await t.settle();
    expect((await execution.describe()).phases[0]?.handlers[0]).toMatchObject({ waiting: 1 });
    await t.crash();
    await execution.signal("approved", { by: "ann" });
    expect(await execution.result()).toEqual(["ann"]);
  });

  test("gets a signal that came before", async () => {
    await using t = await testRondo({ workflows: [approval] });
    const execution = await t.start(approval, null);
    await execution.signal("approved", { by: "bob" });
    expect(await execution.result()).toEqual(["bob"]);
  });

  test("past its timeout throws a WaitTimeout, which ends the task unless it is caught", async () => {
    const patient = workflow({ name: "patient" })
      .phase("ask", {
        process: async ({ waitFor }) => {
          try {
            return await waitFor("approved", { timeout: "2d" });
          } catch (error) {
            return (error as { code?: string }).code;
          }
        },
      })
      .returns(({ phases }) => all(phases.ask.results()));
    await using t = await testRondo({ workflows: [approval, patient] });
    const lost = failure(t.run(approval, null));
    const found = t.run(patient, null);
    await t.clock.advance("3d");
    expect(await found).toEqual(["wait_timeout"]);
    expect(await lost).toMatchObject({ code: "wait_timeout" });
  });

  test("a payload that the schema refuses fails the task for good", async () => {
    await using t = await testRondo({ workflows: [approval] });
    const execution = await t.start(approval, null);
    await execution.signal("approved", { from: "nobody" });
    const error = await failure(execution.result());
    expect(error.message).toContain('signal "approved".by');
  });

  test("of several tasks each takes one signal, the oldest first", async () => {
    const three = workflow({ name: "three" })
      .phase("ask", {
        tasks: ["a", "b", "c"],
        process: async ({ waitFor, task }) => `${task}: ${await waitFor("go", { schema: z.number() })}`,
      })
      .returns(async ({ phases }) => (await all(phases.ask.results())).sort());
    await using t = await testRondo({ workflows: [three] });
    const execution = await t.start(three, null);
    for (const n of [1, 2, 3]) {
      await t.settle();
      await execution.signal("go", n);
    }
    expect(await execution.result()).toEqual(["a: 1", "b: 2", "c: 3"]);
  });
});

test("steps, sleeps and waits in one task, with a crash at every rest", async () => {
  const ran: string[] = [];
  const onboarding = workflow({ name: "onboarding" })
    .phase("mail", {
      process: async ({ step, sleep, waitFor, log }) => {
        const note = (name: string) => step(name, () => void ran.push(name));
        await note("welcome");
        await sleep("day", "1d");
        await note("reminder");
        const answer = await waitFor("answer", { schema: z.string(), timeout: "1d" }).catch(
          (error: unknown) => {
            if ((error as { code?: string }).code !== "wait_timeout") throw error;
            return "none";
          },
        );
        log("answer", answer);
        await note(`answered ${answer}`);
        if (answer === "none") throw new Fatal("nobody there");
        return answer;
      },
    })
    .returns(({ phases }) => all(phases.mail.results()));
  for (const answer of ["yes", null]) {
    ran.length = 0;
    await using t = await testRondo({ workflows: [onboarding] });
    const execution = await t.start(onboarding, null);
    const output = execution.result().catch((error: Error) => error.message);
    await t.settle();
    await t.crash();
    await t.clock.advance("25h");
    await t.crash();
    await t.settle();
    if (answer === null) await t.clock.advance("25h");
    else await execution.signal("answer", answer, { id: "s1" });
    await t.crash();
    await t.clock.advance("1h");
    expect(ran).toEqual(["welcome", "reminder", `answered ${answer ?? "none"}`]);
    if (answer === null) expect(await output).toContain("nobody there");
    else expect(await output).toEqual(["yes"]);
  }
});

test("a signal whose payload the schema refuses fails the task; a retry waits for another", async () => {
  const order = workflow({ name: "order" })
    .phase("ship", {
      process: async ({ waitFor }) =>
        (await waitFor("paid", { schema: z.object({ cents: z.number() }) })).cents,
    })
    .returns(({ phases }) => all(phases.ship.results()));
  await using t = await testRondo({ workflows: [order] });
  const execution = await t.start(order, null);
  await execution.signal("paid", { cents: "much" });
  const failed = await failure(execution.result());
  expect([failed.code, failed.message]).toEqual(["signal_refused", expect.stringContaining("paid")]);
  await execution.retry();
  await t.clock.advance("1s");
  expect((await execution.describe()).phases[0]?.handlers[0]).toMatchObject({ waiting: 1, running: 0 });
  await execution.signal("paid", { cents: 5 });
  expect(await execution.result()).toEqual([5]);
});

test("a step beside a sleep is done once", async () => {
  let charged = 0;
  const order = workflow({ name: "order" }).phase("ship", {
    process: async ({ step, sleep }) => {
      const charge = step("charge", async () => {
        await new Promise<void>((resolve) => setImmediate(resolve));
        return ++charged;
      });
      await Promise.all([charge, sleep("nap", "1h")]);
    },
  });
  await using t = await testRondo({ workflows: [order] });
  const execution = await t.start(order, null);
  await t.clock.advance("30m");
  // Those that sleep are waiting, not running.
  expect((await execution.describe()).phases[0]?.handlers[0]).toMatchObject({ waiting: 1, running: 0 });
  await t.clock.advance("1h");
  await execution.result();
  expect(charged).toBe(1);
});
