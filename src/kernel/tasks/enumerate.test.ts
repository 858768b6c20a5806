// Enumeration: pages as they come, attempts of its own, resume, identity, divergence (DESIGN 3.2 and 4).
import { describe, expect, test } from "vitest";
import { KernelRun, phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { checksum } from "../../std/hash.ts";

const listing = (more: object = {}) => [phase("a", { enumerate: { use: "l" }, ...more })];
const tasks = (n: number, from = 0) => Array.from({ length: n }, (_, i) => from + i);
const failure = { status: "failed", payload: '{"message":"x"}' } as const;

describe("pages", () => {
  test("are journaled as they come, and their tasks can be done before the next page", () => {
    const run = new KernelRun(listing());
    run.page("a", ["x"]);
    expect(run.receipt("a", 0)).toBe("accepted");
    expect(run.status).toBe("running");
    run.page("a", ["y"]);
    run.seal("a");
    run.done("a", 1);
    expect(run.status).toBe("done");
  });

  test("number tasks from 0 on", () => {
    const run = new KernelRun(listing());
    run.page("a", ["x", "y"]);
    run.page("a", ["z"]);
    expect(run.of("tasks.enumerated")).toMatchObject([
      { from: 0, count: 2, tasks: ['"x"', '"y"'] },
      { from: 2, count: 1, tasks: ['"z"'] },
    ]);
  });

  test("that come twice change nothing", () => {
    const run = new KernelRun(listing());
    run.page("a", [0, 1], { from: 0 });
    expect(run.page("a", [0, 1], { from: 0 })).toMatchObject({ kind: "ignored", verdicts: ["duplicate"] });
    expect(run.handler("a").total).toBe(2);
  });

  test.each<[string, number[], object, string]>([
    ["that came before", [0, 1], { from: 0 }, "duplicate"],
    ["that came before in part of another", [1], { from: 1 }, "duplicate"],
    ["that are partly new", [1, 2, 3], { from: 1 }, "stale"],
    ["that go back to the beginning with more", [0, 1, 2], { from: 0 }, "stale"],
    ["that begin before the beginning", [9, 0, 1, 2], { from: -1 }, "stale"],
    ["that begin between two", [2], { from: 1.5 }, "stale"],
    ["that begin nowhere", [2], { from: Number.NaN }, "stale"],
    ["with too few keys", [2, 3], { from: 2, keys: ["c"] }, "stale"],
    ["with too many identities", [2], { from: 2, identities: ["c", "d"] }, "stale"],
  ])("%s change nothing", (_name, tasks, given, verdict) => {
    const run = new KernelRun(listing());
    run.page("a", [0, 1], { from: 0 });
    expect(run.page("a", tasks, given)).toMatchObject({ kind: "ignored", verdicts: [verdict] });
    expect(run.of("tasks.enumerated")).toHaveLength(1);
    expect(run.handler("a").total).toBe(2);
    run.page("a", [2], { from: 2 });
    expect(run.handler("a").total).toBe(3);
  });

  test("without the identities that their handler has are taken by their numbers, and no further", () => {
    const run = new KernelRun(listing({ identity: true }));
    run.page("a", [0, 1], { from: 0 });
    expect(run.page("a", [5], { from: 4 })).toMatchObject({ verdicts: ["stale"] });
    expect(run.handler("a").total).toBe(2);
  });

  test("that leave a gap are stale", () => {
    const run = new KernelRun(listing());
    run.page("a", [0], { from: 0 });
    expect(run.page("a", [2], { from: 2 })).toMatchObject({ kind: "ignored", verdicts: ["stale"] });
  });

  test.each([
    ["of an attempt that is not the open one", { attempt: 2 }],
    ["of another round", { round: 2 }],
  ])("%s are stale", (_name, given) => {
    const run = new KernelRun(listing());
    expect(run.page("a", [0], given)).toMatchObject({ kind: "ignored", verdicts: ["stale"] });
  });

  test("do not end the enumeration without its total, whoever says so", () => {
    const run = new KernelRun(listing());
    run.page("a", [0, 1]);
    run.seal("a", { total: undefined as unknown as number });
    expect(run.of("handler.enumerated")).toEqual([]);
    expect(run.of("handler.retrying")).toMatchObject([{ until: null, fatal: true }]);
  });

  test("after the seal are stale", () => {
    const run = new KernelRun(listing());
    run.page("a", [0]);
    run.seal("a");
    expect(run.page("a", [1])).toMatchObject({ kind: "ignored", verdicts: ["stale"] });
    expect(run.seal("a")).toMatchObject({ kind: "ignored" });
  });

  test("are split into events of at most 1,000 tasks", () => {
    const run = new KernelRun(listing());
    run.page("a", tasks(2_345));
    expect(run.of("tasks.enumerated").map(({ from, count }) => [from, count])).toEqual([
      [0, 1_000],
      [1_000, 1_000],
      [2_000, 345],
    ]);
  });

  test("are split into events of at most 256 KiB, one task at least", () => {
    const run = new KernelRun(listing());
    run.page("a", ["x".repeat(200_000), "y".repeat(60_000), "z".repeat(60_000), "w".repeat(300_000), "v"]);
    expect(run.of("tasks.enumerated").map(({ count }) => count)).toEqual([2, 1, 1, 1]);
  });

  test("carry a running checksum over all tasks, whatever the pages", () => {
    const one = new KernelRun(listing());
    one.page("a", tasks(2_000));
    const many = new KernelRun(listing());
    for (let i = 0; i < 2_000; i += 100) many.page("a", tasks(100, i));
    const all = checksum(
      tasks(2_000)
        .map((task) => `${task}\n`)
        .join(""),
      0,
    );
    expect(one.handler("a").enumeration.checksum).toBe(all);
    expect(many.handler("a").enumeration.checksum).toBe(all);
  });

  test("know where each task is", () => {
    const run = new KernelRun(listing());
    run.page("a", tasks(3));
    run.page("a", tasks(2, 3));
    run.page("a", tasks(5, 5));
    const handler = run.handler("a");
    const seqs = run.events.filter(({ event }) => event.kind === "tasks.enumerated").map(({ seq }) => seq);
    expect(tasks(10).map((task) => handler.pageOf(task))).toEqual(
      [0, 0, 0, 1, 1, 2, 2, 2, 2, 2].map((page) => seqs[page]),
    );
    expect(tasks(10).map((task) => handler.pageEnd(task))).toEqual([3, 3, 3, 5, 5, 10, 10, 10, 10, 10]);
  });
});

describe("the seal", () => {
  test("of nothing ends the handler at once", () => {
    const run = new KernelRun(listing());
    run.seal("a", { total: 0 });
    expect(run.status).toBe("done");
    expect(run.of("handler.enumerated")).toMatchObject([{ total: 0 }]);
  });

  test("after everything is done ends the handler", () => {
    const run = new KernelRun(listing());
    run.page("a", [0, 1]);
    run.done("a", 0, 1);
    expect(run.status).toBe("running");
    run.seal("a", { total: 2 });
    expect(run.status).toBe("done");
  });

  test("with another total than is journaled has diverged", () => {
    const run = new KernelRun(listing());
    run.page("a", [0, 1]);
    run.seal("a", { total: 3 });
    run.drained();
    expect(run.status).toBe("failed");
    expect(run.execution.error?.code).toBe("enumeration_diverged");
  });
});

describe("an attempt that fails", () => {
  test("is followed by another after a backoff; what is journaled stays", () => {
    const run = new KernelRun(listing());
    run.page("a", [0, 1]);
    run.seal("a", failure);
    const { enumeration } = run.handler("a");
    expect(run.of("handler.retrying")).toMatchObject([{ attempt: 1, reason: "failed" }]);
    expect(enumeration.until).toBeGreaterThanOrEqual(1_000);
    expect(enumeration.until).toBeLessThanOrEqual(2_000);
    expect(run.page("a", [2], { attempt: 1 })).toMatchObject({ kind: "ignored" });
    run.page("a", [2], { attempt: 2 });
    run.seal("a", { attempt: 2, total: 3 });
    run.done("a", 0, 1, 2);
    expect(run.status).toBe("done");
  });

  test("three times fails the phase, by default", () => {
    const run = new KernelRun(listing());
    for (let i = 0; i < 3; i++) {
      expect(run.execution.draining).toBe(false);
      run.seal("a", failure);
    }
    expect(run.execution.draining).toBe(true);
    run.drained();
    expect(run.execution.error).toMatchObject({ code: "enumeration_failed", handler: "a" });
  });

  test("for good is not tried again", () => {
    const run = new KernelRun(listing());
    run.seal("a", { ...failure, fatal: true });
    expect(run.execution.draining).toBe(true);
  });

  test("with RetryAfter waits that long", () => {
    const run = new KernelRun(listing());
    run.seal("a", { ...failure, retryAfterMs: 7_000 });
    expect(run.handler("a").enumeration.until).toBe(8_000);
  });

  test("by being handed back burns nothing", () => {
    const run = new KernelRun(listing({ retry: { attempts: 1, crashes: 1 } }));
    for (let i = 0; i < 5; i++) run.seal("a", { status: "cancelled", payload: "{}" });
    expect(run.handler("a").enumeration).toMatchObject({ ended: 5, fails: 0, crashes: 0, until: 1_000 });
    expect(run.execution.open).toBe(true);
  });

  test("by being lost burns a crash, four of them by default", () => {
    const run = new KernelRun(listing());
    for (let i = 0; i < 3; i++) run.enumerationLost("a");
    expect(run.of("handler.lost").map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
    expect(run.execution.open).toBe(true);
    run.enumerationLost("a");
    expect(run.execution.draining).toBe(true);
    run.drained();
    expect(run.status).toBe("failed");
  });

  test("by being lost is never late: its pages and its receipt are stale", () => {
    const run = new KernelRun(listing());
    run.enumerationLost("a");
    expect(run.page("a", [0], { attempt: 1 })).toMatchObject({ kind: "ignored" });
    expect(run.seal("a", { attempt: 1 })).toMatchObject({ kind: "ignored" });
  });
});

test("identities that come with pages are ignored where the definition has no identity", () => {
  const run = new KernelRun(listing());
  run.page("a", [1, 2], { identities: ["x", "x"] });
  run.page("a", [3], { identities: ["x"] });
  expect(run.of("tasks.enumerated")).toMatchObject([
    { from: 0, count: 2, identities: null },
    { from: 2, count: 1, identities: null },
  ]);
});

describe("identity", () => {
  const named = () => new KernelRun(listing({ identity: "/id" }));

  test("skips tasks that are named already, in one page and over pages", () => {
    const run = named();
    run.page("a", [1, 2, 1], { identities: ["a", "b", "a"] });
    run.page("a", [3, 4], { from: -1, identities: ["b", "c"] });
    expect(run.of("tasks.enumerated").flatMap(({ identities }) => identities)).toEqual(["a", "b", "c"]);
    expect(run.handler("a").total).toBe(3);
  });

  test("lets a second attempt start over, whatever its order", () => {
    const run = named();
    run.page("a", [1, 2], { identities: ["a", "b"] });
    run.seal("a", failure);
    run.page("a", [2, 3, 1], { from: -1, identities: ["b", "c", "a"] });
    run.seal("a", { total: 99 });
    expect(run.handler("a").total).toBe(3);
    expect(run.handler("a").sealed).toBe(true);
  });

  test("keeps keys in step", () => {
    const run = named();
    run.page("a", [1, 2], { identities: ["a", "b"], keys: ["k1", "k2"] });
    run.page("a", [2, 3], { from: -1, identities: ["b", "c"], keys: ["k2", "k3"] });
    expect(run.of("tasks.enumerated").map(({ keys }) => keys)).toEqual([["k1", "k2"], ["k3"]]);
  });

  test("a key never skips any task", () => {
    const run = new KernelRun(listing({ key: "/k" }));
    run.page("a", [1, 2], { keys: ["same", "same"] });
    expect(run.handler("a").total).toBe(2);
  });
});

describe("names by the pointers of the definition", () => {
  const both = { key: "/of/customer", identity: "/id" };
  const task = (id: number, customer: unknown) => ({ id, of: { customer } });

  test("are given to pages that come without, and another of the same identity is skipped", () => {
    const run = new KernelRun(listing(both));
    run.page("a", [task(1, "x"), task(2, 7), task(1, "z")]);
    run.page("a", [task(2, "x"), task(3, true)], { from: 3 });
    expect(run.of("tasks.enumerated")).toMatchObject([
      { from: 0, keys: ["x", "7"], identities: ["1", "2"] },
      { from: 2, keys: ["true"], identities: ["3"] },
    ]);
  });

  test("do not replace those that a page brings", () => {
    const run = new KernelRun(listing(both));
    run.page("a", [task(1, "x")], { keys: ["k"], identities: ["i"] });
    expect(run.of("tasks.enumerated")).toMatchObject([{ keys: ["k"], identities: ["i"] }]);
  });

  test.each([
    ["nothing", {}],
    ["null", task(1, null)],
    ["a value of type object", task(1, ["x"])],
  ])("that give %s end the enumeration for good", (what, wrong) => {
    const run = new KernelRun(listing(both));
    run.page("a", [task(0, "x"), wrong]);
    const [ended] = run.of("handler.retrying");
    expect(ended).toMatchObject({ until: null, fatal: true });
    expect(ended?.error).toContain(
      `the key of a task must be a text or a number, but \\"/of/customer\\" gives ${what}`,
    );
    expect(run.handler("a").total).toBe(0);
  });

  test("are given to listed tasks too", () => {
    const run = new KernelRun([phase("a", { ...both, tasks: [task(1, "x"), task(1, "y"), task(2, "x")] })]);
    expect(run.of("tasks.enumerated")).toMatchObject([
      { count: 2, keys: ["x", "x"], identities: ["1", "2"] },
    ]);
    run.done("a", 0, 1);
    expect(run.status).toBe("done");
  });
});

test("at most 10 million tasks come of one visit: then the enumeration has failed for good", () => {
  const run = new KernelRun(listing());
  run.page("a", [0]);
  // Sets the counters as if that many tasks were journaled: the limit applies to the number.
  run.handler("a").total = 10_000_000;
  run.handler("a").enumeration.count = 10_000_000;
  run.page("a", [1], { from: 10_000_000 });
  expect(run.of("handler.retrying")).toMatchObject([{ until: null, reason: "failed" }]);
  expect(run.execution.current?.failing).toMatchObject({ code: "too_large" });
});

// Earlier versions let code enumerate where the definition names no enumeration: such journals are read as they are.
describe("an enumeration that the definition does not name", () => {
  test("keeps what the journal says: with pages it goes on as an enumeration, with an attempt at its task as one task", () => {
    const fresh = new KernelRun([phase("a")]);
    expect(fresh.handler("a")).toMatchObject({ impliesTask: true, needsSingleCode: true });
    const paged = new KernelRun([phase("a")]);
    paged.page("a", ["x"]);
    expect(paged.handler("a")).toMatchObject({ impliesTask: false, needsSingleCode: false });
    const ended = new KernelRun([phase("a")]);
    ended.seal("a", failure);
    expect(ended.handler("a")).toMatchObject({ impliesTask: false, needsSingleCode: false });
    const tried = new KernelRun([phase("a")]);
    tried.receipt("a", 0, { status: "failed", payload: "{}" });
    expect(tried.handler("a")).toMatchObject({ impliesTask: true, needsSingleCode: false });
    const started = new KernelRun([phase("a")]);
    started.started("a", 0);
    expect(started.handler("a")).toMatchObject({ impliesTask: true, needsSingleCode: false });
  });

  test.each([
    ["tasks", { tasks: [1] }],
    ["enumerate", { enumerate: { use: "w.a" } }],
  ])("is no matter for a handler with %s", (_what, options) => {
    expect(new KernelRun([phase("a", options)]).handler("a").needsSingleCode).toBe(false);
  });

  test("replaces the implied task by its pages", () => {
    const run = new KernelRun([phase("a")]);
    expect(run.handler("a").offered).toBe(1);
    run.page("a", ["x", "y"]);
    expect(run.handler("a").total).toBe(2);
    run.seal("a");
    run.done("a", 0, 1);
    expect(run.status).toBe("done");
  });

  test("may have tasks done before it is sealed", () => {
    const run = new KernelRun([phase("a")]);
    run.page("a", ["x", "y", "z"]);
    run.done("a", 0);
    expect(run.status).toBe("running");
    expect(run.of("handler.enumerated")).toHaveLength(0);
    run.seal("a", { total: 3 });
    run.done("a", 1, 2);
    expect(run.of("handler.finished")).toMatchObject([{ done: 3 }]);
  });

  test("cannot enumerate for a decision or for the output, which have one task each", () => {
    const run = new KernelRun({
      name: "w",
      phases: [{ name: "a", handlers: {}, next: { use: "n", among: ["b"] } }, { name: "b" }],
      returns: { use: "r" },
    });
    for (const handler of ["next", "returns"]) {
      expect(run.page(handler, [1, 2])).toMatchObject({ kind: "ignored" });
      expect(run.seal(handler, { total: 0 })).toMatchObject({ kind: "ignored" });
      expect(run.enumerationLost(handler)).toMatchObject({ kind: "ignored" });
      run.receipt(handler, 0, { payload: '"b"' });
    }
    expect(run.status).toBe("done");
  });

  test("that gives nothing ends the handler", () => {
    const run = new KernelRun([phase("a")]);
    run.seal("a", { total: 0 });
    expect(run.status).toBe("done");
    expect(run.of("handler.finished")).toMatchObject([{ done: 0 }]);
  });

  test("that fails does not leave the implied task behind", () => {
    const run = new KernelRun([phase("a")]);
    run.seal("a", failure);
    expect(run.handler("a").offered).toBe(0);
    expect(run.receipt("a", 0)).toBe("stale");
  });
});
