// Script phases over a real engine and the real sandbox.
import { workflow } from "rondo";
import { beforeAll, describe, expect, test } from "vitest";
import { possibleJails } from "../../../src/worker/sandbox/jail.ts";
import { findJail } from "../../../src/worker/sandbox/jail-probe.ts";
import { all, failure, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

/** Where no jail can be had, what is shown here is shown without the outer layer. */
let unsafeNoJail = false;
beforeAll(async () => {
  unsafeNoJail = await findJail(possibleJails()).then(
    () => false,
    () => true,
  );
});

const RUN_FACTS = ["workflow.task.run", "workflow.task.run.started", "workflow.task.run.crashed"];

describe("a script", () => {
  const double = workflow<{ n: number }>({ name: "double" })
    .script("map", {
      runs: [
        { name: "one", expression: "(s, ctx) => { console.log('n is', s.n); return { n: s.n * 2 } }" },
        { name: "two", expression: "async (s, ctx) => ({ n: s.n + 1, input: ctx.input.n, run: ctx.run })" },
      ],
    })
    .returns(async ({ phases }) => (await all(phases.map.results()))[0] ?? null);

  test("hands its state from run to run; each is journaled, with its stats, and logs are in order", async () => {
    const rondo = await open([double], { unsafeNoJail });
    const execution = await rondo.start(double, { n: 20 });
    expect(await execution.result()).toEqual({ n: 41, input: 20, run: "two" });
    const events = await all(execution.events({ detail: "full" }));
    expect(
      events.map(({ kind, name }) => [kind, name]).filter(([kind]) => RUN_FACTS.includes(kind as string)),
    ).toEqual([
      ["workflow.task.run.started", "one"],
      ["workflow.task.run", "one"],
      ["workflow.task.run.started", "two"],
      ["workflow.task.run", "two"],
    ]);
    const runs = events.filter(({ kind }) => kind === "workflow.task.run");
    expect(runs).toMatchObject([
      { name: "one", state: { n: 40 }, stats: { durationMs: expect.any(Number) } },
      { name: "two", state: { n: 41 } },
    ]);
    const lines = await all(execution.logs());
    expect(lines.map(({ level, text, run }) => [level, text, run])).toEqual([["info", "n is 20", "one"]]);
  });

  test("of many tasks are done a few at a time, all of them", async () => {
    const many = workflow({ name: "many" })
      .script("map", {
        enumerate: () => Array.from({ length: 20 }, (_, i) => i),
        runs: [{ name: "one", expression: "s => s + 1" }],
      })
      .returns(({ phases }) => phases.map.reduce((sum, n) => sum + (n as number), 0));
    const rondo = await open([many], { unsafeNoJail });
    expect(await rondo.run(many, null)).toBe(210);
  });

  test("that failed goes on after its last finished run, unless it says not to", async () => {
    const flaky = (name: string, resume: boolean) =>
      workflow({ name })
        .script("map", {
          runs: [
            { name: "one", expression: "(s, ctx) => { console.log('one'); return [ctx.attempt] }" },
            {
              name: "two",
              expression:
                "(s, ctx) => { if (ctx.attempt < 2) throw new Error('no'); return [...s, ctx.attempt] }",
            },
          ],
          state: [],
          resume,
          retry: { min: "1ms", max: "1ms" },
        })
        .returns(async ({ phases }) => (await all(phases.map.results()))[0] ?? null);
    const [going, starting] = [flaky("going", true), flaky("starting", false)];
    const rondo = await open([going, starting], { unsafeNoJail });
    const ones = async (id: string) =>
      (await all(rondo.logs(id))).filter(({ text }) => text === "one").map(({ attempt }) => attempt);
    const first = await rondo.start(going, null);
    expect(await first.result()).toEqual([1, 2]);
    expect(await ones(first.id)).toEqual([1]);
    const second = await rondo.start(starting, null);
    expect(await second.result()).toEqual([2, 2]);
    expect(await ones(second.id)).toEqual([1, 2]);
  });

  test.each<[string, string, string, number]>([
    ["C10 a syntax error is not retried", "s => {{{", "SyntaxError", 1],
    ["C10 process is not there", "s => process.exit(1)", "process", 2],
    ["C10 a timeout kills it", "s => { for (;;); }", "longer than", 2],
  ])("%s, and the next attempt on the same worker succeeds", async (_what, expression, message, attempts) => {
    const bad = workflow({ name: "bad" }).script("map", {
      runs: [{ name: "one", expression, timeout: "200ms" }],
      retry: { attempts: 2, min: "1ms", max: "1ms" },
    });
    const rondo = await open([bad, double], { unsafeNoJail });
    const error = await failure(rondo.run(bad, null));
    expect(error.message).toContain(message);
    expect(error).toMatchObject({ execution: { error: { attempt: attempts } } });
    expect(await rondo.run(double, { n: 1 })).toMatchObject({ n: 3 });
  });

  test("that is cancelled ends with its execution", async () => {
    const endless = workflow({ name: "endless" }).script("map", {
      runs: [{ name: "one", expression: "s => { console.log('on'); for (;;); }", timeout: "1h" }],
    });
    const rondo = await open([endless], { unsafeNoJail });
    const execution = await rondo.start(endless, null);
    for await (const { text } of execution.logs({ follow: true })) if (text === "on") break;
    await execution.cancel();
    expect(await failure(execution.result())).toMatchObject({ name: "ExecutionCancelled" });
  });
});
