// Every route of the table does what it says, over a memory store and over SQLite. The fixture checks each answer against
// the OpenAPI document.
import { describe, expect, test } from "vitest";
import { type Api, ended, STORES, serve, textOf, until } from "../fixtures/server/api-fixture.ts";
import { approval, doubles, failing, idle } from "../fixtures/server/api-workflows.ts";

async function served(store: (typeof STORES)[number][1]): Promise<Api> {
  const api = await serve({ store: store() });
  api.rondo.serve(doubles, approval, failing);
  await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (3 as never));
  return api;
}

describe.each(STORES)("over a %s store", (_, store) => {
  test("many executions are started together, each with its own answer", async () => {
    const api = await served(store);
    await api.post("/v1/executions", { workflow: "doubles", input: { count: 1 }, id: "old" });
    const starts = [
      { input: { count: 1 }, id: "a", tags: { team: "ops" } },
      { input: { count: "x" }, id: "b" },
      { input: { count: 2 }, id: "a" },
      { input: { count: 1 }, id: "old" },
      { input: { count: 2 }, id: "no/name~" },
      { input: { count: 1 }, startAt: "2040-01-01T00:00:00Z" },
    ];
    const sent = { headers: { "idempotency-key": "k" } };
    const first = await api.post("/v1/executions/batch", { workflow: "doubles", starts }, sent);
    expect(first.status).toBe(200);
    const data = first.body["data"] as unknown as Record<string, unknown>[];
    expect(data).toEqual([
      { id: "a", existed: false },
      { error: expect.objectContaining({ code: "invalid_input", path: expect.stringContaining("input") }) },
      { error: expect.objectContaining({ code: "conflict", path: "id" }) },
      { id: "old", existed: true },
      { error: expect.objectContaining({ code: "invalid_input", path: "id" }) },
      { id: expect.stringMatching(/^key_/), existed: false },
    ]);
    // Repeated, all that were started are found again, also the one without an id.
    const again = await api.post("/v1/executions/batch", { workflow: "doubles", starts }, sent);
    const ids = (list: unknown): unknown[] => (list as { id?: string }[]).map(({ id }) => id);
    expect(ids(again.body["data"])).toEqual(ids(data));
    expect((again.body["data"] as unknown as { existed?: boolean }[]).map(({ existed }) => existed)).toEqual([
      true,
      undefined,
      undefined,
      true,
      undefined,
      true,
    ]);
    expect(await ended(api, "a")).toMatchObject({
      status: "done",
      input: { count: 1 },
      tags: { team: "ops" },
    });
    expect((await api.get("/v1/executions")).body["data"]).toHaveLength(3);
  });

  test("many starts are refused as a whole if they concern no workflow, or are too many", async () => {
    const api = await served(store);
    const post = (body: unknown) => api.post("/v1/executions/batch", body);
    expect((await post({ workflow: "nope", starts: [{}] })).status).toBe(404);
    expect((await post({ workflow: "doubles", starts: [] })).body["code"]).toBe("invalid_input");
    expect((await post({ workflow: "doubles", starts: Array(1_001).fill({}) })).body["code"]).toBe(
      "invalid_input",
    );
    expect((await post({ workflow: "doubles", starts: [{ input: {}, project: "x" }] })).body).toMatchObject({
      code: "unknown_field",
      path: "starts[0].project",
    });
    expect((await api.get("/v1/executions")).body["data"]).toEqual([]);
  });

  test("an execution is started, read, listed and found again", async () => {
    const api = await served(store);
    const body = { workflow: "doubles", input: { count: 3 }, id: "one", tags: { team: "ops" } };
    const started = await api.post("/v1/executions", body);
    expect(started.status).toBe(201);
    expect(started.headers.get("location")).toBe("/v1/executions/one");
    expect(started.body).toMatchObject({
      id: "one",
      workflow: "doubles",
      project: "default",
      input: { count: 3 },
    });
    const again = await api.post("/v1/executions", body);
    expect(again.status).toBe(200);
    expect(again.body["id"]).toBe("one");
    expect(await ended(api, "one")).toMatchObject({
      status: "done",
      tags: { team: "ops" },
      phases: [{ name: "double", visit: 1, status: "done", handlers: [{ total: 3, done: 3, sealed: true }] }],
    });
    const other = await api.post("/v1/executions", { workflow: "doubles", input: {}, project: "books" });
    expect(other.body["project"]).toBe("books");
    const list = async (query: string) =>
      ((await api.get(`/v1/executions${query}`)).body["data"] as unknown as { id: string }[]).map(
        ({ id }) => id,
      );
    await ended(api, textOf(other.body["id"]));
    expect(await list("")).toEqual([other.body["id"], "one"]);
    expect(await list("?project=books")).toEqual([other.body["id"]]);
    expect(await list("?status=running")).toEqual([]);
    expect(await list("?workflow=doubles&status=done&limit=1")).toEqual([other.body["id"]]);
    const page = await api.get("/v1/executions?limit=1");
    expect(await list(`?limit=1&cursor=${textOf(page.body["next"])}`)).toEqual(["one"]);
    expect((await api.get("/v1/executions?detail=full&project=default")).body["data"]).toMatchObject([
      { id: "one", phases: [{ name: "double" }], revision: expect.any(Number) },
    ]);
  });

  test("its past, its tasks, its journal and its logs can be read", async () => {
    const api = await served(store);
    await api.post("/v1/executions", { workflow: "doubles", input: {}, id: "one" });
    await ended(api, "one");
    expect((await api.get("/v1/executions/one?at=1")).body).toMatchObject({ status: "running", revision: 1 });
    const tasks = await api.get("/v1/executions/one/tasks?detail=full");
    expect(tasks.body).toMatchObject({ phase: "double", visit: 1, handler: "double", total: 3, next: null });
    expect(tasks.body["data"]).toMatchObject(
      [0, 1, 2].map((n) => ({ n, status: "done", attempts: 1, result: { twice: n * 2 }, task: { n } })),
    );
    const second = await api.get("/v1/executions/one/tasks?limit=1&from=1");
    expect(second.body).toMatchObject({ data: [{ n: 1 }], next: "2" });
    expect((await api.get("/v1/executions/one/tasks?limit=1&cursor=2")).body).toMatchObject({
      data: [{ n: 2 }],
      next: null,
    });
    expect((await api.get("/v1/executions/one/tasks?status=failed")).body["data"]).toEqual([]);

    const events = await api.get("/v1/executions/one/events?limit=1000");
    const kinds = (events.body["data"] as unknown as { kind: string }[]).map(({ kind }) => kind);
    expect(kinds[0]).toBe("workflow.created");
    expect(kinds.at(-1)).toBe("workflow.finished");
    const some = await api.get("/v1/executions/one/events?limit=2&from=2");
    expect(some.body).toMatchObject({ data: [{ seq: 2 }, { seq: 3 }], next: "4" });
    expect((await api.get("/v1/executions/one/events?limit=1&cursor=4")).body).toMatchObject({
      data: [{ seq: 4 }],
    });

    await until(
      async () => (await api.get("/v1/executions/one/logs")).body["data"]?.["length"] === (3 as never),
    );
    const logs = await api.get("/v1/executions/one/logs?limit=2");
    expect(logs.body["data"]).toMatchObject([{ level: "info", task: 0 }, { level: "info" }]);
    const rest = await api.get(`/v1/executions/one/logs?cursor=${textOf(logs.body["next"])}`);
    expect(rest.body).toMatchObject({ data: [{ level: "info" }], next: null });
    expect((await api.get("/v1/executions/one/logs?task=1")).body["data"]).toMatchObject([
      { text: "doubling 1", task: 1, attempt: 1, phase: "double", handler: "double" },
    ]);
    expect((await api.get("/v1/executions/one/logs?level=error")).body["data"]).toEqual([]);
  });

  test("the states of tasks come as bytes", async () => {
    const api = await served(store);
    await api.post("/v1/executions", { workflow: "failing", input: {}, id: "one" });
    await ended(api, "one");
    const bytes = async (query = ""): Promise<number[]> => {
      const response = await fetch(`${api.url}/v1/executions/one/tasks/states${query}`);
      expect(response.headers.get("content-type")).toBe("application/octet-stream");
      expect(JSON.parse(response.headers.get("rondo-legend") ?? "")).toBeTypeOf("object");
      return [...new Uint8Array(await response.arrayBuffer())];
    };
    const states = await bytes();
    expect(states).toHaveLength(3);
    expect(states[1]).toBe(5 | (1 << 4));
    expect(states.filter((byte) => (byte & 15) === 4 || (byte & 15) === 6)).toHaveLength(2);
    expect((await bytes("?by=worker")).filter((byte) => byte === 1).length).toBeGreaterThan(0);
    expect(await bytes("?by=ms")).toHaveLength(3);
    const early = await bytes("?at=4");
    expect(early.every((byte) => byte === 0)).toBe(true);
    expect((await api.get("/v1/executions/one/tasks?status=failed")).body["data"]).toMatchObject([
      { n: 1, status: "failed", error: { message: "no such key" } },
    ]);
  });

  test("an execution is paused, resumed, signalled, cancelled and retried", async () => {
    const api = await served(store);
    await api.post("/v1/executions", { workflow: "approval", id: "a" });
    const paused = await api.post("/v1/executions/a/pause", { reason: "lunch", by: "jo" });
    expect(paused.body["status"]).toBe("paused");
    expect((await api.get("/v1/executions/a/why")).body["why"]).toBe(
      "It is paused by jo (lunch); resume it to go on.",
    );
    expect((await api.post("/v1/executions/a/resume")).body["status"]).toBe("running");
    const signal = await api.post("/v1/executions/a/signals", { name: "approved", data: { by: "ann" } });
    expect(signal.body).toEqual({ execution: "a", signal: "approved", state: "delivered" });
    expect(await ended(api, "a")).toMatchObject({ status: "done" });

    await api.post("/v1/executions", { workflow: "approval", id: "b" });
    expect((await api.post("/v1/executions/b/cancel", {})).status).toBe(200);
    expect(await ended(api, "b")).toMatchObject({
      status: "cancelled",
      error: { message: "cancelled by local" },
    });
    expect((await api.post("/v1/executions/b/retry", { id: "again" })).body["status"]).toBe("running");
    const once = await api.post("/v1/executions/b/retry", { id: "again" });
    expect(once.status).toBe(200);
    expect((await api.get("/v1/executions/b/dropped")).body).toEqual({ data: [], next: null });
  });

  test("many are changed at once, or only counted", async () => {
    const api = await served(store);
    for (const id of ["a", "b", "c"]) await api.post("/v1/executions", { workflow: "approval", id });
    await api.post("/v1/executions", { workflow: "doubles", input: {}, id: "d" });
    await ended(api, "d");
    const filter = { workflow: "approval" };
    const dry = await api.post("/v1/executions/bulk", { action: "pause", filter, dryRun: true });
    expect(dry.body).toEqual({ matched: 3, changed: 0, ids: ["c", "b", "a"], refused: [], next: null });
    const first = await api.post("/v1/executions/bulk", { action: "pause", filter, limit: 2 });
    expect(first.body).toMatchObject({ matched: 2, changed: 2 });
    const second = await api.post("/v1/executions/bulk", {
      action: "pause",
      filter,
      limit: 2,
      cursor: first.body["next"],
    });
    expect(second.body).toMatchObject({ matched: 1, changed: 1, ids: ["a"], next: null });
    const refused = await api.post("/v1/executions/bulk", { action: "resume", filter: {} });
    expect(refused.body).toMatchObject({
      matched: 4,
      changed: 3,
      refused: [{ id: "d", code: "wrong_status" }],
    });
  });

  test("a definition is stored once, shown, and started by its name", async () => {
    const api = await serve({ store: store() });
    const put = await api.post("/v1/workflows", idle);
    expect(put.status).toBe(201);
    expect((await api.post("/v1/workflows", idle)).status).toBe(200);
    const changed = await api.post("/v1/workflows", { ...idle, input: { type: "object" } });
    expect(changed.status).toBe(201);
    expect((await api.get("/v1/workflows")).body["data"]).toEqual([
      { name: "idle", hash: changed.body["hash"] },
    ]);
    expect((await api.get("/v1/workflows/idle")).body).toMatchObject({ hash: changed.body["hash"] });
    const old = await api.get(`/v1/workflows/idle?hash=${textOf(put.body["hash"])}`);
    expect(old.body).toMatchObject({ definition: { input: idle.input } });
    const started = await api.post("/v1/executions", { workflow: "idle", input: {}, id: "one" });
    expect(started.status).toBe(201);
    expect((await api.get("/v1/executions/one/tasks?detail=full")).body["data"]).toMatchObject([
      { n: 0, status: "pending", attempts: 0, worker: null, ms: null, task: { key: "a" } },
      { n: 1 },
    ]);
    expect((await api.get("/v1/executions/one/why")).body["why"]).toContain('none serves "idle.work"');
  });

  test("a schedule is made, changed, paused, resumed, run and forgotten", async () => {
    const api = await served(store);
    const spec = {
      id: "nightly",
      workflow: "doubles",
      input: {},
      cron: "0 6 * * *",
      timeZone: "Europe/Berlin",
    };
    expect((await api.post("/v1/schedules", spec)).status).toBe(201);
    const changed = await api.post("/v1/schedules", { ...spec, cron: "0 7 * * *" });
    expect(changed.status).toBe(200);
    expect(changed.body).toMatchObject({ cron: "0 7 * * *", misfire: "fireOnce", overlap: "allow" });
    expect((await api.get("/v1/schedules")).body["data"]).toMatchObject([{ id: "nightly" }]);
    expect((await api.post("/v1/schedules/nightly/pause")).body).toMatchObject({ state: { paused: true } });
    expect((await api.post("/v1/schedules/nightly/resume")).body).toMatchObject({ state: { paused: false } });
    const fits = { id: "fits", workflow: "picky", input: "a", cron: "@daily" };
    const picky = (type: string) => ({
      rondo: 1,
      name: "picky",
      input: { type },
      phases: [{ name: "a", handlers: { a: { waitFor: "go" } } }],
    });
    await api.post("/v1/workflows", picky("string"));
    expect((await api.post("/v1/schedules", fits)).body).toMatchObject({ cron: "0 0 * * *" });
    expect((await api.get("/v1/schedules/fits")).body).toMatchObject({ problem: null });
    await api.post("/v1/workflows", picky("number"));
    const problem = { code: "invalid_input", message: expect.stringContaining("input") as string };
    expect((await api.get("/v1/schedules/fits")).body).toMatchObject({ problem });
    expect((await api.get("/v1/schedules")).body["data"]).toMatchObject([
      { id: "fits", problem },
      { id: "nightly", problem: null },
    ]);
    await api.post("/v1/schedules", { ...fits, input: 1 });
    expect((await api.get("/v1/schedules/fits")).body).toMatchObject({ problem: null });
    await api.delete("/v1/schedules/fits");
    const run = await api.post("/v1/schedules/nightly/run");
    expect(run.status).toBe(201);
    expect(await ended(api, textOf(run.body["execution"]))).toMatchObject({
      status: "done",
      workflow: "doubles",
    });
    expect((await api.get("/v1/schedules/nightly")).body).toMatchObject({
      state: { lastExecution: run.body["execution"] },
    });
    expect((await api.delete("/v1/schedules/nightly")).status).toBe(204);
    expect((await api.get("/v1/schedules/nightly")).status).toBe(404);
    const wrong = await api.post("/v1/schedules", { ...spec, input: { count: "x" } });
    expect(wrong.body).toMatchObject({ status: 422, code: "invalid_input", path: "input.count" });
  });

  test("timers, limits and dead letters are listed; letters are dropped and retried", async () => {
    const api = await served(store);
    await api.post("/v1/executions", { workflow: "approval", id: "a" });
    expect((await api.get("/v1/timers")).body["data"]).toMatchObject([
      { execution: "a", due: expect.any(Number) },
    ]);
    expect((await api.get("/v1/timers?until=1")).body["data"]).toEqual([]);
    expect((await api.get("/v1/limits")).status).toBe(200);
    expect((await api.get("/v1/attempts?worker=nobody")).body).toEqual({ data: [], next: null });
    for (const id of ["f", "g"]) {
      await api.post("/v1/executions", { workflow: "failing", id });
      await ended(api, id);
    }
    const letters = await api.get("/v1/dead-letters");
    expect(letters.body["data"]).toMatchObject([
      { execution: "g" },
      {
        execution: "f",
        workflow: "failing",
        project: "default",
        phase: "work",
        handler: "work",
        count: 1,
        tasks: [{ n: 1, attempt: 1, error: { message: "no such key" } }],
      },
    ]);
    const [g, f] = letters.body["data"] as unknown as { id: number }[];
    expect((await api.get("/v1/dead-letters?execution=f")).body["data"]).toMatchObject([{ execution: "f" }]);
    expect((await api.post(`/v1/dead-letters/${f?.id}/drop`, { tasks: [1] })).status).toBe(204);
    expect((await api.post(`/v1/dead-letters/${f?.id}/drop`)).status).toBe(404);
    expect((await api.post(`/v1/dead-letters/${g?.id}/retry`)).body).toMatchObject({
      id: "g",
      status: "running",
    });
    await ended(api, "g");
    expect((await api.get("/v1/dead-letters")).body["data"]).toMatchObject([{ execution: "g" }]);
  });

  test("the server says how it is", async () => {
    const api = await served(store);
    expect((await api.get("/healthz")).body).toEqual({ status: "ok" });
    expect((await api.get("/readyz")).body).toEqual({ status: "ready" });
    expect((await api.get("/version")).body).toMatchObject({
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    });
    await api.post("/v1/executions", { workflow: "failing", id: "f" });
    await ended(api, "f");
    const { text } = await api.get("/metrics");
    expect(text).toContain("rondo_executions_started_total 1");
    expect(text).toContain('rondo_executions_ended_total{status="failed"} 1');
    expect(text).toContain('rondo_tasks_settled_total{status="failed"} 1');
    expect(text).toContain('rondo_http_requests_total{route="/v1/executions",method="post",status="201"} 1');
    for (const name of [
      "commits_total",
      "commit_seconds_count",
      "open_leases",
      "resident_executions",
      "ready_tasks",
    ])
      expect(text).toContain(`rondo_${name}`);
    for (const name of ["workers", "sse_clients", "event_loop_lag_seconds"])
      expect(text).toContain(`rondo_${name}`);
    expect(text).not.toContain('"f"');
    expect(api.faults).toEqual([]);
  });
});
