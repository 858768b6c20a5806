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
function beatFor(fixture: NodeFixture, ms: number, ...attempts: Attempt[]): void {
  for (let t = 0; t < ms; t += 10_000) {
    for (const attempt of attempts) fixture.beat(attempt);
    fixture.sleep(10_000);
  }
}

describe("a claim", () => {
  test("is given only to a remote worker that asks, and only as many as it asks for", () => {
    const { fixture, first } = claimed(tasks(10), 3);
    expect(first).toHaveLength(3);
    fixture.receipt(first[0] as Attempt);
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(3);
    fixture.claim("w1", 1);
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(4);
  });

  test("of one task by two workers: exactly one gets it", () => {
    const fixture = new NodeFixture(SETTINGS);
    for (const worker of ["w1", "w2"]) {
      fixture.join(worker, ["w.a"], { local: false });
      fixture.claim(worker, 5);
    }
    fixture.start(fixture.plan([phase("a")]), "e1");
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(1);
  });

  test("that never starts goes back after its lease, burns nothing, and is told to stop", () => {
    const { fixture, first } = claimed(tasks(1), 1);
    fixture.sleep(29_999);
    expect(fixture.of("cancel")).toHaveLength(0);
    fixture.claim("w1", 1);
    fixture.sleep(6_000);
    const [one, two] = fixture.attempts();
    expect(fixture.of("cancel")).toMatchObject([{ worker: "w1", why: "lost" }]);
    expect(two?.item).toMatchObject({ number: 0, attempt: 1 });
    expect(two?.item.claim).not.toBe(one?.item.claim);
    expect(fixture.events("e1", "tasks.lost")).toHaveLength(0);
    fixture.receipt(two as Attempt);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
    expect(first).toHaveLength(1);
  });

  test("that never starts, because its code blocks its worker, uses up the crash budget with one claim more", () => {
    const { fixture } = claimed(tasks(1, { retry: { crashes: 2 } }), 1);
    for (let i = 0; i < 6; i++) {
      fixture.claim("w1", 1);
      fixture.sleep(70_000);
    }
    expect(fixture.attempts()).toHaveLength(3);
    expect(fixture.events("e1", "tasks.lost")).toHaveLength(2);
    expect(fixture.status("e1")).toBe("failed");
  });

  test("that lapsed and failed late says nothing that counts; done late counts", () => {
    const { fixture, first } = claimed(tasks(2), 2);
    fixture.claim("w1", 2);
    fixture.sleep(36_000);
    const again = fixture.attempts().slice(2);
    expect(again).toHaveLength(2);
    const late = [fixture.receipt(first[0] as Attempt, fatal), fixture.receipt(first[1] as Attempt)];
    fixture.settle();
    expect(late.map((report) => fixture.verdicts(report)?.[0]?.[0])).toEqual(["stale", "accepted"]);
    expect(fixture.status("e1")).toBe("running");
    expect(fixture.of("cancel").at(-1)).toMatchObject({
      attempts: [{ attempts: [{ task: 1 }] }],
      why: "cancel",
    });
    fixture.receipt(again[0] as Attempt);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
  });

  test("that starts in time is kept", () => {
    const { fixture, first } = claimed(tasks(1));
    fixture.sleep(29_000);
    fixture.started(...first);
    fixture.sleep(20_000);
    expect(fixture.of("cancel")).toHaveLength(0);
  });
});

describe("a started attempt", () => {
  test("that misses its heartbeats is lost within the heartbeat and a sweep, and runs again", () => {
    const { fixture, first } = claimed(tasks(1));
    fixture.started(...first);
    fixture.sleep(29_000);
    expect(fixture.events("e1", "tasks.lost")).toHaveLength(0);
    fixture.sleep(7_000);
    expect(fixture.events("e1", "tasks.lost")).toMatchObject([
      { tasks: [0], attempts: [1], workers: ["w1"] },
    ]);
    expect(fixture.of("cancel")).toMatchObject([{ worker: "w1", why: "lost" }]);
    expect(fixture.attempts().at(-1)?.item).toMatchObject({ number: 0, attempt: 2 });
  });

  test("that beats is kept for as long as it likes", () => {
    const { fixture, first } = claimed(tasks(1));
    fixture.started(...first);
    beatFor(fixture, 600_000, first[0] as Attempt);
    expect(fixture.events("e1", "tasks.lost")).toHaveLength(0);
    fixture.receipt(first[0] as Attempt);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
  });

  test("with a heartbeat of its own is lost by that", () => {
    const { fixture, first } = claimed(tasks(1, { heartbeat: "5m" }));
    fixture.started(...first);
    fixture.sleep(290_000);
    expect(fixture.events("e1", "tasks.lost")).toHaveLength(0);
    fixture.sleep(20_000);
    expect(fixture.events("e1", "tasks.lost")).toHaveLength(1);
  });

  test("that is lost four times is a dead letter, and its neighbours are done", () => {
    const { fixture } = claimed(tasks(3, { tolerate: 1 }));
    for (let i = 0; i < 6; i++) {
      fixture.claim("w1", 10);
      fixture.settle();
      for (const attempt of fixture.attempts().slice(-3)) {
        if (attempt.item.number === 1) fixture.started(attempt);
        else fixture.receipt(attempt);
      }
      fixture.sleep(40_000);
    }
    expect(fixture.status("e1")).toBe("done");
    const settled = fixture
      .events("e1", "tasks.settled")
      .flatMap(({ tasks, statuses, reasons }) =>
        tasks.map((task, i) => `${task} ${statuses[i]} ${reasons[i]}`),
      );
    expect(settled.sort()).toEqual(["0 done null", "1 failed crashes", "2 done null"]);
  });

  test("that was lost and says done settles the task, and the newer attempt is told to stop", () => {
    const { fixture, first } = claimed(tasks(1));
    fixture.started(...first);
    fixture.sleep(40_000);
    const newer = fixture.attempts().at(-1) as Attempt;
    expect(newer.item.attempt).toBe(2);
    const report = fixture.receipt(first[0] as Attempt);
    fixture.settle();
    expect(fixture.verdicts(report)).toEqual([["accepted"]]);
    expect(fixture.status("e1")).toBe("done");
    expect(fixture.of("cancel").at(-1)).toMatchObject({
      attempts: [{ attempts: [{ task: 0, attempt: 2 }] }],
    });
    const second = fixture.receipt(newer);
    fixture.settle();
    expect(fixture.verdicts(second)?.[0]?.[0]).toBe("gone");
    expect(fixture.events("e1", "tasks.settled")).toHaveLength(1);
  });

  test("that was lost and says failed is recorded only", () => {
    const { fixture, first } = claimed(tasks(1));
    fixture.started(...first);
    fixture.sleep(40_000);
    const report = fixture.receipt(first[0] as Attempt, fatal);
    fixture.settle();
    expect(fixture.verdicts(report)).toEqual([["late"]]);
    expect(fixture.events("e1", "tasks.late")).toMatchObject([{ statuses: ["failed"], accepted: [false] }]);
    fixture.receipt(fixture.attempts().at(-1) as Attempt);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
  });

  test("whose receipt came twice is counted once, and both are acknowledged", () => {
    const { fixture, first } = claimed(tasks(2));
    const reports = [fixture.receipt(first[0] as Attempt), fixture.receipt(first[0] as Attempt)];
    fixture.settle();
    expect(reports.map((report) => fixture.verdicts(report)?.[0]?.[0])).toEqual(["accepted", "duplicate"]);
    expect(fixture.events("e1", "tasks.settled")).toHaveLength(1);
  });

  test("whose beat has no lease is told that it is lost", () => {
    const { fixture, first } = claimed(tasks(1));
    fixture.started(...first);
    fixture.sleep(40_000);
    const before = fixture.of("cancel").length;
    fixture.beat(first[0] as Attempt);
    fixture.settle();
    expect(fixture.of("cancel").slice(before)).toMatchObject([{ worker: "w1", why: "lost" }]);
  });

  test("of a worker that joins again under its id is kept", () => {
    const { fixture, first } = claimed(tasks(3), 2);
    fixture.started(...first);
    fixture.settle();
    fixture.join("w1", ["w.a"], { local: false, capacity: 3 });
    fixture.claim("w1", 5);
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(3);
    for (const attempt of fixture.attempts()) fixture.receipt(attempt);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
  });
});

describe("an enumeration", () => {
  const listing = phase("a", { enumerate: { use: "w.a" } });

  test("that goes silent is lost; the next attempt gets what is journaled", () => {
    const { fixture, first } = claimed(listing);
    const one = first[0] as Attempt;
    fixture.page(one, 0, ["x", "y"]);
    fixture.settle();
    fixture.claim("w1", 10);
    fixture.sleep(40_000);
    expect(fixture.events("e1", "handler.lost")).toMatchObject([{ attempt: 1, worker: "w1" }]);
    const again = fixture.attempts().findLast(({ grant }) => grant.do === "enumerate") as Attempt;
    expect(again.item.attempt).toBe(2);
    expect(again.grant.resume).toMatchObject({ count: 2, last: '"y"' });
    const stale = [fixture.page(one, 2, ["late"]), fixture.seal(one)];
    fixture.settle();
    expect(stale.map((report) => fixture.verdicts(report)?.[0]?.[0])).toEqual(["stale", "stale"]);
    fixture.page(again, 2, ["z"]);
    fixture.seal(again, { total: 3 });
    fixture.settle();
    expect(fixture.events("e1", "handler.enumerated")).toMatchObject([{ total: 3 }]);
  });

  test("is not given out twice at the same time", () => {
    const { fixture } = claimed(listing);
    fixture.join("w2", ["w.a"], { local: false });
    fixture.claim("w2", 10);
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(1);
  });

  test("waits for its retry time", () => {
    const { fixture, first } = claimed(listing);
    fixture.seal(first[0] as Attempt, { ...failed, retryAfterMs: 60_000 });
    fixture.claim("w1", 10);
    fixture.sleep(59_000);
    expect(fixture.attempts()).toHaveLength(1);
    fixture.sleep(1_000);
    expect(fixture.attempts()).toHaveLength(2);
  });
});

test("a worker that leaves is given nothing any more, and what it held is lost in time", () => {
  const { fixture, first } = claimed(tasks(4), 2);
  fixture.started(...first);
  fixture.settle();
  fixture.input({ kind: "worker-left", worker: "w1" });
  fixture.join("w2", ["w.a"], { local: false });
  fixture.claim("w2", 10);
  fixture.settle();
  expect(fixture.attempts("w2").map(({ item }) => item.number)).toEqual([2, 3]);
  fixture.claim("w2", 10);
  fixture.sleep(40_000);
  expect(new Set(fixture.attempts("w2").map(({ item }) => item.number))).toEqual(new Set([0, 1, 2, 3]));
  expect(fixture.attempts("w1")).toHaveLength(2);
});

test("closing stops grants; what is open may still end", () => {
  const { fixture, first } = claimed(tasks(4), 2);
  fixture.input({ kind: "closing" });
  fixture.claim("w1", 10);
  expect(fixture.node.openLeases).toBe(2);
  for (const attempt of first) fixture.receipt(attempt);
  fixture.settle();
  expect(fixture.attempts()).toHaveLength(2);
  expect(fixture.node.openLeases).toBe(0);
  expect(fixture.events("e1", "tasks.settled").flatMap((event) => event.tasks)).toHaveLength(2);
});
