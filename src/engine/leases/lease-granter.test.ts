// What a grant carries, and how handlers whose tasks come from elsewhere are asked.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

describe("a grant", () => {
  test("says where its tasks belong, what they are, and what is needed to do them", () => {
    const bench = new NodeFixture();
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
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"]);
    bench.start(bench.plan([phase("a")]), "e1", { input: { n: 1 } });
    bench.settle();
    expect(bench.attempts()).toMatchObject([{ item: { number: 0, task: '{"n":1}' } }]);
  });

  test("carries the counts of earlier phases, and for a decision those of its own", () => {
    const bench = new NodeFixture();
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

describe("a handler without tasks, of a definition that names no enumeration", () => {
  const enumerating = { use: "w.a", enumerates: true };
  const given = (bench: NodeFixture) =>
    bench.attempts().map(({ worker, grant, item }) => [worker, grant.do, item.task]);

  test("never gives the input as its task to code that enumerates, and is not enumerated", () => {
    const bench = new NodeFixture();
    bench.join("w1", [enumerating]);
    bench.start(bench.plan([phase("a")]), "e1");
    bench.settle();
    bench.sleep(600_000);
    expect(given(bench)).toEqual([]);
    expect(bench.inspect("e1").why).toBe(
      '"a" waits: by its definition its one task is the input, but the worker w1 enumerates "w.a". ' +
        'To have the tasks enumerated, register the definition again with "rondo": 2 (POST /v1/workflows), cancel this ' +
        'execution and start a new one. To have the input as its one task, serve "w.a" by code that does not enumerate.',
    );
  });

  test("waits while a worker enumerates, also if another one does not", () => {
    const bench = new NodeFixture();
    bench.join("plain", ["w.a"]);
    bench.join("w1", [enumerating]);
    bench.start(bench.plan([phase("a")]), "e1");
    bench.settle();
    expect(given(bench)).toEqual([]);
    bench.leave("w1");
    bench.settle();
    expect(given(bench)).toEqual([["plain", "process", "null"]]);
  });

  test("is given out by a worker that comes back with code that does not enumerate", () => {
    const bench = new NodeFixture();
    bench.join("w1", [enumerating]);
    bench.start(bench.plan([phase("a")]), "e1");
    bench.settle();
    bench.join("w1", ["w.a"]);
    bench.settle();
    expect(given(bench)).toEqual([["w1", "process", "null"]]);
  });

  test("is brought back from the store when the worker leaves that enumerates", () => {
    const bench = new NodeFixture({ idleMax: 0, windowMax: 2 });
    bench.join("plain", ["w.a"], { capacity: 100 });
    bench.join("w1", [enumerating]);
    const plan = bench.plan([phase("a")]);
    for (let i = 0; i < 10; i++) bench.start(plan, `e${i}`);
    bench.settle();
    expect(given(bench)).toEqual([]);
    bench.leave("w1");
    bench.work();
    for (let i = 0; i < 10; i++) expect(bench.status(`e${i}`)).toBe("done");
  });

  test("that waits does not fill the window: others get their turn", () => {
    const bench = new NodeFixture({ idleMax: 1, windowMax: 2 });
    bench.join("w1", [enumerating, { use: "w.b" }]);
    const waits = bench.plan([phase("a")], "waits");
    for (let i = 0; i < 5; i++) bench.start(waits, `w${i}`);
    bench.settle();
    bench.start(bench.plan([{ name: "b", handlers: { b: { use: "w.b" } } }], "goes"), "e1");
    bench.work();
    expect(bench.status("e1")).toBe("done");
  });

  test.each([
    ["enumerates in the version that gets the work", "2.0.0", "1.0.0", []],
    ["enumerates in an older version", "1.0.0", "2.0.0", [["plain", "process", "null"]]],
  ] as const)("counts a worker that %s", (_what, enumerates, plain, expected) => {
    const bench = new NodeFixture();
    bench.join("plain", [{ use: "w.a", version: plain }]);
    bench.join("w1", [{ ...enumerating, version: enumerates }]);
    bench.start(bench.plan([phase("a")]), "e1");
    bench.settle();
    expect(given(bench)).toEqual(expected);
  });

  test("goes to a worker that has code of both kinds under the name, for two workflows", () => {
    for (const uses of [
      [enumerating, { use: "w.a" }],
      [{ use: "w.a" }, enumerating],
    ]) {
      const bench = new NodeFixture();
      bench.join("w1", uses);
      bench.start(bench.plan([phase("a")]), "e1");
      bench.settle();
      expect(given(bench)).toEqual([["w1", "process", "null"]]);
    }
  });

  test("does not wait for workers of another project", () => {
    const bench = new NodeFixture();
    bench.join("other", [enumerating], { project: "other" });
    bench.join("plain", ["w.a"]);
    const plan = bench.plan([phase("a")]);
    bench.start(plan, "e1");
    bench.start(plan, "e2", { project: "other" });
    bench.settle();
    expect(bench.attempts().map(({ grant }) => grant.execution)).toEqual(["e1"]);
    expect(bench.inspect("e2").why).toContain("the worker other enumerates");
  });

  test("goes on as one task where its journal says so, whoever is there", () => {
    const bench = new NodeFixture();
    bench.join("plain", ["w.a"]);
    bench.start(bench.plan([phase("a")]), "e1");
    bench.settle();
    bench.leave("plain");
    bench.join("w1", [enumerating]);
    bench.receipt(bench.attempts()[0] as Attempt, { status: "failed", payload: "{}", retryAfterMs: 0 });
    bench.work();
    expect(given(bench)).toEqual([
      ["plain", "process", "null"],
      ["w1", "process", "null"],
    ]);
    expect(bench.status("e1")).toBe("done");
  });

  test.each(["command", "script"])("is no matter for a %s: only code enumerates", (kind) => {
    const bench = new NodeFixture();
    const handler =
      kind === "script"
        ? { script: [{ name: "r", expression: "s => s" }] }
        : { command: { cmd_type: "C" }, topic: "T" };
    bench.join("w1", [{ use: kind === "script" ? "~script" : "topic:T", enumerates: true }]);
    bench.start(bench.plan([{ name: "a", handlers: { a: handler } }]), "e1");
    bench.settle();
    expect(bench.attempts().map(({ grant }) => grant.do)).toEqual([kind]);
  });

  test("is not asked to enumerate for a decision or an output", () => {
    const bench = new NodeFixture();
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

describe("the same handler of version 2", () => {
  const given = { rondo: 2, name: "w", phases: [phase("a")] };

  test("is enumerated before anything else, by code that enumerates or does not say, and its tasks are processed meanwhile", () => {
    for (const enumerates of [undefined, true]) {
      const bench = new NodeFixture();
      bench.join("w1", [{ use: "w.a", ...(enumerates === undefined ? {} : { enumerates }) }]);
      bench.start(bench.plan(given), "e1");
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
    }
  });

  test.each([
    ["first", ["plain", "w1"]],
    ["last", ["w1", "plain"]],
  ] as const)("never goes to code that only processes, which joined %s", (_when, order) => {
    const bench = new NodeFixture();
    for (const worker of order) bench.join(worker, [{ use: "w.a", enumerates: worker === "w1" }]);
    for (let i = 0; i < 5; i++) bench.start(bench.plan(given), `e${i}`);
    bench.settle();
    const seen = bench.attempts().map(({ worker, grant }) => [worker, grant.do]);
    expect(seen).toEqual(Array.from({ length: 5 }, () => ["w1", "enumerate"]));
  });

  test("waits while all workers only process it, says so, and is enumerated when one comes", () => {
    const bench = new NodeFixture({ idleMax: 0, windowMax: 2 });
    bench.join("plain", [{ use: "w.a", enumerates: false }], { capacity: 100 });
    const plan = bench.plan(given);
    for (let i = 0; i < 10; i++) bench.start(plan, `e${i}`);
    bench.settle();
    bench.sleep(600_000);
    expect(bench.attempts()).toEqual([]);
    expect(bench.inspect("e0").why).toBe(
      '"a" waits for a worker that enumerates "w.a": the connected ones only process it.',
    );
    bench.join("w1", [{ use: "w.a", enumerates: true }], { capacity: 100 });
    bench.work((attempt) => {
      bench.seal(attempt, { total: 0 });
      return null;
    });
    for (let i = 0; i < 10; i++) expect(bench.status(`e${i}`)).toBe("done");
  });

  test.each([
    ["first", ["silent", "w1"]],
    ["last", ["w1", "silent"]],
  ] as const)(
    "goes to code that says it enumerates, not to code that does not say, which joined %s",
    (_when, order) => {
      const bench = new NodeFixture();
      for (const worker of order)
        bench.join(worker, [{ use: "w.a", ...(worker === "w1" ? { enumerates: true } : {}) }]);
      for (let i = 0; i < 5; i++) bench.start(bench.plan(given), `e${i}`);
      bench.settle();
      const seen = bench.attempts().map(({ worker, grant }) => [worker, grant.do]);
      expect(seen).toEqual(Array.from({ length: 5 }, () => ["w1", "enumerate"]));
      bench.leave("w1");
      bench.start(bench.plan(given), "alone");
      bench.settle();
      expect(bench.attempts().at(-1)).toMatchObject({ worker: "silent", grant: { do: "enumerate" } });
    },
  );

  test("goes to a worker that has code of both kinds under the name, for two workflows", () => {
    const bench = new NodeFixture();
    bench.join("w1", [
      { use: "w.a", enumerates: false },
      { use: "w.a", enumerates: true },
    ]);
    bench.start(bench.plan(given), "e1");
    bench.settle();
    expect(bench.attempts().map(({ grant }) => grant.do)).toEqual(["enumerate"]);
  });

  test("waits for a worker that is away, and is enumerated when it is back", () => {
    const bench = new NodeFixture();
    bench.join("w1", [{ use: "w.a", enumerates: true }]);
    bench.leave("w1");
    bench.start(bench.plan(given), "e1");
    bench.sleep(8_000);
    expect(bench.attempts()).toEqual([]);
    bench.join("w1", [{ use: "w.a", enumerates: true }]);
    bench.settle();
    expect(bench.attempts().map(({ grant }) => grant.do)).toEqual(["enumerate"]);
  });

  test("that is enumerated as nothing is done", () => {
    const bench = new NodeFixture();
    bench.join("w1", [{ use: "w.a", enumerates: true }]);
    bench.start(bench.plan(given), "e1");
    bench.settle();
    bench.seal(bench.attempts()[0] as Attempt, { total: 0 });
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });
});
