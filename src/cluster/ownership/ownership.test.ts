// What an ownership node does, input by input. The store is played by the test.
import { describe, expect, test } from "vitest";
import { A, ALL, B, OwnershipFixture, PARTITIONS } from "../../../test/fixtures/cluster/ownership-fixture.ts";
import { placement } from "./placement.ts";

/** The partitions that belong to A in a cluster of A and B. */
const OF_A = ALL.filter((partition) => placement(PARTITIONS, [A, B])[partition] === A);
const OF_B = ALL.filter((partition) => !OF_A.includes(partition));

describe("taking:", () => {
  test("a node that is alone joins, and takes everything", () => {
    const fixture = new OwnershipFixture();
    expect(fixture.tick(0)).toEqual([{ kind: "renew" }]);
    expect(fixture.renewed()).toEqual([{ kind: "may-grant" }, { kind: "take", partitions: ALL }]);
    expect(fixture.owned).toEqual([]);
    expect(fixture.taken(ALL, 1)).toEqual([
      { kind: "engine-taken", owned: ALL.map((partition) => ({ partition, epoch: 1, uncleanEpoch: 0 })) },
    ]);
    expect(fixture.owned).toEqual(ALL);
    expect(fixture.tick(2_999)).toEqual([]);
    expect(fixture.tick(1)).toEqual([{ kind: "renew" }]);
    expect(fixture.renewed()).toEqual([]);
  });

  test("it takes its own places if they are free: released, or of a node that has lapsed", () => {
    const fixture = new OwnershipFixture();
    fixture.nodes = { a1: A, b1: B };
    fixture.set(OF_A.slice(0, 1), "b1", 4);
    fixture.set(OF_A.slice(1, 2), "gone", 2);
    fixture.tick(0);
    expect(fixture.renewed()).toContainEqual({ kind: "take", partitions: OF_A.slice(1) });
    // Another node has taken the first of these partitions.
    fixture.taken(OF_A.slice(2), 1);
    expect(fixture.owned).toEqual(OF_A.slice(2));
  });

  test("a take whose answer was lost is asked for again, after a look", () => {
    const fixture = new OwnershipFixture();
    fixture.tick(0);
    fixture.renewed();
    fixture.set(ALL, "a1", 1);
    expect(fixture.input({ kind: "call-failed" })).toEqual([{ kind: "renew" }]);
    expect(fixture.owned).toEqual([]);
    expect(fixture.renewed()).toEqual([{ kind: "take", partitions: ALL }]);
    fixture.taken(ALL, 2);
    expect(fixture.node.view().owned[0]).toEqual({ partition: 0, epoch: 2 });
  });

  test("what is its own by a lost answer and belongs elsewhere is given back", () => {
    const fixture = new OwnershipFixture();
    fixture.tick(0);
    fixture.renewed();
    fixture.set(ALL, "a1", 1);
    fixture.nodes = { a1: A, b1: B };
    fixture.input({ kind: "call-failed" });
    expect(fixture.renewed()).toEqual([{ kind: "release", partitions: OF_B, clean: false }]);
    expect(fixture.input({ kind: "released" })).toEqual([{ kind: "take", partitions: OF_A }]);
  });

  test("what nobody takes for long is taken wherever it belongs, and kept for a while", () => {
    const fixture = new OwnershipFixture();
    fixture.nodes = { a1: A, b1: B };
    fixture.tick(0);
    fixture.renewed();
    fixture.taken(OF_A, 1);
    expect(fixture.peace(12_000)).toEqual([]);
    expect(fixture.peace(3_000)).toEqual([{ kind: "take", partitions: OF_B }]);
    fixture.taken(OF_B, 1);
    expect(fixture.peace(297_000)).toEqual([]);
    expect(fixture.peace(3_000)).toEqual([{ kind: "yield", yield: 1, partitions: OF_B }]);
  });

  test("a node that dies is noticed as soon as its lease has ended", () => {
    const fixture = new OwnershipFixture();
    fixture.nodes = { a1: A, b1: B };
    fixture.set(OF_B, "b1", 1);
    fixture.othersMs = 1_200;
    fixture.tick(0);
    fixture.renewed();
    fixture.taken(OF_A, 1);
    expect(fixture.tick(1_299)).toEqual([]);
    expect(fixture.tick(1)).toEqual([{ kind: "renew" }]);
    fixture.nodes = { a1: A };
    expect(fixture.renewed()).toEqual([{ kind: "take", partitions: OF_B }]);
  });

  test("a hint makes it look, but not too often; one that comes while it looks makes it look again", () => {
    const fixture = OwnershipFixture.alone();
    expect(fixture.input({ kind: "hinted" })).toEqual([]);
    expect(fixture.tick(100)).toEqual([{ kind: "renew" }]);
    fixture.now += 40;
    expect(fixture.input({ kind: "hinted" })).toEqual([]);
    expect(fixture.renewed(40)).toEqual([]);
    expect(fixture.node.nextWakeAt()).toBe(fixture.now + 60);
    expect(fixture.tick(60)).toEqual([{ kind: "renew" }]);
    fixture.renewed();
    expect(fixture.node.nextWakeAt()).toBe(fixture.now + 3_000);
  });
});

describe("the lease:", () => {
  test("it counts from when it was asked for, less a share for clocks that are slow", () => {
    const fixture = OwnershipFixture.alone();
    fixture.tick(3_000);
    fixture.now += 2_000;
    fixture.renewed(2_000);
    expect(fixture.node.view().mayActUntil).toBe(4_000 + 9_500);
    expect(fixture.node.mayAct(13_499)).toBe(true);
    expect(fixture.node.mayAct(13_500)).toBe(false);
  });

  test("a node that cannot renew drops everything in time, and takes it anew when it can", () => {
    const fixture = OwnershipFixture.alone();
    expect(fixture.tick(3_000)).toEqual([{ kind: "renew" }]);
    expect(fixture.input({ kind: "call-failed" })).toEqual([{ kind: "renew" }]);
    expect(fixture.node.nextWakeAt()).toBe(1_000 + 9_500);
    expect(fixture.tick(6_499)).toEqual([]);
    expect(fixture.tick(1)).toEqual([
      { kind: "stop-granting" },
      { kind: "engine-lost", partitions: ALL, why: "the lease could not be renewed in time" },
    ]);
    expect(fixture.node.view()).toMatchObject({ status: "joining", owned: [] });
    expect(fixture.input({ kind: "call-failed" })).toEqual([{ kind: "renew" }]);
    // By the store's clock, the renewal was in time.
    expect(fixture.renewed()).toEqual([{ kind: "may-grant" }, { kind: "take", partitions: ALL }]);
  });

  test("what comes after a long pause comes too late: an answer of take, or of renew", () => {
    const fixture = new OwnershipFixture();
    fixture.tick(0);
    fixture.renewed();
    fixture.now += 20_000;
    expect(fixture.taken(ALL, 1)).toEqual([{ kind: "stop-granting" }, { kind: "renew" }]);
    fixture.now += 20_000;
    expect(fixture.renewed(20_000)).toEqual([{ kind: "renew" }]);
    expect(fixture.node.view()).toMatchObject({ status: "joining", owned: [] });
    fixture.own = "a2";
    fixture.nodes = { a2: A };
    expect(fixture.renewed()).toEqual([{ kind: "may-grant" }, { kind: "take", partitions: ALL }]);
  });

  test("what the store says is somebody else's, or of another incarnation, is lost", () => {
    const fixture = OwnershipFixture.beside();
    fixture.set([0], "b1", 2);
    fixture.set([1], "a1", 2);
    fixture.tick(3_000);
    const why = "this node does not own the partition any more";
    expect(fixture.renewed()[0]).toEqual({ kind: "engine-lost", partitions: [0, 1], why });
    fixture.own = "a2";
    fixture.nodes = { a2: A };
    fixture.input({ kind: "call-failed" });
    expect(fixture.renewed()).toEqual([
      { kind: "engine-lost", partitions: ALL.slice(2), why },
      { kind: "take", partitions: ALL },
    ]);
  });

  test("what was refused is dropped; the store says what is to be done about it", () => {
    const fixture = OwnershipFixture.alone();
    fixture.now += 500;
    expect(fixture.input({ kind: "fenced", partitions: [2, 3] })).toEqual([
      { kind: "engine-lost", partitions: [2, 3], why: "a write was refused" },
      { kind: "renew" },
    ]);
    expect(fixture.input({ kind: "fenced", partitions: [2] })).toEqual([]);
    fixture.set([2], "b1", 2);
    fixture.nodes = { a1: A, b1: B };
    const takes = OF_A.includes(3) ? "take" : "release";
    expect(fixture.renewed()).toMatchObject([{ kind: takes, partitions: [3] }]);
  });
});

test("owners are known by URL: members' partitions, and one's own only while they are had", () => {
  const fixture = OwnershipFixture.beside();
  fixture.set(OF_B, "b1", 2);
  fixture.set([OF_A[0] as number], "gone", 2);
  fixture.tick(3_000);
  fixture.renewed();
  expect(OF_B.map((partition) => fixture.node.ownerOf(partition))).toEqual(OF_B.map(() => B));
  expect(fixture.node.ownerOf(OF_A[0] as number)).toBeNull();
  expect(fixture.node.ownerOf(OF_A[1] as number)).toBe(A);
  expect(fixture.node.ownerOf(999)).toBeNull();
  expect(fixture.node.view().owners[OF_A[1] as number]).toBe(A);
  fixture.input({ kind: "fenced", partitions: OF_A });
  expect(fixture.node.ownerOf(OF_A[1] as number)).toBeNull();
});
