// flow(): a workflow that is one function, with budgets of steps, branches and several waits, over a real engine.
import { event, Fatal, flow, on, StepFailed, WaitTimeout } from "rondo";
import { simulate, testRondo } from "rondo/testing";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { open } from "../../fixtures/sdk/open-rondo-fixture.ts";

describe("compensate of a flow", () => {
  /** An order that charges and waits. `compensate` voids what the steps may have done, by their keys. */
  function order(said: string[]) {
    const ask =
      (what: string) =>
      ({ idempotencyKey }: { idempotencyKey: string }) => {
        said.push(`${what} ${idempotencyKey}`);
      };
    return flow(
      "order",
      async ({ step, waitFor }, input: { id: string }) => {
        await step("charge", { retry: { attempts: 1 } }, ask("charge"));
        const ok = await waitFor("approval");
        if (ok !== true) throw new Fatal(`${input.id} is refused`);
        return "shipped";
      },
      {
        compensate: async ({ step }, input) => {
          said.push(`undo ${input.id}`);
          await step("charge", ask("void"));
        },
        compensation: { retry: { attempts: 10 } },
      },
    );
  }

  test("runs after a cancel and a deadline, with the keys of the steps", async () => {
    for (const end of ["cancel", "deadline"] as const) {
      const said: string[] = [];
      const one = order(said);
      await using t = await testRondo({ workflows: [one] });
      const execution = await t.start(one, { id: "A" }, { id: "A", deadline: t.clock.now() + 60_000 });
      await t.settle();
      expect(await execution.awaits()).toEqual(["approval"]);
      if (end === "cancel") await execution.cancel();
      else await t.clock.advance("1m");
      await expect(execution.result()).rejects.toThrow("cancelled");
      const [charged = "", ...undone] = said;
      expect(charged).toMatch(/^charge .*\/charge$/);
      expect(undone).toEqual(["undo A", charged.replace("charge", "void")]);
      expect(await execution.awaits()).toEqual([]);
    }
  });

  test("runs after a failure, and not after it is done", async () => {
    for (const ok of [true, false]) {
      const said: string[] = [];
      const one = order(said);
      const rondo = await open([one]);
      const execution = await rondo.start(one, { id: "A" });
      await execution.signal("approval", ok);
      await execution.result().catch(() => {});
      expect(said.slice(1).map((what) => what.split(" ")[0])).toEqual(ok ? [] : ["undo", "void"]);
    }
  });
});

test("a flow is started by an event", async () => {
  const paid = event<{ order: string }>("order/paid");
  const shipped: string[] = [];
  const ship = flow("ship", async (_, input: { order: string }) => void shipped.push(input.order), {
    on: on(paid),
  });
  await using t = await testRondo({ workflows: [ship] });
  expect((await t.send(paid({ order: "A" }))).targets).toMatchObject([{ workflow: "ship", action: "start" }]);
  await t.settle();
  expect(shipped).toEqual(["A"]);
});

describe("flow", () => {
  test("is a workflow of one function: its result is the output", async () => {
    const greet = flow("greet", async ({ step }, { name }) => step("greet", () => `hello ${name}`), {
      input: z.object({ name: z.string().default("you") }),
    });
    const rondo = await open([greet]);
    expect(await rondo.run(greet, {})).toBe("hello you");
  });

  test("takes its input's type from its function, and has the options of a handler", async () => {
    let attempts = 0;
    const fails = flow(
      "fails",
      (_ctx, input: { n: number }) => {
        attempts++;
        throw new Error(`no ${input.n}`);
      },
      { retry: { attempts: 2, min: 1 } },
    );
    await using t = await testRondo({ workflows: [fails] });
    const execution = await t.start(fails, { n: 7 });
    await t.clock.advance("1m");
    await expect(execution.result()).rejects.toThrow("no 7");
    expect(attempts).toBe(2);
  });

  test("has steps side by side that are journaled each for itself", async () => {
    const ran: number[] = [];
    let crash = true;
    const wide = flow("wide", async ({ step }) => {
      const all = await Promise.all(
        [1, 2, 3, 4].map((n) =>
          step(`n${n}`, async () => {
            if (n === 4 && crash) await new Promise(() => {});
            ran.push(n);
            return n * n;
          }),
        ),
      );
      return all.reduce((sum, n) => sum + n, 0);
    });
    await using t = await testRondo({ workflows: [wide] });
    const execution = await t.start(wide, null);
    await t.settle();
    crash = false;
    await t.crash();
    await t.clock.advance("10m");
    expect(await execution.result()).toBe(30);
    expect(ran).toEqual([1, 2, 3, 4]);
  });
});

test("map continues after a crash with the items that have no result, and its results are in order", async () => {
  const ran: number[] = [];
  let crash = true;
  const squares = flow("squares", async ({ map }, n: number) => {
    const all = await map(
      "square",
      Array.from({ length: n }, (_, i) => i),
      async (i) => {
        if (i === 40 && crash) await new Promise(() => {});
        ran.push(i);
        return i * i;
      },
      { concurrency: 4 },
    );
    return { last: all.at(-1), sum: all.reduce((sum, one) => sum + one, 0) };
  });
  await using t = await testRondo({ workflows: [squares] });
  const execution = await t.start(squares, 100);
  await t.clock.advance("1s");
  crash = false;
  await t.crash();
  await t.clock.advance("10m");
  expect(await execution.result()).toEqual({ last: 9_801, sum: 328_350 });
  expect(ran.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 100 }, (_, i) => i));
});

describe("a saga of steps", () => {
  const saga = (ships: () => unknown) => {
    const done: string[] = [];
    const order = flow(
      "saga",
      async ({ step }) => {
        const undo: (() => Promise<unknown>)[] = [];
        const act = (name: string) => () => void done.push(name);
        try {
          await step("reserve", { retry: { attempts: 2, min: 1 } }, act("reserve"));
          undo.unshift(() => step("release", act("release")));
          await step("charge", { retry: { attempts: 2, min: 1 } }, act("charge"));
          undo.unshift(() => step("refund", act("refund")));
          await step("ship", { retry: { attempts: 2, min: 1 } }, ships);
          return "shipped";
        } catch (thrown) {
          for (const one of undo) await one();
          throw thrown;
        }
      },
      { retry: { attempts: 3, min: 1 } },
    );
    return { order, done };
  };

  test("undoes what it did, once, and fails for good with the user's error", async () => {
    let tries = 0;
    const { order, done } = saga(() => {
      tries++;
      throw new Error("no van");
    });
    await using t = await testRondo({ workflows: [order] });
    const execution = await t.start(order, null);
    await t.clock.advance("1m");
    await expect(execution.result()).rejects.toThrow('step "ship" failed: no van');
    expect(done).toEqual(["reserve", "charge", "refund", "release"]);
    expect(tries).toBe(2);
    const kinds = t.events(execution.id).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind.startsWith("workflow.task.step."))).toEqual([
      "workflow.task.step.retrying",
      "workflow.task.step.failed",
    ]);
  });

  test("does not ship after it has undone, also if a user retries it", async () => {
    let isAway = true;
    const { order, done } = saga(() => {
      if (isAway) throw new Error("no van");
      done.push("ship");
    });
    await using t = await testRondo({ workflows: [order] });
    const execution = await t.start(order, null);
    await t.clock.advance("1m");
    isAway = false;
    await execution.retry();
    await t.clock.advance("1m");
    await expect(execution.result()).rejects.toThrow("no van");
    expect(done).toEqual(["reserve", "charge", "refund", "release"]);
  });
});

describe("waits", () => {
  test("side by side end one after the other, and a race has the same winner in every attempt", async () => {
    const seen: unknown[] = [];
    const order = flow("race", async ({ sleep, waitFor, step }) => {
      const first = await Promise.race([
        waitFor("paid").then(() => "paid"),
        sleep("limit", "1h").then(() => "late"),
      ]);
      await step("note", () => void seen.push(first));
      await sleep("longer than the limit", "3h");
      return first;
    });
    await using t = await testRondo({ workflows: [order] });
    const [paid, late] = [await t.start(order, null), await t.start(order, null)];
    await t.clock.advance("10m");
    await paid.signal("paid", 1);
    await t.clock.advance("5h");
    expect(await paid.result()).toBe("paid");
    expect(await late.result()).toBe("late");
    expect(seen).toEqual(["paid", "late"]);
  });

  test("that time has ended keep their place when a signal comes later", async () => {
    const seen: string[] = [];
    const order = flow("late", async ({ waitFor, sleep }) => {
      const first = await Promise.race([
        waitFor("paid").then(() => "paid"),
        sleep("limit", "2h").then(() => "late"),
        sleep("notice", "1h").then(() => "noticed"),
      ]);
      seen.push(first);
      await waitFor("receipt");
      return first;
    });
    await using t = await testRondo({ workflows: [order] });
    const execution = await t.start(order, null);
    await t.settle();
    await execution.pause();
    await t.clock.advance("5h");
    await execution.resume();
    await t.settle();
    await execution.signal("paid", 1);
    await t.settle();
    await execution.signal("receipt", 1);
    expect(await execution.result()).toBe("noticed");
    expect(seen).toEqual(["noticed", "noticed", "noticed"]);
  });

  test.each(["ends", "fails"])(
    "for a child do not win over a step that the code has seen first, if the attempt %s",
    async (how) => {
      const seen: string[] = [];
      let answer: (value: string) => void = () => {};
      const slow = flow("slow", async ({ sleep }) => sleep("long", "1h").then(() => "slow"));
      const both = flow(
        "both",
        async ({ step, run, sleep }) => {
          const ask = () => new Promise<string>((resolve) => (answer = resolve));
          const first = await Promise.race([run(slow, null), step("ask", ask)]);
          seen.push(first);
          await step("note", () => null);
          if (how === "ends") await sleep("a moment", "1h");
          else if (seen.length === 1) throw new Error("once");
          return first;
        },
        { children: [slow], retry: { attempts: 2, min: 1 } },
      );
      await using t = await testRondo({ workflows: [both] });
      const execution = await t.start(both, null);
      // The child ends while the step runs.
      await t.clock.advance("2h");
      answer("asked");
      await t.clock.advance("2h");
      expect(await execution.result()).toBe("asked");
      expect(new Set(seen)).toEqual(new Set(["asked"]));
    },
  );

  test("for one of several signals say which came", async () => {
    const ask = flow("ask", async ({ waitFor }) => {
      const { name, value } = await waitFor(["approve", "reject"], {
        schema: z.object({ by: z.string() }),
        timeout: "1h",
      });
      return `${name} by ${value.by}`;
    });
    await using t = await testRondo({ workflows: [ask] });
    const execution = await t.start(ask, null);
    await t.settle();
    await execution.signal("reject", { by: "Ann" });
    await t.settle();
    expect(await execution.result()).toBe("reject by Ann");
  });

  test("take the signal whose payload matches, and leave the others", async () => {
    const both = flow("both", async ({ waitFor }) =>
      Promise.all([
        waitFor("two", { signal: "paid", match: { order: 2 } }),
        waitFor("one", { signal: "paid", match: { order: 1 } }),
      ]),
    );
    await using t = await testRondo({ workflows: [both] });
    const execution = await t.start(both, null);
    for (const order of [3, 1, 2]) await execution.signal("paid", { order });
    await t.settle();
    expect(await execution.result()).toEqual([{ order: 2 }, { order: 1 }]);
    expect((await execution.describe()).unread).toEqual([{ signal: "paid", count: 1 }]);
  });

  test("for the same signal again and again end when none comes in time", async () => {
    const collect = flow("collect", async ({ signals, step }) => {
      const items: unknown[] = [];
      for await (const item of signals("item", { timeout: "1h" })) {
        items.push(item);
        await step(`keep ${items.length}`, () => null);
      }
      return items;
    });
    await using t = await testRondo({ workflows: [collect] });
    const execution = await t.start(collect, null);
    for (const item of [1, 2]) await execution.signal("item", item);
    await t.clock.advance("30m");
    await execution.signal("item", 3);
    await t.clock.advance("2h");
    expect(await execution.result()).toEqual([1, 2, 3]);
  });

  test("that fail with any value throw StepFailed with the same causes in every attempt", async () => {
    const seen: unknown[] = [];
    const odd = flow("odd", async ({ step, sleep }) => {
      for (const [name, thrown] of [
        ["bare", Object.create(null)],
        ["caused", new Error("outer", { cause: new Error("inner") })],
      ] as const)
        await step(name, { retry: { attempts: 1 } }, () => {
          throw thrown;
        }).catch((failed: StepFailed) => {
          const cause = failed.cause as { cause?: { message?: string } };
          seen.push([failed.name, failed.message, cause.cause?.message ?? null]);
        });
      await sleep("nap", "1m");
      return seen.length;
    });
    await using t = await testRondo({ workflows: [odd] });
    const execution = await t.start(odd, null);
    await t.clock.advance("2m");
    expect(await execution.result()).toBe(4);
    expect(seen.slice(0, 2)).toEqual([
      ["StepFailed", 'step "bare" failed: {}', null],
      ["StepFailed", 'step "caused" failed: outer', "inner"],
    ]);
    expect(seen.slice(2)).toEqual(seen.slice(0, 2));
  });

  test("that time out throw WaitTimeout, and steps that fail throw StepFailed with its cause", async () => {
    const caught: unknown[] = [];
    const flaky = flow("flaky", async ({ waitFor, step }) => {
      await waitFor("never", { timeout: "1m" }).catch((thrown: unknown) => caught.push(thrown));
      await step("fatal", { retry: {} }, () => {
        throw new Fatal("closed");
      }).catch((thrown: unknown) => caught.push(thrown));
      return "went on";
    });
    await using t = await testRondo({ workflows: [flaky] });
    const execution = await t.start(flaky, null);
    await t.clock.advance("2m");
    expect(await execution.result()).toBe("went on");
    expect(caught[0]).toBeInstanceOf(WaitTimeout);
    expect(caught.at(-1)).toBeInstanceOf(StepFailed);
    expect((caught.at(-1) as Error).cause).toMatchObject({ message: "closed" });
  });

  test("a flow under faults ends as it does without them", async () => {
    const order = flow("faulty", async ({ step, sleep, random, uuid }) => {
      const [a, b] = await Promise.all([
        step("a", { retry: { attempts: 3, min: 1 } }, ({ attempt }) => {
          if (attempt === 1) throw new Error("first");
          return attempt;
        }),
        sleep("nap", "1m").then(() => step("b", () => "b")),
      ]);
      return { a, b, r: random(), u: uuid() };
    });
    const report = await simulate(order, { input: null, seeds: 10 });
    expect(report.runs).toBe(10);
  }, 60_000);
});
