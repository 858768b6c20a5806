// What an ownership node does, input by input. The store is played by the test.
import { describe, expect, test } from "vitest";
import { A, ALL, B, OwnershipFixture, PARTITIONS } from "../../../test/fixtures/cluster/ownership-fixture.ts";
import { placement } from "./placement.ts";

/** The partitions that belong to A in a cluster of A and B. */
const OF_A = ALL.filter((partition) => placement(PARTITIONS, [A, B])[partition] === A);
const OF_B = ALL.filter((partition) => !OF_A.includes(partition));

describe("taking:", () => {
  test("a node that is alone joins, and takes everything", () => {
    const bench = new OwnershipFixture();
    expect(bench.tick(0)).toEqual([{ kind: "renew" }]);
    expect(bench.renewed()).toEqual([{ kind: "may-grant" }, { kind: "take", partitions: ALL }]);
    expect(bench.owned).toEqual([]);
    expect(bench.taken(ALL, 1)).toEqual([
      { kind: "engine-taken", owned: ALL.map((partition) => ({ partition, epoch: 1, uncleanEpoch: 0 })) },
    ]);
    expect(bench.owned).toEqual(ALL);
    expect(bench.tick(2_999)).toEqual([]);
    expect(bench.tick(1)).toEqual([{ kind: "renew" }]);
    expect(bench.renewed()).toEqual([]);
  });

  test("it takes its own places if they are free: released, or of a node that has lapsed", () => {
    const bench = new OwnershipFixture();
    bench.nodes = { a1: A, b1: B };
    bench.set(OF_A.slice(0, 1), "b1", 4);
    bench.set(OF_A.slice(1, 2), "gone", 2);
    bench.tick(0);
    expect(bench.renewed()).toContainEqual({ kind: "take", partitions: OF_A.slice(1) });
    // Another node has taken the first of these partitions.
    bench.taken(OF_A.slice(2), 1);
    expect(bench.owned).toEqual(OF_A.slice(2));
  });

  test("a take whose answer was lost is asked for again, after a look", () => {
    const bench = new OwnershipFixture();
    bench.tick(0);
    bench.renewed();
    bench.set(ALL, "a1", 1);
    expect(bench.input({ kind: "call-failed" })).toEqual([{ kind: "renew" }]);
    expect(bench.owned).toEqual([]);
    expect(bench.renewed()).toEqual([{ kind: "take", partitions: ALL }]);
    bench.taken(ALL, 2);
    expect(bench.node.view().owned[0]).toEqual({ partition: 0, epoch: 2 });
  });

  test("what is its own by a lost answer and belongs elsewhere is given back", () => {
    const bench = new OwnershipFixture();
    bench.tick(0);
    bench.renewed();
    bench.set(ALL, "a1", 1);
    bench.nodes = { a1: A, b1: B };
    bench.input({ kind: "call-failed" });
    expect(bench.renewed()).toEqual([{ kind: "release", partitions: OF_B, clean: false }]);
    expect(bench.input({ kind: "released" })).toEqual([{ kind: "take", partitions: OF_A }]);
  });

  test("what nobody takes for long is taken wherever it belongs, and kept for a while", () => {
    const bench = new OwnershipFixture();
    bench.nodes = { a1: A, b1: B };
    bench.tick(0);
    bench.renewed();
    bench.taken(OF_A, 1);
    expect(bench.peace(12_000)).toEqual([]);
    expect(bench.peace(3_000)).toEqual([{ kind: "take", partitions: OF_B }]);
    bench.taken(OF_B, 1);
    expect(bench.peace(297_000)).toEqual([]);
    expect(bench.peace(3_000)).toEqual([{ kind: "yield", yield: 1, partitions: OF_B }]);
  });

  test("a node that dies is noticed as soon as its lease has ended", () => {
    const bench = new OwnershipFixture();
    bench.nodes = { a1: A, b1: B };
    bench.set(OF_B, "b1", 1);
    bench.othersMs = 1_200;
    bench.tick(0);
    bench.renewed();
    bench.taken(OF_A, 1);
    expect(bench.tick(1_299)).toEqual([]);
    expect(bench.tick(1)).toEqual([{ kind: "renew" }]);
    bench.nodes = { a1: A };
    expect(bench.renewed()).toEqual([{ kind: "take", partitions: OF_B }]);
  });

  test("a hint makes it look, but not too often; one that comes while it looks makes it look again", () => {
    const bench = OwnershipFixture.alone();
    expect(bench.input({ kind: "hinted" })).toEqual([]);
    expect(bench.tick(100)).toEqual([{ kind: "renew" }]);
    bench.now += 40;
    expect(bench.input({ kind: "hinted" })).toEqual([]);
    expect(bench.renewed(40)).toEqual([]);
    expect(bench.node.nextWakeAt()).toBe(bench.now + 60);
    expect(bench.tick(60)).toEqual([{ kind: "renew" }]);
    bench.renewed();
    expect(bench.node.nextWakeAt()).toBe(bench.now + 3_000);
  });
});

describe("the lease:", () => {
  test("it counts from when it was asked for, less a share for clocks that are slow", () => {
    const bench = OwnershipFixture.alone();
    bench.tick(3_000);
    bench.now += 2_000;
    bench.renewed(2_000);
    expect(bench.node.view().mayActUntil).toBe(4_000 + 9_500);
    expect(bench.node.mayAct(13_499)).toBe(true);
    expect(bench.node.mayAct(13_500)).toBe(false);
  });

  test("a node that cannot renew drops everything in time, and takes it anew when it can", () => {
    const bench = OwnershipFixture.alone();
    expect(bench.tick(3_000)).toEqual([{ kind: "renew" }]);
    expect(bench.input({ kind: "call-failed" })).toEqual([{ kind: "renew" }]);
    expect(bench.node.nextWakeAt()).toBe(1_000 + 9_500);
    expect(bench.tick(6_499)).toEqual([]);
    expect(bench.tick(1)).toEqual([
      { kind: "stop-granting" },
      { kind: "engine-lost", partitions: ALL, why: "the lease could not be renewed in time" },
    ]);
    expect(bench.node.view()).toMatchObject({ status: "joining", owned: [] });
    expect(bench.input({ kind: "call-failed" })).toEqual([{ kind: "renew" }]);
    // By the store's clock, the renewal was in time.
    expect(bench.renewed()).toEqual([{ kind: "may-grant" }, { kind: "take", partitions: ALL }]);
  });

  test("what comes after a long pause comes too late: an answer of take, or of renew", () => {
    const bench = new OwnershipFixture();
    bench.tick(0);
    bench.renewed();
    bench.now += 20_000;
    expect(bench.taken(ALL, 1)).toEqual([{ kind: "stop-granting" }, { kind: "renew" }]);
    bench.now += 20_000;
    expect(bench.renewed(20_000)).toEqual([{ kind: "renew" }]);
    expect(bench.node.view()).toMatchObject({ status: "joining", owned: [] });
    bench.own = "a2";
    bench.nodes = { a2: A };
    expect(bench.renewed()).toEqual([{ kind: "may-grant" }, { kind: "take", partitions: ALL }]);
  });

  test("what the store says is somebody else's, or of another incarnation, is lost", () => {
    const bench = OwnershipFixture.beside();
    bench.set([0], "b1", 2);
    bench.set([1], "a1", 2);
    bench.tick(3_000);
    const why = "this node does not own the partition any more";
    expect(bench.renewed()[0]).toEqual({ kind: "engine-lost", partitions: [0, 1], why });
    bench.own = "a2";
    bench.nodes = { a2: A };
    bench.input({ kind: "call-failed" });
    expect(bench.renewed()).toEqual([
      { kind: "engine-lost", partitions: ALL.slice(2), why },
      { kind: "take", partitions: ALL },
    ]);
  });

  test("what was refused is dropped; the store says what is to be done about it", () => {
    const bench = OwnershipFixture.alone();
    bench.now += 500;
    expect(bench.input({ kind: "fenced", partitions: [2, 3] })).toEqual([
      { kind: "engine-lost", partitions: [2, 3], why: "a write was refused" },
      { kind: "renew" },
    ]);
    expect(bench.input({ kind: "fenced", partitions: [2] })).toEqual([]);
    bench.set([2], "b1", 2);
    bench.nodes = { a1: A, b1: B };
    const takes = OF_A.includes(3) ? "take" : "release";
    expect(bench.renewed()).toMatchObject([{ kind: takes, partitions: [3] }]);
  });
});

test("owners are known by URL: members' partitions, and one's own only while they are had", () => {
  const bench = OwnershipFixture.beside();
  bench.set(OF_B, "b1", 2);
  bench.set([OF_A[0] as number], "gone", 2);
  bench.tick(3_000);
  bench.renewed();
  expect(OF_B.map((partition) => bench.node.ownerOf(partition))).toEqual(OF_B.map(() => B));
  expect(bench.node.ownerOf(OF_A[0] as number)).toBeNull();
  expect(bench.node.ownerOf(OF_A[1] as number)).toBe(A);
  expect(bench.node.ownerOf(999)).toBeNull();
  expect(bench.node.view().owners[OF_A[1] as number]).toBe(A);
  bench.input({ kind: "fenced", partitions: OF_A });
  expect(bench.node.ownerOf(OF_A[1] as number)).toBeNull();
});
