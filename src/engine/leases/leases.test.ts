// Leases of remote workers: claims that lapse, attempts that are lost, late words, cancel, drain (DESIGN 3.2).
import { describe, expect, test } from "vitest";
import { claimed, SETTINGS } from "../../../test/fixtures/engine/lease-fixture.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const tasks = (n: number, more: object = {}) =>
  phase("a", { tasks: Array.from({ length: n }, (_, i) => i), ...more });
const failed = { status: "failed", payload: "{}" } as const;

const fatal = { ...failed, fatal: true } as const;

/** Time passes while the worker beats for these attempts. */
function beatFor(bench: NodeFixture, ms: number, ...attempts: Attempt[]): void {
  for (let t = 0; t < ms; t += 10_000) {
    for (const attempt of attempts) bench.beat(attempt);
    bench.sleep(10_000);
  }
}

describe("a claim", () => {
  test("is given only to a remote worker that asks, and only as many as it asks for", () => {
    const { bench, first } = claimed(tasks(10), 3);
    expect(first).toHaveLength(3);
    bench.receipt(first[0] as Attempt);
    bench.settle();
    expect(bench.attempts()).toHaveLength(3);
    bench.claim("w1", 1);
    bench.settle();
    expect(bench.attempts()).toHaveLength(4);
  });

  test("of one task by two workers: exactly one gets it", () => {
    const bench = new NodeFixture(SETTINGS);
    for (const worker of ["w1", "w2"]) {
      bench.join(worker, ["w.a"], { local: false });
      bench.claim(worker, 5);
    }
    bench.start(bench.plan([phase("a")]), "e1");
    bench.settle();
    expect(bench.attempts()).toHaveLength(1);
  });

  test("that never starts goes back after its lease, burns nothing, and is told to stop", () => {
    const { bench, first } = claimed(tasks(1), 1);
    bench.sleep(29_999);
    expect(bench.of("cancel")).toHaveLength(0);
    bench.claim("w1", 1);
    bench.sleep(6_000);
    const [one, two] = bench.attempts();
    expect(bench.of("cancel")).toMatchObject([{ worker: "w1", why: "lost" }]);
    expect(two?.item).toMatchObject({ number: 0, attempt: 1 });
    expect(two?.item.claim).not.toBe(one?.item.claim);
    expect(bench.events("e1", "tasks.lost")).toHaveLength(0);
    bench.receipt(two as Attempt);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
    expect(first).toHaveLength(1);
  });

  test("that lapsed and failed late says nothing that counts; done late counts", () => {
    const { bench, first } = claimed(tasks(2), 2);
    bench.claim("w1", 2);
    bench.sleep(36_000);
    const again = bench.attempts().slice(2);
    expect(again).toHaveLength(2);
    const late = [bench.receipt(first[0] as Attempt, fatal), bench.receipt(first[1] as Attempt)];
    bench.settle();
    expect(late.map((report) => bench.verdicts(report)?.[0]?.[0])).toEqual(["stale", "accepted"]);
    expect(bench.status("e1")).toBe("running");
    expect(bench.of("cancel").at(-1)).toMatchObject({
      attempts: [{ attempts: [{ task: 1 }] }],
      why: "cancel",
    });
    bench.receipt(again[0] as Attempt);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });

  test("that starts in time is kept", () => {
    const { bench, first } = claimed(tasks(1));
    bench.sleep(29_000);
    bench.started(...first);
    bench.sleep(20_000);
    expect(bench.of("cancel")).toHaveLength(0);
  });
});

describe("a started attempt", () => {
  test("that misses its heartbeats is lost within the heartbeat and a sweep, and runs again", () => {
    const { bench, first } = claimed(tasks(1));
    bench.started(...first);
    bench.sleep(29_000);
    expect(bench.events("e1", "tasks.lost")).toHaveLength(0);
    bench.sleep(7_000);
    expect(bench.events("e1", "tasks.lost")).toMatchObject([{ tasks: [0], attempts: [1], workers: ["w1"] }]);
    expect(bench.of("cancel")).toMatchObject([{ worker: "w1", why: "lost" }]);
    expect(bench.attempts().at(-1)?.item).toMatchObject({ number: 0, attempt: 2 });
  });

  test("that beats is kept for as long as it likes", () => {
    const { bench, first } = claimed(tasks(1));
    bench.started(...first);
    beatFor(bench, 600_000, first[0] as Attempt);
    expect(bench.events("e1", "tasks.lost")).toHaveLength(0);
    bench.receipt(first[0] as Attempt);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });

  test("with a heartbeat of its own is lost by that", () => {
    const { bench, first } = claimed(tasks(1, { heartbeat: "5m" }));
    bench.started(...first);
    bench.sleep(290_000);
    expect(bench.events("e1", "tasks.lost")).toHaveLength(0);
    bench.sleep(20_000);
    expect(bench.events("e1", "tasks.lost")).toHaveLength(1);
  });

  test("that is lost four times is a dead letter, and its neighbours are done", () => {
    const { bench } = claimed(tasks(3, { tolerate: 1 }));
    for (let i = 0; i < 6; i++) {
      bench.claim("w1", 10);
      bench.settle();
      for (const attempt of bench.attempts().slice(-3)) {
        if (attempt.item.number === 1) bench.started(attempt);
        else bench.receipt(attempt);
      }
      bench.sleep(40_000);
    }
    expect(bench.status("e1")).toBe("done");
    const settled = bench
      .events("e1", "tasks.settled")
      .flatMap(({ tasks, statuses, reasons }) =>
        tasks.map((task, i) => `${task} ${statuses[i]} ${reasons[i]}`),
      );
    expect(settled.sort()).toEqual(["0 done null", "1 failed crashes", "2 done null"]);
  });

  test("that was lost and says done settles the task, and the newer attempt is told to stop", () => {
    const { bench, first } = claimed(tasks(1));
    bench.started(...first);
    bench.sleep(40_000);
    const newer = bench.attempts().at(-1) as Attempt;
    expect(newer.item.attempt).toBe(2);
    const report = bench.receipt(first[0] as Attempt);
    bench.settle();
    expect(bench.verdicts(report)).toEqual([["accepted"]]);
    expect(bench.status("e1")).toBe("done");
    expect(bench.of("cancel").at(-1)).toMatchObject({ attempts: [{ attempts: [{ task: 0, attempt: 2 }] }] });
    const second = bench.receipt(newer);
    bench.settle();
    expect(bench.verdicts(second)?.[0]?.[0]).toBe("gone");
    expect(bench.events("e1", "tasks.settled")).toHaveLength(1);
  });

  test("that was lost and says failed is recorded only", () => {
    const { bench, first } = claimed(tasks(1));
    bench.started(...first);
    bench.sleep(40_000);
    const report = bench.receipt(first[0] as Attempt, fatal);
    bench.settle();
    expect(bench.verdicts(report)).toEqual([["late"]]);
    expect(bench.events("e1", "tasks.late")).toMatchObject([{ statuses: ["failed"], accepted: [false] }]);
    bench.receipt(bench.attempts().at(-1) as Attempt);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });

  test("whose receipt came twice is counted once, and both are acknowledged", () => {
    const { bench, first } = claimed(tasks(2));
    const reports = [bench.receipt(first[0] as Attempt), bench.receipt(first[0] as Attempt)];
    bench.settle();
    expect(reports.map((report) => bench.verdicts(report)?.[0]?.[0])).toEqual(["accepted", "duplicate"]);
    expect(bench.events("e1", "tasks.settled")).toHaveLength(1);
  });

  test("whose beat has no lease is told that it is lost", () => {
    const { bench, first } = claimed(tasks(1));
    bench.started(...first);
    bench.sleep(40_000);
    const before = bench.of("cancel").length;
    bench.beat(first[0] as Attempt);
    bench.settle();
    expect(bench.of("cancel").slice(before)).toMatchObject([{ worker: "w1", why: "lost" }]);
  });

  test("of a worker that joins again under its id is kept", () => {
    const { bench, first } = claimed(tasks(3), 2);
    bench.started(...first);
    bench.settle();
    bench.join("w1", ["w.a"], { local: false, capacity: 3 });
    bench.claim("w1", 5);
    bench.settle();
    expect(bench.attempts()).toHaveLength(3);
    for (const attempt of bench.attempts()) bench.receipt(attempt);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });
});

describe("an enumeration", () => {
  const listing = phase("a", { enumerate: { use: "w.a" } });

  test("that goes silent is lost; the next attempt gets what is journaled", () => {
    const { bench, first } = claimed(listing);
    const one = first[0] as Attempt;
    bench.page(one, 0, ["x", "y"]);
    bench.settle();
    bench.claim("w1", 10);
    bench.sleep(40_000);
    expect(bench.events("e1", "handler.lost")).toMatchObject([{ attempt: 1, worker: "w1" }]);
    const again = bench.attempts().findLast(({ grant }) => grant.do === "enumerate") as Attempt;
    expect(again.item.attempt).toBe(2);
    expect(again.grant.resume).toMatchObject({ count: 2, last: '"y"' });
    const stale = [bench.page(one, 2, ["late"]), bench.seal(one)];
    bench.settle();
    expect(stale.map((report) => bench.verdicts(report)?.[0]?.[0])).toEqual(["stale", "stale"]);
    bench.page(again, 2, ["z"]);
    bench.seal(again, { total: 3 });
    bench.settle();
    expect(bench.events("e1", "handler.enumerated")).toMatchObject([{ total: 3 }]);
  });

  test("is not given out twice at the same time", () => {
    const { bench } = claimed(listing);
    bench.join("w2", ["w.a"], { local: false });
    bench.claim("w2", 10);
    bench.settle();
    expect(bench.attempts()).toHaveLength(1);
  });

  test("waits for its retry time", () => {
    const { bench, first } = claimed(listing);
    bench.seal(first[0] as Attempt, { ...failed, retryAfterMs: 60_000 });
    bench.claim("w1", 10);
    bench.sleep(59_000);
    expect(bench.attempts()).toHaveLength(1);
    bench.sleep(1_000);
    expect(bench.attempts()).toHaveLength(2);
  });
});

test("a worker that leaves is given nothing any more, and what it held is lost in time", () => {
  const { bench, first } = claimed(tasks(4), 2);
  bench.started(...first);
  bench.settle();
  bench.input({ kind: "worker-left", worker: "w1" });
  bench.join("w2", ["w.a"], { local: false });
  bench.claim("w2", 10);
  bench.settle();
  expect(bench.attempts("w2").map(({ item }) => item.number)).toEqual([2, 3]);
  bench.claim("w2", 10);
  bench.sleep(40_000);
  expect(new Set(bench.attempts("w2").map(({ item }) => item.number))).toEqual(new Set([0, 1, 2, 3]));
  expect(bench.attempts("w1")).toHaveLength(2);
});

test("closing stops grants; what is open may still end", () => {
  const { bench, first } = claimed(tasks(4), 2);
  bench.input({ kind: "closing" });
  bench.claim("w1", 10);
  expect(bench.node.openLeases).toBe(2);
  for (const attempt of first) bench.receipt(attempt);
  bench.settle();
  expect(bench.attempts()).toHaveLength(2);
  expect(bench.node.openLeases).toBe(0);
  expect(bench.events("e1", "tasks.settled").flatMap((event) => event.tasks)).toHaveLength(2);
});
