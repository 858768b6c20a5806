// How a node gives up partitions: to another node, because it cannot read their data, and when it leaves.
import { describe, expect, test } from "vitest";
import { A, ALL, B, OwnershipFixture, PARTITIONS } from "../../test/fixtures/cluster/ownership-fixture.ts";
import { placement } from "./ownership/placement.ts";

/** The partitions that belong to A in a cluster of A and B. */
const OF_A = ALL.filter((partition) => placement(PARTITIONS, [A, B])[partition] === A);
const OF_B = ALL.filter((partition) => !OF_A.includes(partition));

describe("giving up:", () => {
  test("nothing moves to a newcomer before members have been the same for 10 s; then clean", () => {
    const bench = OwnershipFixture.beside();
    expect(bench.peace(12_000)).toEqual([]);
    expect(bench.peace(3_000)).toEqual([{ kind: "yield", yield: 1, partitions: OF_B }]);
    expect(bench.node.view().yielding).toEqual(OF_B);
    expect(bench.owned).toEqual(ALL);
    expect(bench.input({ kind: "yielded", yield: 1 })).toEqual([
      { kind: "release", partitions: OF_B, clean: true },
    ]);
    expect(bench.owned).toEqual(OF_A);
    bench.set(OF_B, null, 1);
    expect(bench.input({ kind: "released" })).toEqual([]);
    expect(bench.peace(3_000)).toEqual([]);
  });

  test("a member that comes and goes keeps everything where it is", () => {
    const bench = OwnershipFixture.beside();
    for (const incarnation of ["b1", "b2", "b3"]) {
      bench.nodes = { a1: A, [incarnation]: B };
      expect(bench.peace(9_000)).toEqual([]);
    }
  });

  test("the next ones move when the last ones have been taken", () => {
    const bench = OwnershipFixture.beside({ yieldMax: 1 });
    bench.peace(12_000);
    const [first = -1, second = -1] = OF_B;
    expect(bench.peace(3_000)).toEqual([{ kind: "yield", yield: 1, partitions: [first] }]);
    expect(bench.peace(3_000)).toEqual([]);
    bench.input({ kind: "yielded", yield: 1 });
    bench.set([first], null, 1);
    bench.input({ kind: "released" });
    expect(bench.peace(3_000)).toEqual([]);
    bench.set([first], "b1", 2);
    expect(bench.peace(3_000)).toEqual([{ kind: "yield", yield: 2, partitions: [second] }]);
  });

  test("a release that failed is repeated, clean, if it had no effect", () => {
    const bench = OwnershipFixture.beside();
    bench.peace(15_000);
    bench.input({ kind: "yielded", yield: 1 });
    expect(bench.input({ kind: "call-failed" })).toEqual([{ kind: "renew" }]);
    expect(bench.renewed()).toEqual([{ kind: "release", partitions: OF_B, clean: true }]);
    bench.input({ kind: "call-failed" });
    bench.set(OF_B, null, 1);
    expect(bench.renewed()).toEqual([]);
  });

  test("what the engine could not hand over is given back as it is", () => {
    const bench = OwnershipFixture.beside();
    bench.peace(15_000);
    bench.now += 200;
    expect(bench.input({ kind: "yield-failed", yield: 1 })).toEqual([
      { kind: "engine-lost", partitions: OF_B, why: "the partition could not be handed over" },
      { kind: "renew" },
    ]);
    expect(bench.renewed()).toEqual([{ kind: "release", partitions: OF_B, clean: false }]);
  });

  test("an engine's late word about a former yield says nothing about the present one", () => {
    const bench = OwnershipFixture.beside();
    bench.peace(15_000);
    bench.tick(9_500);
    bench.nodes = { a1: A };
    expect(bench.renewed()).toContainEqual({ kind: "take", partitions: ALL });
    bench.taken(ALL, 2);
    bench.nodes = { a1: A, b1: B };
    bench.peace(12_000);
    expect(bench.peace(3_000)).toEqual([{ kind: "yield", yield: 2, partitions: OF_B }]);
    expect(bench.input({ kind: "yielded", yield: 1 })).toEqual([]);
    expect(bench.owned).toEqual(ALL);
  });
});

describe("what cannot be read:", () => {
  const one = OF_A[0] as number;

  test("a newer node is to have it: it is yielded at once, and not taken again", () => {
    const bench = OwnershipFixture.beside();
    bench.reads = { b1: 3 };
    bench.tick(3_000);
    bench.renewed();
    expect(bench.input({ kind: "unreadable", partitions: [one] })).toEqual([
      { kind: "yield", yield: 1, partitions: [one] },
    ]);
    expect(bench.input({ kind: "yielded", yield: 1 })).toEqual([
      { kind: "release", partitions: [one], clean: true },
    ]);
    bench.input({ kind: "released" });
    bench.set([one], null, 2);
    bench.peace(60_000);
    expect(bench.node.view().owned.map(({ partition }) => partition)).not.toContain(one);
  });

  test("while nobody is newer it stays, since nobody could do better; who comes gets it", () => {
    const bench = OwnershipFixture.beside();
    expect(bench.input({ kind: "unreadable", partitions: [one] })).toEqual([]);
    bench.reads = { b1: 3 };
    bench.tick(3_000);
    expect(bench.renewed()).toEqual([{ kind: "yield", yield: 1, partitions: [one] }]);
  });
});

describe("leaving:", () => {
  test("everything is yielded, released clean, and then the node is gone", () => {
    const bench = OwnershipFixture.alone();
    expect(bench.input({ kind: "leave" })).toEqual([{ kind: "yield", yield: 1, partitions: ALL }]);
    expect(bench.input({ kind: "leave" })).toEqual([]);
    // The node renews its lease as long as it owns partitions.
    expect(bench.peace(6_000)).toEqual([]);
    expect(bench.input({ kind: "yielded", yield: 1 })).toEqual([
      { kind: "release", partitions: ALL, clean: true },
    ]);
    expect(bench.input({ kind: "released" })).toEqual([{ kind: "leave" }]);
    expect(bench.input({ kind: "has-left" })).toEqual([{ kind: "stop-granting" }, { kind: "left" }]);
    expect(bench.node.view()).toMatchObject({ status: "left", owned: [] });
    expect(bench.node.nextWakeAt()).toBe(Number.POSITIVE_INFINITY);
    expect(bench.tick(60_000)).toEqual([]);
  });

  test("what failed is repeated without joining again, until the lease has ended", () => {
    const bench = OwnershipFixture.alone();
    bench.input({ kind: "leave" });
    bench.input({ kind: "yielded", yield: 1 });
    bench.now += 4_000;
    expect(bench.input({ kind: "call-failed" })).toMatchObject([{ kind: "release", clean: true }]);
    bench.input({ kind: "released" });
    expect(bench.input({ kind: "call-failed" })).toEqual([{ kind: "leave" }]);
    expect(bench.tick(5_500)).toEqual([{ kind: "stop-granting" }, { kind: "left" }]);
    expect(bench.input({ kind: "call-failed" })).toEqual([]);
  });

  test("what is taken meanwhile goes back with the membership; the engine hears nothing of it", () => {
    const bench = new OwnershipFixture();
    bench.tick(0);
    bench.renewed();
    expect(bench.input({ kind: "leave" })).toEqual([]);
    expect(bench.taken(ALL, 1)).toEqual([{ kind: "leave" }]);
  });

  test("while something is still to be handed over, nothing is taken: what is free is left to others", () => {
    const bench = OwnershipFixture.beside();
    bench.set(OF_B, "b1", 2);
    bench.tick(3_000);
    bench.renewed();
    expect(bench.input({ kind: "leave" })).toEqual([{ kind: "yield", yield: 1, partitions: OF_A }]);
    bench.nodes = { a1: A };
    expect(bench.peace(60_000)).toEqual([]);
    expect(bench.owned).toEqual(OF_A);
  });

  test("nor kept: what came meanwhile, or came back to it, is given back as it is", () => {
    const bench = OwnershipFixture.beside();
    bench.set(OF_B, "b1", 2);
    bench.tick(3_000);
    bench.renewed();
    bench.nodes = { a1: A };
    bench.tick(3_000);
    expect(bench.renewed()).toEqual([{ kind: "take", partitions: OF_B }]);
    bench.input({ kind: "leave" });
    expect(bench.taken(OF_B, 3)).toEqual([{ kind: "release", partitions: OF_B, clean: false }]);
    // The release had no effect.
    bench.input({ kind: "call-failed" });
    expect(bench.renewed()).toEqual([{ kind: "release", partitions: OF_B, clean: false }]);
    bench.set(OF_B, null, 3);
    bench.input({ kind: "released" });
    expect(bench.peace(60_000)).toEqual([]);
  });

  test("who is no member has nothing to hand over", () => {
    const bench = new OwnershipFixture();
    bench.tick(0);
    expect(bench.input({ kind: "leave" })).toEqual([{ kind: "left" }]);
  });
});
