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
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 1 });
    const plan = fixture.plan([many(10_000)]);
    fixture.start(plan, "big", { project: "acme" });
    fixture.settle();
    for (let i = 0; i < 20; i++) {
      fixture.receipt(fixture.attempts().at(-1) as Attempt);
      fixture.settle();
    }
    const before = fixture.attempts().length;
    fixture.start(fixture.plan([phase("a")]), "small", { project: "beta" });
    fixture.settle();
    let claims = 0;
    while (fixture.attempts().at(-1)?.grant.execution !== "small") {
      fixture.receipt(fixture.attempts().at(-1) as Attempt);
      fixture.settle();
      claims++;
      expect(claims).toBeLessThan(10);
    }
    expect(fixture.attempts().length - before).toBeLessThan(10);
  });

  test("a worker with much room shares it, so that the small one is not behind the quantum of the big one", () => {
    const fixture = new NodeFixture();
    fixture.start(fixture.plan([many(10_000)]), "big", { project: "acme" });
    fixture.start(fixture.plan([phase("a")]), "small", { project: "beta" });
    fixture.settle();
    fixture.join("w1", ["w.a"], { capacity: 200 });
    fixture.settle();
    expect(fixture.attempts().map(({ grant }) => grant.execution)).toContain("small");
  });

  test("projects take turns", () => {
    const fixture = new NodeFixture();
    const plan = fixture.plan([many(50)]);
    for (const project of ["p1", "p2", "p3"]) fixture.start(plan, project, { project });
    fixture.settle();
    fixture.join("w1", ["w.a"], { capacity: 1 });
    const order = fixture.work().map(({ grant }) => grant.project);
    expect(order).toHaveLength(150);
    for (let i = 0; i + 3 <= 90; i += 3) expect(new Set(order.slice(i, i + 3)).size).toBe(3);
  });

  test("executions of a project take turns", () => {
    const fixture = new NodeFixture();
    const plan = fixture.plan([many(20)]);
    for (const id of ["e1", "e2", "e3", "e4"]) fixture.start(plan, id);
    fixture.settle();
    fixture.join("w1", ["w.a"], { capacity: 1 });
    const order = fixture.work().map(({ grant }) => grant.execution);
    for (let i = 0; i + 4 <= 60; i += 4) expect(new Set(order.slice(i, i + 4)).size).toBe(4);
  });

  test("handlers of an execution take turns", () => {
    const fixture = new NodeFixture();
    const tasks = Array.from({ length: 20 }, (_, i) => i);
    const handlers = { x: { use: "x", tasks }, y: { use: "y", tasks } };
    fixture.start(fixture.plan([{ name: "a", handlers }]), "e1");
    fixture.settle();
    fixture.join("w1", ["x", "y"], { capacity: 1 });
    const order = fixture.work().map(({ grant }) => grant.handler);
    for (let i = 0; i + 2 <= 30; i += 2) expect(new Set(order.slice(i, i + 2)).size).toBe(2);
  });

  test("within a handler the oldest task is first, one that came back before fresh ones", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 1 });
    fixture.start(fixture.plan([many(5, { retry: { min: 0, max: 0 } })]), "e1");
    let hasFailed = false;
    const order = fixture
      .work(({ item }) => {
        if (item.number !== 1 || hasFailed) return {};
        hasFailed = true;
        return { status: "failed", payload: "{}" };
      })
      .map(({ item }) => `${item.number}#${item.attempt}`);
    expect(order).toEqual(["0#1", "1#1", "1#2", "2#1", "3#1", "4#1"]);
  });

  test("higher priority goes first within a project, and only there", () => {
    const fixture = new NodeFixture();
    const low = fixture.plan([many(30)], "low");
    const high = fixture.plan([many(5, { use: "w.a", priority: 5 })], "high");
    fixture.start(low, "low1", { project: "p1" });
    fixture.start(low, "low2", { project: "p2" });
    fixture.settle();
    fixture.start(high, "high1", { project: "p1" });
    fixture.settle();
    fixture.join("w1", ["w.a"], { capacity: 1 });
    const order = fixture.work().map(({ grant }) => grant.execution);
    const first = order.filter((id) => id !== "low2").slice(0, 5);
    expect(first).toEqual(Array(5).fill("high1"));
    expect(order.slice(0, 10).filter((id) => id === "low2").length).toBeGreaterThanOrEqual(4);
  });

  test("a worker gets only what it serves", () => {
    const fixture = new NodeFixture();
    fixture.start(
      fixture.plan([{ name: "a", handlers: { fast: { use: "fast" }, slow: { use: "slow" } } }]),
      "e1",
    );
    fixture.join("w1", ["fast"]);
    fixture.work();
    expect(fixture.attempts().map(({ grant }) => grant.use)).toEqual(["fast"]);
    fixture.join("w2", ["slow"]);
    fixture.work();
    expect(fixture.status("e1")).toBe("done");
  });

  test("a worker never holds more than its capacity", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 7 });
    fixture.start(fixture.plan([many(100)]), "e1");
    fixture.settle();
    const open = new Set(fixture.attempts().map(({ item }) => item.number));
    expect(open.size).toBe(7);
    let taken = 7;
    for (let i = 0; i < 50; i++) {
      fixture.receipt(fixture.attempts()[i] as Attempt);
      fixture.settle();
      const granted = fixture.attempts().length;
      expect(granted - (i + 1)).toBeLessThanOrEqual(7);
      taken = granted;
    }
    expect(taken).toBe(57);
  });
});

describe("concurrency", () => {
  test("1 with 3 queued: strictly one at a time, in age order", () => {
    const fixture = new NodeFixture();
    const plan = fixture.plan([phase("a", { concurrency: 1 })]);
    for (const id of ["e1", "e2", "e3"]) fixture.start(plan, id);
    fixture.join("w1", ["w.a"], { capacity: 10 });
    fixture.join("w2", ["w.a"], { capacity: 10 });
    fixture.settle();
    const order: string[] = [];
    for (let i = 1; i <= 3; i++) {
      expect(fixture.attempts()).toHaveLength(i);
      const attempt = fixture.attempts().at(-1) as Attempt;
      order.push(attempt.grant.execution);
      fixture.started(attempt);
      fixture.settle();
      fixture.receipt(attempt);
      fixture.settle();
    }
    expect(order).toEqual(["e1", "e2", "e3"]);
  });

  test.each([2, 5])(
    "%i is never exceeded over executions, workers and failures, and never wasted",
    (limit) => {
      const fixture = new NodeFixture();
      const plan = fixture.plan([many(20, { concurrency: limit, retry: { min: 0, max: 0 } })]);
      for (const id of ["e1", "e2"]) fixture.start(plan, id);
      fixture.join("w1", ["w.a"], { capacity: 4 });
      fixture.join("w2", ["w.a"], { capacity: 4 });
      fixture.settle();
      const open = new Map<Attempt, true>();
      let from = 0;
      let settled = 0;
      while (settled < 40) {
        const fresh = fixture.attempts().slice(from);
        from += fresh.length;
        for (const attempt of fresh) open.set(attempt, true);
        expect(open.size).toBe(Math.min(limit, 40 - settled));
        const [next] = open.keys();
        if (next === undefined) break;
        open.delete(next);
        const fails = next.item.attempt === 1 && next.item.number % 2 === 0;
        fixture.receipt(next, fails ? { status: "failed", payload: "{}" } : {});
        if (!fails) settled++;
        fixture.settle();
      }
      expect([fixture.status("e1"), fixture.status("e2")]).toEqual(["done", "done"]);
    },
  );

  test("is of the project and the handler's name: another project has its own", () => {
    const fixture = new NodeFixture();
    const plan = fixture.plan([phase("a", { concurrency: 1 })]);
    fixture.start(plan, "e1", { project: "p1" });
    fixture.start(plan, "e2", { project: "p2" });
    fixture.join("w1", ["w.a"]);
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(2);
  });

  test("of one handler never holds up another", () => {
    const fixture = new NodeFixture();
    const handlers = {
      slow: { use: "slow", tasks: [1, 2, 3], concurrency: 1 },
      fast: { use: "fast", tasks: [1, 2, 3] },
    };
    fixture.start(fixture.plan([{ name: "a", handlers }]), "e1");
    fixture.join("w1", ["slow", "fast"]);
    fixture.settle();
    expect(fixture.attempts().filter(({ grant }) => grant.use === "fast")).toHaveLength(3);
    expect(fixture.attempts().filter(({ grant }) => grant.use === "slow")).toHaveLength(1);
  });

  test("takes the value of the newest definition", () => {
    const fixture = new NodeFixture();
    fixture.start(fixture.plan([many(10, { concurrency: 1 })], "v1"), "e1");
    fixture.settle();
    fixture.start(fixture.plan([many(10, { concurrency: 3 })], "v2"), "e2");
    fixture.join("w1", ["w.a"], { capacity: 20 });
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(3);
  });

  test("takes the value of the newest definition in whatever order executions come back", () => {
    for (const id of ["e1", "e2"]) {
      const fixture = new NodeFixture({ idleMax: 0 });
      fixture.start(fixture.plan([many(10, { concurrency: 1, rate: { limit: 1, per: "1s" } })], "v1"), "e1");
      fixture.settle();
      fixture.now++;
      fixture.start(fixture.plan([many(10, { concurrency: 3, rate: { limit: 9, per: "1s" } })], "v2"), "e2");
      fixture.settle();
      fixture.restart({ clean: true });
      fixture.sleep(5_000);
      for (const one of id === "e1" ? ["e1", "e2"] : ["e2", "e1"]) fixture.inspect(one);
      fixture.join("w1", ["w.a"], { capacity: 20 });
      fixture.settle();
      expect(fixture.attempts(), `${id} first`).toHaveLength(3);
    }
  });

  test("is given back by cancel, by a lapsed claim and by a worker that is gone", () => {
    const fixture = new NodeFixture({ claimLeaseMs: 1_000, sweepMs: 500 });
    const plan = fixture.plan([phase("a", { concurrency: 1 })]);
    fixture.join("w1", ["w.a"], { local: false });
    fixture.claim("w1", 5);
    for (const id of ["e1", "e2"]) fixture.start(plan, id);
    fixture.settle();
    expect(fixture.attempts().map(({ grant }) => grant.execution)).toEqual(["e1"]);
    fixture.sleep(2_000);
    expect(new Set(fixture.attempts().map(({ grant }) => grant.execution))).toEqual(new Set(["e1", "e2"]));
    const second = fixture.attempts().at(-1) as Attempt;
    fixture.started(second);
    fixture.settle();
    fixture.control("cancel", second.grant.execution);
    fixture.settle();
    fixture.receipt(second, { status: "cancelled", payload: "{}" });
    fixture.claim("w1", 5);
    fixture.settle();
    expect(fixture.attempts().at(-1)?.grant.execution).not.toBe(second.grant.execution);
  });
});

describe("concurrency per key", () => {
  test("is never exceeded, skips no task, and keeps the order within a key", () => {
    const fixture = new NodeFixture();
    const keys = Array.from({ length: 60 }, (_, i) => `k${i % 3 === 0 ? 0 : i % 5}`);
    const definition = phase("a", {
      enumerate: { use: "w.a" },
      key: "/k",
      concurrencyPerKey: 2,
    });
    fixture.join("w1", ["w.a"], { capacity: 100 });
    fixture.start(fixture.plan([definition]), "e1");
    fixture.settle();
    const listing = fixture.attempts()[0] as Attempt;
    fixture.page(
      listing,
      0,
      keys.map((k) => ({ k })),
      keys,
    );
    fixture.seal(listing, { total: 60 });
    fixture.settle();
    const keyOf = ({ item }: Attempt) => keys[item.number] as string;
    const held = holding(keyOf);
    const done: number[] = [];
    let from = 1;
    const open: Attempt[] = [];
    while (done.length < 60) {
      const fresh = fixture.attempts().slice(from);
      from += fresh.length;
      for (const attempt of fresh) held.take(attempt);
      open.push(...fresh);
      const next = open.splice((done.length * 7) % Math.max(1, open.length), 1)[0];
      if (next === undefined) break;
      held.end(next);
      done.push(next.item.number);
      fixture.receipt(next);
      fixture.settle();
    }
    expect([...done].sort((a, b) => a - b)).toEqual(keys.map((_, i) => i));
    for (const [key, most] of held.max) expect([key, most]).toEqual([key, 2]);
    const granted = fixture.attempts().slice(1);
    for (const key of new Set(keys)) {
      const numbers = granted.filter((attempt) => keyOf(attempt) === key).map(({ item }) => item.number);
      expect(numbers).toEqual([...numbers].sort((a, b) => a - b));
    }
    expect(fixture.status("e1")).toBe("done");
  });

  test("goes by the pointer where the one task is the input, and where tasks are listed", () => {
    const fixture = new NodeFixture();
    const key = { key: "/k", concurrencyPerKey: 1 };
    const plan = fixture.plan([phase("a", key)]);
    fixture.start(plan, "e1", { input: { k: "x" } });
    fixture.start(plan, "e2", { input: { k: "x" } });
    fixture.start(plan, "e3", { input: { k: "y" } });
    fixture.start(fixture.plan([phase("a", { ...key, tasks: [{ k: "x" }, { k: "z" }, { k: "z" }] })]), "e4");
    fixture.settle();
    fixture.join("w1", ["w.a"], { capacity: 100 });
    fixture.settle();
    const open = () => fixture.attempts().map(({ grant, item }) => `${grant.execution}/${item.number}`);
    expect(open().toSorted()).toEqual(["e1/0", "e3/0", "e4/1"]);
    fixture.receipt(fixture.attempts()[0] as Attempt);
    fixture.settle();
    expect(open()).toContain("e2/0");
  });

  test("does not let a full key hold up the others", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 100 });
    const definition = phase("a", { enumerate: { use: "w.a" }, key: "/k", concurrencyPerKey: 1 });
    fixture.start(fixture.plan([definition]), "e1");
    fixture.settle();
    const keys = [...Array(50).fill("busy"), "free"] as string[];
    fixture.page(fixture.attempts()[0] as Attempt, 0, keys, keys);
    fixture.settle();
    expect(
      fixture
        .attempts()
        .slice(1)
        .map(({ item }) => item.number),
    ).toEqual([0, 50]);
  });

  test("a task whose next wait ends while it is parked is granted once", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 100 });
    const limit = { key: "/k", concurrencyPerKey: 2 };
    fixture.start(fixture.plan([phase("a", { ...limit, tasks: [1, 2, 3].map(() => ({ k: "x" })) })]), "e1");
    fixture.settle();
    const granted = () => fixture.attempts().map(({ item }) => `${item.number}.${item.attempt}`);
    const [one, two] = fixture.attempts() as [Attempt, Attempt];
    const nap = { name: "nap", untilMs: fixture.now + 1_000 };
    fixture.receipt(one, {
      status: "suspended",
      waits: [nap, { name: "go", signal: "go", timeoutMs: 2_000 }],
    });
    fixture.settle();
    expect(granted()).toEqual(["0.1", "1.1", "2.1"]);
    // The task goes on when its sleep is over, and is parked at the full key. Then its other wait ends too.
    fixture.sleep(1_000);
    fixture.sleep(1_000);
    expect(fixture.kinds("e1")).toContain("timer.fired");
    for (const open of [two, fixture.attempts()[2] as Attempt]) {
      fixture.receipt(open);
      fixture.settle();
    }
    expect(granted()).toEqual(["0.1", "1.1", "2.1", "0.2"]);
    fixture.receipt(fixture.attempts()[3] as Attempt);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
  });

  test("holds over executions of a project", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 100 });
    const definition = phase("a", { enumerate: { use: "w.a" }, key: "/k", concurrencyPerKey: 1 });
    const plan = fixture.plan([definition]);
    for (const id of ["e1", "e2"]) fixture.start(plan, id);
    fixture.settle();
    for (const listing of fixture.attempts()) fixture.page(listing, 0, [0, 1], ["same", "same"]);
    fixture.settle();
    let open = fixture.attempts().slice(2);
    expect(open).toHaveLength(1);
    for (let i = 1; i < 4; i++) {
      fixture.receipt(open.at(-1) as Attempt);
      fixture.settle();
      open = fixture.attempts().slice(2);
      expect(open).toHaveLength(i + 1);
    }
  });
});
