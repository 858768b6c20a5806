// The map of the ring: order, hash, owners, and how it is sent to other nodes.
import { describe, expect, test } from "vitest";
import { reading } from "../../../test/fixtures/cluster/ring-fixture.ts";
import { RingMap } from "./ring-map.ts";

describe("the map of the ring", () => {
  test("has the same hash for the same members in any order, and another for another life of one", () => {
    const { hash } = RingMap.of(reading(["a", "b", "c"]));
    expect(RingMap.of(reading(["c", "a", "b"], { now: 9 })).hash).toBe(hash);
    expect(RingMap.of(reading(["a", "b"])).hash).not.toBe(hash);
    expect(RingMap.of(reading(["a", "b", "c"], { life: 2 })).hash).not.toBe(hash);
  });

  test("skips whom it is told to, and a node that is no member has its place too", () => {
    const map = RingMap.of(reading(["a", "c", "e"]));
    expect(map.next("a", ({ url }) => url === "c")?.url).toBe("e");
    expect(map.next("a", () => true)).toBeNull();
    expect(map.next("d")?.url).toBe("e");
    expect(map.next("f")?.url).toBe("a");
    expect(RingMap.of(reading(["a"])).next("a")).toBeNull();
  });

  test("counts a node that came back at its URL by its latest life; partitions of the former have no owner", () => {
    const before = reading(["a", "b"]);
    const again = { url: "a", incarnation: "a#2", leaseUntil: 1, since: 2, reads: 2 };
    const map = RingMap.of({ ...before, nodes: [again, ...before.nodes] });
    expect(map.members).toEqual([
      { url: "a", incarnation: "a#2" },
      { url: "b", incarnation: "b#1" },
    ]);
    expect([map.ownerOf(0), map.ownerOf(1)?.url]).toEqual([null, "b"]);
  });

  test("is the same after it was told to another node", () => {
    const map = RingMap.of(reading(["a", "b", "c"], { now: 5 }));
    const told = new RingMap(JSON.parse(JSON.stringify(map.toState())));
    expect(told.hash).toBe(map.hash);
    expect(told.toState()).toEqual(map.toState());
    expect(told.ownedBy([1])).toEqual([1, 4, 7]);
    expect(told.partitions).toBe(8);
  });
});
