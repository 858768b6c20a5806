// The output of a workflow without `.returns`, reading results of earlier phases, and the errors of failed executions.
import { type ExecutionFailed, Fatal, handler, workflow } from "rondo";
import { describe, expect, test } from "vitest";
import { failure, open } from "../../fixtures/sdk/open-rondo-fixture.ts";

describe("without returns, the output", () => {
  test("is the result of the last phase if that has one task", async () => {
    const one = workflow<{ n: number }>({ name: "one" })
      .phase("many", { enumerate: () => [1, 2], process: ({ task }) => task })
      .phase("sum", { process: ({ input, phases }) => input.n + phases.many.count });
    expect(one.definition).toMatchObject({ returns: "last" });
    const rondo = await open([one]);
    expect(await rondo.run(one, { n: 5 })).toBe(7);
  });

  test("is the payload of a wait, the state of a child, or a result of the phase that was final", async () => {
    const child = workflow<string>({ name: "child" }).phase("greet", { process: ({ task }) => `hi ${task}` });
    const parent = workflow<string>({ name: "parent" }).child("call", child);
    const waits = workflow({ name: "waits" }).waitFor("go");
    const branch = workflow<boolean>({ name: "branch" })
      .phase("ask", {}, { next: ({ input }) => (input ? "yes" : "no"), among: ["yes", "no"] })
      .phase("yes", { process: () => "yes" }, { final: true })
      .phase("no", { process: () => ({ no: 1 }) });
    const rondo = await open([parent, waits, branch]);
    expect(await rondo.run(parent, "ann")).toBe("hi ann");
    const waiting = await rondo.start(waits, null);
    await waiting.signal("go", { by: "bob" });
    expect(await waiting.result()).toEqual({ by: "bob" });
    expect([await rondo.run(branch, true), await rondo.run(branch, false)]).toEqual(["yes", { no: 1 }]);
  });

  test("is null after a fan-out, several handlers, a phase of the clean-up or a task that failed and is tolerated", async () => {
    const fan = workflow({ name: "fan" }).phase("many", { enumerate: () => [1], process: () => 1 });
    const map = workflow({ name: "map" }).phase("two", {
      a: handler({ process: () => 1 }),
      b: handler({ process: () => 2 }),
    });
    const cleaned = workflow({ name: "cleaned", finally: "close" })
      .phase("many", { enumerate: () => [1], process: () => 1 })
      .phase("close", { process: () => "closed" });
    const refuse = () => {
      throw new Fatal("no");
    };
    const tolerated = workflow({ name: "tolerated" }).phase("try", { process: refuse, tolerate: 1 });
    expect([fan, map, cleaned].map(({ definition }) => definition["returns"])).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
    const rondo = await open([fan, map, cleaned, tolerated]);
    for (const flow of [fan, map, tolerated]) expect(await rondo.run(flow, null)).toBe(null);
    expect(await rondo.run(cleaned, null)).toBe(null);
  });

  test("is that of `.returns` if there is one, wherever it is written", async () => {
    const given = workflow({ name: "given" })
      .returns(() => "given")
      .phase("a", { process: () => 1 });
    const rondo = await open([given]);
    expect(await rondo.run(given, null)).toBe("given");
  });

  test("stays when chosen tasks of an earlier phase are retried, and is replaced by those of the last phase", async () => {
    let isBroken = true;
    const flaky = (value: number) => {
      if (isBroken) throw new Fatal("broken");
      return value;
    };
    const flow = workflow({ name: "repaired" })
      .phase("many", { tasks: [1, 2], process: ({ task }) => flaky(task), tolerate: 2 })
      .phase("last", { process: ({ phases }) => ({ seen: phases.many.count }) });
    const last = workflow({ name: "repaired-last" }).phase("last", {
      process: () => flaky(7),
      tolerate: 1,
    });
    const rondo = await open([flow, last]);
    const first = await rondo.start(flow, null);
    const second = await rondo.start(last, null);
    expect([await first.result(), await second.result()]).toEqual([{ seen: 0 }, null]);
    isBroken = false;
    await first.retryTasks({ phase: "many" });
    await second.retryTasks({ phase: "last" });
    expect([await first.result(), await second.result()]).toEqual([{ seen: 0 }, 7]);
  });
});

describe("the results of a phase", () => {
  test("are read as the first, the only one, or an array", async () => {
    const flow = workflow({ name: "reads" })
      .phase("none", { enumerate: (): number[] => [], process: () => 0 })
      .phase("many", { tasks: [1, 2, 3], process: ({ task }) => task * 2, concurrency: 1 })
      .phase("one", { process: () => "only" })
      .returns(async ({ phases: { none, many, one } }) => ({
        first: [(await none.first()) ?? "none", await many.first(), await one.first()],
        only: await one.only(),
        wrong: [
          (await failure(none.only())).message,
          (await failure(many.only())).message,
          (await failure(many.toArray({ max: 2 }))).message,
        ],
        all: [await none.toArray(), await many.toArray({ max: 3 })],
      }));
    const rondo = await open([flow]);
    expect(await rondo.run(flow, null)).toEqual({
      first: ["none", 2, "only"],
      only: "only",
      wrong: [
        'phase "none" has no result',
        'phase "many" has 3 results, not one',
        'phase "many" has more than 2 results: raise max, or use results()',
      ],
      all: [[], [2, 4, 6]],
    });
  });

  test("of earlier visits are known to the phase's own code", async () => {
    const flow = workflow({ name: "loops" })
      .phase(
        "loop",
        {
          process: async ({ phases: { loop } }) => ({
            visit: loop.visits,
            before: loop.visits > 1 ? await loop.visit(loop.visits - 1).only() : null,
          }),
        },
        { next: ({ phases }) => (phases.loop.visits < 3 ? "loop" : "end"), among: ["loop", "end"] },
      )
      .phase("end", { process: ({ phases }) => phases.loop.only() });
    const rondo = await open([flow]);
    expect(await rondo.run(flow, null)).toEqual({
      visit: 3,
      before: { visit: 2, before: { visit: 1, before: null } },
    });
  });
});

describe("a failed execution", () => {
  class Refused extends Error {
    override name = "Refused";
    readonly code = "card_refused";
  }
  const charge = () => {
    throw new Fatal("the charge failed", { cause: new Refused("no money", { cause: "limit 0" }) });
  };
  const flow = workflow({ name: "fails" }).phase("charge", { process: charge });
  const parent = workflow({ name: "parent-fails" }).child("call", flow);

  const causes = (error: unknown): unknown[] =>
    error instanceof Error ? [[error.name, error.message], ...causes(error.cause)] : [];

  test("throws the error of user code as the cause, with its stack and its own causes", async () => {
    const rondo = await open([flow]);
    const error = (await failure(rondo.run(flow, null))) as ExecutionFailed;
    expect(causes(error)).toEqual([
      ["ExecutionFailed", `execution ${error.execution.id} failed: Fatal: the charge failed`],
      ["Fatal", "the charge failed"],
      ["Refused", "no money"],
      ["Error", "limit 0"],
    ]);
    const cause = error.cause as Error;
    expect(cause.stack).toMatch(/^Fatal: the charge failed\n +at .*outputs\.test\.ts/);
    // The frames of the worker below the handler are left out.
    expect(cause.stack?.match(/\n +at /g)).toHaveLength(1);
    expect(cause.cause).toMatchObject({ code: "card_refused" });
  });

  test("gives its parent the cause too", async () => {
    const rondo = await open([parent]);
    const error = await failure(rondo.run(parent, null));
    expect(causes(error).slice(2)).toEqual([
      ["Fatal", "the charge failed"],
      ["Refused", "no money"],
      ["Error", "limit 0"],
    ]);
  });
});
