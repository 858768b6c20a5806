// Heartbeats and vouchers: the leases that they extend, and the answers to them.
import { expect, test } from "vitest";
import { claimed } from "../../../test/fixtures/engine/lease-fixture.ts";
import { type Attempt, NodeFixture, placeOf } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { UNKNOWN_WORKER } from "../../protocol/work.ts";

const SETTINGS = { claimLeaseMs: 30_000, sweepMs: 1_000, askMs: 3_000, suspectMs: 30_000 };

/** A bench with a remote worker that has begun the tasks of an execution. */
function begun(tasks: readonly unknown[]): { bench: NodeFixture; attempts: Attempt[] } {
  const bench = new NodeFixture(SETTINGS);
  bench.join("w1", ["w.a"], { local: false });
  bench.claim("w1", 10);
  bench.start(bench.plan([phase("a", { tasks })]), "e1");
  bench.settle();
  const attempts = bench.attempts();
  bench.started(...attempts);
  bench.sleep(300);
  return { bench, attempts };
}

const stops = (bench: NodeFixture) =>
  bench
    .of("cancel")
    .flatMap(({ worker, attempts, why }) =>
      attempts.flatMap((place) => place.attempts.map(({ task }) => `${worker} ${task} ${why}`)),
    );

test("a beat or a voucher of an earlier round keeps no lease of this one, though the attempts have one number", () => {
  const { fixture: bench, first } = claimed(phase("a", { tasks: [0] }), 1);
  const before = first[0] as Attempt;
  bench.control("cancel", "e1");
  bench.receipt(before, { status: "cancelled" });
  bench.settle();
  bench.control("retry", "e1");
  bench.claim("w1", 1);
  bench.settle();
  const [, now] = bench.attempts() as [Attempt, Attempt];
  expect([now.grant.round, now.item.attempt, now.item.claim]).toEqual([2, 1, 1]);
  bench.started(now);
  bench.settle();
  bench.outputs = [];
  const { number: task, attempt, claim } = before.item;
  for (let i = 0; i < 4; i++) {
    bench.sleep(10_000);
    bench.beat(before);
    const beats = [{ ...placeOf(before.grant), attempts: [{ task, attempt, claim }] }];
    bench.input({ kind: "worker-vouches", worker: "w1", beats });
    bench.settle();
  }
  expect(bench.events("e1", "tasks.lost")).toMatchObject([{ tasks: [0], attempts: [1] }]);
  expect(stops(bench).filter((stop) => stop === "w1 0 lost")).toHaveLength(5);
});

test("a cancel reaches what was adopted at once, and what shows itself later with its beat", () => {
  const { bench, attempts } = begun([0, 1, 2]);
  bench.restart();
  bench.beat(attempts[0] as Attempt);
  bench.control("cancel", "e1");
  bench.settle();
  expect(stops(bench)).toEqual(["w1 0 cancel"]);
  bench.beat(attempts[1] as Attempt);
  bench.settle();
  expect(stops(bench)).toEqual(["w1 0 cancel", "w1 1 cancel"]);
  for (const attempt of attempts.slice(0, 2)) bench.receipt(attempt, { status: "cancelled" });
  bench.settle();
  // The worker of the third attempt may still report.
  expect(bench.status("e1")).toBe("cancelling");
  bench.sleep(31_000);
  expect(bench.status("e1")).toBe("cancelled");
});

test("of a cancel that is not committed nobody is told by a beat", () => {
  const { bench, attempts } = begun([0]);
  bench.restart();
  bench.beat(attempts[0] as Attempt);
  bench.settle();
  bench.holdsCommits = true;
  bench.control("cancel", "e1");
  bench.settle();
  bench.beat(attempts[0] as Attempt);
  bench.settle();
  expect(stops(bench)).toEqual([]);
  bench.holdsCommits = false;
  bench.settle();
  expect(stops(bench)).toEqual(["w1 0 cancel"]);
});

test("where only the token speaks for an attempt, it is taken over for the worker that began it", () => {
  const { bench, attempts } = begun([0, 1]);
  const [first] = attempts as [Attempt];
  bench.restart();
  const at = { ...placeOf(first.grant), task: 0, attempt: 1, claim: 0 };
  expect(bench.node.holderOf(at)).toBe(null);
  bench.beat({ ...first, worker: UNKNOWN_WORKER });
  bench.settle();
  expect(bench.node.holderOf(at)).toEqual({ worker: "w1", isCancelled: false });
  bench.control("cancel", "e1");
  bench.settle();
  expect(bench.node.holderOf(at)).toEqual({ worker: "w1", isCancelled: true });
  expect(bench.node.holderOf({ ...at, round: 2 })).toBe(null);
  bench.receipt({ ...first, worker: UNKNOWN_WORKER }, { status: "cancelled" });
  bench.settle();
  expect(bench.node.holderOf(at)).toBe(null);
});

test("the word that an enumeration is over, said again, is a duplicate; that of an attempt which did not end it is stale", () => {
  const bench = new NodeFixture(SETTINGS);
  bench.join("w1", ["w.a", "w.list"], { local: false });
  bench.claim("w1", 10);
  bench.start(bench.plan([phase("a", { enumerate: { use: "w.list" } })]), "e1");
  bench.settle();
  const [listing] = bench.attempts() as [Attempt];
  bench.page(listing, 0, [1, 2]);
  bench.seal(listing, { total: 2 });
  bench.settle();
  const again = bench.seal(listing, { total: 2 });
  const other = bench.seal({ ...listing, item: { ...listing.item, attempt: 2 } }, { total: 2 });
  bench.settle();
  expect([bench.verdicts(again), bench.verdicts(other)]).toEqual([[["duplicate"]], [["stale"]]]);
});
