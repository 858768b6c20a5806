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
  const fixture = new NodeFixture(isOfProject ? { projects: { default: { concurrency: limit } } } : {});
  fixture.join("w1", ["w.a"], { capacity });
  const options = {
    ...(kind === "handler" || kind === "batch" ? { concurrency: limit } : {}),
    ...(kind === "batch" ? { batch: 2 } : {}),
    ...(kind.startsWith("key") ? { key: "/k", concurrencyPerKey: limit } : {}),
  };
  const start = (id: string, n: number, more: object = {}) => {
    const tasks = Array.from({ length: n }, (_, i) => ({ k: "same", i }));
    fixture.start(fixture.plan([phase("a", { tasks, ...options, ...more })], `of-${n}`), id);
    fixture.settle();
  };
  return { fixture, start };
}

/** Ends open attempts in some order, one or several at a time, and lets the node go on. */
class Ends {
  readonly open: Attempt[] = [];
  readonly granted: string[] = [];
  readonly #fixture: NodeFixture;
  readonly #random: SeededRandom;
  #seen = 0;

  constructor(fixture: NodeFixture, seed: number) {
    this.#fixture = fixture;
    this.#random = new SeededRandom(seed);
    this.look();
  }

  look(): void {
    const fresh = this.#fixture.attempts().slice(this.#seen);
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
      this.#fixture.receipt(one as Attempt);
    }
    this.#fixture.settle();
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
      const { fixture, start } = fixtureWith(kind, limit, capacity);
      start("a", 300);
      const ends = new Ends(fixture, limit);
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
    const { fixture, start } = fixtureWith(kind, limit, capacity);
    for (let i = 0; i < 6; i++) start(`e${i}`, 10);
    const ends = new Ends(fixture, 1);
    while (ends.some());
    const last = Array.from({ length: 6 }, (_, i) => ends.granted.lastIndexOf(`e${i}`));
    expect(ends.granted).toHaveLength(60);
    expect(Math.max(...last) / Math.min(...last)).toBeLessThan(1.5);
  });

  test("a stream of new executions does not keep an old one from its turns", () => {
    const { fixture, start } = fixtureWith("handler", 1, 20);
    start("old", 50);
    const ends = new Ends(fixture, 1);
    for (let i = 0; i < 60; i++) {
      if (i % 2 === 0) start(`new${i}`, 1);
      ends.look();
      ends.some();
    }
    expect(ends.granted.filter((id) => id === "old").length).toBeGreaterThan(20);
  });

  test("one that cannot go holds nobody up: its execution is paused, or nobody serves it", () => {
    const fixture = new NodeFixture({ projects: { default: { concurrency: 1 } } });
    fixture.join("w1", ["w.a", "w.b"], { capacity: 20 });
    const tasks = [1, 2, 3];
    fixture.start(fixture.plan([phase("a", { tasks })], "one"), "e1");
    fixture.settle();
    fixture.start(fixture.plan([phase("b", { tasks })], "two"), "e2");
    fixture.settle();
    fixture.start(fixture.plan([phase("a", { tasks })], "one"), "e3");
    fixture.settle();
    fixture.control("pause", "e1");
    fixture.settle();
    fixture.holdsCommits = true;
    fixture.receipt(fixture.attempts()[0] as Attempt);
    fixture.leave("w1");
    fixture.join("w2", ["w.a"], { capacity: 20 });
    fixture.holdsCommits = false;
    const order = fixture.work().map(({ grant }) => grant.execution);
    expect(order).toEqual(["e3", "e3", "e3"]);
  });

  test("a value that changes counts from the next grant on, up and down", () => {
    const { fixture, start } = fixtureWith("handler", 7, 200);
    start("a", 300);
    expect(new Ends(fixture, 1).open).toHaveLength(7);
    start("b", 10, { concurrency: 2 });
    const ends = new Ends(fixture, 1);
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

  /** The number of attempts of low priority that start between the first and the last one of high priority, with slow commits. */
  function lowAmongHigh(fixture: NodeFixture): number {
    fixture.holdsCommits = true;
    const random = new SeededRandom(7);
    const open: Attempt[] = [];
    const order: string[] = [];
    let seen = 0;
    for (let turn = 0; turn < 5_000 && !order.includes("end"); turn++) {
      fixture.settle();
      const fresh = fixture.attempts().slice(seen);
      seen += fresh.length;
      open.push(...fresh);
      order.push(...fresh.map(({ grant }) => grant.execution));
      if (random.chance(0.5) && fixture.waiting.length > 0) fixture.commit();
      else if (open.length > 0) {
        const [one] = open.splice(random.below(open.length), 1);
        fixture.receipt(one as Attempt);
      } else if (fixture.waiting.length === 0) break;
    }
    const first = order.indexOf("high");
    const last = order.lastIndexOf("high");
    expect(order.filter((id) => id === "high").length).toBe(60);
    expect(order.filter((id) => id === "low").length).toBe(300);
    return order.slice(first, last).filter((id) => id === "low").length;
  }

  test.each([1, 2, 10, 100])("is strict where commits take their time, capacity %i", (capacity) => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity });
    fixture.start(fixture.plan([many(300, low)], "low"), "low");
    fixture.settle();
    fixture.start(fixture.plan([many(60, high)], "high"), "high");
    fixture.settle();
    expect(lowAmongHigh(fixture)).toBe(0);
  });

  test("of what waits at its own limit, or has other workers, or only runs, holds nobody up", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 3 });
    fixture.start(fixture.plan([many(5, { ...high, concurrency: 1 })], "limited"), "high");
    fixture.start(fixture.plan([phase("b", { ...high, tasks: [1, 2] })], "elsewhere"), "other");
    fixture.settle();
    fixture.start(fixture.plan([many(5, low)], "low"), "low");
    fixture.settle();
    expect(fixture.attempts().map(({ grant }) => grant.execution)).toEqual(["high", "low", "low"]);
    // A signal makes both executions dirty; tasks that could not be granted before still cannot.
    fixture.holdsCommits = true;
    fixture.signal("high", "x");
    fixture.signal("other", "x");
    fixture.settle();
    fixture.receipt(fixture.attempts()[1] as Attempt);
    fixture.settle();
    while (fixture.waiting.length > 2) fixture.commit();
    fixture.receipt(fixture.attempts()[2] as Attempt);
    fixture.settle();
    expect(fixture.attempts().length).toBeGreaterThanOrEqual(3);
    fixture.holdsCommits = false;
    fixture.settle();
    expect(fixture.attempts().filter(({ grant }) => grant.execution === "low")).toHaveLength(4);
  });

  test("of another project holds nobody up", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 1 });
    fixture.start(fixture.plan([many(5, high)], "high"), "high", { project: "p" });
    fixture.settle();
    fixture.start(fixture.plan([many(5, low)], "low"), "low", { project: "q" });
    fixture.settle();
    fixture.holdsCommits = true;
    fixture.receipt(fixture.attempts()[0] as Attempt);
    fixture.settle();
    expect(fixture.attempts().map(({ grant }) => grant.execution)).toEqual(["high", "low"]);
  });
});
