// Quota servers of limits that outlive them: what they store before they grant permits, and how the next quota server uses it.
import { describe, expect, test } from "vitest";
import type { PermitAsk, PermitGrant } from "../../protocol/permits.ts";
import { SeededRandom } from "../../std/random.ts";
import { MemoryStore } from "../../store/memory/memory-store.ts";
import { MemoryTables } from "../../store/memory/memory-tables.ts";
import { QuotaServer, type StoredQuotas } from "./quota-server.ts";
import { quotasFor, readQuotas, storeQuotas } from "./stored-quotas.ts";

const OPTIONS = {
  epoch: 1,
  takeoverMs: 1_000,
  marginMs: 10,
  reminderMs: 500,
  undeclaredSince: null,
  unstoredSince: null,
  awaited: [],
  ended: {},
};

function homeAt(now: number, live: readonly string[], stored: StoredQuotas | null = null): QuotaServer {
  return new QuotaServer({ ...OPTIONS, live, now }, [], stored);
}

function ask(over: Partial<PermitAsk>): PermitAsk {
  return {
    ...{ name: "l", max: 2, declaredAt: 1, n: 1, quota: 0, wants: 0, silenceMs: 50, isLasting: true },
    ...over,
  };
}

function quotas(told: Iterable<readonly [string, PermitGrant]>): Record<string, number> {
  return Object.fromEntries(Array.from(told, ([node, { quota }]) => [node, quota]));
}

function store(home: QuotaServer): StoredQuotas {
  const stored = home.drainUnstored();
  if (stored === null) throw new Error("there is nothing to store");
  home.stored(true);
  return stored;
}

const ticked = (home: QuotaServer, now: number) =>
  quotas(home.tick(now).map(({ node, grant }) => [node, grant] as const));

describe("a home of lasting limits", () => {
  test("gives out a permit only after its bound is stored", () => {
    const home = homeAt(0, ["a"]);
    expect(quotas(home.asked("a", ask({ wants: 1 }), 0))).toEqual({ a: 0 });
    expect(home.drainUnstored()).toMatchObject({
      limits: [{ name: "l", holders: [{ node: "a", bound: 2 }] }],
    });
    expect(ticked(home, 1)).toEqual({});
    home.stored(true);
    expect(ticked(home, 2)).toEqual({ a: 1 });
  });

  test("stores again what could not be stored", () => {
    const home = homeAt(0, ["a"]);
    home.asked("a", ask({ wants: 1 }), 0);
    const first = home.drainUnstored();
    expect(home.drainUnstored()).toBeNull();
    home.stored(false);
    expect(home.drainUnstored()).toEqual(first);
  });

  test("confirms what a node has adopted only when that is stored", () => {
    const home = homeAt(0, ["a"]);
    expect(quotas(home.asked("a", ask({ quota: 3 }), 0))).toEqual({});
    store(home);
    expect(ticked(home, 1)).toEqual({ a: 3 });
  });

  test("that dies leaves the next one what a dead node may have, and from when on", () => {
    const home = homeAt(0, ["a", "b"]);
    home.asked("a", ask({ wants: 1 }), 0);
    store(home);
    ticked(home, 1);
    home.asked("b", ask({ wants: 1 }), 2);
    store(home);
    expect(ticked(home, 3)).toMatchObject({ b: 1 });
    home.members(new Set(["b"]), {}, 100);
    const stored = store(home);
    const next = homeAt(110, ["b"], stored);
    // The dead node and this one have a permit each, so no permit is left.
    expect(quotas(next.asked("b", ask({ n: 2, quota: 1, wants: 1 }), 110))).toMatchObject({ b: 1 });
    expect(ticked(next, 159)).toEqual({});
    // The permit is free 50 ms after the death plus the clock tolerance, however many quota servers there were in between.
    const last = homeAt(155, ["b"], stored);
    last.asked("b", ask({ n: 3, quota: 1, wants: 1 }), 155);
    expect(last.nextAt(155)).toBe(160);
    ticked(last, 160);
    store(last);
    expect(ticked(last, 161)).toEqual({ b: 2 });
  });

  test("grants the permits of a dead node a heartbeat after its lease ended, though no server saw it die", () => {
    const stored: StoredQuotas = {
      epoch: 1,
      limits: [{ name: "l", max: 2, declaredAt: 1, silenceMs: 50, holders: [{ node: "a", bound: 2 }] }],
    };
    const next = new QuotaServer({ ...OPTIONS, live: ["b"], ended: { a: 70 }, now: 100 }, [], stored);
    expect(store(next).limits[0]?.holders).toEqual([{ node: "a", bound: 2, goneAt: 70 }]);
    next.asked("b", ask({ wants: 1 }), 100);
    expect(ticked(next, 101)).toEqual({});
    expect(next.nextAt(101)).toBe(130);
    // Where the store does not know it, the end is when the first home sees that the node has gone.
    const blind = homeAt(100, ["b"], stored);
    expect(store(blind).limits[0]?.holders).toEqual([{ node: "a", bound: 2, goneAt: 100 }]);
  });

  test("gives permits in turn, and nobody overtakes one whose bound is being stored", () => {
    const home = homeAt(0, ["a", "b"]);
    home.asked("a", ask({ max: 1, wants: 1 }), 0);
    store(home);
    expect(ticked(home, 1)).toEqual({ a: 1 });
    home.asked("b", ask({ max: 1, wants: 1 }), 2);
    expect(quotas(home.asked("a", ask({ max: 1, n: 2, quota: 0, wants: 1 }), 3))).toMatchObject({ a: 0 });
    store(home);
    expect(ticked(home, 4)).toMatchObject({ b: 1 });
  });
});

test("a home gives out nothing by a bound that is about to be lowered", () => {
  const home = homeAt(0, ["x", "y"]);
  home.asked("x", ask({ max: 7, wants: 7 }), 0);
  store(home);
  ticked(home, 1);
  // x gives back all; y waits: bounds for y are stored, and x asks again meanwhile.
  home.asked("x", ask({ max: 7, n: 2, quota: 0 }), 2);
  home.asked("y", ask({ max: 7, wants: 7 }), 3);
  expect(home.drainUnstored()).toMatchObject({ limits: [{ holders: [{ node: "y" }] }] });
  expect(quotas(home.asked("x", ask({ max: 7, n: 3, wants: 7 }), 4))).not.toMatchObject({ x: 7 });
  home.stored(true);
  ticked(home, 5);
  const next = homeAt(6, ["z"], home.drainUnstored() ?? { epoch: 0, limits: [] });
  expect(
    next.toHandover(6).limits[0]?.holders.reduce((sum, { quota }) => sum + quota, 0),
  ).toBeGreaterThanOrEqual(
    home.toHandover(6).limits[0]?.holders.reduce((sum, { quota }) => sum + quota, 0) ?? 0,
  );
});

test("a permit of an attempt that went on to another node counts once", () => {
  const home = homeAt(0, ["x", "y"]);
  home.asked("x", ask({ max: 1, wants: 1 }), 0);
  store(home);
  ticked(home, 1);
  // x hands its partition over with the attempt, and keeps the permit until y has it.
  home.asked("x", ask({ max: 1, n: 2, quota: 1, moved: 1 }), 2);
  home.asked("y", ask({ max: 1, quota: 1, moved: 0 }), 3);
  expect(home.toHandover(3).limits[0]?.holders).toMatchObject([
    { node: "x", quota: 0, moved: 1, claimed: 1 },
    { node: "y", quota: 1 },
  ]);
  // The attempt ends, and x has left: the permit is free at once.
  home.members(new Set(["y"]), {}, 4);
  home.asked("y", ask({ max: 1, n: 2, quota: 0, moved: 0, wants: 1 }), 5);
  store(home);
  expect(ticked(home, 6)).toMatchObject({ y: 1 });
});

describe("permits of a dead node", () => {
  /** A home where `a` has two permits of three and dies at 10, and `b` has the third. */
  function homeOfDead(): QuotaServer {
    const home = homeAt(0, ["a", "b"]);
    home.asked("a", ask({ max: 3, wants: 2 }), 0);
    store(home);
    ticked(home, 1);
    home.asked("b", ask({ max: 3, wants: 1 }), 2);
    store(home);
    ticked(home, 3);
    home.members(new Set(["b", "c"]), { a: 10 }, 12);
    return home;
  }
  const held = (home: QuotaServer) =>
    Object.fromEntries(home.toHandover(20).limits[0]?.holders.map(({ node, quota }) => [node, quota]) ?? []);

  test("go to the nodes that adopt its attempts, and come back when these end", () => {
    const home = homeOfDead();
    home.asked("c", ask({ max: 3, quota: 1, moved: 0, adopted: 1 }), 13);
    expect(held(home)).toEqual({ a: 1, b: 1, c: 1 });
    // A repeated message about an adopted attempt counts once.
    home.asked("c", ask({ max: 3, n: 2, quota: 1, moved: 0, adopted: 1 }), 14);
    expect(held(home)).toEqual({ a: 1, b: 1, c: 1 });
    store(home);
    const next = ask({ max: 3, n: 3, quota: 0, wants: 1, moved: 0 });
    expect(quotas(home.asked("c", next, 15))).toMatchObject({ c: 1 });
    expect(held(home)).toEqual({ a: 1, b: 1, c: 1 });
  });

  test("stay its own when another node has permits that it did not adopt", () => {
    const home = homeOfDead();
    home.asked("c", ask({ max: 3, quota: 1, moved: 0 }), 13);
    expect(held(home)).toEqual({ a: 2, b: 1, c: 1 });
  });

  test("are taken from the node that died first", () => {
    const home = homeOfDead();
    home.members(new Set(["c"]), { a: 10, b: 11 }, 13);
    home.asked("c", ask({ max: 3, quota: 3, moved: 0, adopted: 3 }), 14);
    expect(held(home)).toEqual({ a: 0, b: 0, c: 3 });
    const other = homeOfDead();
    other.members(new Set(["c"]), { a: 10, b: 11 }, 13);
    other.asked("c", ask({ max: 3, quota: 2, moved: 0, adopted: 2 }), 14);
    expect(held(other)).toEqual({ a: 0, b: 1, c: 2 });
  });

  test("do not become more by a word of it that comes late", () => {
    const home = homeOfDead();
    home.asked("c", ask({ max: 3, quota: 1, moved: 0, adopted: 1 }), 13);
    expect(home.asked("a", ask({ max: 3, n: 2, quota: 2, wants: 1 }), 14).size).toBe(0);
    expect(held(home)).toMatchObject({ a: 1 });
    home.asked("a", ask({ max: 3, n: 3, quota: 0 }), 15);
    expect(held(home)).toMatchObject({ a: 0 });
  });

  test("that it had given back are not waited for by the next home", () => {
    const home = homeAt(0, ["a"]);
    home.asked("a", ask({ wants: 2 }), 0);
    store(home);
    expect(ticked(home, 1)).toEqual({ a: 2 });
    home.asked("a", ask({ n: 2, quota: 0 }), 2);
    expect(home.nextAt(3)).toBeLessThanOrEqual(3);
    home.tick(3);
    expect(store(home).limits).toEqual([]);
    // The bounds are not stored each time that a permit is returned, but after a while.
    home.asked("a", ask({ n: 3, wants: 1 }), 4);
    store(home);
    ticked(home, 5);
    home.asked("a", ask({ n: 4, quota: 0 }), 6);
    home.tick(6);
    expect(home.drainUnstored()).toBeNull();
    expect(home.nextAt(6)).toBe(13);
    home.tick(13);
    expect(store(home).limits).toEqual([]);
  });
});

test("a limit lasts although a node of an earlier version asks first, or hands it over", () => {
  const older = (name: string) => ({ ...ask({ name, wants: 1 }), isLasting: undefined });
  const home = homeAt(0, ["a"]);
  home.asked("a", older("p/h"), 0);
  home.asked("a", older("p/h#key"), 0);
  home.asked("a", older("rate p/h"), 0);
  expect(store(home).limits.map(({ name }) => name)).toEqual(["p/h"]);
  const handed = [
    { name: "l", max: 2, declaredAt: 1, silenceMs: 50, holders: [{ node: "a", quota: 1, n: 1 }] },
  ];
  const next = new QuotaServer({ ...OPTIONS, live: ["a"], now: 0 }, handed);
  next.asked("a", ask({ n: 2, quota: 1 }), 1);
  expect(store(next).limits).toMatchObject([{ name: "l", holders: [{ node: "a" }] }]);
});

test("permits that were not stored are waited for once, and then forgotten", () => {
  const home = new QuotaServer({ ...OPTIONS, unstoredSince: 0, live: ["a"], now: 0 });
  expect(store(home)).toMatchObject({ unstoredSince: 0 });
  home.members(new Set(["a"]), {}, 600_999);
  expect(home.drainUnstored()).toBeNull();
  home.members(new Set(["a"]), {}, 601_000);
  expect(store(home)).not.toHaveProperty("unstoredSince");
});

test("a stored home counts from the epoch on from which all owners store theirs", () => {
  const own = { partition: 0, epoch: 9, uncleanEpoch: 8 };
  const body = JSON.stringify({ epoch: 5, limits: [] });
  expect(quotasFor({ ...own, limitsStoredFrom: 5 }, body)).toEqual({ epoch: 5, limits: [] });
  // An owner of an older version was there between.
  expect(quotasFor({ ...own, limitsStoredFrom: 6 }, body)).toBeNull();
  expect(quotasFor({ ...own, limitsStoredFrom: 6 }, null)).toBeNull();
  // No permit was ever granted.
  expect(quotasFor({ ...own, limitsStoredFrom: 1 }, null)).toEqual({ epoch: 0, limits: [] });
});

test("a damaged document says nothing, and the next home that is stored replaces it", async () => {
  const store = new MemoryStore(new MemoryTables({ random: new SeededRandom(1) }));
  await store.open();
  const own = { partition: 0, epoch: 9, uncleanEpoch: 8, limitsStoredFrom: 1 };
  expect([...(await readQuotas(store, [own])).values()]).toEqual([{ epoch: 0, limits: [] }]);
  await store.putDocument("permits", "0", "{}");
  expect((await readQuotas(store, [own])).size).toBe(0);
  expect(await storeQuotas(store, 0, { epoch: 9, limits: [] })).toBe(true);
  expect((await readQuotas(store, [own])).get(0)).toEqual({ epoch: 9, limits: [] });
  // A former owner that stood still writes nothing any more.
  expect(await storeQuotas(store, 0, { epoch: 8, limits: [] })).toBe(false);
});
