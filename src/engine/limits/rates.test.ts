// Rates and limits over many executions: never exceeded in any window, in the order of age, also after a restart.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { SeededRandom } from "../../std/random.ts";
import { RateWindow } from "./rate-window.ts";

fc.configureGlobal({ seed: 1 });

/** The most starts in any stretch of `per`. */
function most(times: readonly number[], per: number): number {
  return Math.max(0, ...times.map((t) => times.filter((u) => u >= t && u < t + per).length));
}

describe("a rate", () => {
  const starts = fc.array(fc.nat(30), { minLength: 20, maxLength: 80 });
  const rate = fc.record({ limit: fc.integer({ min: 1, max: 5 }), per: fc.integer({ min: 1, max: 50 }) });

  test("allows at most so many starts in any interval, and as many as that", () => {
    fc.assert(
      fc.property(rate, starts, ({ limit, per }, waits) => {
        const window = new RateWindow({ limit, per });
        const taken: number[] = [];
        let now = 1;
        for (const wait of waits) {
          now += wait;
          window.expire(now);
          expect(window.used).toBe(taken.filter((t) => t > now - per).length);
          if (window.used >= limit) continue;
          window.add(now);
          taken.push(now);
        }
        expect(most(taken, per)).toBeLessThanOrEqual(limit);
      }),
    );
  });

  test("that changes counts what it remembers by its new length", () => {
    const change = fc.tuple(rate, fc.array(fc.nat(10), { maxLength: 20 }));
    fc.assert(
      fc.property(fc.array(change, { maxLength: 5 }), (parts) => {
        const window = new RateWindow({ limit: 1, per: 1 });
        const taken: number[] = [];
        let now = 1;
        for (const [{ limit, per }, waits] of parts) {
          window.declare({ limit, per }, now);
          for (const wait of waits) {
            now += wait;
            window.expire(now);
            expect(window.used).toBe(taken.filter((t) => t > now - per).length);
            if (window.used >= limit) continue;
            window.add(now);
            taken.push(now);
          }
        }
      }),
    );
  });

  test("counts a start from when it is known to have begun", () => {
    const window = new RateWindow({ limit: 2, per: 100 });
    window.add(1_000);
    window.add(1_000);
    expect(window.move(1_000, 1_030)).toBe(true);
    window.expire(1_100);
    expect([window.used, window.nextAt()]).toEqual([1, 1_130]);
    window.expire(1_130);
    expect([window.used, window.move(1_000, 1_140)]).toEqual([0, false]);
  });

  test("moves each start that is known to have begun, and no other one in its place", () => {
    const window = new RateWindow({ limit: 3, per: 100 });
    window.add(1_000, 2);
    window.add(1_050);
    expect([window.move(1_000, 1_090), window.move(1_000, 1_090)]).toEqual([true, true]);
    window.expire(1_149);
    expect([window.used, window.nextAt()]).toEqual([3, 1_150]);
    // The first two have left the window: the third is not taken for one of them.
    const late = new RateWindow({ limit: 3, per: 100 });
    late.add(1_000);
    late.add(1_050);
    late.expire(1_100);
    expect([late.move(1_000, 1_120), late.nextAt()]).toEqual([false, 1_150]);
  });

  test("of a million in a day is never exceeded, and needs little memory", () => {
    const per = 86_400_000;
    const limit = 1_000_000;
    const window = new RateWindow({ limit, per });
    const random = new SeededRandom(1);
    const taken: { at: number; n: number }[] = [];
    let now = 0;
    let total = 0;
    while (now < 3 * per) {
      now += random.between(1, 200_000);
      window.expire(now);
      const n = Math.min(limit - window.used, random.between(1, 20_000));
      if (n > 0) window.add(now, n);
      if (n > 0) taken.push({ at: now, n });
      total += n;
      const within = taken.filter(({ at }) => at > now - per).reduce((sum, one) => sum + one.n, 0);
      expect(within).toBeLessThanOrEqual(limit);
    }
    // Buckets cost one part in a thousand at most.
    expect(total).toBeGreaterThan(2.9 * limit);
    expect(window.size).toBeLessThan(4_000);
  });
});

describe("at a node, a rate", () => {
  const LIMITED = { rate: { limit: 3, per: "10s" } };
  const tasks = (n: number) => Array.from({ length: n }, (_, i) => i);

  /** Works until everything is done; gives when each attempt was granted. */
  function workAll(fixture: NodeFixture, max = 200): number[] {
    const at: number[] = [];
    for (let i = 0; i < max; i++) {
      at.push(...fixture.work().map(() => fixture.now));
      const next = fixture.node.nextWakeAt();
      if (next === Number.POSITIVE_INFINITY || at.length >= max) return at;
      fixture.now = Math.max(fixture.now, next);
    }
    return at;
  }

  test("holds over all executions of a project, and wastes nothing", () => {
    const fixture = new NodeFixture({ timerHorizonMs: 1e12 });
    fixture.join("w1", ["w.a"], { capacity: 100 });
    const plan = fixture.plan([phase("a", { tasks: tasks(4), ...LIMITED })]);
    for (let i = 0; i < 4; i++) fixture.start(plan, `e${i}`);
    const at = workAll(fixture, 16).map((time) => time - 1_000_000);
    expect(at).toEqual([0, 0, 0, 10, 10, 10, 20, 20, 20, 30, 30, 30, 40, 40, 40, 50].map((s) => s * 1_000));
    for (let i = 0; i < 4; i++) expect(fixture.status(`e${i}`)).toBe("done");
  });

  test("is listed among the limits, with the starts that count now", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 100 });
    fixture.start(fixture.plan([phase("a", { tasks: tasks(3), ...LIMITED })]), "e1");
    expect(fixture.work()).toHaveLength(3);
    const listed = { name: "rate default/w.a", max: 3, waiting: 0, perMs: 10_000 };
    expect(fixture.node.overview().limits).toEqual([{ ...listed, held: 3 }]);
    // No task waits, so the node does not wake up for it.
    fixture.sleep(10_000);
    expect(fixture.node.overview().limits).toEqual([{ ...listed, held: 0 }]);
  });

  test("of one project is not that of another", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 100 });
    const plan = fixture.plan([phase("a", { tasks: tasks(4), ...LIMITED })]);
    fixture.start(plan, "e1", { project: "p" });
    fixture.start(plan, "e2", { project: "q" });
    expect(fixture.work()).toHaveLength(6);
  });

  test("serves the oldest execution first", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 100 });
    const plan = fixture.plan([phase("a", { rate: { limit: 1, per: "1s" } })]);
    for (let i = 0; i < 5; i++) {
      fixture.start(plan, `e${i}`);
      fixture.settle();
    }
    for (let i = 0; i < 5; i++) fixture.sleep(1_000);
    expect(fixture.attempts().map(({ grant }) => grant.execution)).toEqual(["e0", "e1", "e2", "e3", "e4"]);
  });

  test("counts attempts, whatever became of them", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 100 });
    fixture.start(fixture.plan([phase("a", { rate: { limit: 2, per: "10s" } })]), "e1");
    fixture.work(() => ({ status: "failed", payload: "{}", retryAfterMs: 0 }));
    expect(fixture.attempts()).toHaveLength(2);
    fixture.sleep(9_999);
    expect(fixture.attempts()).toHaveLength(2);
    fixture.sleep(1);
    expect(fixture.attempts()).toHaveLength(3);
  });

  test("on a store that is new holds nobody up", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"]);
    fixture.start(fixture.plan([phase("a", { rate: { limit: 1, per: "1h" } })]), "e1");
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(1);
  });

  test.each([true, false])("is not exceeded over a restart (clean: %s)", (clean) => {
    const fixture = new NodeFixture();
    const plan = fixture.plan([phase("a", { tasks: tasks(5), ...LIMITED })]);
    fixture.join("w1", ["w.a"], { capacity: 100 });
    fixture.start(plan, "e1");
    expect(fixture.work()).toHaveLength(3);
    fixture.sleep(5_000);
    fixture.restart({ clean });
    fixture.join("w1", ["w.a"], { capacity: 100 });
    fixture.sleep(4_999);
    expect(fixture.attempts()).toEqual([]);
    fixture.sleep(10_000);
    expect(fixture.attempts()).toHaveLength(2);
  });

  test("leaves others alone, and says why it waits", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a", "w.b"], { capacity: 100 });
    fixture.start(fixture.plan([phase("a", { tasks: tasks(5), ...LIMITED })]), "e1");
    fixture.work();
    fixture.start(fixture.plan([phase("b", { tasks: tasks(50) })], "other"), "e2");
    expect(fixture.work()).toHaveLength(50);
    expect(fixture.inspect("e1").why).toBe('"a" runs 0; 2 more wait 10 s because of the rate of 3 in 10 s.');
  });
});

describe("C14", () => {
  test("concurrency 1 with 3 queued: strictly one at a time, in the order of age", () => {
    const fixture = new NodeFixture();
    fixture.join("w1", ["w.a"], { capacity: 100 });
    const plan = fixture.plan([phase("a", { concurrency: 1 })]);
    for (let i = 0; i < 3; i++) {
      fixture.start(plan, `e${i}`);
      fixture.settle();
    }
    for (let i = 0; i < 3; i++) {
      expect(fixture.attempts().map(({ grant }) => grant.execution)).toEqual(
        ["e0", "e1", "e2"].slice(0, i + 1),
      );
      fixture.receipt(fixture.attempts().at(-1) as Attempt);
      fixture.settle();
    }
    expect(fixture.status("e2")).toBe("done");
  });

  test("in the order of age too where some came back from the store and others were never let go of", () => {
    for (const windowMax of [4, 16, 1_024]) {
      const fixture = new NodeFixture({ windowMax, idleMax: 2 });
      fixture.join("w1", ["w.a"], { capacity: 100 });
      const plan = fixture.plan([phase("a", { concurrency: 1 })]);
      const ids = Array.from({ length: 60 }, (_, i) => `e${i}`);
      for (const [i, id] of ids.entries()) {
        fixture.now++;
        fixture.start(plan, id);
        if (i % 7 === 6) fixture.settle();
      }
      fixture.settle();
      for (let i = 1; i < 60; i++) {
        fixture.receipt(fixture.attempts().at(-1) as Attempt);
        fixture.settle();
      }
      expect(fixture.attempts().map(({ grant }) => grant.execution)).toEqual(ids);
    }
  });

  test("in the order of age too after a restart", () => {
    const fixture = new NodeFixture();
    const plan = fixture.plan([phase("a", { concurrency: 1 })]);
    for (let i = 0; i < 6; i++) fixture.start(plan, `e${i}`);
    fixture.settle();
    fixture.restart({ clean: true });
    fixture.now++;
    fixture.start(plan, "e6");
    fixture.join("w1", ["w.a"], { capacity: 100 });
    const order = fixture.work().map(({ grant }) => grant.execution);
    expect(order).toEqual(["e0", "e1", "e2", "e3", "e4", "e5", "e6"]);
  });

  test("a project limit of 2 over two workflows: never more than 2, and never fewer while there is work", () => {
    const fixture = new NodeFixture({ projects: { acme: { concurrency: 2 } } });
    fixture.join("w1", ["w.a", "w.b"], { capacity: 100 });
    const tasks = [1, 2, 3, 4, 5];
    fixture.start(fixture.plan([phase("a", { tasks })], "one"), "e1", { project: "acme" });
    fixture.start(fixture.plan([phase("b", { tasks })], "two"), "e2", { project: "acme" });
    fixture.start(fixture.plan([phase("a", { tasks })], "one"), "free", { project: "other" });
    fixture.settle();
    const open = new Set<Attempt>();
    let seen = 0;
    const used = new Set<string>();
    for (;;) {
      const fresh = fixture.attempts().slice(seen);
      seen += fresh.length;
      for (const attempt of fresh) if (attempt.grant.execution !== "free") open.add(attempt);
      if (open.size === 0) break;
      expect(open.size).toBeLessThanOrEqual(2);
      expect(open.size).toBe(Math.min(2, 10 - (seen - 5 - open.size)));
      const [first] = open;
      used.add((first as Attempt).grant.use);
      open.delete(first as Attempt);
      fixture.receipt(first as Attempt);
      fixture.settle();
    }
    expect([fixture.status("e1"), fixture.status("e2")]).toEqual(["done", "done"]);
    expect([...used]).toEqual(["w.a", "w.b"]);
    expect(fixture.attempts().filter(({ grant }) => grant.execution === "free")).toHaveLength(5);
  });

  test("a project limit counts attempts that are adopted after a takeover, and none is given out beside them", () => {
    const fixture = new NodeFixture({ projects: { acme: { concurrency: 2 } }, suspectMs: 30_000 });
    const plan = fixture.plan([phase("a", { tasks: [1, 2, 3, 4] })]);
    fixture.join("w1", ["w.a"], { local: false, capacity: 100 });
    fixture.claim("w1", 10);
    fixture.start(plan, "e1", { project: "acme" });
    fixture.settle();
    const old = fixture.attempts();
    expect(old).toHaveLength(2);
    fixture.started(...old);
    fixture.settle();
    fixture.restart();
    fixture.join("w1", ["w.a"], { local: false, capacity: 100 });
    fixture.join("w2", ["w.a"], { local: false, capacity: 100 });
    fixture.claim("w2", 10);
    for (const attempt of old) fixture.beat(attempt);
    for (let i = 0; i < 12; i++) {
      fixture.sleep(10_000);
      for (const attempt of old) fixture.beat(attempt);
      fixture.settle();
    }
    expect(fixture.attempts()).toEqual([]);
    expect(fixture.node.overview().limits).toContainEqual(expect.objectContaining({ max: 2, held: 2 }));
    fixture.receipt(old[0] as Attempt);
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(1);
  });

  test("a project limit with a handler's limit: both hold", () => {
    const fixture = new NodeFixture({ projects: { acme: { concurrency: 3 } } });
    fixture.join("w1", ["w.a", "w.b"], { capacity: 100 });
    const handlers = {
      a: { use: "w.a", tasks: [1, 2, 3], concurrency: 1 },
      b: { use: "w.b", tasks: [1, 2, 3] },
    };
    fixture.start(fixture.plan([{ name: "p", handlers }]), "e1", { project: "acme" });
    fixture.settle();
    const uses = fixture.attempts().map(({ grant }) => grant.use);
    expect(uses.sort()).toEqual(["w.a", "w.b", "w.b"]);
    expect(fixture.inspect("e1").why).toContain(
      'because the limit of the project "acme" is reached: 3 of 3 in use.',
    );
  });
});

test.each([1, 2])("%i starts that wait for one commit count from when they go out", (limit) => {
  const fixture = new NodeFixture();
  const rate = { limit, per: "1s" };
  fixture.start(fixture.plan([phase("a", { tasks: [1, 2, 3, 4], rate })]), "e1");
  fixture.join("w", ["w.a"]);
  fixture.settle();
  fixture.restart();
  fixture.join("w", ["w.a"]);
  fixture.sleep(999);
  fixture.holdsCommits = true;
  fixture.sleep(1);
  expect(fixture.waiting).toHaveLength(1);
  fixture.now += 900;
  fixture.holdsCommits = false;
  fixture.settle();
  expect(fixture.attempts()).toHaveLength(limit);
  fixture.sleep(999);
  expect(fixture.attempts()).toHaveLength(limit);
  fixture.sleep(1);
  expect(fixture.attempts()).toHaveLength(2 * limit);
});
