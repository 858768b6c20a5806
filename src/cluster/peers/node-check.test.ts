// Mistakes of set-up that a node notices by itself.
import { expect, test } from "vitest";
import type { MemberNode, Membership } from "../../store/cluster-store.ts";
import { MemoryStore } from "../../store/memory/memory-store.ts";
import { NodeCheck } from "./node-check.ts";

const node = (incarnation: string, more: Partial<MemberNode> = {}): MemberNode => ({
  url: `http://${incarnation}`,
  incarnation,
  leaseUntil: 10_000,
  since: 1,
  reads: 3,
  ...more,
});
const members = (now: number, ...nodes: MemberNode[]): Membership => ({
  now,
  incarnation: "me",
  leaseUntil: 10_000,
  nodes,
  ended: {},
  partitions: [],
});
const onFault = (fault: Error): void => {
  throw fault;
};
const settled = () => new Promise((resolve) => setImmediate(resolve));

interface Scene {
  readonly store?: MemoryStore;
  readonly generation?: string;
  /** Others do not know this node. */
  readonly isStranger?: boolean;
}

/** A check of a node with this secret. */
async function check(secret: string, { generation = "g1", isStranger = false, ...scene }: Scene = {}) {
  const store = scene.store ?? new MemoryStore();
  if (scene.store === undefined) await store.open();
  const isRefusedBy = async () => isStranger;
  const options = { store, generation, url: "http://me", check: secret, isRefusedBy, onFault };
  return { store, check: await NodeCheck.open(options) };
}

/** Another node that renews, and began before this one or after it. */
const other = (now: number, since: number) => node("other", { since, leaseUntil: now + 10_000 });

test("another secret than that of older nodes that are alive is refused", async () => {
  const { store } = await check("one");
  const { check: mine } = await check("two", { store, isStranger: true });
  expect(mine.check(members(0, node("me"), other(0, 0)))).toBeNull();
  await settled();
  expect(mine.check(members(3_000, node("me"), other(3_000, 0)))).toContain("another RONDO_SECRET");
  const { check: right } = await check("one", { store });
  for (const now of [0, 3_000, 6_000])
    expect(right.check(members(now, node("me"), other(now, 0)))).toBeNull();
});

test("a secret that was changed is noted by the oldest of the nodes that start, and found by the others", async () => {
  const { store } = await check("one");
  const { check: oldest } = await check("two", { store });
  const { check: second } = await check("two", { store });
  for (const now of [0, 3_000, 6_000, 9_000]) {
    expect(second.check(members(now, node("me"), other(now, 0)))).toBeNull();
    await settled();
  }
  expect(await store.getDocument("cluster-secret", "g1")).toBe("one");
  expect(oldest.check(members(9_000, node("me"), other(9_000, 2)))).toBeNull();
  expect(await store.getDocument("cluster-secret", "g1")).toBe("two");
});

test("what killed nodes left behind does not keep a secret that was changed from being noted", async () => {
  const { store } = await check("one");
  const { check: oldest } = await check("two", { store });
  const killed = node("killed", { since: -1 });
  for (const now of [0, 3_000, 6_000]) {
    expect(oldest.check(members(now, node("me"), killed, other(now, 2)))).toBeNull();
    await settled();
  }
  expect(await store.getDocument("cluster-secret", "g1")).toBe("two");
});

test("in a restored store all nodes are new: those that start together do not take each other for strangers", async () => {
  const { store } = await check("one of g1");
  const { check: a } = await check("one of g2", { store, generation: "g2" });
  const { check: b } = await check("one of g2", { store, generation: "g2" });
  for (const now of [0, 3_000, 6_000])
    for (const one of [a, b]) expect(one.check(members(now, node("me"), other(now, 0)))).toBeNull();
});

test("of two live nodes at one URL the younger goes; what a killed one left behind is nobody", async () => {
  const { check: young } = await check("one");
  const left = (leaseUntil: number) => node("other", { url: "http://me", leaseUntil, since: 0 });
  expect(young.check(members(0, node("me"), left(5_000)))).toBeNull();
  expect(young.check(members(0, node("me"), left(5_000)))).toBeNull();
  expect(young.check(members(0, node("me"), left(6_000)))).toContain("another node is alive at http://me");
  const { check: old } = await check("one");
  const newer = (leaseUntil: number) => node("other", { url: "http://me", leaseUntil, since: 2 });
  expect(old.check(members(0, node("me"), newer(5_000)))).toBeNull();
  expect(old.check(members(0, node("me"), newer(6_000)))).toBeNull();
});
