// Heartbeats and vouchers: the leases that they extend, and the answers to them.
import { expect, test } from "vitest";
import { claimed } from "../../../test/fixtures/engine/lease-fixture.ts";
import { type Attempt, NodeFixture, placeOf } from "../../../test/fixtures/engine/node-fixture.ts";
import { phase } from "../../../test/fixtures/kernel/kernel-run-fixture.ts";
import { UNKNOWN_WORKER } from "../../protocol/work.ts";

const SETTINGS = { claimLeaseMs: 30_000, sweepMs: 1_000, askMs: 3_000, suspectMs: 30_000 };

/** A fixture with a remote worker that has begun the tasks of an execution. */
function begun(tasks: readonly unknown[]): { fixture: NodeFixture; attempts: Attempt[] } {
  const fixture = new NodeFixture(SETTINGS);
  fixture.join("w1", ["w.a"], { local: false });
  fixture.claim("w1", 10);
  fixture.start(fixture.plan([phase("a", { tasks })]), "e1");
  fixture.settle();
  const attempts = fixture.attempts();
  fixture.started(...attempts);
  fixture.sleep(300);
  return { fixture, attempts };
}

const stops = (fixture: NodeFixture) =>
  fixture
    .of("cancel")
    .flatMap(({ worker, attempts, why }) =>
      attempts.flatMap((place) => place.attempts.map(({ task }) => `${worker} ${task} ${why}`)),
    );

test("a beat or a voucher of an earlier round keeps no lease of this one, though the attempts have one number", () => {
  const { fixture, first } = claimed(phase("a", { tasks: [0] }), 1);
  const before = first[0] as Attempt;
  fixture.control("cancel", "e1");
  fixture.receipt(before, { status: "cancelled" });
  fixture.settle();
  fixture.control("retry", "e1");
  fixture.claim("w1", 1);
  fixture.settle();
  const [, now] = fixture.attempts() as [Attempt, Attempt];
  expect([now.grant.round, now.item.attempt, now.item.claim]).toEqual([2, 1, 1]);
  fixture.started(now);
  fixture.settle();
  fixture.outputs = [];
  const { number: task, attempt, claim } = before.item;
  for (let i = 0; i < 4; i++) {
    fixture.sleep(10_000);
    fixture.beat(before);
    const beats = [{ ...placeOf(before.grant), attempts: [{ task, attempt, claim }] }];
    fixture.input({ kind: "worker-vouches", worker: "w1", beats });
    fixture.settle();
  }
  expect(fixture.events("e1", "tasks.lost")).toMatchObject([{ tasks: [0], attempts: [1] }]);
  expect(stops(fixture).filter((stop) => stop === "w1 0 lost")).toHaveLength(5);
});

test("a cancel reaches what was adopted at once, and what shows itself later with its beat", () => {
  const { fixture, attempts } = begun([0, 1, 2]);
  fixture.restart();
  fixture.beat(attempts[0] as Attempt);
  fixture.control("cancel", "e1");
  fixture.settle();
  expect(stops(fixture)).toEqual(["w1 0 cancel"]);
  fixture.beat(attempts[1] as Attempt);
  fixture.settle();
  expect(stops(fixture)).toEqual(["w1 0 cancel", "w1 1 cancel"]);
  for (const attempt of attempts.slice(0, 2)) fixture.receipt(attempt, { status: "cancelled" });
  fixture.settle();
  // The worker of the third attempt may still report.
  expect(fixture.status("e1")).toBe("cancelling");
  fixture.sleep(31_000);
  expect(fixture.status("e1")).toBe("cancelled");
});

test("of a cancel that is not committed nobody is told by a beat", () => {
  const { fixture, attempts } = begun([0]);
  fixture.restart();
  fixture.beat(attempts[0] as Attempt);
  fixture.settle();
  fixture.holdsCommits = true;
  fixture.control("cancel", "e1");
  fixture.settle();
  fixture.beat(attempts[0] as Attempt);
  fixture.settle();
  expect(stops(fixture)).toEqual([]);
  fixture.holdsCommits = false;
  fixture.settle();
  expect(stops(fixture)).toEqual(["w1 0 cancel"]);
});

test("where only the token speaks for an attempt, it is taken over for the worker that began it", () => {
  const { fixture, attempts } = begun([0, 1]);
  const [first] = attempts as [Attempt];
  fixture.restart();
  const at = { ...placeOf(first.grant), task: 0, attempt: 1, claim: 0 };
  expect(fixture.node.holderOf(at)).toBe(null);
  fixture.beat({ ...first, worker: UNKNOWN_WORKER });
  fixture.settle();
  expect(fixture.node.holderOf(at)).toEqual({ worker: "w1", isCancelled: false });
  fixture.control("cancel", "e1");
  fixture.settle();
  expect(fixture.node.holderOf(at)).toEqual({ worker: "w1", isCancelled: true });
  expect(fixture.node.holderOf({ ...at, round: 2 })).toBe(null);
  fixture.receipt({ ...first, worker: UNKNOWN_WORKER }, { status: "cancelled" });
  fixture.settle();
  expect(fixture.node.holderOf(at)).toBe(null);
});

test("the word that an enumeration is over, said again, is a duplicate; that of an attempt which did not end it is stale", () => {
  const fixture = new NodeFixture(SETTINGS);
  fixture.join("w1", ["w.a", "w.list"], { local: false });
  fixture.claim("w1", 10);
  fixture.start(fixture.plan([phase("a", { enumerate: { use: "w.list" } })]), "e1");
  fixture.settle();
  const [listing] = fixture.attempts() as [Attempt];
  fixture.page(listing, 0, [1, 2]);
  fixture.seal(listing, { total: 2 });
  fixture.settle();
  const again = fixture.seal(listing, { total: 2 });
  const other = fixture.seal({ ...listing, item: { ...listing.item, attempt: 2 } }, { total: 2 });
  fixture.settle();
  expect([fixture.verdicts(again), fixture.verdicts(other)]).toEqual([[["duplicate"]], [["stale"]]]);
});
