// How a node gives up partitions: to another node, because it cannot read their data, and when it leaves.
import { describe, expect, test } from "vitest";
import { A, ALL, B, OwnershipFixture, PARTITIONS } from "../../test/fixtures/cluster/ownership-fixture.ts";
import { placement } from "./ownership/placement.ts";

/** The partitions that belong to A in a cluster of A and B. */
const OF_A = ALL.filter((partition) => placement(PARTITIONS, [A, B])[partition] === A);
const OF_B = ALL.filter((partition) => !OF_A.includes(partition));

describe("giving up:", () => {
  test("nothing moves to a newcomer before members have been the same for 10 s; then clean", () => {
    const fixture = OwnershipFixture.beside();
    expect(fixture.peace(12_000)).toEqual([]);
    expect(fixture.peace(3_000)).toEqual([{ kind: "yield", yield: 1, partitions: OF_B }]);
    expect(fixture.node.view().yielding).toEqual(OF_B);
    expect(fixture.owned).toEqual(ALL);
    expect(fixture.input({ kind: "yielded", yield: 1 })).toEqual([
      { kind: "release", partitions: OF_B, clean: true },
    ]);
    expect(fixture.owned).toEqual(OF_A);
    fixture.set(OF_B, null, 1);
    expect(fixture.input({ kind: "released" })).toEqual([]);
    expect(fixture.peace(3_000)).toEqual([]);
  });

  test("a member that comes and goes keeps everything where it is", () => {
    const fixture = OwnershipFixture.beside();
    for (const incarnation of ["b1", "b2", "b3"]) {
      fixture.nodes = { a1: A, [incarnation]: B };
      expect(fixture.peace(9_000)).toEqual([]);
    }
  });

  test("the next ones move when the last ones have been taken", () => {
    const fixture = OwnershipFixture.beside({ yieldMax: 1 });
    fixture.peace(12_000);
    const [first = -1, second = -1] = OF_B;
    expect(fixture.peace(3_000)).toEqual([{ kind: "yield", yield: 1, partitions: [first] }]);
    expect(fixture.peace(3_000)).toEqual([]);
    fixture.input({ kind: "yielded", yield: 1 });
    fixture.set([first], null, 1);
    fixture.input({ kind: "released" });
    expect(fixture.peace(3_000)).toEqual([]);
    fixture.set([first], "b1", 2);
    expect(fixture.peace(3_000)).toEqual([{ kind: "yield", yield: 2, partitions: [second] }]);
  });

  test("a release that failed is repeated, clean, if it had no effect", () => {
    const fixture = OwnershipFixture.beside();
    fixture.peace(15_000);
    fixture.input({ kind: "yielded", yield: 1 });
    expect(fixture.input({ kind: "call-failed" })).toEqual([{ kind: "renew" }]);
    expect(fixture.renewed()).toEqual([{ kind: "release", partitions: OF_B, clean: true }]);
    fixture.input({ kind: "call-failed" });
    fixture.set(OF_B, null, 1);
    expect(fixture.renewed()).toEqual([]);
  });

  test("what the engine could not hand over is given back as it is", () => {
    const fixture = OwnershipFixture.beside();
    fixture.peace(15_000);
    fixture.now += 200;
    expect(fixture.input({ kind: "yield-failed", yield: 1 })).toEqual([
      { kind: "engine-lost", partitions: OF_B, why: "the partition could not be handed over" },
      { kind: "renew" },
    ]);
    expect(fixture.renewed()).toEqual([{ kind: "release", partitions: OF_B, clean: false }]);
  });

  test("an engine's late word about a former yield says nothing about the present one", () => {
    const fixture = OwnershipFixture.beside();
    fixture.peace(15_000);
    fixture.tick(9_500);
    fixture.nodes = { a1: A };
    expect(fixture.renewed()).toContainEqual({ kind: "take", partitions: ALL });
    fixture.taken(ALL, 2);
    fixture.nodes = { a1: A, b1: B };
    fixture.peace(12_000);
    expect(fixture.peace(3_000)).toEqual([{ kind: "yield", yield: 2, partitions: OF_B }]);
    expect(fixture.input({ kind: "yielded", yield: 1 })).toEqual([]);
    expect(fixture.owned).toEqual(ALL);
  });
});

describe("what cannot be read:", () => {
  const one = OF_A[0] as number;

  test("a newer node is to have it: it is yielded at once, and not taken again", () => {
    const fixture = OwnershipFixture.beside();
    fixture.reads = { b1: 3 };
    fixture.tick(3_000);
    fixture.renewed();
    expect(fixture.input({ kind: "unreadable", partitions: [one] })).toEqual([
      { kind: "yield", yield: 1, partitions: [one] },
    ]);
    expect(fixture.input({ kind: "yielded", yield: 1 })).toEqual([
      { kind: "release", partitions: [one], clean: true },
    ]);
    fixture.input({ kind: "released" });
    fixture.set([one], null, 2);
    fixture.peace(60_000);
    expect(fixture.node.view().owned.map(({ partition }) => partition)).not.toContain(one);
  });

  test("while nobody is newer it stays, since nobody could do better; who comes gets it", () => {
    const fixture = OwnershipFixture.beside();
    expect(fixture.input({ kind: "unreadable", partitions: [one] })).toEqual([]);
    fixture.reads = { b1: 3 };
    fixture.tick(3_000);
    expect(fixture.renewed()).toEqual([{ kind: "yield", yield: 1, partitions: [one] }]);
  });
});

describe("leaving:", () => {
  test("everything is yielded, released clean, and then the node is gone", () => {
    const fixture = OwnershipFixture.alone();
    expect(fixture.input({ kind: "leave" })).toEqual([{ kind: "yield", yield: 1, partitions: ALL }]);
    expect(fixture.input({ kind: "leave" })).toEqual([]);
    // The node renews its lease as long as it owns partitions.
    expect(fixture.peace(6_000)).toEqual([]);
    expect(fixture.input({ kind: "yielded", yield: 1 })).toEqual([
      { kind: "release", partitions: ALL, clean: true },
    ]);
    expect(fixture.input({ kind: "released" })).toEqual([{ kind: "leave" }]);
    expect(fixture.input({ kind: "has-left" })).toEqual([{ kind: "stop-granting" }, { kind: "left" }]);
    expect(fixture.node.view()).toMatchObject({ status: "left", owned: [] });
    expect(fixture.node.nextWakeAt()).toBe(Number.POSITIVE_INFINITY);
    expect(fixture.tick(60_000)).toEqual([]);
  });

  test("what failed is repeated without joining again, until the lease has ended", () => {
    const fixture = OwnershipFixture.alone();
    fixture.input({ kind: "leave" });
    fixture.input({ kind: "yielded", yield: 1 });
    fixture.now += 4_000;
    expect(fixture.input({ kind: "call-failed" })).toMatchObject([{ kind: "release", clean: true }]);
    fixture.input({ kind: "released" });
    expect(fixture.input({ kind: "call-failed" })).toEqual([{ kind: "leave" }]);
    expect(fixture.tick(5_500)).toEqual([{ kind: "stop-granting" }, { kind: "left" }]);
    expect(fixture.input({ kind: "call-failed" })).toEqual([]);
  });

  test("what is taken meanwhile goes back with the membership; the engine hears nothing of it", () => {
    const fixture = new OwnershipFixture();
    fixture.tick(0);
    fixture.renewed();
    expect(fixture.input({ kind: "leave" })).toEqual([]);
    expect(fixture.taken(ALL, 1)).toEqual([{ kind: "leave" }]);
  });

  test("while something is still to be handed over, nothing is taken: what is free is left to others", () => {
    const fixture = OwnershipFixture.beside();
    fixture.set(OF_B, "b1", 2);
    fixture.tick(3_000);
    fixture.renewed();
    expect(fixture.input({ kind: "leave" })).toEqual([{ kind: "yield", yield: 1, partitions: OF_A }]);
    fixture.nodes = { a1: A };
    expect(fixture.peace(60_000)).toEqual([]);
    expect(fixture.owned).toEqual(OF_A);
  });

  test("nor kept: what came meanwhile, or came back to it, is given back as it is", () => {
    const fixture = OwnershipFixture.beside();
    fixture.set(OF_B, "b1", 2);
    fixture.tick(3_000);
    fixture.renewed();
    fixture.nodes = { a1: A };
    fixture.tick(3_000);
    expect(fixture.renewed()).toEqual([{ kind: "take", partitions: OF_B }]);
    fixture.input({ kind: "leave" });
    expect(fixture.taken(OF_B, 3)).toEqual([{ kind: "release", partitions: OF_B, clean: false }]);
    // The release had no effect.
    fixture.input({ kind: "call-failed" });
    expect(fixture.renewed()).toEqual([{ kind: "release", partitions: OF_B, clean: false }]);
    fixture.set(OF_B, null, 3);
    fixture.input({ kind: "released" });
    expect(fixture.peace(60_000)).toEqual([]);
  });

  test("who is no member has nothing to hand over", () => {
    const fixture = new OwnershipFixture();
    fixture.tick(0);
    expect(fixture.input({ kind: "leave" })).toEqual([{ kind: "left" }]);
  });
});
