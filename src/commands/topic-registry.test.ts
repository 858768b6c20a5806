import { expect, test } from "vitest";
import { MemoryStore } from "../store/memory/memory-store.ts";
import { TopicRegistry, usesOf } from "./topic-registry.ts";

const uses = (topic: string, receiptTopic: string) => usesOf({ topic, receiptTopic });

async function openStore(): Promise<MemoryStore> {
  const store = new MemoryStore();
  await store.open();
  return store;
}

test("the first use of a name decides, for every project and after a restart", async () => {
  const store = await openStore();
  expect(await new TopicRegistry(store).claim(uses("EMC", "EMC_RECEIPT"), "one")).toBeNull();
  const registry = new TopicRegistry(store);
  expect(await registry.claim(uses("EMC", "EMC_RECEIPT"), "two")).toBeNull();
  expect(await registry.claim(uses("EMC_RECEIPT", "OTHER"), "two")).toMatchObject({
    code: "invalid_input",
    message: expect.stringContaining('"EMC_RECEIPT" is a receipt topic since its first use'),
    path: "topic",
  });
  expect(await registry.claim(uses("NEW", "EMC"), "two")).toMatchObject({ path: "receiptTopic" });
});

test("a use that is refused gives no other name a role", async () => {
  const registry = new TopicRegistry(await openStore());
  await registry.claim(uses("A", "A_RECEIPT"), "one");
  expect(await registry.claim(uses("B", "A"), "two")).not.toBeNull();
  expect(await registry.claim(uses("C", "B"), "three")).toBeNull();
});

test("of nodes that use a name at the same time in both roles, the store lets one have it", async () => {
  const store = await openStore();
  const nodes = Array.from({ length: 8 }, () => new TopicRegistry(store));
  const answers = await Promise.all(
    nodes.map((node, i) => node.claim([{ name: "X", role: i % 2 === 0 ? "command" : "receipt" }], `p${i}`)),
  );
  const stored = JSON.parse((await store.getDocument("topic", "X")) ?? "") as { role: string };
  answers.forEach((refusal, i) => {
    expect(refusal === null).toBe(stored.role === (i % 2 === 0 ? "command" : "receipt"));
  });
});
