// What requests carry beside their bodies: keys that make repeating harmless, entity tags, times, trace contexts.
import { describe, expect, test } from "vitest";
import { type Api, ended, serve, textOf, until } from "../fixtures/server/api-fixture.ts";
import { approval, doubles } from "../fixtures/server/api-workflows.ts";

async function served(): Promise<Api> {
  const api = await serve();
  api.rondo.serve(doubles, approval);
  await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (2 as never));
  return api;
}

describe("Idempotency-Key", () => {
  const key = (value: string) => ({ headers: { "idempotency-key": value } });

  test("starts once for each key and project", async () => {
    const api = await served();
    const body = { workflow: "approval", input: 1 };
    const first = await api.post("/v1/executions", body, key("k"));
    expect(first.status).toBe(201);
    const second = await api.post("/v1/executions", body, key("k"));
    expect([second.status, second.body["id"]]).toEqual([200, first.body["id"]]);
    const other = await api.post("/v1/executions", body, key("l"));
    expect(other.status).toBe(201);
    const project = await api.post("/v1/executions", { ...body, project: "books" }, key("k"));
    expect([project.status, project.body["id"] === first.body["id"]]).toEqual([201, false]);
    const changed = await api.post("/v1/executions", { ...body, input: 2 }, key("k"));
    expect(changed.body).toMatchObject({ code: "conflict" });
    const named = await api.post("/v1/executions", { ...body, id: "named" }, key("m"));
    expect(named.body["id"]).toBe("named");
    expect((await api.get("/v1/executions")).body["data"]).toHaveLength(4);
  });

  test("and an id find what was started, though the newest definition takes another input by now", async () => {
    const api = await serve();
    const sleeper = { name: "sleeper", phases: [{ name: "nap", handlers: { nap: { sleep: "1d" } } }] };
    const start = { workflow: "sleeper", input: { a: 1, b: 2 } };
    await api.post("/v1/workflows", sleeper);
    await api.post("/v1/executions", { ...start, id: "one" });
    const keyed = await api.post("/v1/executions", start, key("k"));
    await api.post("/v1/workflows", { ...sleeper, input: { type: "object", required: ["c"] } });
    const again = await api.post("/v1/executions", { ...start, input: { b: 2, a: 1 }, id: "one" });
    expect([again.status, again.body["id"]]).toEqual([200, "one"]);
    const repeated = await api.post("/v1/executions", start, key("k"));
    expect([repeated.status, repeated.body["id"]]).toEqual([200, keyed.body["id"]]);
    const refused = await Promise.all([
      api.post("/v1/executions", { ...start, id: "two" }),
      api.post("/v1/executions", { ...start, input: { a: 1 }, id: "one" }),
      api.post("/v1/executions", start),
    ]);
    expect(refused.map(({ body }) => body["code"])).toEqual(Array(3).fill("invalid_input"));
  });

  test("of starts side by side makes one execution", async () => {
    const api = await served();
    const starts = await Promise.all(
      Array.from({ length: 20 }, () => api.post("/v1/executions", { workflow: "approval" }, key("k"))),
    );
    expect(new Set(starts.map(({ body }) => body["id"])).size).toBe(1);
    expect(starts.filter(({ status }) => status === 201)).toHaveLength(1);
  });

  test("makes repeating a signal, a pause and a retry harmless", async () => {
    const api = await served();
    await api.post("/v1/executions", { workflow: "approval", id: "a" });
    const count = async (kind: string): Promise<number> => {
      const { body } = await api.get("/v1/executions/a/events?limit=1000");
      return (body["data"] as unknown as { kind: string }[]).filter((event) => event.kind === kind).length;
    };
    for (let i = 0; i < 3; i++) await api.post("/v1/executions/a/signals", { name: "other" }, key("s"));
    await api.post("/v1/executions/a/signals", { name: "other" }, key("s2"));
    expect(await count("workflow.signalled")).toBe(2);
    await api.post("/v1/executions/a/pause", {}, key("p"));
    await api.post("/v1/executions/a/resume", {}, key("r"));
    expect((await api.post("/v1/executions/a/pause", {}, key("p"))).body["status"]).toBe("running");
    expect(await count("workflow.paused")).toBe(1);
    await api.post("/v1/executions/a/cancel");
    await ended(api, "a");
    await api.post("/v1/executions/a/retry", {}, key("again"));
    await api.post("/v1/executions/a/retry", {}, key("again"));
    expect(await count("workflow.retried")).toBe(1);
  });
});

describe("an entity tag", () => {
  test("of an execution changes with it; until then the answer is 304", async () => {
    const api = await served();
    await api.post("/v1/executions", { workflow: "approval", id: "a" });
    const first = await api.get("/v1/executions/a");
    const tag = String(first.headers.get("etag"));
    expect(tag).toMatch(/^"\d+-\w+"$/);
    const same = await api.get("/v1/executions/a", { headers: { "if-none-match": `"x", W/${tag}` } });
    expect([same.status, same.text, same.headers.get("etag")]).toEqual([304, "", tag]);
    await api.post("/v1/executions/a/pause");
    const changed = await api.get("/v1/executions/a", { headers: { "if-none-match": tag } });
    expect(changed.status).toBe(200);
    expect(changed.headers.get("etag")).not.toBe(tag);
  });

  test("of a definition is its hash", async () => {
    const api = await served();
    const { headers, body } = await api.get("/v1/workflows/doubles");
    expect(headers.get("etag")).toBe(`"${textOf(body["hash"])}"`);
    const same = await api.get("/v1/workflows/doubles", {
      headers: { "if-none-match": String(headers.get("etag")) },
    });
    expect(same.status).toBe(304);
  });
});

describe("a start", () => {
  test("takes times as texts and as numbers", async () => {
    const api = await served();
    const later = Date.now() + 3_600_000;
    await api.post("/v1/executions", { workflow: "doubles", input: {}, id: "a", startAt: later });
    const text = new Date(later).toISOString();
    await api.post("/v1/executions", {
      workflow: "doubles",
      input: {},
      id: "b",
      startAt: text,
      deadline: later + 1,
    });
    await api.post("/v1/executions", {
      workflow: "approval",
      id: "c",
      deadline: "2001-01-01T00:00:00+02:00",
    });
    const { body } = await api.get("/v1/timers");
    expect(body["data"]).toMatchObject([
      { execution: "a", timer: "start", due: later },
      { execution: "b", timer: "start", due: later },
      { execution: "b", timer: "deadline", due: later + 1 },
    ]);
    expect(await ended(api, "c")).toMatchObject({ status: "cancelled", error: { code: "deadline" } });
  });

  test("keeps the trace context that it came with, if it is one", async () => {
    const api = await served();
    const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    await api.post("/v1/executions", { workflow: "approval", id: "a" }, { headers: { traceparent: trace } });
    await api.post(
      "/v1/executions",
      { workflow: "approval", id: "b" },
      { headers: { traceparent: "00-zz" } },
    );
    const created = async (id: string) =>
      (await api.get(`/v1/executions/${id}/events?limit=1&detail=full`)).body["data"]?.["0"];
    expect(await created("a")).toMatchObject({ trace });
    expect(await created("b")).not.toHaveProperty("trace");
  });
});

test("HEAD answers as GET does, without a body", async () => {
  const api = await served();
  const head = await fetch(`${api.url}/v1/workflows/doubles`, { method: "HEAD" });
  const get = await fetch(`${api.url}/v1/workflows/doubles`);
  expect(head.status).toBe(200);
  expect(head.headers.get("content-length")).toBe(get.headers.get("content-length"));
  expect(await head.text()).toBe("");
  expect((await fetch(`${api.url}/v1/nowhere`, { method: "HEAD" })).status).toBe(404);
});

test("the configuration is shown with its origins, without its secrets", async () => {
  const api = await serve({
    shown: [
      { name: "port", value: 0, origin: "flag --port" },
      { name: "store", value: "postgres://jo:hunter2@db/rondo", origin: "environment RONDO_STORE" },
      { name: "adminToken", value: "hunter2", origin: "environment RONDO_ADMIN_TOKEN" },
      { name: "secret", value: null, origin: "default" },
      { name: "webhooks", value: ["hunter2"], origin: "file rondo.config.ts", isSecret: true },
      { name: "webhookSecrets", value: [], origin: "default", isSecret: true },
      // Nothing is hidden where nothing is set.
      { name: "alerts", value: { targets: {} }, origin: "default", isSecret: true },
      {
        name: "stateStores",
        value: { a: { url: "redis://:hunter2@r", password: "hunter2" } },
        origin: "default",
      },
    ],
  });
  const { body, text } = await api.get("/v1/config");
  expect(text).not.toContain("hunter2");
  expect(body["data"]).toEqual([
    { name: "port", value: 0, origin: "flag --port" },
    { name: "store", value: "postgres://jo:(secret)@db/rondo", origin: "environment RONDO_STORE" },
    { name: "adminToken", value: "(secret)", origin: "environment RONDO_ADMIN_TOKEN" },
    { name: "secret", value: null, origin: "default" },
    { name: "webhooks", value: "(secret)", origin: "file rondo.config.ts" },
    { name: "webhookSecrets", value: [], origin: "default" },
    { name: "alerts", value: { targets: {} }, origin: "default" },
    {
      name: "stateStores",
      value: { a: { url: "redis://:(secret)@r", password: "(secret)" } },
      origin: "default",
    },
  ]);
});
