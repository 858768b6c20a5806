// Requests that wait for the end of an execution: a start with `wait`, and the result of an execution.
import { request } from "node:http";
import { workflow } from "rondo";
import { describe, expect, test } from "vitest";
import { openServer } from "../../src/compose/compose-server.ts";
import { type Api, type Loose, STORES, serve, textOf, until } from "../fixtures/server/api-fixture.ts";
import { approval, failing } from "../fixtures/server/api-workflows.ts";
import { twoNodes } from "../fixtures/server/two-nodes-fixture.ts";

const greet = workflow<{ name: string }>({ name: "greet" })
  .phase("say", { process: async ({ input }) => `hello ${input.name}` })
  .returns(({ input }) => ({ greeted: input.name }));

const WAITING = { name: "approval", phases: [{ name: "wait", handlers: { wait: { waitFor: "go" } } }] };

async function served(store?: (typeof STORES)[number][1]): Promise<Api> {
  const api = await serve(store === undefined ? {} : { store: store() });
  api.rondo.serve(greet, approval, failing);
  await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (3 as never));
  return api;
}

const approve = (api: Api, id: string): Promise<unknown> =>
  api.post(`/v1/executions/${id}/signals`, { name: "approved", data: { by: "jo" } });

describe.each(STORES)("over a %s store", (_, store) => {
  test("a start with `wait` is answered when the execution has ended, with its output", async () => {
    const api = await served(store);
    const start = { workflow: "greet", input: { name: "ann" }, id: "one" };
    const first = await api.post("/v1/executions?wait=30s", start);
    expect([first.status, first.headers.get("preference-applied")]).toEqual([201, null]);
    expect(first.headers.get("location")).toBe("/v1/executions/one");
    expect(first.body).toMatchObject({ id: "one", status: "done", output: { greeted: "ann" } });
    const again = await api.post("/v1/executions?wait=30s", start);
    expect([again.status, again.body["status"]]).toEqual([200, "done"]);
    const failed = await api.post("/v1/executions?wait=60000", { workflow: "failing" });
    expect(failed.body).toMatchObject({ status: "failed", error: { code: "task_failed" } });
  });

  test("one that has not ended in time is shown as it stands, and goes on", async () => {
    const api = await served(store);
    const got = await api.post("/v1/executions?wait=20ms", { workflow: "approval", id: "a" });
    expect([got.status, got.headers.get("preference-applied")]).toEqual([201, "wait=timeout"]);
    expect(got.body).toMatchObject({ id: "a", status: "running", finishedAt: null });
    await approve(api, "a");
    expect((await api.get("/v1/executions/a/result?wait=30s")).body).toMatchObject({ status: "done" });
  });

  test("a result is answered at the end, or is not there in time", async () => {
    const api = await served(store);
    await api.post("/v1/executions", { workflow: "approval", id: "a" });
    for (const query of ["", "?wait=0s", "?wait=5ms"])
      expect((await api.get(`/v1/executions/a/result${query}`)).body).toMatchObject({
        status: 504,
        code: "timeout",
      });
    const waiting = [api.get("/v1/executions/a/result?wait=30s"), api.get("/v1/executions/a/result?wait=1m")];
    await approve(api, "a");
    for (const got of await Promise.all(waiting))
      expect([got.status, got.body]).toEqual([200, { status: "done", output: { by: "jo" } }]);
    expect((await api.get("/v1/executions/a/result")).body).toEqual({ status: "done", output: { by: "jo" } });
    await api.post("/v1/executions", { workflow: "failing", id: "f" });
    expect((await api.get("/v1/executions/f/result?wait=30s")).body).toEqual({
      status: "failed",
      error: expect.objectContaining({ code: "task_failed", message: expect.any(String) }),
    });
    await api.post("/v1/executions", { workflow: "approval", id: "c" });
    const cancelled = api.get("/v1/executions/c/result?wait=30s");
    await api.post("/v1/executions/c/cancel");
    expect((await cancelled).body).toMatchObject({ status: "cancelled" });
    expect((await api.get("/v1/executions/nope/result?wait=1s")).status).toBe(404);
  });
});

test.each(["61s", "2m", "-1s", "soon", ""])("to wait for %j is refused", async (wait) => {
  const api = await served();
  const refused = { code: "invalid_input", path: "wait" };
  const start = await api.post(`/v1/executions?wait=${wait}`, { workflow: "approval", id: "a" });
  expect(start.body).toMatchObject(refused);
  expect((await api.get("/v1/executions")).body["data"]).toEqual([]);
  await api.post("/v1/executions", { workflow: "approval", id: "a" });
  expect((await api.get(`/v1/executions/a/result?wait=${wait}`)).body).toMatchObject(refused);
});

test("a repetition with the same Idempotency-Key waits for the same execution, also for another time", async () => {
  const api = await served();
  const headers = { "idempotency-key": "k" };
  const start = { workflow: "approval", input: 1 };
  const first = await api.post("/v1/executions?wait=5ms", start, { headers });
  expect(first.headers.get("preference-applied")).toBe("wait=timeout");
  const waiting = api.post("/v1/executions?wait=30s", start, { headers });
  const plain = await api.post("/v1/executions", start, { headers });
  expect([plain.status, plain.body["id"]]).toEqual([200, first.body["id"]]);
  await approve(api, textOf(first.body["id"]));
  expect((await waiting).body).toMatchObject({ id: textOf(first.body["id"]), status: "done" });
  expect((await api.get("/v1/executions")).body["data"]).toHaveLength(1);
  const other = await api.post("/v1/executions?wait=30s", { ...start, input: 2 }, { headers });
  expect(other.body["code"]).toBe("conflict");
});

test("a caller who leaves changes nothing, and is waited for no longer", async () => {
  const api = await served();
  const gone: Promise<void>[] = [];
  for (const [method, path, body] of [
    ["POST", "/v1/executions?wait=60s", JSON.stringify({ workflow: "approval", id: "a" })],
    ["GET", "/v1/executions/a/result?wait=60s", ""],
  ] as const) {
    const asked = request(`${api.url}${path}`, { method, headers: { "content-type": "application/json" } });
    gone.push(
      new Promise((resolve) => {
        asked.on("error", () => resolve());
      }),
    );
    asked.end(body);
    await until(async () => (await api.get("/v1/executions/a")).status === 200);
    await api.get("/v1/executions/a/why");
    asked.destroy();
  }
  await Promise.all(gone);
  expect((await api.get("/v1/executions/a")).body["status"]).toBe("running");
  await approve(api, "a");
  expect((await api.get("/v1/executions/a/result?wait=30s")).body["status"]).toBe("done");
  expect(api.faults).toEqual([]);
});

test("a server that closes answers all who wait", async () => {
  const server = await openServer({ store: "memory:", port: 0 });
  server.rondo.serve(approval);
  await server.rondo.start(approval, null, { id: "a" });
  const result = fetch(`${server.url}/v1/executions/a/result?wait=60s`);
  const started = fetch(`${server.url}/v1/executions?wait=60s`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ workflow: "approval", id: "b" }),
  });
  await until(async () => (await fetch(`${server.url}/v1/executions/b`)).status === 200);
  await server.close({ graceMs: 0 });
  expect(((await (await result).json()) as Loose)["code"]).toBe("not_ready");
  const got = await started;
  expect([got.status, got.headers.get("preference-applied")]).toEqual([201, "wait=timeout"]);
});

test("either node of a cluster waits for an execution of the other, before and after its start", async () => {
  const { world, a, b } = await twoNodes();
  await a.post("/v1/workflows", WAITING);
  const [own, other] = [world.idIn(0), world.idIn(1)];
  // The first node has the even partitions, the second the odd ones.
  const waiting = [own, other].flatMap((id) => [
    a.post("/v1/executions?wait=60s", { workflow: "approval", id }),
    b.get(`/v1/executions/${id}`).then(() => b.post("/v1/executions?wait=60s", { workflow: "approval", id })),
  ]);
  for (const id of [own, other]) {
    await world.passing(until(async () => (await a.get(`/v1/executions/${id}`)).status === 200));
    const results = [a, b].map((api) => api.get(`/v1/executions/${id}/result?wait=60s`));
    await world.passing(b.post(`/v1/executions/${id}/signals`, { name: "go" }));
    for (const got of await world.passing(Promise.all(results)))
      expect([got.status, got.body["status"]]).toEqual([200, "done"]);
  }
  for (const got of await world.passing(Promise.all(waiting)))
    expect([got.body["status"], got.headers.get("preference-applied")]).toEqual(["done", null]);
});
