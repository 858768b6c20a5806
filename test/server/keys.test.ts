// Idempotency keys that are used for something else: refused with a clear text, also by the next server of the store.
import { describe, expect, test } from "vitest";
import {
  type Api,
  folder,
  type Loose,
  type Sent,
  serve,
  textOf,
  until,
} from "../fixtures/server/api-fixture.ts";
import { approval } from "../fixtures/server/api-workflows.ts";

const key = (value: string, sent: Sent = {}): Sent => ({ ...sent, headers: { "idempotency-key": value } });

async function served(store?: string): Promise<Api> {
  const api = await serve(store === undefined ? {} : { store });
  api.rondo.serve(approval);
  await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (1 as never));
  return api;
}

const conflict = (text: string): unknown =>
  expect.objectContaining({
    code: "conflict",
    status: 409,
    path: "Idempotency-Key",
    detail: expect.stringContaining(text),
  });

describe("a key that was used", () => {
  test("is refused with another body, another execution, another route", async () => {
    const api = await served();
    const start = { workflow: "approval", input: 1 };
    const first = await api.post("/v1/executions", start, key("k"));
    expect(first.status).toBe(201);
    const used = 'the Idempotency-Key "k" was used before, with another request: POST /v1/executions';
    for (const other of [
      { ...start, input: 2 },
      { ...start, tags: { a: "b" } },
      { ...start, id: "named" },
      { ...start, deadline: 4_000_000_000_000 },
    ])
      expect((await api.post("/v1/executions", other, key("k"))).body).toEqual(conflict(used));
    const id = textOf(first.body["id"]);
    expect((await api.post(`/v1/executions/${id}/pause`, {}, key("k"))).body).toEqual(conflict(used));
    expect((await api.get(`/v1/executions/${id}`)).body["status"]).toBe("running");
    expect((await api.post(`/v1/executions/${id}/signals`, { name: "a", data: 1 }, key("s"))).status).toBe(
      200,
    );
    const again = await api.post(`/v1/executions/${id}/signals`, { name: "a", data: 2 }, key("s"));
    expect(again.body).toEqual(conflict(`POST /v1/executions/${id}/signals`));
    // The order of fields says nothing.
    const same = await api.post("/v1/executions", { input: 1, workflow: "approval" }, key("k"));
    expect([same.status, same.body["id"]]).toEqual([200, id]);
  });

  test("for what was refused is free again", async () => {
    const api = await served();
    expect((await api.post("/v1/executions", { workflow: "nope" }, key("k"))).status).toBe(404);
    expect((await api.post("/v1/executions", { workflow: "approval", id: "a" }, key("k"))).status).toBe(201);
  });

  test("is another's own: tokens and projects have keys of their own", async () => {
    const api = await served();
    await api.makeToken("admin");
    const [a, b] = [await api.makeToken("operator"), await api.makeToken("operator", "books")];
    await api.post("/v1/executions", { workflow: "approval", id: "a" });
    expect((await api.post("/v1/executions/a/pause", {}, key("k", { token: a }))).status).toBe(200);
    const other = await api.post("/v1/executions", { workflow: "approval", id: "b" }, key("k", { token: b }));
    expect(other.status).toBe(201);
    const project = { workflow: "approval", id: "c", project: "music" };
    expect((await api.post("/v1/executions", project, key("k", { token: a }))).status).toBe(201);
  });

  test("is refused side by side too: one of two requests is done", async () => {
    const api = await served();
    await api.post("/v1/executions", { workflow: "approval", id: "a" });
    const both = await Promise.all(
      ["one", "two"].map((name) => api.post("/v1/executions/a/signals", { name }, key("k"))),
    );
    expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 409]);
    const events = (await api.get("/v1/executions/a/events")).body["data"] as unknown as { kind: string }[];
    expect(events.filter(({ kind }) => kind === "workflow.signalled")).toHaveLength(1);
  });

  test("is known to the next server of the store", async () => {
    const store = `file:${folder()}`;
    const before = await served(store);
    await before.post("/v1/executions", { workflow: "approval", id: "a" });
    expect((await before.post("/v1/executions/a/pause", {}, key("k"))).status).toBe(200);
    await before.close();
    const api = await served(store);
    expect((await api.post("/v1/executions/a/resume", {}, key("k"))).body).toEqual(
      conflict("POST /v1/executions/a/pause"),
    );
    expect((await api.post("/v1/executions/a/pause", {}, key("k"))).status).toBe(200);
  });
});

test("a schedule runs once for each key", async () => {
  const api = await served();
  await api.post("/v1/schedules", { id: "daily", workflow: "approval", cron: "0 6 * * *" });
  const run = (value: string): Promise<{ status: number; body: Loose }> =>
    api.post("/v1/schedules/daily/run", undefined, key(value));
  const first = await run("k");
  expect(first.status).toBe(201);
  const second = await run("k");
  expect([second.status, second.body["execution"]]).toEqual([200, first.body["execution"]]);
  expect((await run("l")).status).toBe(201);
  expect((await api.get("/v1/executions")).body["data"]).toHaveLength(2);
});
