// What a grant carries, and how handlers whose tasks come from elsewhere are asked.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

describe("a grant", () => {
  test("says where its tasks belong, what they are, and what is needed to do them", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", [{ use: "w.a", version: "1.2.7" }]);
    const plan = fixture.plan([
      phase("a", { tasks: ["x", "y"], timeout: "5s", heartbeat: "1m", version: "~1.2" }),
    ]);
    fixture.start(plan, "e1", { input: { n: 1 }, project: "acme" });
    fixture.settle();
    expect(fixture.of("grant")).toMatchObject([
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
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"]);
    fixture.start(fixture.plan([phase("a")]), "e1", { input: { n: 1 } });
    fixture.settle();
    expect(fixture.attempts()).toMatchObject([{ item: { number: 0, task: '{"n":1}' } }]);
  });

  test("carries the counts of earlier phases, and for a decision those of its own", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a", "w.b", "n"]);
    const phases = [
      phase("a", { tasks: [1, 2, 3], tolerate: 1 }),
      phase("b", { tasks: [1] }, { next: { use: "n", among: ["end"] } }),
      { name: "end", handlers: {}, final: true },
    ];
    fixture.start(fixture.plan(phases), "e1");
    const seen = fixture.work(({ item, grant }) =>
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
    expect(fixture.status("e1")).toBe("done");
  });
});

describe("a handler without tasks, of a definition that names no enumeration", () => {
  const enumerating = { use: "w.a", enumerates: true };
  const given = (fixture: NodeFixture) =>
    fixture.attempts().map(({ worker, grant, item }) => [worker, grant.do, item.task]);

  test("never gives the input as its task to code that enumerates, and is not enumerated", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", [enumerating]);
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.settle();
    fixture.sleep(600_000);
    expect(given(fixture)).toEqual([]);
    expect(fixture.inspect("e1").why).toBe(
      '"a" waits: by its definition its one task is the input, but the worker w1 enumerates "w.a". ' +
        'To have the tasks enumerated, register the definition again with "rondo": 2 (POST /v1/workflows), cancel this ' +
        'execution and start a new one. To have the input as its one task, serve "w.a" by code that does not enumerate.',
    );
  });

  test("waits while a worker enumerates, also if another one does not", () => {
    const fixture = new NodeFixture();
    fixture.join("plain", ["w.a"]);
    fixture.join("w1", [enumerating]);
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.settle();
    expect(given(fixture)).toEqual([]);
    fixture.leave("w1");
    fixture.settle();
    expect(given(fixture)).toEqual([["plain", "process", "null"]]);
  });

  test("is given out by a worker that comes back with code that does not enumerate", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", [enumerating]);
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.settle();
    fixture.join("w1", ["w.a"]);
    fixture.settle();
    expect(given(fixture)).toEqual([["w1", "process", "null"]]);
  });

  test("is brought back from the store when the worker leaves that enumerates", () => {
    const fixture = new NodeFixture({ idleMax: 0, windowMax: 2 });
    fixture.join("plain", ["w.a"], { capacity: 100 });
    fixture.join("w1", [enumerating]);
    const plan = fixture.plan([phase("a")]);
    for (let i = 0; i < 10; i++) fixture.start(plan, `e${i}`);
    fixture.settle();
    expect(given(fixture)).toEqual([]);
    fixture.leave("w1");
    fixture.work();
    for (let i = 0; i < 10; i++) expect(fixture.status(`e${i}`)).toBe("done");
  });

  test("that waits does not fill the window: others get their turn", () => {
    const fixture = new NodeFixture({ idleMax: 1, windowMax: 2 });
    fixture.join("w1", [enumerating, { use: "w.b" }]);
    const waits = fixture.plan([phase("a")], "waits");
    for (let i = 0; i < 5; i++) fixture.start(waits, `w${i}`);
    fixture.settle();
    fixture.start(fixture.plan([{ name: "b", handlers: { b: { use: "w.b" } } }], "goes"), "e1");
    fixture.work();
    expect(fixture.status("e1")).toBe("done");
  });

  test.each([
    ["enumerates in the version that gets the work", "2.0.0", "1.0.0", []],
    ["enumerates in an older version", "1.0.0", "2.0.0", [["plain", "process", "null"]]],
  ] as const)("counts a worker that %s", (_what, enumerates, plain, expected) => {
    const fixture = new NodeFixture();
    fixture.join("plain", [{ use: "w.a", version: plain }]);
    fixture.join("w1", [{ ...enumerating, version: enumerates }]);
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.settle();
    expect(given(fixture)).toEqual(expected);
  });

  test("goes to a worker that has code of both kinds under the name, for two workflows", () => {
    for (const uses of [
      [enumerating, { use: "w.a" }],
      [{ use: "w.a" }, enumerating],
    ]) {
      const fixture = new NodeFixture();
      fixture.join("w1", uses);
      fixture.start(fixture.plan([phase("a")]), "e1");
      fixture.settle();
      expect(given(fixture)).toEqual([["w1", "process", "null"]]);
    }
  });

  test("does not wait for workers of another project", () => {
    const fixture = new NodeFixture();
    fixture.join("other", [enumerating], { project: "other" });
    fixture.join("plain", ["w.a"]);
    const plan = fixture.plan([phase("a")]);
    fixture.start(plan, "e1");
    fixture.start(plan, "e2", { project: "other" });
    fixture.settle();
    expect(fixture.attempts().map(({ grant }) => grant.execution)).toEqual(["e1"]);
    expect(fixture.inspect("e2").why).toContain("the worker other enumerates");
  });

  test("goes on as one task where its journal says so, whoever is there", () => {
    const fixture = new NodeFixture();
    fixture.join("plain", ["w.a"]);
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.settle();
    fixture.leave("plain");
    fixture.join("w1", [enumerating]);
    fixture.receipt(fixture.attempts()[0] as Attempt, { status: "failed", payload: "{}", retryAfterMs: 0 });
    fixture.work();
    expect(given(fixture)).toEqual([
      ["plain", "process", "null"],
      ["w1", "process", "null"],
    ]);
    expect(fixture.status("e1")).toBe("done");
  });

  test.each(["command", "script"])("is no matter for a %s: only code enumerates", (kind) => {
    const fixture = new NodeFixture();
    const handler =
      kind === "script"
        ? { script: [{ name: "r", expression: "s => s" }] }
        : { command: { cmd_type: "C" }, topic: "T" };
    fixture.join("w1", [{ use: kind === "script" ? "~script" : "topic:T", enumerates: true }]);
    fixture.start(fixture.plan([{ name: "a", handlers: { a: handler } }]), "e1");
    fixture.settle();
    expect(fixture.attempts().map(({ grant }) => grant.do)).toEqual([kind]);
  });

  test("is not asked to enumerate for a decision or an output", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", [
      { use: "n", enumerates: true },
      { use: "r", enumerates: true },
    ]);
    const phases = [{ name: "a", handlers: {}, next: { use: "n", among: ["b"] } }, { name: "b" }];
    fixture.start(fixture.plan({ name: "w", phases, returns: { use: "r" } }), "e1");
    fixture.settle();
    expect(fixture.attempts().map(({ grant }) => grant.do)).toEqual(["next"]);
    fixture.receipt(fixture.attempts()[0] as Attempt, { payload: '"b"' });
    fixture.settle();
    expect(fixture.attempts().map(({ grant }) => grant.do)).toEqual(["next", "returns"]);
  });
});

describe("the same handler of version 2", () => {
  const given = { rondo: 2, name: "w", phases: [phase("a")] };

  test("is enumerated before anything else, by code that enumerates or does not say, and its tasks are processed meanwhile", () => {
    for (const enumerates of [undefined, true]) {
      const fixture = new NodeFixture();
      fixture.join("w1", [{ use: "w.a", ...(enumerates === undefined ? {} : { enumerates }) }]);
      fixture.start(fixture.plan(given), "e1");
      fixture.settle();
      const listing = fixture.attempts()[0] as Attempt;
      expect(listing.grant.do).toBe("enumerate");
      fixture.page(listing, 0, ["x", "y", "z"]);
      fixture.settle();
      const tasks = fixture.attempts().slice(1);
      expect(tasks.map(({ item }) => item.task)).toEqual(['"x"', '"y"', '"z"']);
      fixture.receipt(tasks[0] as Attempt);
      fixture.settle();
      fixture.seal(listing, { total: 3 });
      for (const task of tasks.slice(1)) fixture.receipt(task);
      fixture.settle();
      expect(fixture.status("e1")).toBe("done");
      expect(fixture.events("e1", "handler.finished")).toMatchObject([{ done: 3 }]);
    }
  });

  test.each([
    ["first", ["plain", "w1"]],
    ["last", ["w1", "plain"]],
  ] as const)("never goes to code that only processes, which joined %s", (_when, order) => {
    const fixture = new NodeFixture();
    for (const worker of order) fixture.join(worker, [{ use: "w.a", enumerates: worker === "w1" }]);
    for (let i = 0; i < 5; i++) fixture.start(fixture.plan(given), `e${i}`);
    fixture.settle();
    const seen = fixture.attempts().map(({ worker, grant }) => [worker, grant.do]);
    expect(seen).toEqual(Array.from({ length: 5 }, () => ["w1", "enumerate"]));
  });

  test("waits while all workers only process it, says so, and is enumerated when one comes", () => {
    const fixture = new NodeFixture({ idleMax: 0, windowMax: 2 });
    fixture.join("plain", [{ use: "w.a", enumerates: false }], { capacity: 100 });
    const plan = fixture.plan(given);
    for (let i = 0; i < 10; i++) fixture.start(plan, `e${i}`);
    fixture.settle();
    fixture.sleep(600_000);
    expect(fixture.attempts()).toEqual([]);
    expect(fixture.inspect("e0").why).toBe(
      '"a" waits for a worker that enumerates "w.a": the connected ones only process it.',
    );
    fixture.join("w1", [{ use: "w.a", enumerates: true }], { capacity: 100 });
    fixture.work((attempt) => {
      fixture.seal(attempt, { total: 0 });
      return null;
    });
    for (let i = 0; i < 10; i++) expect(fixture.status(`e${i}`)).toBe("done");
  });

  test.each([
    ["first", ["silent", "w1"]],
    ["last", ["w1", "silent"]],
  ] as const)(
    "goes to code that says it enumerates, not to code that does not say, which joined %s",
    (_when, order) => {
      const fixture = new NodeFixture();
      for (const worker of order)
        fixture.join(worker, [{ use: "w.a", ...(worker === "w1" ? { enumerates: true } : {}) }]);
      for (let i = 0; i < 5; i++) fixture.start(fixture.plan(given), `e${i}`);
      fixture.settle();
      const seen = fixture.attempts().map(({ worker, grant }) => [worker, grant.do]);
      expect(seen).toEqual(Array.from({ length: 5 }, () => ["w1", "enumerate"]));
      fixture.leave("w1");
      fixture.start(fixture.plan(given), "alone");
      fixture.settle();
      expect(fixture.attempts().at(-1)).toMatchObject({ worker: "silent", grant: { do: "enumerate" } });
    },
  );

  test("goes to a worker that has code of both kinds under the name, for two workflows", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", [
      { use: "w.a", enumerates: false },
      { use: "w.a", enumerates: true },
    ]);
    fixture.start(fixture.plan(given), "e1");
    fixture.settle();
    expect(fixture.attempts().map(({ grant }) => grant.do)).toEqual(["enumerate"]);
  });

  test("waits for a worker that is away, and is enumerated when it is back", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", [{ use: "w.a", enumerates: true }]);
    fixture.leave("w1");
    fixture.start(fixture.plan(given), "e1");
    fixture.sleep(8_000);
    expect(fixture.attempts()).toEqual([]);
    fixture.join("w1", [{ use: "w.a", enumerates: true }]);
    fixture.settle();
    expect(fixture.attempts().map(({ grant }) => grant.do)).toEqual(["enumerate"]);
  });

  test("that is enumerated as nothing is done", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", [{ use: "w.a", enumerates: true }]);
    fixture.start(fixture.plan(given), "e1");
    fixture.settle();
    fixture.seal(fixture.attempts()[0] as Attempt, { total: 0 });
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
  });
});

describe("under a steady stream of reports", () => {
  const enumeration = () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.list", "w.a"]);
    fixture.start(fixture.plan([phase("a", { enumerate: { use: "w.list" } })]), "e1");
    fixture.settle();
    const [listing] = fixture.attempts() as [Attempt];
    fixture.holdsCommits = true;
    fixture.page(listing, 0, ["x"]);
    fixture.settle();
    fixture.page(listing, 1, ["y"]);
    return { fixture, listing };
  };
  const granted = (fixture: NodeFixture) =>
    fixture
      .attempts()
      .filter(({ grant }) => grant.do === "process")
      .map(({ item }) => item.number);

  test("tasks are granted although the execution has further reports after each commit", () => {
    const { fixture, listing } = enumeration();
    fixture.commit();
    fixture.settle();
    expect(granted(fixture)).toEqual([0]);
    fixture.page(listing, 2, ["z"]);
    fixture.commit();
    fixture.settle();
    expect(granted(fixture)).toEqual([0, 1]);
  });

  test("work of higher priority whose report comes at the same time gets the worker first", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.list", "w.a", "w.high"], { capacity: 2 });
    const urgent = { use: "w.high", priority: 5 };
    fixture.start(fixture.plan([phase("a", { enumerate: { use: "w.list" } })]), "e1");
    fixture.start(fixture.plan([phase("b", urgent), phase("c", urgent)], "v"), "e2");
    fixture.settle();
    const [first, listing] = fixture.attempts() as [Attempt, Attempt];
    expect([first.grant.execution, listing.grant.do]).toEqual(["e2", "enumerate"]);
    fixture.holdsCommits = true;
    fixture.page(listing, 0, ["x"]);
    fixture.settle();
    fixture.page(listing, 1, ["y"]);
    fixture.commit();
    fixture.receipt(first);
    fixture.settle();
    fixture.holdsCommits = false;
    fixture.settle();
    expect(fixture.attempts()[2]?.grant).toMatchObject({ execution: "e2", phase: "c" });
  });

  test("a request to pause or cancel is stepped before anything is granted", () => {
    const { fixture } = enumeration();
    fixture.control("pause", "e1");
    fixture.commit();
    fixture.settle();
    expect(granted(fixture)).toEqual([]);
  });
});

test.each([
  ["", false],
  [", also if another execution wants its grants before further steps", true],
])(
  "a retry waits while a report of its ended attempt, which a lost answer has brought back, is queued%s",
  (_, grantsFirst) => {
    const fixture = new NodeFixture({ turnMessages: 2, commitMessagesMax: 2, commitsMax: 1 });
    const retry = { attempts: 3, backoff: "constant", min: 10 };
    fixture.join("w1", ["w.a"]);
    fixture.start(fixture.plan([phase("a", { tasks: [0, 1, 2], concurrency: 4, retry })]), "e1");
    fixture.start(fixture.plan([phase("b", { use: "w.a" })], "v"), "e2");
    fixture.settle();
    const of = (id: string) => fixture.attempts().filter(({ grant }) => grant.execution === id);
    const [first, second, third] = of("e1") as [Attempt, Attempt, Attempt];
    const [other] = of("e2") as [Attempt];
    fixture.holdsCommits = true;
    fixture.receipt(first, { status: "failed" });
    fixture.receipt(second, { status: "failed" });
    fixture.settle();
    fixture.started(third);
    fixture.commitUnheard();
    // The start of the third attempt is due now, and the report of the other execution leaves room for one more report in the commit.
    fixture.now += 1_000;
    fixture.held.add("load");
    fixture.settle();
    fixture.receipt(other);
    fixture.node.state.grantsFirst = grantsFirst;
    fixture.answer("load");
    fixture.holdsCommits = false;
    fixture.settle();
    const granted = of("e1").map(({ item }) => `${item.number}.${item.attempt}`);
    expect(granted).toEqual(["0.1", "1.1", "2.1", "0.2", "1.2"]);
    expect([...fixture.node.state.limits.states()].map(([, { held }]) => held)).toEqual([3]);
  },
);
