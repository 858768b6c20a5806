// What an ownership node does, input by input. The store is played by the test.
import { describe, expect, test } from "vitest";
import { LEASE_MS, type Membership } from "../store/cluster-store.ts";
import { OwnershipNode } from "./ownership.ts";
import type { OwnershipInput, OwnershipOutput, OwnershipSettings } from "./ownership-io.ts";
import { placement } from "./placement.ts";

const PARTITIONS = 8;
const ALL = Array.from({ length: PARTITIONS }, (_, partition) => partition);
const A = "http://a";
const B = "http://b";
/** Of two nodes. */
const OF_A = ALL.filter((partition) => placement(PARTITIONS, [A, B])[partition] === A);
const OF_B = ALL.filter((partition) => !OF_A.includes(partition));

type Row = Membership["partitions"][number];

/** A node at http://a, and what the store would say. */
class Bench {
  readonly node: OwnershipNode;
  now = 1_000;
  readonly rows: Row[] = ALL.map((partition) => ({ partition, owner: null, epoch: 0 }));
  /** Incarnation -> URL; a1 is the node itself. */
  nodes: Record<string, string> = { a1: A };
  own = "a1";
  /** What versions nodes read, if not the second. */
  reads: Record<string, number> = {};
  /** What is left of the others' leases. */
  othersMs = 9_000;

  constructor(settings: Partial<OwnershipSettings> = {}) {
    this.node = new OwnershipNode(settings);
  }

  input(input: OwnershipInput): OwnershipOutput[] {
    this.node.input(input, this.now);
    return this.node.advance(this.now);
  }

  tick(ms: number): OwnershipOutput[] {
    this.now += ms;
    return this.input({ kind: "tick" });
  }

  membership(): Membership {
    const now = 50_000_000 + this.now;
    const nodes = Object.entries(this.nodes).map(([incarnation, url]) => ({
      url,
      incarnation,
      since: 0,
      reads: this.reads[incarnation] ?? 2,
      leaseUntil: now + (incarnation === this.own ? LEASE_MS : this.othersMs),
    }));
    return { now, incarnation: this.own, leaseUntil: now + LEASE_MS, nodes, partitions: [...this.rows] };
  }

  /** The answer of a renewal, asked some time ago. */
  renewed(agoMs = 0): OwnershipOutput[] {
    return this.input({ kind: "membership", membership: this.membership(), askedAt: this.now - agoMs });
  }

  set(partitions: readonly number[], owner: string | null, epoch: number): void {
    for (const partition of partitions) this.rows[partition] = { partition, owner, epoch };
  }

  /** The store lets the node have these. */
  taken(partitions: readonly number[], epoch: number): OwnershipOutput[] {
    this.set(partitions, this.own, epoch);
    const owned = partitions.map((partition) => ({ partition, epoch, uncleanEpoch: 0 }));
    return this.input({ kind: "taken", owned });
  }

  /** Time passes with a renewal every 3 s. */
  peace(ms: number): OwnershipOutput[] {
    const outputs: OwnershipOutput[] = [];
    for (let left = ms; left > 0; left -= 3_000) {
      outputs.push(...this.tick(3_000).filter(({ kind }) => kind !== "renew"), ...this.renewed());
    }
    return outputs;
  }

  /** Joined, with everything. */
  static alone(settings: Partial<OwnershipSettings> = {}): Bench {
    const bench = new Bench(settings);
    bench.tick(0);
    bench.renewed();
    bench.taken(ALL, 1);
    return bench;
  }

  /** The same, after http://b has joined and members have been the same for a while. */
  static beside(settings: Partial<OwnershipSettings> = {}): Bench {
    const bench = Bench.alone(settings);
    bench.nodes = { a1: A, b1: B };
    return bench;
  }

  get owned(): number[] {
    return this.node.view().owned.map(({ partition }) => partition);
  }
}

describe("taking:", () => {
  test("a node that is alone joins, and takes everything", () => {
    const bench = new Bench();
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
    const bench = new Bench();
    bench.nodes = { a1: A, b1: B };
    bench.set(OF_A.slice(0, 1), "b1", 4);
    bench.set(OF_A.slice(1, 2), "gone", 2);
    bench.tick(0);
    expect(bench.renewed()).toContainEqual({ kind: "take", partitions: OF_A.slice(1) });
    // Somebody was faster.
    bench.taken(OF_A.slice(2), 1);
    expect(bench.owned).toEqual(OF_A.slice(2));
  });

  test("a take whose answer was lost is asked for again, after a look", () => {
    const bench = new Bench();
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
    const bench = new Bench();
    bench.tick(0);
    bench.renewed();
    bench.set(ALL, "a1", 1);
    bench.nodes = { a1: A, b1: B };
    bench.input({ kind: "call-failed" });
    expect(bench.renewed()).toEqual([{ kind: "release", partitions: OF_B, clean: false }]);
    expect(bench.input({ kind: "released" })).toEqual([{ kind: "take", partitions: OF_A }]);
  });

  test("what nobody takes for long is taken wherever it belongs, and kept for a while", () => {
    const bench = new Bench();
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
    const bench = new Bench();
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
    const bench = Bench.alone();
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
    const bench = Bench.alone();
    bench.tick(3_000);
    bench.now += 2_000;
    bench.renewed(2_000);
    expect(bench.node.view().mayActUntil).toBe(4_000 + 9_500);
    expect(bench.node.mayAct(13_499)).toBe(true);
    expect(bench.node.mayAct(13_500)).toBe(false);
  });

  test("a node that cannot renew drops everything in time, and takes it anew when it can", () => {
    const bench = Bench.alone();
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
    // It was in time by the store's clock.
    expect(bench.renewed()).toEqual([{ kind: "may-grant" }, { kind: "take", partitions: ALL }]);
  });

  test("what comes after a long pause comes too late: an answer of take, or of renew", () => {
    const bench = new Bench();
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
    const bench = Bench.beside();
    bench.set([0], "b1", 2);
    bench.set([1], "a1", 2);
    bench.tick(3_000);
    const why = "it is not this node's any more";
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
    const bench = Bench.alone();
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

describe("giving up:", () => {
  test("nothing moves to a newcomer before members have been the same for 10 s; then clean", () => {
    const bench = Bench.beside();
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
    const bench = Bench.beside();
    for (const incarnation of ["b1", "b2", "b3"]) {
      bench.nodes = { a1: A, [incarnation]: B };
      expect(bench.peace(9_000)).toEqual([]);
    }
  });

  test("the next ones move when the last ones have been taken", () => {
    const bench = Bench.beside({ yieldMax: 1 });
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
    const bench = Bench.beside();
    bench.peace(15_000);
    bench.input({ kind: "yielded", yield: 1 });
    expect(bench.input({ kind: "call-failed" })).toEqual([{ kind: "renew" }]);
    expect(bench.renewed()).toEqual([{ kind: "release", partitions: OF_B, clean: true }]);
    bench.input({ kind: "call-failed" });
    bench.set(OF_B, null, 1);
    expect(bench.renewed()).toEqual([]);
  });

  test("what the engine could not hand over is given back as it is", () => {
    const bench = Bench.beside();
    bench.peace(15_000);
    bench.now += 200;
    expect(bench.input({ kind: "yield-failed", yield: 1 })).toEqual([
      { kind: "engine-lost", partitions: OF_B, why: "it could not be handed over" },
      { kind: "renew" },
    ]);
    expect(bench.renewed()).toEqual([{ kind: "release", partitions: OF_B, clean: false }]);
  });

  test("an engine's late word about a former yield says nothing about the present one", () => {
    const bench = Bench.beside();
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
    const bench = Bench.beside();
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
    const bench = Bench.beside();
    expect(bench.input({ kind: "unreadable", partitions: [one] })).toEqual([]);
    bench.reads = { b1: 3 };
    bench.tick(3_000);
    expect(bench.renewed()).toEqual([{ kind: "yield", yield: 1, partitions: [one] }]);
  });
});

describe("leaving:", () => {
  test("everything is yielded, released clean, and then the node is gone", () => {
    const bench = Bench.alone();
    expect(bench.input({ kind: "leave" })).toEqual([{ kind: "yield", yield: 1, partitions: ALL }]);
    expect(bench.input({ kind: "leave" })).toEqual([]);
    // The lease is kept as long as something is had.
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
    const bench = Bench.alone();
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
    const bench = new Bench();
    bench.tick(0);
    bench.renewed();
    expect(bench.input({ kind: "leave" })).toEqual([]);
    expect(bench.taken(ALL, 1)).toEqual([{ kind: "leave" }]);
  });

  test("who is no member has nothing to hand over", () => {
    const bench = new Bench();
    bench.tick(0);
    expect(bench.input({ kind: "leave" })).toEqual([{ kind: "left" }]);
  });
});

test("owners are known by URL: members' partitions, and one's own only while they are had", () => {
  const bench = Bench.beside();
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
