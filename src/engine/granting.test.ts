// What a grant carries, and how handlers whose tasks come from elsewhere are asked.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeBench } from "../../test/conformance/node-bench.ts";
import { phase } from "../../test/scenarios/kernel-run.ts";

describe("a grant", () => {
  test("says where its tasks belong, what they are, and what is needed to do them", () => {
    const bench = new NodeBench();
    bench.join("w1", [{ use: "w.a", version: "1.2.7" }]);
    const plan = bench.plan([
      phase("a", { tasks: ["x", "y"], timeout: "5s", heartbeat: "1m", version: "~1.2" }),
    ]);
    bench.start(plan, "e1", { input: { n: 1 }, project: "acme" });
    bench.settle();
    expect(bench.of("grant")).toMatchObject([
      {
        worker: "w1",
        grant: {
          do: "process",
          execution: "e1",
          workflow: "w",
          project: "acme",
          phase: "a",
          visit: 1,
          handler: "a",
          use: "w.a",
          version: "1.2.7",
          round: 1,
          epoch: 1,
          input: '{"n":1}',
          timeoutMs: 5_000,
          heartbeatMs: 60_000,
          items: [
            { number: 0, attempt: 1, claim: 0, task: '"x"' },
            { number: 1, attempt: 1, claim: 0, task: '"y"' },
          ],
          resume: null,
        },
      },
    ]);
  });

  test("of a handler without tasks has the input as its one task", () => {
    const bench = new NodeBench();
    bench.join("w1", ["w.a"]);
    bench.start(bench.plan([phase("a")]), "e1", { input: { n: 1 } });
    bench.settle();
    expect(bench.attempts()).toMatchObject([{ item: { number: 0, task: '{"n":1}' } }]);
  });

  test("carries the counts of earlier phases, and for a decision those of its own", () => {
    const bench = new NodeBench();
    bench.join("w1", ["w.a", "w.b", "n"]);
    const phases = [
      phase("a", { tasks: [1, 2, 3], tolerate: 1 }),
      phase("b", { tasks: [1] }, { next: { use: "n", among: ["end"] } }),
      { name: "end", handlers: {}, final: true },
    ];
    bench.start(bench.plan(phases), "e1");
    const seen = bench.work(({ item, grant }) =>
      grant.do === "next"
        ? { payload: '"end"' }
        : grant.phase === "a" && item.number === 0
          ? { status: "failed", fatal: true, payload: "{}" }
          : {},
    );
    const counts = (attempt: Attempt | undefined, name: string) =>
      attempt?.grant.phases.findLast((one) => one.phase === name)?.handlers;
    const b = seen.find(({ grant }) => grant.phase === "b" && grant.do === "process");
    const next = seen.find(({ grant }) => grant.do === "next");
    expect(counts(b, "a")).toMatchObject([{ name: "a", total: 3, done: 2, failed: 1 }]);
    expect(counts(next, "a")).toMatchObject([{ done: 2, failed: 1 }]);
    expect(counts(next, "b")).toMatchObject([{ name: "b", total: 1, done: 1 }, { name: "next" }]);
    expect(bench.status("e1")).toBe("done");
  });
});

describe("code that enumerates, without the definition saying so", () => {
  test("is asked for tasks first, and they are processed before it is sealed", () => {
    const bench = new NodeBench();
    bench.join("w1", [{ use: "w.a", enumerates: true }]);
    bench.start(bench.plan([phase("a")]), "e1");
    bench.settle();
    const listing = bench.attempts()[0] as Attempt;
    expect(listing.grant.do).toBe("enumerate");
    bench.page(listing, 0, ["x", "y", "z"]);
    bench.settle();
    const tasks = bench.attempts().slice(1);
    expect(tasks.map(({ item }) => item.task)).toEqual(['"x"', '"y"', '"z"']);
    bench.receipt(tasks[0] as Attempt);
    bench.settle();
    bench.seal(listing, { total: 3 });
    for (const task of tasks.slice(1)) bench.receipt(task);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
    expect(bench.events("e1", "handler.finished")).toMatchObject([{ done: 3 }]);
  });

  test("that gives nothing ends its handler", () => {
    const bench = new NodeBench();
    bench.join("w1", [{ use: "w.a", enumerates: true }]);
    bench.start(bench.plan([phase("a")]), "e1");
    bench.settle();
    bench.seal(bench.attempts()[0] as Attempt, { total: 0 });
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });

  test("is not asked to enumerate for a decision or an output", () => {
    const bench = new NodeBench();
    bench.join("w1", [
      { use: "n", enumerates: true },
      { use: "r", enumerates: true },
    ]);
    const phases = [{ name: "a", handlers: {}, next: { use: "n", among: ["b"] } }, { name: "b" }];
    bench.start(bench.plan({ name: "w", phases, returns: { use: "r" } }), "e1");
    bench.settle();
    expect(bench.attempts().map(({ grant }) => grant.do)).toEqual(["next"]);
    bench.receipt(bench.attempts()[0] as Attempt, { payload: '"b"' });
    bench.settle();
    expect(bench.attempts().map(({ grant }) => grant.do)).toEqual(["next", "returns"]);
  });
});
