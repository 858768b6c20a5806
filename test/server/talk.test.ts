// Talking to a running execution over HTTP: its streams and published values, from a server, by a client and at a remote worker.
import { defineUpdate, flow } from "rondo";
import { connect } from "rondo/client";
import { describe, expect, onTestFinished, test } from "vitest";
import { openServer } from "../../src/compose/compose-server.ts";
import { type Api, STORES, serve, textOf, until } from "../fixtures/server/api-fixture.ts";
import { EventClient } from "../fixtures/server/event-client-fixture.ts";
import { TestDatabase } from "../fixtures/store/postgres-server-fixture.ts";

const agent = flow("agent", async ({ step, stream, waitFor, publish }) => {
  const out = stream("answer");
  publish({ state: "thinks" });
  await step("first", async () => {
    for (const token of ["a", "b", "c"]) await out.write(token);
  });
  await waitFor("approved");
  publish({ state: "done" });
  await step("second", () => out.write({ last: true }));
});

const stores: readonly (readonly [
  string,
  () => string | Promise<string> | ReturnType<(typeof STORES)[number][1]>,
])[] = [...STORES, ["PostgreSQL", async () => (await TestDatabase.make()).newDatabase()]];

async function started(api: Api, id: string): Promise<void> {
  await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (1 as never));
  await api.post("/v1/executions", { workflow: "agent", id });
}

const approve = (api: Api, id: string): Promise<unknown> =>
  api.post(`/v1/executions/${id}/signals`, { name: "approved" });

const chunksOf = (events: readonly { readonly data: Readonly<Record<string, unknown>> }[]): unknown[] =>
  events.flatMap(({ data }) => data["chunks"] as unknown[]);

describe.each(stores)("over a %s store", (_, store) => {
  test("a stream is followed live, goes on after Last-Event-ID, and is read as pages", async () => {
    const api = await serve({ store: await store() });
    api.rondo.serve(agent);
    await started(api, "one");
    const path = "/v1/executions/one/streams/answer";
    const live = new EventClient({ url: api.url, path });
    await live.until(() => chunksOf(live.events).length === 3);
    expect(live.isEnded).toBe(false);
    const list = new EventClient({ url: api.url, path: "/v1/executions/one/streams" });
    await list.until(() => list.events.length === 1);
    const late = new EventClient({ url: api.url, path, lastEventId: live.lastId });
    await approve(api, "one");
    await Promise.all([live.until(() => false), late.until(() => false)]);
    expect(chunksOf(live.events)).toEqual(["a", "b", "c", { last: true }]);
    expect(live.events.at(-1)?.data).toMatchObject({ end: true });
    expect(chunksOf(late.events)).toEqual([{ last: true }]);
    await api.get("/v1/executions/one/result?wait=30s");
    const page = await api.get(path);
    expect(page.body["data"]).toEqual(live.events.map(({ data }) => data));
    expect(page.body["next"]).toBe(null);
    const first = await api.get(`${path}?limit=1`);
    expect(first.body["data"]).toHaveLength(1);
    const rest = await api.get(`${path}?cursor=${textOf(first.body["next"])}`);
    expect([...(first.body["data"] as never), ...(rest.body["data"] as never)]).toEqual(page.body["data"]);
    expect((await api.get("/v1/executions/one/logs")).body["data"]).toEqual([]);
    // The list has each begin of a writer, and the end.
    await list.until(() => false);
    const listed = await api.get("/v1/executions/one/streams");
    expect(listed.body["data"]).toEqual(list.events.map(({ data }) => data));
    expect(list.events.map(({ data: { stream, step, end } }) => [stream, step, end])).toEqual([
      ["answer", "first", undefined],
      ["answer", "second", undefined],
      ["answer", undefined, true],
    ]);
    const again = new EventClient({ url: api.url, path });
    await again.until(() => false);
    expect(again.events).toEqual(live.events);
  });

  test("published values are read by themselves and with the execution", async () => {
    const api = await serve({ store: await store() });
    api.rondo.serve(agent);
    await started(api, "one");
    const read = async () => (await api.get("/v1/executions/one/published")).body;
    await until(async () => (await read())["published"]?.["state"] === ("thinks" as never));
    await approve(api, "one");
    await api.get("/v1/executions/one/result?wait=30s");
    expect(await read()).toMatchObject({ execution: "one", published: { state: "done" } });
    expect((await api.get("/v1/executions/one")).body["published"]).toEqual({ state: "done" });
  });
});

test("a client follows a stream that a worker in another process writes", async () => {
  const server = await openServer({ store: "memory:", port: 0 });
  onTestFinished(() => server.close({ graceMs: 0 }));
  await using client = connect({ url: server.url });
  const worker = await client.serve(agent, { capacity: 2 });
  onTestFinished(() => worker.close({ graceMs: 0 }));
  const execution = await client.start(agent, null);
  const seen: unknown[] = [];
  for await (const { chunks } of execution.stream("answer")) {
    seen.push(...chunks);
    if (seen.length === 3) {
      expect(await execution.published()).toEqual({ state: "thinks" });
      await execution.signal("approved");
    }
  }
  expect(seen).toEqual(["a", "b", "c", { last: true }]);
  await execution.result();
  expect(await execution.published()).toEqual({ state: "done" });
  expect(await execution.stream("answer").chunks()).toEqual(seen);
});

const add = defineUpdate<number, number>("add");

const sums = flow("sums", async ({ updates }) => {
  let sum = 0;
  for await (const request of updates(add)) {
    if (request.data < 0) await request.refuse("not below zero");
    else await request.answer((sum += request.data));
    if (sum > 9) break;
  }
  return sum;
});

test("an update waits for its answer; a repeat, a refusal, a late answer and the end are told apart", async () => {
  const api = await serve();
  api.rondo.serve(sums);
  await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (1 as never));
  await api.post("/v1/executions", { workflow: "sums", id: "s" });
  const path = "/v1/executions/s/updates/add";
  const first = await api.post(path, { data: 3, id: "a" });
  expect([first.status, first.body]).toEqual([200, { execution: "s", update: "add", id: "a", answer: 3 }]);
  expect((await api.post(path, { data: -1 })).body).toMatchObject({
    error: { name: "UpdateRefused", message: "not below zero" },
  });
  expect((await api.post(`${path}?wait=30s`, { data: 3, id: "a" })).body["answer"]).toBe(3);
  const late = await api.post("/v1/executions/s/updates/other?wait=5ms", { data: 1 });
  expect([late.status, late.body["code"]]).toEqual([504, "timeout"]);
  const other = api.post("/v1/executions/s/updates/other?wait=30s", { data: 2 });
  await until(
    async () => (await api.get("/v1/executions/s")).body["unread"]?.["0"]?.["count"] === (2 as never),
  );
  expect((await api.post(path, { data: 7 })).body["answer"]).toBe(10);
  expect((await other).body).toMatchObject({ status: 409, code: "gone" });
  expect((await api.post(path, { data: 1 })).body).toMatchObject({ code: "gone" });
  expect((await api.post(path, { data: 3, id: "a" })).body["answer"]).toBe(3);
  expect((await api.post(path, { data: 3, od: 1 })).status).toBe(422);
  expect((await api.get("/v1/executions/s")).body["unread"]).toEqual([
    { signal: "other", count: 2, update: true },
  ]);
});

/** Answers one update with the number of its execution, and continues. */
const counter = flow("counter", async ({ waitForUpdate, continueAs }, { n }: { n: number }) => {
  const update = await waitForUpdate("next");
  await update.answer(n);
  return continueAs({ n: n + 1 });
});

test("a client sends updates to code at a worker in another process", async () => {
  const server = await openServer({ store: "memory:", port: 0 });
  onTestFinished(() => server.close({ graceMs: 0 }));
  await using client = connect({ url: server.url });
  const worker = await client.serve(sums, { capacity: 2 });
  onTestFinished(() => worker.close({ graceMs: 0 }));
  const execution = await client.start(sums, null);
  expect(await execution.update(add, 4)).toBe(4);
  await expect(execution.update(add, -1)).rejects.toThrow('update "add" was refused: not below zero');
  await expect(execution.update("other", 1, { timeout: "20ms" })).rejects.toMatchObject({ code: "timeout" });
  expect(await execution.update(add, 8)).toBe(12);
  expect(await execution.result()).toBe(12);
});

test("updates of a client follow an execution that continues", async () => {
  const server = await openServer({ store: "memory:", port: 0 });
  onTestFinished(() => server.close({ graceMs: 0 }));
  await using client = connect({ url: server.url });
  const worker = await client.serve(counter, { capacity: 2 });
  onTestFinished(() => worker.close({ graceMs: 0 }));
  const execution = await client.start(counter, { n: 1 }, { id: "c" });
  const answers = [1, 2, 3].map((n) => execution.update("next", null, { id: `u${n}` }));
  expect(new Set(await Promise.all(answers))).toEqual(new Set([1, 2, 3]));
  expect(await execution.update("next")).toBe(4);
});

test("a stream of an unknown execution or with a wrong name is refused", async () => {
  const api = await serve();
  expect((await api.get("/v1/executions/none/streams/answer")).body).toMatchObject({ code: "not_found" });
  api.rondo.serve(agent);
  await started(api, "one");
  expect((await api.get("/v1/executions/one/streams/nothing")).body).toEqual({ data: [], next: null });
  expect((await api.get("/v1/executions/one/streams/%00")).status).toBe(404);
  const wrong = await api.get("/v1/executions/one/streams/answer?cursor=x");
  expect(wrong.body).toMatchObject({ code: "invalid_input", path: "cursor" });
});
