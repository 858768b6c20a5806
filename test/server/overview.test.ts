// What the pages of the dashboard ask for: the overview, counts, progress, search, lanes, groups of dead letters.
import { Fatal, workflow } from "rondo";
import { connect } from "rondo/client";
import { expect, test } from "vitest";
import { STORES, serve } from "../fixtures/server/api-fixture.ts";
import { approval, doubles, failing, idle } from "../fixtures/server/api-workflows.ts";
import { until } from "../fixtures/until.ts";

test.each(STORES)(
  "over %s, counts are exact after starts, ends, retries and purges",
  async (_name, store) => {
    const api = await serve({ store: store() });
    api.rondo.serve(doubles, failing, approval);
    const counts = async (query = "") =>
      (await api.get(`/v1/counts${query}`)).body["counts"] as Record<string, number> | undefined;
    expect(await counts()).toEqual({});
    const started = [
      await api.rondo.start(doubles, {}, { id: "d1" }),
      await api.rondo.start(doubles, {}, { id: "d2", project: "other" }),
      await api.rondo.start(failing, {}, { id: "f1" }),
    ];
    await api.rondo.start(approval, {}, { id: "a1" });
    await Promise.all(started.map((execution) => execution.result().catch(() => null)));
    expect(await counts()).toEqual({ done: 2, failed: 1, running: 1 });
    expect((await api.get("/v1/counts")).body["waiting"]).toBe(1);
    expect((await api.get("/v1/counts?workflow=failing")).body["waiting"]).toBe(0);
    expect(await counts("?project=other")).toEqual({ done: 1 });
    expect(await counts("?workflow=failing")).toEqual({ failed: 1 });
    api.server.engine.purge(["d1"]);
    await until("it is gone", async () => (await counts("?project=default"))?.["done"] === undefined);
    expect(await counts()).toEqual({ done: 1, failed: 1, running: 1 });
  },
);

test("the overview tells of counts, rates, what waits and since when, and which parts are well", async () => {
  const api = await serve();
  api.rondo.serve(doubles);
  await api.post("/v1/workflows", idle);
  await api.post("/v1/executions", { workflow: "idle", input: { bucket: "b" }, id: "waits" });
  await (await api.rondo.start(doubles, { count: 10 }, { id: "d" })).result();
  const { body } = await api.get("/v1/overview?seconds=60");
  expect(body["counts"]).toEqual({ running: 1, done: 1 });
  expect(body["oldest"]).toMatchObject({
    id: "waits",
    workflow: "idle",
    why: expect.stringContaining("none serves"),
  });
  expect(body["ready"]).toEqual([
    { use: "idle.work", tasks: 2, since: expect.any(Number), workflows: ["idle"] },
  ]);
  expect(body["lights"]).toMatchObject({
    store: { state: "ok" },
    broker: { state: "off" },
    ring: { state: "off" },
  });
  const pulse = body["pulse"] as unknown as Record<string, number[]>;
  expect(pulse["tasksDone"]).toHaveLength(60);
});

test("who is bound to a project sees its counts, and nothing of the whole server", async () => {
  const api = await serve();
  api.rondo.serve(doubles);
  await (await api.rondo.start(doubles, {}, { id: "d", project: "other" })).result();
  await (await api.rondo.start(doubles, {}, { id: "e" })).result();
  await api.makeToken("admin");
  const token = await api.makeToken("viewer", "other");
  const { body } = await api.get("/v1/overview", { token });
  expect(body).toMatchObject({ counts: { done: 1 }, pulse: null, ready: [], held: 0, oldest: null });
  expect((await api.get("/v1/counts?project=default", { token })).body).toEqual({ counts: {}, waiting: 0 });
  const { data } = (await api.get("/v1/progress?ids=d,e,none", { token })).body;
  expect(data).toMatchObject([{ id: "d", status: "done", phases: [{ handlers: [{ done: 3 }] }] }]);
  expect((await api.get("/v1/progress?ids=d,%2500", { token })).status).toBe(422);
});

test("a search finds words in ids, workflows, tags and errors, page by page", async () => {
  const api = await serve();
  api.rondo.serve(doubles, failing);
  const ended = [];
  for (let i = 0; i < 5; i++)
    ended.push(
      await api.rondo.start(doubles, {}, { id: `run-${i}`, tags: { team: i % 2 === 0 ? "ops" : "dev" } }),
    );
  ended.push(await api.rondo.start(failing, {}, { id: "broken" }));
  await Promise.all(ended.map((execution) => execution.result().catch(() => null)));
  const find = async (query: string) => {
    const { body } = await api.get(`/v1/executions?${query}`);
    return [
      (body["data"] as unknown as { id: string }[]).map(({ id }) => id),
      body["next"] as unknown as string | null,
    ] as const;
  };
  expect(await find("q=team%3Dops")).toEqual([["run-4", "run-2", "run-0"], null]);
  expect(await find("q=RUN-3+doubles")).toEqual([["run-3"], null]);
  expect(await find("q=no+such+key")).toEqual([["broken"], null]);
  expect(await find("q=nothing-like-it")).toEqual([[], null]);
  const [first, next] = await find("q=run&limit=2");
  expect(first).toEqual(["run-4", "run-3"]);
  expect((await find(`q=run&limit=2&cursor=${next ?? ""}`))[0]).toEqual(["run-2", "run-1"]);
  const tags = (value: unknown) => `tags=${encodeURIComponent(JSON.stringify(value))}`;
  expect(await find(tags({ team: "dev" }))).toEqual([["run-3", "run-1"], null]);
  expect(await find(`${tags({ team: null })}&q=run-4`)).toEqual([["run-4"], null]);
  for (const wrong of ["tags=x", "tags=%5B%5D", tags({ team: 1 })])
    expect((await api.get(`/v1/executions?${wrong}`)).status).toBe(422);
  const client = connect({ url: api.url });
  for (const rondo of [api.rondo, client]) {
    const ids = async (options: object) => (await rondo.list(options)).data.map(({ id }) => id);
    expect(await ids({ tags: { team: "dev" } })).toEqual(["run-3", "run-1"]);
    expect(await ids({ q: "no such key" })).toEqual(["broken"]);
    await expect(rondo.list({ tag: "dev" } as object)).rejects.toThrow("tag: a list has no such field");
  }
  const dry = await api.post("/v1/executions/bulk", {
    action: "retry",
    filter: { q: "broken" },
    dryRun: true,
  });
  expect(dry.body).toMatchObject({ matched: 1, changed: 0, ids: ["broken"] });
});

test("lanes have a bar for each of a few tasks, and counts over time for many; also as of an event", async () => {
  const api = await serve();
  api.rondo.serve(doubles);
  await (await api.rondo.start(doubles, { count: 3 }, { id: "few" })).result();
  await (await api.rondo.start(doubles, { count: 500 }, { id: "many" })).result();
  const few = (await api.get("/v1/executions/few/lanes?pieces=10")).body;
  expect(few["lanes"]).toMatchObject([
    { phase: "double", visit: 1, handler: "double", total: 3, bars: [{ task: 0, state: "done" }, {}, {}] },
  ]);
  const { lanes } = (await api.get("/v1/executions/many/lanes?pieces=10")).body as unknown as {
    lanes: { bars: null; done: number[]; total: number }[];
  };
  expect(lanes[0]).toMatchObject({ bars: null, total: 500 });
  expect(lanes[0]?.done.reduce((sum, n) => sum + n, 0)).toBe(500);
  const past = (await api.get("/v1/executions/many/lanes?at=3&pieces=10")).body as unknown as typeof few & {
    lanes: { done: number[] }[];
    revision: number;
  };
  expect(past.revision).toBe(3);
  expect(past.lanes[0]?.done.reduce((sum, n) => sum + n, 0)).toBe(0);
});

test("tasks and events of a piece of the time are told from the others", async () => {
  const api = await serve();
  api.rondo.serve(doubles);
  await (await api.rondo.start(doubles, { count: 3 }, { id: "d" })).result();
  const { createdAt, finishedAt } = (await api.get("/v1/executions/d")).body as unknown as {
    createdAt: number;
    finishedAt: number;
  };
  const within = async (from: number, to: number): Promise<number[]> => {
    const path = `/v1/executions/d/tasks/states?by=within&from=${from}&to=${to}`;
    return [...new Uint8Array(await (await fetch(api.url + path)).arrayBuffer())];
  };
  expect(await within(createdAt, finishedAt)).toEqual([1, 1, 1]);
  expect(await within(0, createdAt - 1_000)).toEqual([0, 0, 0]);
  expect(await within(finishedAt + 1, finishedAt + 1_000)).toEqual([0, 0, 0]);
  const since = async (at: number): Promise<unknown[]> =>
    (await api.get(`/v1/executions/d/events?since=${at}`)).body["data"] as unknown as unknown[];
  const all = (await api.get("/v1/executions/d/events")).body["data"] as unknown as { at: number }[];
  expect(await since(createdAt)).toEqual(all);
  expect(await since(finishedAt)).toEqual(all.filter(({ at }) => at >= finishedAt));
  expect(await since(finishedAt + 1)).toEqual([]);
});

test("events of some kinds come without the others", async () => {
  const api = await serve();
  api.rondo.serve(doubles);
  await (await api.rondo.start(doubles, { count: 3 }, { id: "d" })).result();
  const { body } = await api.get("/v1/executions/d/events?kinds=phase.,finished");
  expect((body["data"] as unknown as { kind: string }[]).map(({ kind }) => kind)).toEqual([
    "workflow.phase.started",
    "workflow.phase.finished",
    "workflow.finished",
  ]);
  expect(body["next"]).toBe(null);
});

test("dead letters that differ in numbers only are one group, which is retried or dropped as a whole", async () => {
  const api = await serve();
  // One task at a time: the first is done, the second fails, and the third has not begun. Side by side, the third may be done too.
  const inOrder = workflow({ name: "failing" }).phase("work", {
    enumerate: () => [{ n: 0 }, { n: 1 }, { n: 2 }],
    concurrency: 1,
    process: ({ task }) => {
      if (task.n === 1) throw new Fatal("no such key");
      return task.n;
    },
  });
  api.rondo.serve(inOrder);
  for (const id of ["f1", "f2"])
    await (await api.rondo.start(inOrder, {}, { id })).result().catch(() => null);
  const groups = async () =>
    (await api.get("/v1/dead-letter-groups")).body["data"] as unknown as {
      id: string;
      tasks: number;
      executions: number;
    }[];
  const [group] = await groups();
  expect(await groups()).toMatchObject([
    { workflow: "failing", handler: "work", message: "no such key", tasks: 2, executions: 2 },
  ]);
  const retried = await api.post(`/v1/dead-letter-groups/${group?.id}/retry`);
  expect(retried.body).toEqual({ changed: 2, tasks: 4, refused: [] });
  await Promise.all(
    ["f1", "f2"].map((id) =>
      api.rondo
        .execution(id)
        .result()
        .catch(() => null),
    ),
  );
  expect(await groups()).toMatchObject([{ tasks: 2 }]);
  expect((await api.post(`/v1/dead-letter-groups/${group?.id}/drop`)).body).toMatchObject({ changed: 2 });
  expect(await groups()).toEqual([]);
  expect((await api.post(`/v1/dead-letter-groups/${group?.id}/drop`)).status).toBe(404);
});
