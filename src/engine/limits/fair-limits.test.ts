// Fairness where a limit is the bottleneck, not the workers: permits go round as workers' places do, with priority first.
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { SeededRandom } from "../../std/random.ts";

const KINDS = ["handler", "key", "project", "key with project", "batch"] as const;
type Kind = (typeof KINDS)[number];

/** A node with a limit of one kind, and executions of `n` tasks under it. */
function fixtureWith(kind: Kind, limit: number, capacity: number) {
  const isOfProject = kind === "project" || kind === "key with project";
  const bench = new NodeFixture(isOfProject ? { projects: { default: { concurrency: limit } } } : {});
  bench.join("w1", ["w.a"], { capacity });
  const options = {
    ...(kind === "handler" || kind === "batch" ? { concurrency: limit } : {}),
    ...(kind === "batch" ? { batch: 2 } : {}),
    ...(kind.startsWith("key") ? { key: "/k", concurrencyPerKey: limit } : {}),
  };
  const start = (id: string, n: number, more: object = {}) => {
    const tasks = Array.from({ length: n }, (_, i) => ({ k: "same", i }));
    bench.start(bench.plan([phase("a", { tasks, ...options, ...more })], `of-${n}`), id);
    bench.settle();
  };
  return { bench, start };
}

/** Ends open attempts in some order, one or several at a time, and lets the node go on. */
class Ends {
  readonly open: Attempt[] = [];
  readonly granted: string[] = [];
  readonly #bench: NodeFixture;
  readonly #random: SeededRandom;
  #seen = 0;

  constructor(bench: NodeFixture, seed: number) {
    this.#bench = bench;
    this.#random = new SeededRandom(seed);
    this.look();
  }

  look(): void {
    const fresh = this.#bench.attempts().slice(this.#seen);
    this.#seen += fresh.length;
    this.open.push(...fresh);
    this.granted.push(...fresh.map(({ grant }) => grant.execution));
  }

  /** False: nothing is open. */
  some(): boolean {
    if (this.open.length === 0) return false;
    const n = this.#random.between(1, this.open.length);
    for (let i = 0; i < n; i++) {
      const [one] = this.open.splice(this.#random.below(this.open.length), 1);
      this.#bench.receipt(one as Attempt);
    }
    this.#bench.settle();
    this.look();
    return true;
  }
}

const CASES = KINDS.flatMap((kind) =>
  [1, 2, 7].flatMap((limit) => [1, 2, 7, 200].map((capacity) => [kind, limit, capacity] as const)),
);

describe("under a limit", () => {
  test.each(CASES)(
    "of a %s, %i, capacity %i: one task waits for few grants behind 300",
    (kind, limit, capacity) => {
      const { bench, start } = fixtureWith(kind, limit, capacity);
      start("a", 300);
      const ends = new Ends(bench, limit);
      for (let i = 0; i < 10; i++) ends.some();
      start("b", 1);
      const before = ends.granted.length;
      ends.look();
      while (!ends.granted.includes("b") && ends.some());
      const behind = ends.granted.slice(before).indexOf("b");
      expect(behind).toBeGreaterThanOrEqual(0);
      expect(behind).toBeLessThan(5);
      expect(ends.open.length).toBeLessThanOrEqual(limit);
    },
  );

  test.each(CASES)("of a %s, %i, capacity %i: equal executions go on together", (kind, limit, capacity) => {
    const { bench, start } = fixtureWith(kind, limit, capacity);
    for (let i = 0; i < 6; i++) start(`e${i}`, 10);
    const ends = new Ends(bench, 1);
    while (ends.some());
    const last = Array.from({ length: 6 }, (_, i) => ends.granted.lastIndexOf(`e${i}`));
    expect(ends.granted).toHaveLength(60);
    expect(Math.max(...last) / Math.min(...last)).toBeLessThan(1.5);
  });

  test("a stream of new executions does not keep an old one from its turns", () => {
    const { bench, start } = fixtureWith("handler", 1, 20);
    start("old", 50);
    const ends = new Ends(bench, 1);
    for (let i = 0; i < 60; i++) {
      if (i % 2 === 0) start(`new${i}`, 1);
      ends.look();
      ends.some();
    }
    expect(ends.granted.filter((id) => id === "old").length).toBeGreaterThan(20);
  });

  test("one that cannot go holds nobody up: its execution is paused, or nobody serves it", () => {
    const bench = new NodeFixture({ projects: { default: { concurrency: 1 } } });
    bench.join("w1", ["w.a", "w.b"], { capacity: 20 });
    const tasks = [1, 2, 3];
    bench.start(bench.plan([phase("a", { tasks })], "one"), "e1");
    bench.settle();
    bench.start(bench.plan([phase("b", { tasks })], "two"), "e2");
    bench.settle();
    bench.start(bench.plan([phase("a", { tasks })], "one"), "e3");
    bench.settle();
    bench.control("pause", "e1");
    bench.settle();
    bench.holdsCommits = true;
    bench.receipt(bench.attempts()[0] as Attempt);
    bench.leave("w1");
    bench.join("w2", ["w.a"], { capacity: 20 });
    bench.holdsCommits = false;
    const order = bench.work().map(({ grant }) => grant.execution);
    expect(order).toEqual(["e3", "e3", "e3"]);
  });

  test("a value that changes counts from the next grant on, up and down", () => {
    const { bench, start } = fixtureWith("handler", 7, 200);
    start("a", 300);
    expect(new Ends(bench, 1).open).toHaveLength(7);
    start("b", 10, { concurrency: 2 });
    const ends = new Ends(bench, 1);
    ends.some();
    while (ends.open.length > 2) ends.some();
    for (let i = 0; i < 5; i++) {
      ends.some();
      expect(ends.open).toHaveLength(2);
    }
    start("c", 10, { concurrency: 5 });
    ends.look();
    expect(ends.open).toHaveLength(5);
  });
});

describe("priority", () => {
  const low = { priority: -10 };
  const high = { priority: 10 };
  const many = (n: number, more: object) =>
    phase("a", { tasks: Array.from({ length: n }, (_, i) => i), ...more });

  /** What was started between the first and the last attempt of the high one, with commits that take their time. */
  function lowAmongHigh(bench: NodeFixture): number {
    bench.holdsCommits = true;
    const random = new SeededRandom(7);
    const open: Attempt[] = [];
    const order: string[] = [];
    let seen = 0;
    for (let turn = 0; turn < 5_000 && !order.includes("end"); turn++) {
      bench.settle();
      const fresh = bench.attempts().slice(seen);
      seen += fresh.length;
      open.push(...fresh);
      order.push(...fresh.map(({ grant }) => grant.execution));
      if (random.chance(0.5) && bench.waiting.length > 0) bench.commit();
      else if (open.length > 0) {
        const [one] = open.splice(random.below(open.length), 1);
        bench.receipt(one as Attempt);
      } else if (bench.waiting.length === 0) break;
    }
    const first = order.indexOf("high");
    const last = order.lastIndexOf("high");
    expect(order.filter((id) => id === "high").length).toBe(60);
    expect(order.filter((id) => id === "low").length).toBe(300);
    return order.slice(first, last).filter((id) => id === "low").length;
  }

  test.each([1, 2, 10, 100])("is strict where commits take their time, capacity %i", (capacity) => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"], { capacity });
    bench.start(bench.plan([many(300, low)], "low"), "low");
    bench.settle();
    bench.start(bench.plan([many(60, high)], "high"), "high");
    bench.settle();
    expect(lowAmongHigh(bench)).toBe(0);
  });

  test("of what waits at its own limit, or has other workers, or only runs, holds nobody up", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"], { capacity: 3 });
    bench.start(bench.plan([many(5, { ...high, concurrency: 1 })], "limited"), "high");
    bench.start(bench.plan([phase("b", { ...high, tasks: [1, 2] })], "elsewhere"), "other");
    bench.settle();
    bench.start(bench.plan([many(5, low)], "low"), "low");
    bench.settle();
    expect(bench.attempts().map(({ grant }) => grant.execution)).toEqual(["high", "low", "low"]);
    // A signal makes both dirty; what they could not give out before, they cannot after it.
    bench.holdsCommits = true;
    bench.signal("high", "x");
    bench.signal("other", "x");
    bench.settle();
    bench.receipt(bench.attempts()[1] as Attempt);
    bench.settle();
    while (bench.waiting.length > 2) bench.commit();
    bench.receipt(bench.attempts()[2] as Attempt);
    bench.settle();
    expect(bench.attempts().length).toBeGreaterThanOrEqual(3);
    bench.holdsCommits = false;
    bench.settle();
    expect(bench.attempts().filter(({ grant }) => grant.execution === "low")).toHaveLength(4);
  });

  test("of another project holds nobody up", () => {
    const bench = new NodeFixture();
    bench.join("w1", ["w.a"], { capacity: 1 });
    bench.start(bench.plan([many(5, high)], "high"), "high", { project: "p" });
    bench.settle();
    bench.start(bench.plan([many(5, low)], "low"), "low", { project: "q" });
    bench.settle();
    bench.holdsCommits = true;
    bench.receipt(bench.attempts()[0] as Attempt);
    bench.settle();
    expect(bench.attempts().map(({ grant }) => grant.execution)).toEqual(["high", "low"]);
  });
});
