// Leases of executions that are cancelled, failing, paused or retried.
import { describe, expect, test } from "vitest";
import { claimed, SETTINGS } from "../../../test/fixtures/engine/lease-fixture.ts";
import { type Attempt, NodeFixture } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";

const tasks = (n: number, more: object = {}) =>
  phase("a", { tasks: Array.from({ length: n }, (_, i) => i), ...more });
const failed = { status: "failed", payload: "{}" } as const;

const fatal = { ...failed, fatal: true } as const;

describe("cancel, failing and pause", () => {
  test("cancel tells running attempts to stop, and ends when each has answered", () => {
    const { fixture, first } = claimed(tasks(3), 2);
    fixture.started(...first);
    fixture.settle();
    fixture.control("cancel", "e1");
    fixture.settle();
    expect(fixture.of("cancel").map(({ why, attempts }) => [why, attempts[0]?.attempts[0]?.task])).toEqual([
      ["cancel", 0],
      ["cancel", 1],
    ]);
    expect(fixture.status("e1")).toBe("cancelling");
    fixture.receipt(first[0] as Attempt, { status: "cancelled", payload: "{}" });
    fixture.settle();
    expect(fixture.status("e1")).toBe("cancelling");
    fixture.receipt(first[1] as Attempt);
    fixture.settle();
    expect(fixture.status("e1")).toBe("cancelled");
    expect(fixture.events("e1", "handler.finished")).toMatchObject([{ done: 1, failed: 0, cancelled: 2 }]);
  });

  test("cancel does not wait for ever: silent attempts are lost, claims lapse", () => {
    const { fixture, first } = claimed(tasks(3), 2);
    fixture.started(first[0] as Attempt);
    fixture.settle();
    fixture.control("cancel", "e1");
    fixture.sleep(60_000);
    expect(fixture.status("e1")).toBe("cancelled");
  });

  test("cancel before any claim: nothing is ever claimed", () => {
    const fixture = new NodeFixture(SETTINGS);
    fixture.start(fixture.plan([tasks(3)]), "e1");
    fixture.control("cancel", "e1");
    fixture.settle();
    fixture.join("w1", ["w.a"], { local: false });
    fixture.claim("w1", 5);
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(0);
    expect(fixture.status("e1")).toBe("cancelled");
  });

  test("failing tells the others to stop and drains before onError starts", () => {
    const fixture = new NodeFixture(SETTINGS);
    fixture.join("w1", ["w.a", "w.fix"], { local: false, capacity: 100 });
    fixture.claim("w1", 3);
    const phases = [
      { ...(tasks(5) as { name: string }), onError: "fix" },
      { name: "end", handlers: {}, final: true },
      phase("fix"),
    ];
    fixture.start(fixture.plan(phases), "e1");
    fixture.settle();
    const first = fixture.attempts();
    fixture.started(...first);
    fixture.receipt(first[0] as Attempt, fatal);
    fixture.claim("w1", 10);
    fixture.settle();
    expect(fixture.of("cancel").map(({ attempts }) => attempts[0]?.attempts[0]?.task)).toEqual([1, 2]);
    expect(fixture.attempts()).toHaveLength(3);
    fixture.receipt(first[1] as Attempt);
    fixture.settle();
    expect(fixture.attempts()).toHaveLength(3);
    fixture.receipt(first[2] as Attempt, { status: "cancelled", payload: "{}" });
    fixture.settle();
    expect(fixture.attempts().at(-1)?.grant.phase).toBe("fix");
    expect(fixture.events("e1", "handler.finished")[0]).toMatchObject({ done: 1, failed: 1, cancelled: 3 });
  });

  test("pause lets running attempts go on, starts none, and resume gives out the rest", () => {
    const { fixture, first } = claimed(tasks(5), 2);
    fixture.started(...first);
    fixture.control("pause", "e1");
    fixture.claim("w1", 10);
    fixture.settle();
    expect(fixture.of("cancel")).toHaveLength(0);
    fixture.receipt(first[0] as Attempt);
    fixture.receipt(first[1] as Attempt, { ...failed, retryAfterMs: 1_000 });
    fixture.sleep(10_000);
    expect(fixture.attempts()).toHaveLength(2);
    fixture.control("resume", "e1");
    fixture.settle();
    expect(
      fixture
        .attempts()
        .slice(2)
        .map(({ item }) => item.number),
    ).toEqual([1, 2, 3, 4]);
  });

  test("an attempt handed back is pending again and burns nothing", () => {
    const { fixture, first } = claimed(tasks(1), 1);
    fixture.claim("w1", 1);
    fixture.receipt(first[0] as Attempt, { status: "cancelled", payload: "{}" });
    fixture.settle();
    expect(fixture.attempts().at(-1)?.item).toMatchObject({ number: 0, attempt: 2 });
    expect(fixture.events("e1", "tasks.retrying")).toMatchObject([{ reasons: ["released"] }]);
  });
});

describe("rounds", () => {
  test("a word of an earlier round does not end a lease of this one", () => {
    const { fixture, first } = claimed(tasks(1), 1);
    const one = first[0] as Attempt;
    fixture.started(one);
    fixture.settle();
    fixture.control("cancel", "e1");
    fixture.settle();
    fixture.receipt(one, { status: "cancelled", payload: "{}" });
    fixture.settle();
    expect(fixture.status("e1")).toBe("cancelled");
    fixture.control("retry", "e1");
    fixture.claim("w1", 1);
    fixture.settle();
    const two = fixture.attempts().at(-1) as Attempt;
    expect(two.grant.round).toBe(2);
    fixture.started(two);
    fixture.settle();
    // The first receipt is sent again: its acknowledgement was lost.
    fixture.receipt(one, { status: "cancelled", payload: "{}" });
    fixture.settle();
    fixture.receipt(two, { ...failed, retryAfterMs: 0 });
    fixture.claim("w1", 1);
    fixture.sleep(1_000);
    const three = fixture.attempts().at(-1) as Attempt;
    expect(three.item.number).toBe(0);
    expect(three).not.toEqual(two);
    fixture.receipt(three);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
  });

  test("retry of a failed execution gives out only what is not done", () => {
    const { fixture, first } = claimed(tasks(3), 3);
    fixture.receipt(first[0] as Attempt);
    fixture.receipt(first[1] as Attempt, fatal);
    fixture.receipt(first[2] as Attempt);
    fixture.settle();
    expect(fixture.status("e1")).toBe("failed");
    fixture.control("retry", "e1");
    fixture.claim("w1", 10);
    fixture.settle();
    expect(
      fixture
        .attempts()
        .slice(3)
        .map(({ item }) => `${item.number}#${item.attempt}`),
    ).toEqual(["1#2"]);
    fixture.receipt(fixture.attempts().at(-1) as Attempt);
    fixture.settle();
    expect(fixture.status("e1")).toBe("done");
  });
});

describe("claims of one attempt have names of their own", () => {
  const names = (fixture: NodeFixture) =>
    fixture.attempts().map(({ item }) => `${item.attempt}.${item.claim}`);

  test("though a word of a claim that lapsed came while another was out", () => {
    const { fixture, first } = claimed(phase("a"), 1);
    for (const _ of [1, 2]) {
      fixture.claim("w1", 1);
      fixture.sleep(36_000);
      fixture.receipt(first[0] as Attempt, { status: "failed", payload: "{}" });
      fixture.settle();
    }
    // The second claim was recorded as a start, so its attempt is lost.
    expect(names(fixture)).toEqual(["1.0", "1.1", "2.0"]);
  });

  test("though the execution left memory in between", () => {
    const fixture = new NodeFixture({ claimLeaseMs: 30_000, sweepMs: 5_000, idleMax: 0 });
    fixture.start(fixture.plan([phase("a")]), "e1");
    for (const worker of ["w1", "w2", "w3"]) {
      fixture.join(worker, ["w.a"], { local: false });
      fixture.claim(worker, 1);
      fixture.settle();
      fixture.leave(worker);
      fixture.sleep(36_000);
      expect(fixture.node.residentCount).toBe(0);
    }
    const [one, ...others] = fixture.attempts();
    expect(others).toHaveLength(2);
    expect(new Set(names(fixture)).size).toBe(3);
    fixture.join("w4", ["w.a"], { local: false });
    fixture.claim("w4", 1);
    fixture.settle();
    fixture.started(fixture.attempts().at(-1) as Attempt);
    // A late receipt of the first attempt concerns only that attempt.
    fixture.receipt(one as Attempt, { status: "failed", payload: "{}", fatal: true });
    fixture.settle();
    expect(fixture.status("e1")).toBe("running");
  });
});

test("a retry whose claim was handed over and lapses is not given out before its time by an owner whose clock is behind", () => {
  const { fixture, first } = claimed(phase("a"), 1);
  fixture.receipt(first[0] as Attempt, { ...failed, retryAfterMs: 60_000 });
  fixture.claim("w1", 1);
  fixture.sleep(60_000);
  const until = fixture.now;
  expect(fixture.attempts().at(-1)?.item).toMatchObject({ attempt: 2 });
  const leases = [...(fixture.node.leaseTables() ?? [])].flatMap(([, table]) => table.leases);
  fixture.now -= 50_000;
  fixture.restart({ clean: true });
  fixture.node.takeOver(leases);
  fixture.join("w2", ["w.a"], { local: false });
  fixture.claim("w2", 1);
  fixture.sleep(40_000);
  expect(fixture.attempts()).toEqual([]);
  fixture.sleep(until - fixture.now);
  expect(fixture.attempts().map(({ item }) => item.attempt)).toEqual([2]);
});
