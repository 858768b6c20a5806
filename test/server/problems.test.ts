// What is refused, and how: every refusal is an RFC 9457 problem with a code, a status from the one table and a hint.
import { describe, expect, test } from "vitest";
import { PROBLEMS } from "../../src/server/http/problem.ts";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { StoreFault } from "../../src/store/store.ts";
import { type Got, serve, until } from "../fixtures/server/api-fixture.ts";
import { approval, doubles, idle } from "../fixtures/server/api-workflows.ts";

function expectProblem(got: Got, code: keyof typeof PROBLEMS, path?: string): void {
  expect(got.body).toMatchObject({
    code,
    status: PROBLEMS[code].status,
    ...(path === undefined ? {} : { path }),
  });
  expect(got.status).toBe(PROBLEMS[code].status);
  expect(got.headers.get("content-type")).toBe("application/problem+json");
  expect(Object.keys(got.body)).toEqual(
    expect.arrayContaining(["type", "title", "status", "detail", "code", "hint"]),
  );
}

async function served() {
  const api = await serve();
  api.rondo.serve(doubles, approval);
  await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (2 as never));
  await api.post("/v1/workflows", idle);
  return api;
}

describe("a body is refused", () => {
  const bodies: [what: string, body: unknown, code: keyof typeof PROBLEMS, path?: string][] = [
    ["that is not JSON", "{", "invalid_json"],
    ["that is missing", "", "invalid_json"],
    [
      "with a field that there is not",
      { workflow: "doubles", input: {}, inputt: 1 },
      "unknown_field",
      "inputt",
    ],
    ["with a wrong type", { workflow: 7 }, "invalid_input", "workflow"],
    ["that is a list", [], "invalid_input"],
    [
      "that looks like a rejection",
      { kind: "rejection", code: "not_found", message: "x" },
      "invalid_input",
      "workflow",
    ],
    ["for a workflow that there is not", { workflow: "nowhere", input: {} }, "not_found", "workflow"],
    ["with an id that is none", { workflow: "doubles", input: {}, id: "a\nb" }, "invalid_input", "id"],
    [
      "with an id that only the engine makes",
      { workflow: "doubles", input: {}, id: "a~1" },
      "invalid_input",
      "id",
    ],
    [
      "with a project that is none",
      { workflow: "doubles", input: {}, project: "7" },
      "invalid_input",
      "project",
    ],
    [
      "with tags that are none",
      { workflow: "doubles", input: {}, tags: { a: 1 } },
      "invalid_input",
      "tags.a",
    ],
    [
      "with a time that is none",
      { workflow: "doubles", input: {}, startAt: "tomorrow" },
      "invalid_input",
      "startAt",
    ],
    [
      "with a time without a zone",
      { workflow: "doubles", input: {}, deadline: "2026-11-15T06:00:00" },
      "invalid_input",
      "deadline",
    ],
    ["whose input misses what the schema wants", { workflow: "idle", input: {} }, "invalid_input", "input"],
    [
      "whose input has a wrong type",
      { workflow: "idle", input: { bucket: 7 } },
      "invalid_input",
      "input.bucket",
    ],
    ["without the input that the schema wants", { workflow: "idle" }, "invalid_input", "input"],
    ["with a lone surrogate", '{"workflow":"doubles","input":"\\ud800"}', "not_storable", "input"],
    [
      "that is nested too deeply",
      `{"workflow":"doubles","input":${"[".repeat(200)}${"]".repeat(200)}}`,
      "too_deep",
    ],
    [
      "whose input is nested just too deeply",
      `{"workflow":"doubles","input":${"[".repeat(102)}${"]".repeat(102)}}`,
      "too_deep",
    ],
    ["whose input is too large", { workflow: "doubles", input: "x".repeat(1_100_000) }, "too_large", "input"],
    [
      "that has too many keys",
      `{"workflow":"doubles","input":{${Array.from({ length: 200_100 }, (_, i) => `"${i}":0`).join()}}}`,
      "too_large",
    ],
  ];
  test.each(bodies)("%s", async (_, body, code, path) => {
    const api = await served();
    expectProblem(await api.post("/v1/executions", body), code, path);
    expect((await api.get("/v1/executions")).body["data"]).toEqual([]);
    expect(api.faults).toEqual([]);
  });

  test("of another type than JSON, or packed", async () => {
    const api = await served();
    const body = JSON.stringify({ workflow: "doubles", input: {} });
    for (const headers of [
      { "content-type": "text/plain" },
      { "content-type": "application/x-www-form-urlencoded" },
      { "content-type": "application/json", "content-encoding": "gzip" },
    ])
      expectProblem(await api.post("/v1/executions", body, { headers }), "invalid_json");
    const latin = await fetch(`${api.url}/v1/executions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: Buffer.from(body.replace("{}", '"é"'), "latin1"),
    });
    expect(await latin.json()).toMatchObject({ code: "invalid_json" });
    const charset = { headers: { "content-type": "application/json; charset=utf-8" } };
    expect((await api.post("/v1/executions", body, charset)).status).toBe(201);
  });

  test("without what it needs, in plain words", async () => {
    const api = await serve();
    const start = await api.post("/v1/executions", {});
    expect(start.body).toMatchObject({ code: "invalid_input", detail: "workflow: is missing" });
    const definition = await api.post("/v1/workflows", { phases: [] });
    expect(definition.body).toMatchObject({
      code: "invalid_input",
      detail: "name: is missing",
      path: "name",
    });
  });

  test("a definition that is none, with the path in it", async () => {
    const api = await serve();
    expectProblem(await api.post("/v1/workflows", { name: "x", phases: [] }), "invalid_definition", "phases");
    expectProblem(await api.post("/v1/workflows", { ...idle, inputt: 1 }), "invalid_definition");
    expectProblem(await api.post("/v1/workflows", { ...idle, input: 7 }), "invalid_definition", "input");
    expectProblem(
      await api.post("/v1/workflows", { ...idle, input: { $ref: "#/nowhere" } }),
      "invalid_definition",
      "input",
    );
    const wait = (schema: unknown) => ({
      name: "w",
      phases: [{ name: "a", handlers: { a: { waitFor: "go", schema } } }],
    });
    expectProblem(await api.post("/v1/workflows", wait({ $ref: "#/x" })), "invalid_definition");
    const example = {
      type: "object",
      example: { id: "one" },
      properties: { example: { type: "string", example: { id: "one" } } },
    };
    expect((await api.post("/v1/workflows", { ...idle, input: example })).status).toBe(201);
    expectProblem(
      await api.post("/v1/executions", { workflow: "idle", input: { example: 7 } }),
      "invalid_input",
      "input.example",
    );
  });
});

describe("a request is refused", () => {
  test("for what does not exist", async () => {
    const api = await served();
    for (const path of ["", "/events", "/tasks", "/tasks/states", "/logs", "/why", "/dropped"])
      expectProblem(await api.get(`/v1/executions/nowhere${path}`), "not_found");
    for (const action of ["cancel", "pause", "resume", "retry"])
      expectProblem(await api.post(`/v1/executions/nowhere/${action}`), "not_found");
    expectProblem(await api.post("/v1/executions/nowhere/signals", { name: "go" }), "not_found");
    expectProblem(await api.get("/v1/workflows/nowhere"), "not_found");
    expectProblem(await api.get(`/v1/workflows/idle?hash=${"0".repeat(64)}`), "not_found");
    expectProblem(await api.get("/v1/schedules/nowhere"), "not_found");
    expectProblem(await api.post("/v1/schedules/nowhere/run"), "not_found");
    expectProblem(await api.post("/v1/dead-letters/7/retry"), "not_found");
    expectProblem(await api.post("/v1/dead-letters/x/drop"), "not_found");
    expectProblem(await api.delete("/v1/tokens/nowhere"), "not_found");
    expectProblem(await api.get("/v1/executions/a%20b"), "not_found");
    expectProblem(await api.get("/v1/nowhere"), "not_found");
    expectProblem(await api.get("/nowhere"), "not_found");
  });

  test("with another method, and is told which there are", async () => {
    const api = await serve();
    const got = await api.ask("PUT", "/v1/executions");
    expectProblem(got, "method_not_allowed");
    expect(got.headers.get("allow")).toBe("POST, GET");
    const bulk = await api.ask("DELETE", "/v1/executions/bulk");
    expect(bulk.headers.get("allow")).toContain("POST");
    expectProblem(await api.ask("OPTIONS", "/v1/executions"), "method_not_allowed");
  });

  test("with a query that is wrong", async () => {
    const api = await served();
    await api.post("/v1/executions", { workflow: "approval", id: "a" });
    const queries: [path: string, code: "invalid_input" | "unknown_field", at: string][] = [
      ["/v1/executions?limit=0", "invalid_input", "limit"],
      ["/v1/executions?limit=1001", "invalid_input", "limit"],
      ["/v1/executions?limit=x", "invalid_input", "limit"],
      ["/v1/executions?limit=1&limit=2", "invalid_input", "limit"],
      ["/v1/executions?status=gone", "invalid_input", "status"],
      ["/v1/executions?cursor=x", "invalid_input", "cursor"],
      ["/v1/executions?colour=red", "unknown_field", "colour"],
      ["/v1/executions/a?at=0", "invalid_input", "at"],
      ["/v1/executions/a/tasks?status=gone", "invalid_input", "status"],
      ["/v1/executions/a/tasks?cursor=x", "invalid_input", "cursor"],
      ["/v1/executions/a/tasks?at=999", "invalid_input", "at"],
      ["/v1/executions/a/tasks/states?by=colour", "invalid_input", "by"],
      ["/v1/executions/a/events?from=0", "invalid_input", "from"],
      ["/v1/executions/a/events?cursor=x", "invalid_input", "cursor"],
      ["/v1/executions/a/events?detail=much", "invalid_input", "detail"],
      ["/v1/executions/a/logs?cursor=x", "invalid_input", "cursor"],
      ["/v1/audit-log?cursor=x", "invalid_input", "cursor"],
      ["/v1/timers?until=-1", "invalid_input", "until"],
      ["/healthz?x=1", "unknown_field", "x"],
    ];
    for (const [path, code, at] of queries) expectProblem(await api.get(path), code, at);
    expect((await api.get("/v1/executions/a?at=999")).body).toMatchObject({ code: "invalid_input" });
    expectProblem(await api.get("/v1/executions/a/tasks?phase=nowhere"), "not_found");
    const last = { headers: { accept: "text/event-stream", "last-event-id": "x" } };
    expectProblem(await api.get("/v1/executions/a/events", last), "invalid_input", "Last-Event-ID");
    expectProblem(await api.get("/v1/executions/a/logs", last), "invalid_input", "Last-Event-ID");
  });

  test("in a status that does not allow it, or when it conflicts", async () => {
    const api = await served();
    await api.post("/v1/executions", { workflow: "approval", id: "a" });
    expectProblem(await api.post("/v1/executions/a/resume"), "wrong_status");
    expectProblem(await api.post("/v1/executions/a/retry"), "wrong_status");
    expectProblem(await api.post("/v1/executions", { workflow: "approval", id: "a", input: 1 }), "conflict");
    expectProblem(await api.post("/v1/executions", { workflow: "doubles", id: "a", input: {} }), "conflict");
    expectProblem(
      await api.post("/v1/executions", { workflow: "approval", id: "a", project: "books" }),
      "conflict",
      "id",
    );
    expectProblem(await api.post("/v1/executions/a/pause", { reason: "" }), "invalid_input", "reason");
    expectProblem(await api.post("/v1/executions/a/pause", { because: "x" }), "unknown_field", "because");
    expectProblem(await api.post("/v1/executions/a/signals", { name: "a\nb" }), "invalid_input", "name");
    expectProblem(
      await api.post("/v1/executions/a/signals", { name: "approved", data: { by: 7 } }),
      "invalid_input",
      "data.by",
    );
    expectProblem(await api.post("/v1/executions/a/signals", { name: "approved" }), "invalid_input", "data");
    for (let i = 0; i < 1_000; i++) await api.rondo.execution("a").signal("other", i);
    const full = await api.post("/v1/executions/a/signals", { name: "other" });
    expectProblem(full, "rate_limited");
    expectProblem(
      await api.post("/v1/executions/bulk", { action: "delete", filter: {} }),
      "invalid_input",
      "action",
    );
    expectProblem(
      await api.post("/v1/executions/bulk", { action: "cancel", filter: { id: "a" } }),
      "unknown_field",
      "filter.id",
    );
    expectProblem(await api.post("/v1/executions/bulk", { action: "cancel" }), "invalid_input", "filter");
    expectProblem(await api.post("/v1/tokens", { name: "x", role: "king" }), "invalid_input", "role");
  });

  test("with a key that is too long", async () => {
    const api = await served();
    const headers = { "idempotency-key": "k".repeat(201) };
    const got = await api.post("/v1/executions", { workflow: "approval" }, { headers });
    expectProblem(got, "invalid_input", "Idempotency-Key");
  });

  test("when the store fails, with nothing of why: that is for the server's log", async () => {
    const store = new MemoryStore();
    const api = await serve({ store });
    store.listHeads = () =>
      Promise.reject(new StoreFault("disk /dev/sdx", { retryable: true, nothingWritten: true }));
    const failed = await api.get("/v1/executions");
    expectProblem(failed, "store_unavailable");
    expect(failed.headers.get("retry-after")).toBe("1");
    store.listHeads = () => Promise.reject(new TypeError("disk /dev/sdx"));
    const broken = await api.get("/v1/executions");
    expectProblem(broken, "internal");
    expect(failed.text + broken.text).not.toContain("sdx");
    expect(api.faults.map(({ message }) => message)).toEqual(["disk /dev/sdx", "disk /dev/sdx"]);
  });

  test("once the engine has stopped, and the server says that it is not ready", async () => {
    const api = await served();
    await api.post("/v1/executions", { workflow: "approval", id: "a" });
    await api.server.engine.close();
    expectProblem(await api.get("/readyz"), "not_ready");
    expectProblem(await api.get("/v1/executions/a"), "not_ready");
    expect((await api.get("/healthz")).status).toBe(200);
  });
});

test("every code has a status of its own place, a title and a next step", () => {
  expect(Object.fromEntries(Object.entries(PROBLEMS).map(([code, { status }]) => [code, status]))).toEqual({
    bad_request: 400,
    invalid_json: 400,
    unauthorised: 401,
    forbidden: 403,
    not_found: 404,
    method_not_allowed: 405,
    request_timeout: 408,
    conflict: 409,
    gone: 409,
    wrong_status: 409,
    stale_attempt: 409,
    update_refused: 409,
    too_large: 413,
    not_owner: 421,
    invalid_input: 422,
    invalid_definition: 422,
    unknown_field: 422,
    not_storable: 422,
    too_deep: 422,
    rate_limited: 429,
    headers_too_large: 431,
    internal: 500,
    store_unavailable: 503,
    not_ready: 503,
    timeout: 504,
  });
});

test("a token that does not fit an attempt: the hint says how the id goes into a URL", async () => {
  const api = await served();
  const refused = await fetch(`${api.url}/v1/attempts/orders%2F7.a.1.a.1.0.1.0.1/logs`, {
    method: "POST",
    headers: { authorization: `Bearer ${"x".repeat(43)}`, "content-type": "application/json" },
    body: JSON.stringify({ lines: [] }),
  });
  expect(refused.status).toBe(403);
  expect(await refused.json()).toMatchObject({
    code: "forbidden",
    detail: "this token does not belong to this attempt",
    hint: expect.stringContaining("percent-encode its id in the URL, so that each % in it is %25"),
  });
});
