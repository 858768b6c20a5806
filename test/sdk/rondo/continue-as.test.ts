// Executions that continue as others: one id, many executions.
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { Fatal, flow, workflow } from "../../../src/index.ts";
import { simulate, testRondo } from "../../../src/testing.ts";

/** Adds up numbers, and continues after each two of them. It ends with the signal "stop". */
const account = flow(
  "account",
  async ({ waitFor, continueAs }, { total, seen }) => {
    let [sum, count] = [total, seen];
    for (let n = 1; n <= 2; n++) {
      const { name, value } = await waitFor(`w${n}`, { signal: ["add", "stop"], schema: z.number() });
      if (name === "stop") return { total: sum, seen: count };
      sum += value;
      count++;
    }
    return continueAs({ total: sum, seen: count });
  },
  { input: z.object({ total: z.number(), seen: z.number().default(0) }) },
);

describe("an id whose executions continue", () => {
  test("means the newest everywhere, and its result is that of the last", async () => {
    await using rondo = await testRondo({ workflows: [account] });
    const handle = await rondo.start(account, { total: 0 }, { id: "a", tags: { of: "jo" } });
    for (let n = 1; n <= 7; n++) await handle.signal("add", n, { id: `s${n}` });
    await rondo.settle();
    const view = await handle.describe();
    expect(view).toMatchObject({ id: "a~4", status: "running", continues: "a~3", tags: { of: "jo" } });
    expect(view.input).toEqual({ total: 21, seen: 6 });
    expect(await rondo.execution("a~1").describe()).toMatchObject({
      id: "a",
      status: "done",
      continuedAs: "a~2",
    });
    expect(await rondo.execution("a~3").describe()).toMatchObject({ continuedAs: "a~4", continues: "a~2" });
    const result = handle.result();
    await handle.signal("stop", 0);
    expect(await result).toEqual({ total: 28, seen: 7 });
    expect(await rondo.execution("a").status()).toBe("done");
    expect(await rondo.execution<typeof account>("a").result()).toEqual({ total: 28, seen: 7 });
    expect((await rondo.list()).data.map(({ id }) => id).sort()).toEqual(["a", "a~2", "a~3", "a~4"]);
  });

  test("applies a signal once, whichever execution had it", async () => {
    await using rondo = await testRondo({ workflows: [account] });
    const handle = await rondo.start(account, { total: 0 }, { id: "a" });
    for (const id of ["s1", "s2", "s1", "s3", "s2", "s4", "s5", "s1", "s4"])
      await handle.signal("add", 1, { id });
    await handle.signal("stop", 0);
    expect(await handle.result()).toEqual({ total: 5, seen: 5 });
  });
});

/** Answers one update with the number of its execution, and continues. */
const counter = flow("counter", async ({ waitForUpdate, continueAs }, { n }: { n: number }) => {
  const update = await waitForUpdate("next");
  await update.answer(n);
  return continueAs({ n: n + 1 });
});

test("an update reaches the newest execution of an id, and its caller follows it to the one that answers", async () => {
  await using rondo = await testRondo({ workflows: [counter] });
  const handle = await rondo.start(counter, { n: 1 }, { id: "c" });
  // The second and third are sent before the first is answered: they are handed on.
  const answers = [1, 2, 3].map((n) => handle.update("next", null, { id: `u${n}` }));
  expect(await Promise.all(answers)).toEqual([1, 2, 3]);
  expect(await handle.update("next")).toBe(4);
  // Repeats get the first answer, whichever execution gave it.
  expect(await handle.update("next", null, { id: "u3" })).toBe(3);
  await expect(rondo.execution("c~1").update("next")).rejects.toMatchObject({ code: "gone" });
});

/** Takes one signal, and continues until it has all four. */
const collector = flow("collector", async ({ waitFor, continueAs }, { taken }: { taken: string[] }) => {
  const { name } = await waitFor("next", { signal: ["a", "b", "c", "d"] });
  const all = [...taken, name].sort();
  return all.length < 4 ? continueAs({ taken: all }) : all;
});

test("a repeated update gets its answer from the execution that gave it, also after later ones", async () => {
  const asks = flow("asks", async ({ updates, continueAs }, { n }: { n: number }) => {
    for await (const request of updates("next")) {
      await request.answer(n);
      break;
    }
    return continueAs({ n: n + 1 });
  });
  await using rondo = await testRondo({ workflows: [asks] });
  await rondo.start(asks, { n: 1 }, { id: "a" });
  const ask = (id: string, of = "a") => rondo.execution(of).update("next", null, { id });
  for (const n of [1, 2, 3, 4]) {
    expect(await ask(`u${n}`)).toBe(n);
    await rondo.settle();
  }
  for (const n of [1, 2, 3, 4]) expect(await ask(`u${n}`)).toBe(n);
  expect(await ask("u2", "a~5")).toBe(2);
});

test("each signal is taken once over all executions of an id, through crashes and takeovers", async () => {
  const { runs } = await simulate(collector, {
    seeds: 24,
    input: { taken: [] },
    signals: { a: 1, b: 1, c: 1, d: 1 },
    check: ({ output }) => expect(output).toEqual(["a", "b", "c", "d"]),
  });
  expect(runs).toBe(24);
});

/** The error with which an execution fails. */
async function failureOf(result: Promise<unknown>): Promise<string> {
  return result.then(
    () => "none",
    (thrown: Error) => thrown.message,
  );
}

describe("continueAs is refused", () => {
  const once = flow("once", ({ continueAs }, { n }: { n: number }) => (n > 1 ? n : continueAs({ n: n + 1 })));

  test("in a child, in a fan-out, before the last phase and in a clean-up, with the reason", async () => {
    const parent = flow("parent", ({ run }) => run(once, { n: 1 }), {
      children: [once],
      retry: { attempts: 1 },
    });
    const many = workflow({ name: "many" }).phase("all", {
      enumerate: () => [1, 2],
      process: ({ continueAs }) => continueAs(1),
    });
    const early = workflow({ name: "early" })
      .phase("first", { process: ({ continueAs }) => continueAs(1) })
      .phase("second", { process: () => 2 });
    const refunds: string[] = [];
    const cleans = workflow({ name: "cleans" }).phase("work", {
      retry: { attempts: 1 },
      compensation: { retry: { attempts: 1 } },
      process: () => {
        throw new Error("no");
      },
      compensate: async ({ continueAs }) => {
        refunds.push("begun");
        await continueAs(1);
      },
    });
    await using rondo = await testRondo({ workflows: [parent, many, early, cleans] });
    const failed = async (handle: { result(): Promise<unknown> }) => failureOf(handle.result());
    expect(await failed(await rondo.start(parent, null))).toContain("is a child of");
    expect(await failed(await rondo.start(many, null))).toContain("one handler with one task");
    expect(await failed(await rondo.start(early, null))).toContain("must be the last one");
    const cleaning = await rondo.start(cleans, null, { id: "c" });
    expect(await failed(cleaning)).toContain("no");
    expect(refunds).toEqual(["begun"]);
    expect(await cleaning.describe()).toMatchObject({ id: "c", status: "failed" });
    expect((await rondo.list()).data.filter(({ continues }) => continues !== undefined)).toEqual([]);
  });

  test("with an input that does not fit the schema", async () => {
    const strict = flow("strict", ({ continueAs }) => continueAs({ n: "x" } as never), {
      input: z.object({ n: z.number() }),
    });
    await using rondo = await testRondo({ workflows: [strict] });
    expect(await failureOf((await rondo.start(strict, { n: 1 })).result())).toContain("continueAs: input.n");
  });
});

describe("an execution that continues", () => {
  test("does so after a resume, if it is paused", async () => {
    await using rondo = await testRondo({ workflows: [account] });
    const handle = await rondo.start(account, { total: 0 }, { id: "p" });
    await handle.signal("add", 1);
    await rondo.settle();
    await handle.pause();
    await handle.signal("add", 2);
    await rondo.settle();
    expect(await handle.describe()).toMatchObject({ id: "p", status: "paused" });
    await handle.resume();
    await rondo.settle();
    expect(await handle.describe()).toMatchObject({
      id: "p~2",
      status: "running",
      input: { total: 3, seen: 2 },
    });
    await handle.cancel({ id: "stop it" });
    await expect(handle.result()).rejects.toThrow("cancelled");
    expect(await rondo.execution("p").status()).toBe("cancelled");
    expect(await rondo.execution("p~1").status()).toBe("done");
  });

  test("loses and doubles nothing when its process crashes again and again", async () => {
    await using rondo = await testRondo({ workflows: [account] });
    const handle = await rondo.start(account, { total: 0 }, { id: "x" });
    for (let n = 1; n <= 12; n++) {
      await handle.signal("add", n, { id: `s${n}` });
      await rondo.crash();
    }
    await handle.signal("stop", 0);
    await rondo.clock.advance("10m");
    expect(await handle.result()).toEqual({ total: 78, seen: 12 });
  });

  test("is followed by ifExists and signalWithStart", async () => {
    await using rondo = await testRondo({ workflows: [account] });
    const handle = await rondo.start(account, { total: 0 }, { id: "i" });
    for (const n of [1, 2, 3]) await handle.signal("add", n);
    await rondo.settle();
    const again = await rondo.start(account, { total: 0 }, { id: "i", ifExists: "startNewWhenDone" });
    expect(again.id).toBe("i~2");
    const sent = await rondo.signalWithStart(account, { total: 0 }, { name: "stop", data: 0 }, { id: "i" });
    expect(sent).toMatchObject({ started: false });
    expect(await handle.result()).toEqual({ total: 6, seen: 3 });
    const next = await rondo.start(account, { total: 5 }, { id: "i", ifExists: "startNewWhenDone" });
    expect(next.id).toBe("i~3");
    expect(await handle.describe()).toMatchObject({ id: "i~3", status: "running" });
    const options = { id: "i", ifExists: "startNewWhenDone" as const };
    expect(
      await rondo.signalWithStart(account, { total: 0 }, { name: "stop", data: 0 }, options),
    ).toMatchObject({
      started: false,
    });
    expect(await handle.result()).toEqual({ total: 5, seen: 0 });
    const last = await rondo.signalWithStart(account, { total: 0 }, { name: "stop", data: 0 }, options);
    expect(last).toMatchObject({ started: true, execution: { id: "i~4" } });
    await expect(rondo.execution("i~2").signal("add", 1)).rejects.toMatchObject({
      code: "gone",
    });
  });
});

describe("an id whose first execution has failed or was cancelled, and that was started again", () => {
  let isBroken = true;
  const job = workflow<string>({ name: "job" })
    .phase("a", {
      process: ({ input }) => {
        if (isBroken) throw new Fatal(`broken: ${input}`);
      },
    })
    .waitFor("go");

  const again = { id: "z", ifExists: "startNewWhenDone" } as const;

  test("a cancel reaches the newest execution", async () => {
    isBroken = false;
    await using rondo = await testRondo({ workflows: [job] });
    const handle = await rondo.start(job, "one", { id: "z" });
    await handle.cancel({ id: "c1" });
    await rondo.settle();
    await rondo.start(job, "two", again);
    // A repeat of the first cancel is not another one.
    await handle.cancel({ id: "c1" });
    await rondo.settle();
    expect((await handle.describe()).id).toBe("z~2");
    expect(await handle.status()).toBe("running");
    await handle.cancel();
    await rondo.settle();
    expect(await handle.status()).toBe("cancelled");
  });

  test("a retry is one of the newest execution, and `~1` names the first", async () => {
    isBroken = true;
    await using rondo = await testRondo({ workflows: [job] });
    const handle = await rondo.start(job, "one", { id: "z" });
    await rondo.settle();
    await rondo.start(job, "two", again);
    await rondo.settle();
    isBroken = false;
    await handle.retry();
    await rondo.settle();
    expect(await rondo.execution("z~1").status()).toBe("failed");
    expect(await rondo.execution("z~2").status()).toBe("running");
    await rondo.execution("z~1").retry();
    await rondo.settle();
    expect(await rondo.execution("z~1").status()).toBe("running");
  });

  test("a signal goes to the newest execution, though a retry has opened the first one again", async () => {
    isBroken = true;
    await using rondo = await testRondo({ workflows: [job] });
    const handle = await rondo.start(job, "one", { id: "z" });
    await rondo.settle();
    isBroken = false;
    await rondo.start(job, "two", again);
    await rondo.execution("z~1").retry();
    await rondo.settle();
    const refusal = await rondo
      .execution("z~1")
      .signal("go")
      .catch((thrown: Error) => thrown.message);
    expect(refusal).toContain("z~2 has followed it");
    await handle.signal("go", null, { id: "s1" });
    await rondo.settle();
    expect(await rondo.execution("z~2").status()).toBe("done");
    expect(await rondo.execution("z~1").status()).toBe("running");
    await rondo.signalWithStart(job, "three", { name: "go", id: "s1" }, again);
    await rondo.settle();
    expect(await rondo.execution("z~1").status()).toBe("running");
    expect(await rondo.execution("z").describe()).toMatchObject({ id: "z~3", status: "done" });
  });
});
