// Events over HTTP: in Rondo's own form, as CloudEvents, and as signed webhooks; with the project of the caller.
import { createHmac } from "node:crypto";
import { on, openRondo, workflow } from "rondo";
import { connect } from "rondo/client";
import { describe, expect, test } from "vitest";
import { eventExecution } from "../../src/kernel/relay/relay-ids.ts";
import { decorate } from "../../src/std/decorate.ts";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import type { Store } from "../../src/store/store.ts";
import { effort } from "../fixtures/long.ts";
import { type Api, folder, serve, until } from "../fixtures/server/api-fixture.ts";
import { TestDatabase } from "../fixtures/store/postgres-server-fixture.ts";

const note = workflow<{ text: string }>({ name: "note", on: on("note/made") }).phase("keep", {
  process: ({ task }) => task.text,
});
const hook = workflow<{ type: string }>({ name: "hook", on: on("shop/order.paid") }).phase("keep", {
  process: ({ task }) => task.type,
});

const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

async function served(): Promise<Api> {
  const api = await serve({ webhooks: { shop: { secrets: [SECRET] } } });
  api.rondo.serve(note, hook);
  await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (2 as never));
  return api;
}

describe("POST /v1/events", () => {
  test("sends an event once by its id, and lists it", async () => {
    const api = await served();
    const event = { name: "note/made", data: { text: "a" }, id: "n-1" };
    const first = await api.post("/v1/events", event);
    expect([first.status, first.body["repeated"]]).toEqual([201, false]);
    const again = await api.post("/v1/events", event);
    expect([again.status, again.body["repeated"]]).toEqual([200, true]);
    expect(again.body["targets"]).toEqual(first.body["targets"]);
    await api.post("/v1/events", { name: "other", id: "o-1" });
    expect((await api.get("/v1/events")).body["data"]).toEqual([expect.objectContaining({ id: "n-1" })]);
    expect((await api.get("/v1/events?unmatched=true")).body["data"]).toEqual([
      expect.objectContaining({ name: "other", isMatched: false }),
    ]);
    expect((await api.post("/v1/events", { name: "note/made", dta: 1 })).status).toBe(422);
    expect((await api.post("/v1/events", [event])).status).toBe(422);
  });

  test("reads CloudEvents in structured and in binary mode", async () => {
    const api = await served();
    const attributes = { specversion: "1.0", type: "note/made", source: "/tests", id: "1" };
    const structured = await api.post(
      "/v1/events",
      { ...attributes, data: { text: "s" }, datacontenttype: "application/json" },
      { headers: { "content-type": "application/cloudevents+json" } },
    );
    expect(structured.status).toBe(201);
    const headers = Object.fromEntries(
      Object.entries(attributes).map(([name, value]) => [`ce-${name}`, value]),
    );
    const repeated = await api.post("/v1/events", { text: "b" }, { headers });
    expect([repeated.status, repeated.body["repeated"]]).toEqual([200, true]);
    const binary = await api.post("/v1/events", { text: "b" }, { headers: { ...headers, "ce-id": "2" } });
    expect(binary.status).toBe(201);
    // The same id of another source is another event.
    const other = await api.post("/v1/events", { text: "c" }, { headers: { ...headers, "ce-source": "/o" } });
    expect(other.status).toBe(201);
    const wrong = await api.post("/v1/events", { ...attributes, specversion: "0.3" });
    expect(wrong.body).toMatchObject({ code: "invalid_input", detail: expect.stringContaining("1.0") });
    const missing = await api.post("/v1/events", { specversion: "1.0", type: "note/made", id: "1" });
    expect(missing.body).toMatchObject({ detail: expect.stringContaining("source") });
    await until(
      async () => (await api.get("/v1/executions?workflow=note")).body["data"]?.["length"] === (3 as never),
    );
  });

  test("is what the client sends", async () => {
    const api = await served();
    const client = connect({ url: api.url });
    const sent = await client.send({ name: "note/made", data: { text: "c" } });
    const [target] = sent.targets;
    await until(async () => (await client.list({ workflow: "note" })).data.length === 1);
    expect(await client.execution(target?.execution ?? "").result()).toBe("c");
    await client.close();
  });
});

test("events that are sent together share reads and writes: none costs a statement of its own", async () => {
  const calls = { listDocuments: 0, getDefinition: 0, putDocuments: 0, putDocument: 0 };
  const inner = new MemoryStore();
  const counted = Object.fromEntries(
    Object.keys(calls).map((method) => [
      method,
      (...args: unknown[]) => {
        calls[method as keyof typeof calls]++;
        return Reflect.apply(Reflect.get(inner, method), inner, args);
      },
    ]),
  );
  const api = await serve({ store: decorate<Store>(inner, counted) });
  const held = workflow<{ key: number }>({
    name: "held",
    on: on("held", { key: "/key", debounce: { quiet: "1h" } }),
  }).phase("a", { process: () => null });
  api.rondo.serve(held);
  await api.rondo.send({ name: "held", data: { key: -1 } });
  const burst = async (send: (key: number) => Promise<unknown>) => {
    Object.assign(calls, { listDocuments: 0, getDefinition: 0, putDocuments: 0, putDocument: 0 });
    await Promise.all(Array.from({ length: 200 }, (_, i) => send(i)));
    return Object.values(calls).reduce((sum, count) => sum + count, 0);
  };
  expect(await burst((key) => api.rondo.send({ name: "held", data: { key } }))).toBeLessThan(20);
  const { body } = await api.get("/v1/events?limit=1000");
  expect(body["data"]).toHaveLength(201);
});

const stores: readonly [name: string, store: () => string | Promise<string>][] = [
  ["embedded", () => `file:${folder()}`],
  ["PostgreSQL", async () => (await TestDatabase.make()).newDatabase()],
];

test.each(stores)(
  "keys that are debounced wait in the store, not in memory: %s",
  {
    timeout: effort({ usual: 120_000, long: 3_600_000 }),
  },
  async (name, store) => {
    const keys = effort({ usual: 300, long: 100_000 });
    const held = workflow<{ key: number }>({
      name: "held",
      on: on("held", { key: "/key", debounce: { quiet: "1h" } }),
    }).phase("a", { process: () => null });
    const api = await serve({ store: await store(), settings: { idleMax: 20, windowMax: 20 } });
    api.rondo.serve(held);
    let most = 0;
    const before = Date.now();
    for (let from = 0; from < keys; from += 100) {
      const sent = Array.from({ length: 100 }, (_, i) =>
        api.rondo.send({ name: "held", data: { key: from + i } }),
      );
      await Promise.all(sent);
      most = Math.max(most, api.server.engine.residentCount);
    }
    const gates = async () => (await api.get("/v1/timers?limit=1000")).body["data"]?.["length"];
    await until(async () => (await gates()) === (Math.min(keys, 1_000) as never));
    expect(most).toBeLessThan(320);
    await until(() => api.server.engine.residentCount < 60);
    if (process.env["RONDO_TEST_LONG"] === "1")
      process.stdout.write(
        `${name}: ${keys} keys in ${Date.now() - before} ms, at most ${most} executions in memory, ${process.memoryUsage.rss() >> 20} MB\n`,
      );
  },
);

describe("POST /v1/webhooks/{source}", () => {
  const body = JSON.stringify({ type: "order.paid", timestamp: "2026-11-17T00:00:00Z", data: {} });
  const signed = (id: string, { secret = SECRET, at = Date.now(), text = body } = {}) => {
    const time = String(Math.floor(at / 1_000));
    const key = Buffer.from(secret.slice("whsec_".length), "base64");
    const signature = createHmac("sha256", key).update(`${id}.${time}.${text}`).digest("base64");
    return { "webhook-id": id, "webhook-timestamp": time, "webhook-signature": `v1,AAAA v1,${signature}` };
  };
  const post = async (api: Pick<Api, "url">, source: string, headers: Record<string, string>) => {
    const answer = await fetch(`${api.url}/v1/webhooks/${source}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body,
    });
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  };

  test("becomes an event if its signature is right, once by its id", async () => {
    const api = await served();
    const headers = signed("msg_1");
    const first = await post(api, "shop", headers);
    expect([first.status, first.body["repeated"]]).toEqual([201, false]);
    expect(first.body["targets"]).toEqual([expect.objectContaining({ workflow: "hook", action: "start" })]);
    expect((await post(api, "shop", headers)).body["repeated"]).toBe(true);
  });

  test("is taken by a program with openRondo, too", async () => {
    const webhooks = { shop: { secrets: [SECRET] } };
    await using rondo = await openRondo({ store: "memory:", server: { port: 0, webhooks } });
    rondo.serve(hook);
    await until(async () => (await rondo.versions("hook")).length === 1);
    const taken = await post({ url: rondo.url as string }, "shop", signed("msg_1"));
    expect(taken.body).toMatchObject({ targets: [{ workflow: "hook", action: "start" }], repeated: false });
    const short = openRondo({ store: "memory:", server: { webhooks: { shop: { secrets: ["hunter2"] } } } });
    const refused = await short.catch((thrown: Error) => thrown.message);
    expect(refused).toContain("server.webhooks.shop.secrets");
    expect(refused).not.toContain("hunter2");
  });

  test("is refused without a right signature, from an unknown source, or if it is old", async () => {
    const api = await served();
    const wrong = signed("msg_1", { secret: "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" });
    const refused = [
      await post(api, "shop", wrong),
      await post(api, "shop", {}),
      await post(api, "other", signed("msg_1")),
      // A name that every object has.
      await post(api, "constructor", signed("msg_1")),
      await post(api, "shop", signed("msg_1", { at: Date.now() - 3_600_000 })),
      await post(api, "shop", signed("msg_1", { text: `${body} ` })),
    ];
    expect(refused.map(({ status }) => status)).toEqual(refused.map(() => 401));
    // Nothing tells a stranger which sources there are.
    for (const headers of [wrong, {}, signed("msg_1", { at: 0 })])
      expect((await post(api, "other", headers)).body).toEqual((await post(api, "shop", headers)).body);
    expect((await api.get("/v1/events")).body["data"]).toEqual([]);
  });
});

test("an event that is sent again after it was forgotten does not block the key of a singleton", async () => {
  const one = workflow<{ n: number }>({ name: "one", on: on("one", { singleton: "skip" }) }).phase("a", {
    process: ({ task }) => task.n,
  });
  const store = new MemoryStore();
  const count = async (api: Api, workflow: string): Promise<number> => {
    const { body } = await api.get(`/v1/executions?workflow=${workflow}&status=done`);
    return (body["data"] as unknown as object[]).length;
  };
  const opened = async (): Promise<Api> => {
    const api = await serve({ store });
    api.rondo.serve(one);
    await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (1 as never));
    return api;
  };
  const before = await opened();
  await before.post("/v1/events", { name: "one", data: { n: 1 }, id: "e-1" });
  await until(async () => (await count(before, "one")) + (await count(before, "rondo-gate")) === 2);
  await before.close();
  await store.open();
  await store.purge([eventExecution("default", "e-1")]);
  await store.close({ clean: true });
  const api = await opened();
  const again = await api.post("/v1/events", { name: "one", data: { n: 1 }, id: "e-1" });
  expect(again.body["repeated"]).toBe(false);
  await until(async () => {
    await api.post("/v1/events", { name: "one", data: { n: 2 } });
    return (await count(api, "one")) > 1;
  });
});

test("the workflows of the engine are not listed and cannot be started", async () => {
  const api = await served();
  await api.post("/v1/events", { name: "note/made", data: { text: "a" } });
  expect((await api.get("/v1/workflows")).body["data"]).toHaveLength(2);
  for (const name of ["rondo-event", "rondo-gate"])
    expect((await api.post("/v1/executions", { workflow: name, input: {} })).status).toBe(404);
});
