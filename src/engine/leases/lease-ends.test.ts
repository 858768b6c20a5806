// Leases of what is cancelled, failing, paused or tried again.
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
    const { bench, first } = claimed(tasks(3), 2);
    bench.started(...first);
    bench.settle();
    bench.control("cancel", "e1");
    bench.settle();
    expect(bench.of("cancel").map(({ why, attempts }) => [why, attempts[0]?.attempts[0]?.task])).toEqual([
      ["cancel", 0],
      ["cancel", 1],
    ]);
    expect(bench.status("e1")).toBe("cancelling");
    bench.receipt(first[0] as Attempt, { status: "cancelled", payload: "{}" });
    bench.settle();
    expect(bench.status("e1")).toBe("cancelling");
    bench.receipt(first[1] as Attempt);
    bench.settle();
    expect(bench.status("e1")).toBe("cancelled");
    expect(bench.events("e1", "handler.finished")).toMatchObject([{ done: 1, failed: 0, cancelled: 2 }]);
  });

  test("cancel does not wait for ever: silent attempts are lost, claims lapse", () => {
    const { bench, first } = claimed(tasks(3), 2);
    bench.started(first[0] as Attempt);
    bench.settle();
    bench.control("cancel", "e1");
    bench.sleep(60_000);
    expect(bench.status("e1")).toBe("cancelled");
  });

  test("cancel before any claim: nothing is ever claimed", () => {
    const bench = new NodeFixture(SETTINGS);
    bench.start(bench.plan([tasks(3)]), "e1");
    bench.control("cancel", "e1");
    bench.settle();
    bench.join("w1", ["w.a"], { local: false });
    bench.claim("w1", 5);
    bench.settle();
    expect(bench.attempts()).toHaveLength(0);
    expect(bench.status("e1")).toBe("cancelled");
  });

  test("failing tells the others to stop and drains before onError starts", () => {
    const bench = new NodeFixture(SETTINGS);
    bench.join("w1", ["w.a", "w.fix"], { local: false, capacity: 100 });
    bench.claim("w1", 3);
    const phases = [
      { ...(tasks(5) as { name: string }), onError: "fix" },
      { name: "end", handlers: {}, final: true },
      phase("fix"),
    ];
    bench.start(bench.plan(phases), "e1");
    bench.settle();
    const first = bench.attempts();
    bench.started(...first);
    bench.receipt(first[0] as Attempt, fatal);
    bench.claim("w1", 10);
    bench.settle();
    expect(bench.of("cancel").map(({ attempts }) => attempts[0]?.attempts[0]?.task)).toEqual([1, 2]);
    expect(bench.attempts()).toHaveLength(3);
    bench.receipt(first[1] as Attempt);
    bench.settle();
    expect(bench.attempts()).toHaveLength(3);
    bench.receipt(first[2] as Attempt, { status: "cancelled", payload: "{}" });
    bench.settle();
    expect(bench.attempts().at(-1)?.grant.phase).toBe("fix");
    expect(bench.events("e1", "handler.finished")[0]).toMatchObject({ done: 1, failed: 1, cancelled: 3 });
  });

  test("pause lets running attempts go on, starts none, and resume gives out the rest", () => {
    const { bench, first } = claimed(tasks(5), 2);
    bench.started(...first);
    bench.control("pause", "e1");
    bench.claim("w1", 10);
    bench.settle();
    expect(bench.of("cancel")).toHaveLength(0);
    bench.receipt(first[0] as Attempt);
    bench.receipt(first[1] as Attempt, { ...failed, retryAfterMs: 1_000 });
    bench.sleep(10_000);
    expect(bench.attempts()).toHaveLength(2);
    bench.control("resume", "e1");
    bench.settle();
    expect(
      bench
        .attempts()
        .slice(2)
        .map(({ item }) => item.number),
    ).toEqual([1, 2, 3, 4]);
  });

  test("an attempt handed back is pending again and burns nothing", () => {
    const { bench, first } = claimed(tasks(1), 1);
    bench.claim("w1", 1);
    bench.receipt(first[0] as Attempt, { status: "cancelled", payload: "{}" });
    bench.settle();
    expect(bench.attempts().at(-1)?.item).toMatchObject({ number: 0, attempt: 2 });
    expect(bench.events("e1", "tasks.retrying")).toMatchObject([{ reasons: ["released"] }]);
  });
});

describe("rounds", () => {
  test("a word of an earlier round does not end a lease of this one", () => {
    const { bench, first } = claimed(tasks(1), 1);
    const one = first[0] as Attempt;
    bench.started(one);
    bench.settle();
    bench.control("cancel", "e1");
    bench.settle();
    bench.receipt(one, { status: "cancelled", payload: "{}" });
    bench.settle();
    expect(bench.status("e1")).toBe("cancelled");
    bench.control("retry", "e1");
    bench.claim("w1", 1);
    bench.settle();
    const two = bench.attempts().at(-1) as Attempt;
    expect(two.grant.round).toBe(2);
    bench.started(two);
    bench.settle();
    // The first receipt is sent again: its acknowledgement was lost.
    bench.receipt(one, { status: "cancelled", payload: "{}" });
    bench.settle();
    bench.receipt(two, { ...failed, retryAfterMs: 0 });
    bench.claim("w1", 1);
    bench.sleep(1_000);
    const three = bench.attempts().at(-1) as Attempt;
    expect(three.item.number).toBe(0);
    expect(three).not.toEqual(two);
    bench.receipt(three);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });

  test("retry of a failed execution gives out only what is not done", () => {
    const { bench, first } = claimed(tasks(3), 3);
    bench.receipt(first[0] as Attempt);
    bench.receipt(first[1] as Attempt, fatal);
    bench.receipt(first[2] as Attempt);
    bench.settle();
    expect(bench.status("e1")).toBe("failed");
    bench.control("retry", "e1");
    bench.claim("w1", 10);
    bench.settle();
    expect(
      bench
        .attempts()
        .slice(3)
        .map(({ item }) => `${item.number}#${item.attempt}`),
    ).toEqual(["1#2"]);
    bench.receipt(bench.attempts().at(-1) as Attempt);
    bench.settle();
    expect(bench.status("e1")).toBe("done");
  });
});

describe("claims of one attempt have names of their own", () => {
  const names = (bench: NodeFixture) => bench.attempts().map(({ item }) => `${item.attempt}.${item.claim}`);

  test("though a word of a claim that lapsed came while another was out", () => {
    const { bench, first } = claimed(phase("a"), 1);
    for (const _ of [1, 2]) {
      bench.claim("w1", 1);
      bench.sleep(36_000);
      bench.receipt(first[0] as Attempt, { status: "failed", payload: "{}" });
      bench.settle();
    }
    expect(names(bench)).toEqual(["1.0", "1.1", "1.2"]);
  });

  test("though the execution left memory in between", () => {
    const bench = new NodeFixture({ claimLeaseMs: 30_000, sweepMs: 5_000, idleMax: 0 });
    bench.start(bench.plan([phase("a")]), "e1");
    for (const worker of ["w1", "w2", "w3"]) {
      bench.join(worker, ["w.a"], { local: false });
      bench.claim(worker, 1);
      bench.settle();
      bench.leave(worker);
      bench.sleep(36_000);
      expect(bench.node.residentCount).toBe(0);
    }
    const [one, ...others] = bench.attempts();
    expect(others).toHaveLength(2);
    expect(new Set(names(bench)).size).toBe(3);
    bench.join("w4", ["w.a"], { local: false });
    bench.claim("w4", 1);
    bench.settle();
    bench.started(bench.attempts().at(-1) as Attempt);
    // Whoever slept through all that says something of its own attempt only.
    bench.receipt(one as Attempt, { status: "failed", payload: "{}", fatal: true });
    bench.settle();
    expect(bench.status("e1")).toBe("running");
  });
});

test("a retry whose claim was handed over and lapses is not given out before its time by an owner whose clock is behind", () => {
  const { bench, first } = claimed(phase("a"), 1);
  bench.receipt(first[0] as Attempt, { ...failed, retryAfterMs: 60_000 });
  bench.claim("w1", 1);
  bench.sleep(60_000);
  const until = bench.now;
  expect(bench.attempts().at(-1)?.item).toMatchObject({ attempt: 2 });
  const leases = [...(bench.node.leaseTables() ?? [])].flatMap(([, table]) => table.leases);
  bench.now -= 50_000;
  bench.restart({ clean: true });
  bench.node.takeOver(leases);
  bench.join("w2", ["w.a"], { local: false });
  bench.claim("w2", 1);
  bench.sleep(40_000);
  expect(bench.attempts()).toEqual([]);
  bench.sleep(until - bench.now);
  expect(bench.attempts().map(({ item }) => item.attempt)).toEqual([2]);
});
