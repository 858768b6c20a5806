// Several nodes over one store: what is done at one counts at the others.
import { describe, expect, test } from "vitest";
import { textOf, until } from "../fixtures/server/api-fixture.ts";
import { EventClient } from "../fixtures/server/event-client-fixture.ts";
import { tokenAt, twoNodes, withAdmin } from "../fixtures/server/two-nodes-fixture.ts";

const WAITING = { name: "approval", phases: [{ name: "wait", handlers: { wait: { waitFor: "go" } } }] };
const NAP = { name: "approval", phases: [{ name: "nap", handlers: { nap: { sleep: "1h" } } }] };

describe("a token", () => {
  test("made at one node opens another at once, and after it is revoked nothing within seconds", async () => {
    const cluster = await twoNodes();
    const { world, a, b } = cluster;
    await withAdmin(cluster);
    const { id, token } = await tokenAt(a);
    expect((await b.get("/v1/executions", { token })).status).toBe(200);
    const session = await b.post("/v1/session", undefined, { token });
    const cookie = String(String(session.headers.get("set-cookie")).split(";")[0]);
    const byCookie = { token: null, headers: { cookie } };
    expect((await a.get("/v1/executions", byCookie)).status).toBe(200);
    await world.clock.advance(200);
    expect((await world.passing(b.get("/v1/tokens"))).text).toContain(id);
    expect((await world.passing(a.delete(`/v1/tokens/${id}`))).status).toBe(204);
    await world.clock.advance("3s");
    for (const api of [a, b]) {
      expect((await world.passing(api.get("/v1/executions", { token }))).status).toBe(401);
      expect((await world.passing(api.get("/v1/executions", byCookie))).status).toBe(401);
    }
  });

  test("made at one node is revoked at another, which did not know it yet", async () => {
    const cluster = await twoNodes();
    const { world, a, b } = cluster;
    await withAdmin(cluster);
    const { id, token } = await tokenAt(a);
    expect((await world.passing(b.delete(`/v1/tokens/${id}`))).status).toBe(204);
    await world.clock.advance("3s");
    expect((await world.passing(a.get("/v1/executions", { token }))).status).toBe(401);
  });

  test("that is not known has the store read, but not for each that asks", async () => {
    const cluster = await twoNodes();
    const { world, a, b } = cluster;
    await withAdmin(cluster);
    const [, { node }] = cluster.nodes;
    let reads = 0;
    const list = node.store.listDocuments.bind(node.store);
    node.store.listDocuments = async (kind, options) => {
      if (kind === "token") reads++;
      return list(kind, options);
    };
    await world.clock.advance(200);
    const strange = Array.from({ length: 50 }, (_, i) => b.get("/v1/executions", { token: `rondo_x${i}_y` }));
    const made = await tokenAt(a);
    const own = b.get("/v1/executions", { token: made.token });
    const answers = await world.passing(Promise.all([...strange, own]));
    expect(answers.map(({ status }) => status)).toEqual([...Array.from({ length: 50 }, () => 401), 200]);
    expect(reads).toBeLessThan(10);
    // What is no token at all costs no read.
    const before = reads;
    expect((await b.get("/v1/executions", { token: "guess" })).status).toBe(401);
    expect((await b.get("/v1/executions", { token: null })).status).toBe(401);
    expect(reads).toBe(before);
  });

  test("that is revoked at one node has its streams cut at all, and others go on", async () => {
    const cluster = await twoNodes();
    const { world, a, b } = cluster;
    await withAdmin(cluster);
    await a.post("/v1/workflows", WAITING);
    await a.post("/v1/executions", { workflow: "approval", id: "e" });
    const [revoked, kept] = [await tokenAt(a), await tokenAt(a)];
    await world.clock.advance("3s");
    const follow = (token: string): EventClient =>
      new EventClient({
        url: b.url,
        path: "/v1/executions/e/events",
        headers: { authorization: `Bearer ${token}` },
      });
    const [cut, other] = [follow(revoked.token), follow(kept.token)];
    for (const client of [cut, other]) await client.until(() => client.events.length >= 3);
    await world.passing(a.delete(`/v1/tokens/${revoked.id}`));
    await world.clock.advance("3s");
    await cut.ended();
    expect([cut.isBroken, other.isEnded]).toEqual([true, false]);
    other.close();
  });
});

test("a session that is ended at one node opens nothing at another within seconds", async () => {
  const cluster = await twoNodes();
  const { world, a, b } = cluster;
  const token = await withAdmin(cluster);
  const traded = await a.post("/v1/session", undefined, { token });
  const cookie = String(String(traded.headers.get("set-cookie")).split(";")[0]);
  const sent = { token: null, headers: { cookie } };
  expect((await b.get("/v1/session", sent)).status).toBe(200);
  expect((await a.delete("/v1/session", sent)).status).toBe(204);
  await world.clock.advance("3s");
  expect((await world.passing(b.get("/v1/session", sent))).status).toBe(401);
});

test("a definition that is registered at one node is used by a start at another at once", async () => {
  const { world, a, b } = await twoNodes();
  const hashes: string[] = [];
  for (const [put, start, definition] of [
    [a, b, WAITING],
    [b, a, NAP],
    [a, b, WAITING],
  ] as const) {
    const stored = await put.post("/v1/workflows", definition);
    hashes.push(textOf(stored.body["hash"]));
    const started = await world.passing(start.post("/v1/executions", { workflow: "approval" }));
    expect([started.status, textOf(started.body["workflowHash"])]).toEqual([201, hashes.at(-1)]);
  }
  // The clock stands still, and yet each has a place of its own in the list.
  for (const api of [a, b]) {
    const { body } = await api.get("/v1/workflows/approval/versions");
    const listed = (body["data"] as unknown as { hash: string }[]).map(({ hash }) => hash);
    expect(listed).toEqual(hashes.toReversed());
  }
});

test("an Idempotency-Key means the same at every node", async () => {
  const { world, a, b } = await twoNodes();
  await a.post("/v1/workflows", WAITING);
  const key = { headers: { "idempotency-key": "k" } };
  const start = { workflow: "approval", input: 1 };
  const first = await world.passing(a.post("/v1/executions", start, key));
  const again = await world.passing(b.post("/v1/executions", start, key));
  expect([first.status, again.status, again.body["id"]]).toEqual([201, 200, first.body["id"]]);
  const other = await world.passing(b.post("/v1/executions", { ...start, input: 2 }, key));
  expect(other.body).toMatchObject({ code: "conflict", path: "Idempotency-Key" });
  const id = textOf(first.body["id"]);
  const signalled = { headers: { "idempotency-key": "s" } };
  const signal = (api: typeof a, data: number) =>
    world.passing(api.post(`/v1/executions/${id}/signals`, { name: "later", data }, signalled));
  expect((await signal(b, 1)).status).toBe(200);
  expect((await signal(a, 1)).status).toBe(200);
  expect((await signal(a, 2)).body).toMatchObject({ code: "conflict" });
});

test("the audit log has what was done at all nodes, also at the same moment", async () => {
  const cluster = await twoNodes();
  const { world, a, b } = cluster;
  await withAdmin(cluster);
  await world.passing(Promise.all([a, b, a, b].map((api, i) => tokenAt(api, i < 2 ? "viewer" : "worker"))));
  await world.clock.advance("1s");
  for (const api of [a, b]) {
    const { body } = await api.get("/v1/audit-log");
    expect(body["data"]?.["length"]).toBe(5);
    const page = await api.get("/v1/audit-log?limit=2");
    const next = await api.get(`/v1/audit-log?limit=9&cursor=${textOf(page.body["next"])}`);
    expect(next.body["data"]?.["length"]).toBe(3);
  }
});

describe("lists", () => {
  const HANDLER = { use: "u", version: "1.0.0" };
  const WORK = {
    name: "work",
    phases: [{ name: "p", handlers: { h: { use: "u", tasks: [1, 2, 3, 4, 5, 6] } } }],
  };

  test("of workers and attempts, and figures to scale by, are of all nodes", async () => {
    const cluster = await twoNodes();
    const { world, a, b } = cluster;
    const [first, second] = cluster.nodes;
    await a.post("/v1/workflows", WORK);
    // One of each node's own.
    const ids = [0, 1].map((partition) => world.idIn(partition));
    for (const id of ids) await world.passing(a.post("/v1/executions", { workflow: "work", id }));
    for (const [api, name] of [
      [a, "one"],
      [b, "two"],
    ] as const) {
      const registered = await api.post("/v1/workers", { name, handlers: [HANDLER], capacity: 10 });
      const worker = textOf(registered.body["worker"]);
      await world.passing(api.post(`/v1/workers/${worker}/claim`, { max: 1, waitMs: 1_000 }));
    }
    await world.passUntil(
      () => first.node.engine.overview().leases === 1 && second.node.engine.overview().leases === 1,
    );
    for (const api of [a, b]) {
      const workers = await api.get("/v1/workers");
      const shown = workers.body["data"] as unknown as { name: string; held: number }[];
      expect(
        shown
          .filter(({ held }) => held === 1)
          .map(({ name }) => name)
          .sort(),
      ).toEqual(["one", "two"]);
      const attempts = await api.get("/v1/attempts");
      const open = attempts.body["data"] as unknown as { execution: string }[];
      expect(open.map(({ execution }) => execution).sort()).toEqual([...ids].sort());
      const scaling = await api.get("/v1/scaling?use=u");
      expect(scaling.body).toMatchObject({ held: 2, workers: 2, capacity: 20 });
      expect(scaling.headers.get("rondo-missing")).toBeNull();
    }
  });

  test("name the nodes that did not answer", async () => {
    const cluster = await twoNodes();
    const { a } = cluster;
    const [, { node }] = cluster.nodes;
    node.cutOff();
    node.kill();
    const workers = await a.get("/v1/workers");
    expect([workers.status, workers.headers.get("rondo-missing")]).toEqual([200, node.url]);
  });

  test("a worker is told to end through any node", async () => {
    const { a, b } = await twoNodes();
    const registered = await a.post("/v1/workers", { name: "one", handlers: [HANDLER], capacity: 10 });
    const worker = textOf(registered.body["worker"]);
    expect((await fetch(`${b.url}/v1/workers/${worker}/drain`, { method: "POST" })).status).toBe(202);
    const { body } = await b.get("/v1/workers");
    expect(body["data"]).toEqual(
      expect.arrayContaining([expect.objectContaining({ id: worker, draining: true })]),
    );
    expect((await b.post("/v1/workers/nobody/drain")).status).toBe(404);
  });
});

test("a list of whole executions is refused, not cut, while the node of some cannot be asked", async () => {
  const { world, a, nodes } = await twoNodes();
  await a.post("/v1/workflows", WAITING);
  const ids = [0, 1].map((partition) => world.idIn(partition));
  for (const id of ids) await world.passing(a.post("/v1/executions", { workflow: "approval", id }));
  const list = (detail: string) => world.passing(a.get(`/v1/executions?detail=${detail}`));
  expect((await list("full")).body["data"]?.["length"]).toBe(2);
  const [, { node }] = nodes;
  node.cutOff();
  node.kill();
  expect(await list("full")).toMatchObject({ status: 503, body: { code: "not_ready" } });
  expect((await list("summary")).body["data"]?.["length"]).toBe(2);
});

test("an execution of another node is read, followed and changed like one's own", async () => {
  const { world, a, b } = await twoNodes();
  await a.post("/v1/workflows", WAITING);
  const id = world.idIn(1);
  expect((await world.passing(a.post("/v1/executions", { workflow: "approval", id }))).status).toBe(201);
  const stream = new EventClient({ url: a.url, path: `/v1/executions/${id}/events` });
  await stream.until(() => stream.events.length >= 3);
  expect((await world.passing(a.post(`/v1/executions/${id}/pause`, {}))).body["status"]).toBe("paused");
  await world.passing(b.post(`/v1/executions/${id}/resume`, {}));
  await world.passing(a.post(`/v1/executions/${id}/signals`, { name: "go", data: 1 }));
  await world.passUntil(() => stream.isEnded);
  expect(stream.events.at(-1)?.data).toMatchObject({ kind: "workflow.finished" });
  await until(async () => (await a.get(`/v1/executions/${id}`)).body["status"] === ("done" as never));
});
