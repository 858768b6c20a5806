// Events over two nodes and one PostgreSQL, one of which is killed in the middle: each event has its effect exactly once.
import { createHmac } from "node:crypto";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openCluster } from "../../fixtures/cluster/open-cluster-fixture.ts";
import { until } from "../../fixtures/until.ts";

const flows = join(import.meta.dirname, "../../fixtures/cluster/event-flows.mjs");
const KEY = "0123456789abcdef0123456789abcdef";
const KEYS = ["a", "b", "c", "d"];

interface Listed {
  readonly id: string;
  readonly status: string;
  readonly input: { readonly key: string; readonly n: number } & readonly { readonly n: number }[];
}

test("each event counts once, though it is sent twice and a node is killed", {
  timeout: 180_000,
}, async () => {
  const webhooks = { shop: { secrets: [KEY] } };
  const fixture = await openCluster({ flows, config: { webhooks } });
  await fixture.worker();
  const list = async (workflow: string): Promise<Listed[]> => {
    const { data } = (await fixture.insist("GET", `/v1/executions?workflow=${workflow}&limit=1000`)) as {
      data: { id: string }[];
    };
    return Promise.all(
      data.map(async ({ id }) => (await fixture.insist("GET", `/v1/executions/${id}`)) as Listed),
    );
  };
  const send = (name: string, key: string, n: number) =>
    fixture.insist("POST", "/v1/events", { name, id: `${name}-${key}-${n}`, data: { key, n } });
  const sendAll = async (from: number, to: number): Promise<void> => {
    for (let n = from; n < to; n++)
      for (const name of ["plain", "debounced", "batched", "throttled", "single", "order"])
        await Promise.all(KEYS.map((key) => send(name, key, n)));
  };
  const webhook = async (id: string): Promise<number> => {
    const body = JSON.stringify({ type: "order.paid", data: { id } });
    const time = String(Math.floor(Date.now() / 1_000));
    const signature = createHmac("sha256", KEY).update(`${id}.${time}.${body}`).digest("base64");
    const headers = {
      "content-type": "application/json",
      "webhook-id": id,
      "webhook-timestamp": time,
      "webhook-signature": `v1,${signature}`,
    };
    for (const { url, isUp } of fixture.nodes) {
      if (!isUp) continue;
      const answer = await fetch(`${url}/v1/webhooks/shop`, { method: "POST", headers, body });
      if (answer.ok) return answer.status;
    }
    return 0;
  };
  await sendAll(0, 3);
  expect(await webhook("w1")).toBe(201);
  await fixture.nodes[0]?.running.kill();
  // The sender cannot know what arrived: it sends everything again, and more.
  await sendAll(0, 5);
  await until("the webhook is known at the other node", async () => (await webhook("w1")) === 200);
  await fixture.settled();
  const ended = async (workflow: string, count: number): Promise<Listed[]> => {
    await until(`${count} of ${workflow} have ended`, async () => {
      const found = await list(workflow);
      return found.length >= count && found.every(({ status }) => status === "done");
    });
    return list(workflow);
  };
  const numbers = (listed: readonly Listed[], key: string) =>
    listed.filter(({ input }) => input.key === key).map(({ input }) => input.n);
  const plain = await ended("plain", 20);
  for (const key of KEYS) expect(numbers(plain, key).toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4]);
  expect(await ended("hook", 1)).toHaveLength(1);
  const throttled = await ended("throttled", 20);
  for (const key of KEYS) expect(numbers(throttled, key).toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4]);
  // Each key has passed its last event, and none of its events is in two executions.
  await until("each key has passed its last event", async () => {
    const debounced = await list("debounced");
    return KEYS.every((key) => numbers(debounced, key).includes(4));
  });
  const debounced = await list("debounced");
  for (const key of KEYS) {
    const passed = numbers(debounced, key);
    expect(new Set(passed).size).toBe(passed.length);
  }
  await until("every event is in a batch", async () => {
    const all = (await list("batched")).flatMap(({ input }) => input.map(({ n }) => n));
    return all.length === 5 * KEYS.length;
  });
  const batches = (await list("batched")).flatMap(({ input }) => [...input]);
  expect(new Set(batches.map((one) => JSON.stringify(one))).size).toBe(5 * KEYS.length);
  // Only the first event of a key started an execution, which waits.
  const single = await list("single");
  expect(single.map(({ input }) => `${input.key}${input.n}`).toSorted()).toEqual(
    KEYS.map((key) => `${key}0`),
  );
  await Promise.all(KEYS.map((key) => send("withdrawn", key, 0)));
  await until("every order is cancelled", async () => {
    const orders = await list("order");
    return orders.length === 5 * KEYS.length && orders.every(({ status }) => status === "cancelled");
  });
});
