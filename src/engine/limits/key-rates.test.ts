// Rates by key, and rates that are spread: within bounds in any window, in bounded memory, over restarts and nodes.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { PermitFixture } from "../../../test/fixtures/engine/permit-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { Limits, rateName } from "./limits.ts";
import { RateWindow, windowOf } from "./rate-window.ts";

fc.configureGlobal({ seed: 1 });

/** The most starts in any interval of this length. */
function most(times: readonly number[], ms: number): number {
  let first = 0;
  let max = 0;
  for (const [i, time] of times.entries()) {
    while ((times[first] as number) <= time - ms) first++;
    max = Math.max(max, i - first + 1);
  }
  return max;
}

/** Starts as often as the window allows, where a timer is late by the next of these delays. */
function startAll(
  window: RateWindow,
  limit: number,
  { n, late }: { n: number; late: readonly number[] },
): number[] {
  const times: number[] = [];
  let now = 1_000;
  for (let i = 0; times.length < n; i++) {
    window.expire(now);
    while (window.used < limit && times.length < n) {
      window.add(now);
      times.push(now);
    }
    now = window.nextAt() + (late[i % late.length] ?? 0);
  }
  return times;
}

describe("a rate that is spread", () => {
  const rates = fc.record({
    limit: fc.integer({ min: 1, max: 2_000 }),
    per: fc.constantFrom(500, 1_000, 60_000),
    late: fc.array(fc.nat(3), { minLength: 1, maxLength: 5 }),
  });

  test("has no window with more than its limit, but for one part of it, however late timers are", () => {
    fc.assert(
      fc.property(rates, ({ limit, per, late }) => {
        const rate = windowOf({ limit, per, spread: true }, true);
        const times = startAll(new RateWindow(rate), rate.limit, { n: Math.min(3 * limit, 2_000), late });
        expect(most(times, per)).toBeLessThanOrEqual(limit + rate.limit);
        expect(most(times, 0.5 * rate.per - 2)).toBeLessThanOrEqual(rate.limit);
      }),
    );
  });

  test("loses nothing to a clock of milliseconds or to timers that are a little late", () => {
    for (const limit of [3, 7, 70, 99, 600]) {
      const rate = windowOf({ limit, per: 1_000, spread: true }, true);
      const times = startAll(new RateWindow(rate), rate.limit, { n: 10 * limit, late: [0, 1, 1, 0] });
      const seconds = ((times.at(-1) as number) - 1_000) / 1_000;
      expect(seconds, `${limit} in a second`).toBeLessThanOrEqual(10.02);
    }
  });

  test("keeps its rate on a busy machine, whose timers are late by up to half of a window", () => {
    const rate = windowOf({ limit: 10, per: 1_000, spread: true }, true);
    const times = startAll(new RateWindow(rate), rate.limit, { n: 101, late: [43, 0, 50, 12, 38] });
    expect(times.at(-1) as number).toBeLessThanOrEqual((times[0] as number) + 10_050);
    expect(most(times, 1_000)).toBeLessThanOrEqual(11);
  });

  test("is one start at a time up to a hundred a second, and groups of ten milliseconds above that", () => {
    expect(windowOf({ limit: 10, per: 1_000, spread: true }, false)).toEqual({ limit: 1, per: 100 });
    expect(windowOf({ limit: 100, per: 1_000, spread: true }, false)).toEqual({ limit: 1, per: 10 });
    expect(windowOf({ limit: 5_000, per: 1_000, spread: true }, false)).toEqual({ limit: 50, per: 10 });
    expect(windowOf({ limit: 10, per: 1_000 }, true)).toEqual({ limit: 10, per: 1_000 });
  });

  test("counts a start that begins late from when it began", () => {
    const window = new RateWindow(windowOf({ limit: 10, per: 1_000, spread: true }, true));
    window.add(1_000);
    expect(window.move(1_000, 1_050)).toBe(true);
    window.expire(1_139);
    expect(window.used).toBe(1);
    window.expire(1_150);
    expect(window.used).toBe(0);
  });
});

describe("at a node, a rate by key", () => {
  const keyed = (keys: readonly string[]) => keys.map((k, i) => ({ k, i }));
  const spread = { key: "/k", ratePerKey: { limit: 2, per: "10s", spread: true } };

  /** Works until the time; gives the key of each attempt, with the second in which it was granted. */
  function workUntil(fixture: NodeFixture, ms: number): string[] {
    const from = fixture.now;
    const seen: string[] = [];
    for (;;) {
      for (const { item } of fixture.work())
        seen.push(`${(fixture.now - from) / 1_000}${(JSON.parse(item.task ?? "null") as { k: string }).k}`);
      const next = fixture.node.nextWakeAt();
      if (next > from + ms) return seen;
      fixture.now = Math.max(fixture.now, next);
    }
  }

  test("holds up no other key, and is not that of the handler", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 100 });
    const tasks = keyed(["a", "a", "a", "a", "b", "b", "c"]);
    fixture.start(
      fixture.plan([phase("a", { tasks, key: "/k", ratePerKey: { limit: 2, per: "10s" } })]),
      "e1",
    );
    expect(workUntil(fixture, 20_000)).toEqual(["0a", "0a", "0b", "0b", "0c", "10a", "10a"]);
    expect(fixture.status("e1")).toBe("done");
  });

  test("that is spread gives one start at a time, over all executions, in turn", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 100 });
    fixture.start(fixture.plan([phase("a", { tasks: keyed(["a", "a", "b"]), ...spread })]), "e1");
    fixture.start(fixture.plan([phase("a", { tasks: keyed(["a", "b"]), ...spread })]), "e2");
    expect(workUntil(fixture, 30_000)).toEqual(["0a", "0b", "5a", "5b", "10a"]);
    const ofA = fixture.attempts().filter(({ item }) => item.task?.includes('"a"') === true);
    expect(ofA.map(({ grant }) => grant.execution)).toEqual(["e1", "e2", "e1"]);
  });

  test("lets the next start begin as soon as its window allows, however short that is", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 100 });
    const ratePerKey = { limit: 20, per: "1s", spread: true };
    const tasks = keyed(["a", "a", "a", "b", "a", "b"]);
    fixture.start(fixture.plan([phase("a", { tasks, key: "/k", ratePerKey })]), "e1");
    expect(workUntil(fixture, 10_000)).toEqual(["0a", "0b", "0.05a", "0.05b", "0.1a", "0.15a"]);
  });

  test("says which key waits, and until when", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 100 });
    fixture.start(
      fixture.plan([phase("a", { tasks: keyed(["ann", "ann", "ann", "bob"]), ...spread })]),
      "e1",
    );
    fixture.work();
    fixture.now += 1_000;
    expect(fixture.inspect("e1").why).toBe(
      '"a" runs 0; 2 wait: the next one of the key "ann" waits 4 s because of its rate of 2 in 10 s, spread evenly.',
    );
  });

  test("works beside a limit by key: both hold", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 100 });
    const options = { key: "/k", concurrencyPerKey: 1, ratePerKey: { limit: 2, per: "10s" } };
    fixture.start(fixture.plan([phase("a", { tasks: keyed(["a", "a", "a", "a"]), ...options })]), "e1");
    // An attempt that does not end holds up the second one.
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(1);
    fixture.receipt(fixture.attempts()[0] as Attempt);
    expect(workUntil(fixture, 20_000)).toEqual(["0a", "10a", "10a"]);
    expect(fixture.status("e1")).toBe("done");
  });

  test.each([true, false])("is not exceeded over a restart (clean: %s)", (clean) => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 100 });
    const options = { key: "/k", ratePerKey: { limit: 1, per: "10s" } };
    fixture.start(fixture.plan([phase("a", { tasks: keyed(["a", "a"]), ...options })]), "e1");
    expect(fixture.work()).toHaveLength(1);
    fixture.sleep(5_000);
    fixture.restart({ clean });
    fixture.join("w1", ["w.a"], { capacity: 100 });
    fixture.sleep(4_999);
    expect(fixture.attempts()).toEqual([]);
    fixture.sleep(10_000);
    expect(fixture.attempts()).toHaveLength(1);
  });

  test("is forgotten when its key is no longer in use", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 10_000 });
    const tasks = keyed(Array.from({ length: 5_000 }, (_, i) => `k${i % 2_500}`));
    fixture.start(
      fixture.plan([phase("a", { tasks, key: "/k", ratePerKey: { limit: 1, per: "10s" } })]),
      "e1",
    );
    expect(fixture.work()).toHaveLength(2_500);
    expect([...fixture.node.state.limits.states()]).toHaveLength(2_500);
    expect(fixture.node.overview().limits).toHaveLength(1_000);
    expect(workUntil(fixture, 30_000)).toHaveLength(2_500);
    expect(fixture.status("e1")).toBe("done");
    expect([...fixture.node.state.limits.states()]).toEqual([]);
    expect(fixture.node.state.limits.nextUnblockAt()).toBe(Number.POSITIVE_INFINITY);
  });
});

test("rates of 100,000 keys take little memory while they count, and none after that", () => {
  const limits = new Limits();
  const at = { declaredAt: 0, usedUpAt: null };
  const rate = { limit: 5, per: 60_000, spread: true } as const;
  for (let i = 0; i < 100_000; i++) {
    const name = rateName(`p/u#k${i}`);
    limits.declareKeyRate(name, { rate, ...at, now: i });
    limits.start(name, { id: `e${i}/q/k${i}`, age: 0, priority: 0 }, i);
    limits.unblock(i);
  }
  // Only keys that started within a fifth of a minute, or a tenth of that longer, are known.
  expect([...limits.states()].length).toBeLessThanOrEqual(13_201);
  limits.unblock(200_000);
  expect([...limits.states()]).toEqual([]);
  expect(limits.nextUnblockAt()).toBe(Number.POSITIVE_INFINITY);
});

test.each([2, 3])(
  "over %i nodes a rate by key that is spread is not exceeded, and no start is lost",
  (nodes) => {
    const fixture = new PermitFixture(nodes, {}, 1);
    fixture.join(["w.a"], 10);
    const tasks = ["a", "a", "b", "a", "b", "c"].map((k, i) => ({ k, i }));
    const options = { key: "/k", ratePerKey: { limit: 2, per: "10s", spread: true } };
    for (let i = 0; i < nodes; i++)
      fixture.start(i, `e${i}`, (node) => node.plan([phase("a", { tasks, ...options })], "w"));
    const started = new Map<string, number[]>();
    const from = fixture.nodes[0]?.now ?? 0;
    for (let now = from; now < from + 200_000; now += 100) {
      for (const node of fixture.nodes) node.now = now;
      fixture.settle();
      for (const { attempt } of fixture.open) {
        const { k } = JSON.parse(attempt.item.task ?? "null") as { k: string };
        started.set(k, [...(started.get(k) ?? []), now]);
      }
      while (fixture.endSome());
    }
    expect([...started].map(([k, times]) => [k, times.length])).toEqual([
      ["a", 3 * nodes],
      ["b", 2 * nodes],
      ["c", nodes],
    ]);
    for (const times of started.values()) expect(most(times, 5_000)).toBe(1);
  },
);
