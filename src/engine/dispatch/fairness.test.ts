// Dispatch: fair across projects, then executions, then handlers; priority within a project; limits (DESIGN 3.2).
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const many = (n: number, more: object = {}) =>
  phase("a", { tasks: Array.from({ length: n }, (_, i) => i), ...more });

/** The most attempts that were open at once, in the order of grants and ends. */
function holding<K>(keyOf: (attempt: Attempt) => K): {
  max: Map<K, number>;
  take(a: Attempt): void;
  end(a: Attempt): void;
} {
  const now = new Map<K, number>();
  const max = new Map<K, number>();
  return {
    max,
    take(attempt) {
      const key = keyOf(attempt);
      now.set(key, (now.get(key) ?? 0) + 1);
      max.set(key, Math.max(max.get(key) ?? 0, now.get(key) ?? 0));
    },
    end: (attempt) => void now.set(keyOf(attempt), (now.get(keyOf(attempt)) ?? 0) - 1),
  };
}

describe("fairness", () => {
  test("one tenant's 10,000 tasks delay another's single task by a bounded number of claims", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"], { capacity: 1 });
    const plan = bench.plan([many(10_000)]);
    bench.start(plan, "big", { project: "acme" });
    bench.settle();
    for (let i = 0; i < 20; i++) {
      bench.receipt(bench.attempts().at(-1) as Attempt);
      bench.settle();
    }
    const before = bench.attempts().length;
    bench.start(bench.plan([phase("a")]), "small", { project: "beta" });
    bench.settle();
    let claims = 0;
    while (bench.attempts().at(-1)?.grant.execution !== "small") {
      bench.receipt(bench.attempts().at(-1) as Attempt);
      bench.settle();
      claims++;
      expect(claims).toBeLessThan(10);
    }
    expect(bench.attempts().length - before).toBeLessThan(10);
  });

  test("a worker with much room shares it, so that the small one is not behind the quantum of the big one", () => {
    const bench = new NodeFixture();
    bench.start(bench.plan([many(10_000)]), "big", { project: "acme" });
    bench.start(bench.plan([phase("a")]), "small", { project: "beta" });
    bench.settle();
    bench.join("w1", ["w.a"], { capacity: 200 });
    bench.settle();
    expect(bench.attempts().map(({ grant }) => grant.execution)).toContain("small");
  });

  test("projects take turns", () => {
    const bench = new NodeFixture();
    const plan = bench.plan([many(50)]);
    for (const project of ["p1", "p2", "p3"]) bench.start(plan, project, { project });
    bench.settle();
    bench.join("w1", ["w.a"], { capacity: 1 });
    const order = bench.work().map(({ grant }) => grant.project);
    expect(order).toHaveLength(150);
    for (let i = 0; i + 3 <= 90; i += 3) expect(new Set(order.slice(i, i + 3)).size).toBe(3);
  });

  test("executions of a project take turns", () => {
    const bench = new NodeFixture();
    const plan = bench.plan([many(20)]);
    for (const id of ["e1", "e2", "e3", "e4"]) bench.start(plan, id);
    bench.settle();
    bench.join("w1", ["w.a"], { capacity: 1 });
    const order = bench.work().map(({ grant }) => grant.execution);
    for (let i = 0; i + 4 <= 60; i += 4) expect(new Set(order.slice(i, i + 4)).size).toBe(4);
  });

  test("handlers of an execution take turns", () => {
    const bench = new NodeFixture();
    const tasks = Array.from({ length: 20 }, (_, i) => i);
    const handlers = { x: { use: "x", tasks }, y: { use: "y", tasks } };
    bench.start(bench.plan([{ name: "a", handlers }]), "e1");
    bench.settle();
    bench.join("w1", ["x", "y"], { capacity: 1 });
    const order = bench.work().map(({ grant }) => grant.handler);
    for (let i = 0; i + 2 <= 30; i += 2) expect(new Set(order.slice(i, i + 2)).size).toBe(2);
  });

  test("within a handler the oldest task is first, one that came back before fresh ones", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"], { capacity: 1 });
    bench.start(bench.plan([many(5, { retry: { min: 0, max: 0 } })]), "e1");
    let hasFailed = false;
    const order = bench
      .work(({ item }) => {
        if (item.number !== 1 || hasFailed) return {};
        hasFailed = true;
        return { status: "failed", payload: "{}" };
      })
      .map(({ item }) => `${item.number}#${item.attempt}`);
    expect(order).toEqual(["0#1", "1#1", "1#2", "2#1", "3#1", "4#1"]);
  });

  test("higher priority goes first within a project, and only there", () => {
    const bench = new NodeFixture();
    const low = bench.plan([many(30)], "low");
    const high = bench.plan([many(5, { use: "w.a", priority: 5 })], "high");
    bench.start(low, "low1", { project: "p1" });
    bench.start(low, "low2", { project: "p2" });
    bench.settle();
    bench.start(high, "high1", { project: "p1" });
    bench.settle();
    bench.join("w1", ["w.a"], { capacity: 1 });
    const order = bench.work().map(({ grant }) => grant.execution);
    const first = order.filter((id) => id !== "low2").slice(0, 5);
    expect(first).toEqual(Array(5).fill("high1"));
    expect(order.slice(0, 10).filter((id) => id === "low2").length).toBeGreaterThanOrEqual(4);
  });

  test("a worker gets only what it serves", () => {
    const bench = new NodeFixture();
    bench.start(
      bench.plan([{ name: "a", handlers: { fast: { use: "fast" }, slow: { use: "slow" } } }]),
      "e1",
    );
    bench.join("w1", ["fast"]);
    bench.work();
    expect(bench.attempts().map(({ grant }) => grant.use)).toEqual(["fast"]);
    bench.join("w2", ["slow"]);
    bench.work();
    expect(bench.status("e1")).toBe("done");
  });

  test("a worker never holds more than its capacity", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"], { capacity: 7 });
    bench.start(bench.plan([many(100)]), "e1");
    bench.settle();
    const open = new Set(bench.attempts().map(({ item }) => item.number));
    expect(open.size).toBe(7);
    let taken = 7;
    for (let i = 0; i < 50; i++) {
      bench.receipt(bench.attempts()[i] as Attempt);
      bench.settle();
      const granted = bench.attempts().length;
      expect(granted - (i + 1)).toBeLessThanOrEqual(7);
      taken = granted;
    }
    expect(taken).toBe(57);
  });
});

describe("concurrency", () => {
  test("1 with 3 queued: strictly one at a time, in age order", () => {
    const bench = new NodeFixture();
    const plan = bench.plan([phase("a", { concurrency: 1 })]);
    for (const id of ["e1", "e2", "e3"]) bench.start(plan, id);
    bench.join("w1", ["w.a"], { capacity: 10 });
    bench.join("w2", ["w.a"], { capacity: 10 });
    bench.settle();
    const order: string[] = [];
    for (let i = 1; i <= 3; i++) {
      expect(bench.attempts()).toHaveLength(i);
      const attempt = bench.attempts().at(-1) as Attempt;
      order.push(attempt.grant.execution);
      bench.started(attempt);
      bench.settle();
      bench.receipt(attempt);
      bench.settle();
    }
    expect(order).toEqual(["e1", "e2", "e3"]);
  });

  test.each([2, 5])(
    "%i is never exceeded over executions, workers and failures, and never wasted",
    (limit) => {
      const bench = new NodeFixture();
      const plan = bench.plan([many(20, { concurrency: limit, retry: { min: 0, max: 0 } })]);
      for (const id of ["e1", "e2"]) bench.start(plan, id);
      bench.join("w1", ["w.a"], { capacity: 4 });
      bench.join("w2", ["w.a"], { capacity: 4 });
      bench.settle();
      const open = new Map<Attempt, true>();
      let from = 0;
      let settled = 0;
      while (settled < 40) {
        const fresh = bench.attempts().slice(from);
        from += fresh.length;
        for (const attempt of fresh) open.set(attempt, true);
        expect(open.size).toBe(Math.min(limit, 40 - settled));
        const [next] = open.keys();
        if (next === undefined) break;
        open.delete(next);
        const fails = next.item.attempt === 1 && next.item.number % 2 === 0;
        bench.receipt(next, fails ? { status: "failed", payload: "{}" } : {});
        if (!fails) settled++;
        bench.settle();
      }
      expect([bench.status("e1"), bench.status("e2")]).toEqual(["done", "done"]);
    },
  );

  test("is of the project and the handler's name: another project has its own", () => {
    const bench = new NodeFixture();
    const plan = bench.plan([phase("a", { concurrency: 1 })]);
    bench.start(plan, "e1", { project: "p1" });
    bench.start(plan, "e2", { project: "p2" });
    bench.join("w1", ["w.a"]);
    bench.settle();
    expect(bench.attempts()).toHaveLength(2);
  });

  test("of one handler never holds up another", () => {
    const bench = new NodeFixture();
    const handlers = {
      slow: { use: "slow", tasks: [1, 2, 3], concurrency: 1 },
      fast: { use: "fast", tasks: [1, 2, 3] },
    };
    bench.start(bench.plan([{ name: "a", handlers }]), "e1");
    bench.join("w1", ["slow", "fast"]);
    bench.settle();
    expect(bench.attempts().filter(({ grant }) => grant.use === "fast")).toHaveLength(3);
    expect(bench.attempts().filter(({ grant }) => grant.use === "slow")).toHaveLength(1);
  });

  test("takes the value of the newest definition", () => {
    const bench = new NodeFixture();
    bench.start(bench.plan([many(10, { concurrency: 1 })], "v1"), "e1");
    bench.settle();
    bench.start(bench.plan([many(10, { concurrency: 3 })], "v2"), "e2");
    bench.join("w1", ["w.a"], { capacity: 20 });
    bench.settle();
    expect(bench.attempts()).toHaveLength(3);
  });

  test("takes the value of the newest definition in whatever order executions come back", () => {
    for (const id of ["e1", "e2"]) {
      const bench = new NodeFixture({ idleMax: 0 });
      bench.start(bench.plan([many(10, { concurrency: 1, rate: { limit: 1, per: "1s" } })], "v1"), "e1");
      bench.settle();
      bench.now++;
      bench.start(bench.plan([many(10, { concurrency: 3, rate: { limit: 9, per: "1s" } })], "v2"), "e2");
      bench.settle();
      bench.restart({ clean: true });
      bench.sleep(5_000);
      for (const one of id === "e1" ? ["e1", "e2"] : ["e2", "e1"]) bench.inspect(one);
      bench.join("w1", ["w.a"], { capacity: 20 });
      bench.settle();
      expect(bench.attempts(), `${id} first`).toHaveLength(3);
    }
  });

  test("is given back by cancel, by a lapsed claim and by a worker that is gone", () => {
    const bench = new NodeFixture({ claimLeaseMs: 1_000, sweepMs: 500 });
    const plan = bench.plan([phase("a", { concurrency: 1 })]);
    bench.join("w1", ["w.a"], { local: false });
    bench.claim("w1", 5);
    for (const id of ["e1", "e2"]) bench.start(plan, id);
    bench.settle();
    expect(bench.attempts().map(({ grant }) => grant.execution)).toEqual(["e1"]);
    bench.sleep(2_000);
    expect(new Set(bench.attempts().map(({ grant }) => grant.execution))).toEqual(new Set(["e1", "e2"]));
    const second = bench.attempts().at(-1) as Attempt;
    bench.started(second);
    bench.settle();
    bench.control("cancel", second.grant.execution);
    bench.settle();
    bench.receipt(second, { status: "cancelled", payload: "{}" });
    bench.claim("w1", 5);
    bench.settle();
    expect(bench.attempts().at(-1)?.grant.execution).not.toBe(second.grant.execution);
  });
});

describe("concurrency per key", () => {
  test("is never exceeded, skips no task, and keeps the order within a key", () => {
    const bench = new NodeFixture();
    const keys = Array.from({ length: 60 }, (_, i) => `k${i % 3 === 0 ? 0 : i % 5}`);
    const definition = phase("a", {
      enumerate: { use: "w.a" },
      key: "/k",
      concurrencyPerKey: 2,
    });
    bench.join("w1", ["w.a"], { capacity: 100 });
    bench.start(bench.plan([definition]), "e1");
    bench.settle();
    const listing = bench.attempts()[0] as Attempt;
    bench.page(
      listing,
      0,
      keys.map((k) => ({ k })),
      keys,
    );
    bench.seal(listing, { total: 60 });
    bench.settle();
    const keyOf = ({ item }: Attempt) => keys[item.number] as string;
    const held = holding(keyOf);
    const done: number[] = [];
    let from = 1;
    const open: Attempt[] = [];
    while (done.length < 60) {
      const fresh = bench.attempts().slice(from);
      from += fresh.length;
      for (const attempt of fresh) held.take(attempt);
      open.push(...fresh);
      const next = open.splice((done.length * 7) % Math.max(1, open.length), 1)[0];
      if (next === undefined) break;
      held.end(next);
      done.push(next.item.number);
      bench.receipt(next);
      bench.settle();
    }
    expect([...done].sort((a, b) => a - b)).toEqual(keys.map((_, i) => i));
    for (const [key, most] of held.max) expect([key, most]).toEqual([key, 2]);
    const granted = bench.attempts().slice(1);
    for (const key of new Set(keys)) {
      const numbers = granted.filter((attempt) => keyOf(attempt) === key).map(({ item }) => item.number);
      expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
    }
    expect(bench.status("e1")).toBe("done");
  });

  test("goes by the pointer where the one task is the input, and where tasks are listed", () => {
    const bench = new NodeFixture();
    const key = { key: "/k", concurrencyPerKey: 1 };
    const plan = bench.plan([phase("a", key)]);
    bench.start(plan, "e1", { input: { k: "x" } });
    bench.start(plan, "e2", { input: { k: "x" } });
    bench.start(plan, "e3", { input: { k: "y" } });
    bench.start(bench.plan([phase("a", { ...key, tasks: [{ k: "x" }, { k: "z" }, { k: "z" }] })]), "e4");
    bench.settle();
    bench.join("w1", ["w.a"], { capacity: 100 });
    bench.settle();
    const open = () => bench.attempts().map(({ grant, item }) => `${grant.execution}/${item.number}`);
    expect(open().toSorted()).toEqual(["e1/0", "e3/0", "e4/1"]);
    bench.receipt(bench.attempts()[0] as Attempt);
    bench.settle();
    expect(open()).toContain("e2/0");
  });

  test("does not let a full key hold up the others", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"], { capacity: 100 });
    const definition = phase("a", { enumerate: { use: "w.a" }, key: "/k", concurrencyPerKey: 1 });
    bench.start(bench.plan([definition]), "e1");
    bench.settle();
    const keys = [...Array(50).fill("busy"), "free"] as string[];
    bench.page(bench.attempts()[0] as Attempt, 0, keys, keys);
    bench.settle();
    expect(
      bench
        .attempts()
        .slice(1)
        .map(({ item }) => item.number),
    ).toEqual([0, 50]);
  });

  test("holds over executions of a project", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"], { capacity: 100 });
    const definition = phase("a", { enumerate: { use: "w.a" }, key: "/k", concurrencyPerKey: 1 });
    const plan = bench.plan([definition]);
    for (const id of ["e1", "e2"]) bench.start(plan, id);
    bench.settle();
    for (const listing of bench.attempts()) bench.page(listing, 0, [0, 1], ["same", "same"]);
    bench.settle();
    let open = bench.attempts().slice(2);
    expect(open).toHaveLength(1);
    for (let i = 1; i < 4; i++) {
      bench.receipt(open.at(-1) as Attempt);
      bench.settle();
      open = bench.attempts().slice(2);
      expect(open).toHaveLength(i + 1);
    }
  });
});
