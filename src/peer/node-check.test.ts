// Mistakes of set-up that a node notices by itself.
import { expect, test } from "vitest";
import type { MemberNode, Membership } from "../store/cluster-store.ts";
import { MemoryStore } from "../store/memory/memory-store.ts";
import { NodeCheck } from "./node-check.ts";

const node = (incarnation: string, more: Partial<MemberNode> = {}): MemberNode => ({
  url: `http://${incarnation}`,
  incarnation,
  leaseUntil: 10_000,
  since: 1,
  reads: 3,
  ...more,
});
const members = (...nodes: MemberNode[]): Membership => ({
  now: 0,
  incarnation: "me",
  leaseUntil: 10_000,
  nodes,
  partitions: [],
});
const onFault = (fault: Error): void => {
  throw fault;
};

async function check(text: string, store = new MemoryStore()) {
  await store.open();
  return { store, check: await NodeCheck.open({ store, url: "http://me", check: text, onFault }) };
}

test("another secret is refused while others are there, and counts once nobody is", async () => {
  const { store, check: first } = await check("one");
  expect(first.look(members(node("me"), node("you")))).toBeNull();
  const other = await NodeCheck.open({ store, url: "http://me", check: "two", onFault });
  expect(other.look(members(node("me"), node("you")))).toContain("another RONDO_SECRET");
  expect(other.look(members(node("me")))).toBeNull();
  expect(other.look(members(node("me"), node("you")))).toBeNull();
  const again = await NodeCheck.open({ store, url: "http://me", check: "two", onFault });
  expect(again.look(members(node("me"), node("you")))).toBeNull();
});

test("of two live nodes at one URL the younger goes; what a killed one left behind is nobody", async () => {
  const { check: young } = await check("one");
  const left = (leaseUntil: number) => node("other", { url: "http://me", leaseUntil, since: 0 });
  expect(young.look(members(node("me"), left(5_000)))).toBeNull();
  expect(young.look(members(node("me"), left(5_000)))).toBeNull();
  expect(young.look(members(node("me"), left(6_000)))).toContain("another node is alive at http://me");
  const { check: old } = await check("one");
  const newer = (leaseUntil: number) => node("other", { url: "http://me", leaseUntil, since: 2 });
  expect(old.look(members(node("me"), newer(5_000)))).toBeNull();
  expect(old.look(members(node("me"), newer(6_000)))).toBeNull();
});
