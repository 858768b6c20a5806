// `rondo/client` against a real server, over TCP.
import { workflow } from "rondo";
import { connect } from "rondo/client";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { RemoteRondo } from "../../../src/client/connect.ts";
import { openServer, type ServerOptions } from "../../../src/compose/compose-server.ts";
import { CuttingProxy } from "../../fixtures/server/cutting-proxy-fixture.ts";

const double = workflow({ name: "double", input: z.object({ n: z.number() }) })
  .phase("twice", {
    *enumerate({ input }) {
      for (let i = 0; i < input.n; i++) yield i;
    },
    process({ task, log }) {
      log(`doubling ${task}`);
      return task * 2;
    },
  })
  .returns(async ({ phases }) => ({ sum: await phases.twice.reduce((sum, x) => sum + x, 0) }));
const approval = workflow({ name: "approval" })
  .waitFor("approved")
  .returns(({ phases }) => phases.approved.value);
const broken = workflow({ name: "broken" }).phase("fails", {
  process() {
    throw new Error("always");
  },
  retry: { attempts: 1 },
});

async function serve(options: ServerOptions = {}) {
  const server = await openServer({ store: "memory:", port: 0, ...options });
  onTestFinished(() => server.close({ graceMs: 0 }));
  server.rondo.serve(double, approval, broken);
  return server;
}

describe("a workflow", () => {
  test("starts by name, typed by its own type, and gives its output", async () => {
    const { url } = await serve();
    const client = connect({ url: `${url}/` });
    const execution = await client.start<typeof double>("double", { n: 4 }, { id: "d1", tags: { a: "b" } });
    expect(await execution.result()).toEqual({ sum: 12 });
    expect(await execution.describe()).toMatchObject({ id: "d1", status: "done", tags: { a: "b" } });
    expect(await execution.status()).toBe("done");
    expect(await client.stateAt("d1", 1)).toMatchObject({ id: "d1", status: "running", revision: 1 });
    await expect(client.stateAt("d1", 1_000)).rejects.toMatchObject({ code: "invalid_input" });
    await expect(client.stateAt("d1", 0.5)).rejects.toMatchObject({ code: "invalid_input", path: "seq" });
    expect(await client.run<typeof double>("double", { n: 3 })).toEqual({ sum: 6 });
    // Waiting for what has ended already.
    expect(await client.execution<typeof double>("d1").result()).toEqual({ sum: 12 });
  });

  test("starts by its object: the server gets its definition, and its schema is checked here", async () => {
    const { url } = await serve();
    const client = connect({ url });
    const fresh = workflow({ name: "fresh", input: z.object({ n: z.number() }) }).sleep("nap", 1);
    expect(await client.run(fresh, { n: 1 })).toBe(null);
    await expect(client.start(fresh, { n: "x" } as never)).rejects.toMatchObject({
      name: "RondoError",
      code: "invalid_input",
    });
    expect((await client.list({ workflow: "fresh" })).data.map(({ status }) => status)).toEqual(["done"]);
  });

  test("started again under its id is the same; anything else under it is a conflict", async () => {
    const { url } = await serve();
    const client = connect({ url });
    await client.start("approval", { a: 1 }, { id: "x" });
    expect((await client.start("approval", { a: 1 }, { id: "x" })).id).toBe("x");
    await expect(client.start("approval", { a: 2 }, { id: "x" })).rejects.toMatchObject({ code: "conflict" });
    expect((await client.list()).data).toHaveLength(1);
  });
});

describe("run() and result()", () => {
  test("are one request each", async () => {
    const { url } = await serve();
    const requests: string[] = [];
    const client = connect({
      url,
      fetch: (to, request) => {
        requests.push(`${request.method} ${to.slice(url.length)}`);
        return fetch(to, request);
      },
    });
    expect(await client.run<typeof double>("double", { n: 3 }, { id: "a" })).toEqual({ sum: 6 });
    expect(await client.execution("a").result()).toEqual({ sum: 6 });
    expect(requests).toEqual([
      "POST /v1/executions?wait=30000ms",
      "GET /v1/executions/a/result?wait=30000ms",
    ]);
    await expect(client.run("broken", null)).rejects.toMatchObject({ name: "ExecutionFailed" });
    await expect(client.execution("absent").result()).rejects.toMatchObject({ code: "not_found" });
  });

  test("work with a server of an earlier version, which waits for nothing", async () => {
    const { url } = await serve();
    const old = connect({
      url,
      fetch: async (to, request) => {
        const { pathname, search } = new URL(to);
        if (pathname.endsWith("/result")) return problem(404, { code: "not_found", detail: "no route" });
        if (search.includes("wait="))
          return problem(422, { code: "unknown_field", detail: "wait", path: "wait" });
        return fetch(to, request);
      },
    });
    expect(await old.run<typeof double>("double", { n: 3 })).toEqual({ sum: 6 });
    await expect(old.run("broken", null)).rejects.toMatchObject({ name: "ExecutionFailed" });
    await expect(old.execution("absent").result()).rejects.toMatchObject({ code: "not_found" });
    const execution = await old.start("approval", null);
    const waiting = execution.result();
    await execution.signal("approved", 4);
    expect(await waiting).toBe(4);
  });

  test("go on after the connection breaks while the server waits", async () => {
    const { url } = await serve();
    const proxy = await CuttingProxy.to(url);
    const running = connect({ url: proxy.url }).run("approval", null, { id: "r" });
    const there = connect({ url }).execution("r");
    while ((await there.status().catch(() => null)) === null);
    proxy.cutAll();
    await there.signal("approved", 42);
    expect(await running).toBe(42);
    expect((await connect({ url }).list()).data).toHaveLength(1);
  });
});

function problem(status: number, body: object): Response {
  return new Response(JSON.stringify({ title: "x", status, ...body }), {
    status,
    headers: { "content-type": "application/problem+json" },
  });
}

describe("many starts", () => {
  test("have an outcome each, in their order, over several requests", async () => {
    const { url } = await serve();
    const requests: string[] = [];
    const client = connect({
      url,
      fetch: (to, request) => {
        requests.push(`${request.method} ${new URL(to).pathname}`);
        return fetch(to, request);
      },
    });
    const starts = Array.from({ length: 2_500 }, (_, n) => ({ input: { n: n % 3 }, id: `s${n}` }));
    const wrong = { input: { n: "x" } as never, id: "wrong" };
    const outcomes = await client.startMany(double, [...starts, wrong, { input: { n: 2 }, id: "s2" }]);
    expect(outcomes.slice(0, 2_500).map(({ execution }) => execution?.id)).toEqual(
      starts.map(({ id }) => id),
    );
    expect(outcomes[2_500]).toMatchObject({ execution: null, error: { code: "invalid_input" } });
    expect(outcomes[2_501]).toMatchObject({ existed: true, error: null });
    expect(requests.filter((one) => one === "POST /v1/executions/batch")).toHaveLength(3);
    expect(await outcomes[2]?.execution?.result()).toEqual({ sum: 2 });
    await expect(client.startMany("nope", [{ input: null }])).rejects.toMatchObject({ code: "not_found" });
    expect(await client.startMany(double, [])).toEqual([]);
  });
});

describe("an execution", () => {
  test("is paused, resumed, signalled and says why it waits", async () => {
    const { url } = await serve();
    const execution = await connect({ url }).start("approval", null, { id: "a" });
    expect(await execution.why()).toContain('waits for the signal "approved"');
    expect(await execution.awaits()).toEqual(["approved"]);
    await execution.pause({ by: "jo", reason: "lunch" });
    expect(await execution.why()).toContain("paused by jo (lunch)");
    await execution.resume();
    expect(await execution.signal("other")).toBe("kept");
    expect(await execution.why()).toContain('It keeps 1 signal "other", which nothing has read.');
    expect(await execution.signal("approved", { by: "jo" }, { id: "once" })).toBe("delivered");
    expect(await execution.signal("approved", { by: "jo" }, { id: "once" })).toBe("delivered");
    expect(await execution.result()).toEqual({ by: "jo" });
    const kinds: string[] = [];
    for await (const { kind } of execution.events()) kinds.push(kind);
    expect(kinds.filter((kind) => kind === "workflow.signalled")).toHaveLength(2);
    expect(kinds.at(-1)).toBe("workflow.finished");
    expect((await execution.describe()).unread).toEqual([{ signal: "other", count: 1 }]);
    await expect(execution.signal("other")).rejects.toMatchObject({ code: "gone" });
  });

  test("is started with a signal, or gets it, or is followed by the next one", async () => {
    const { url } = await serve();
    const client = connect({ url });
    const send = async (by: string, options: object = {}) => {
      const signal = { name: "approved", data: { by }, id: by };
      const sent = await client.signalWithStart("approval", null, signal, { id: "a/1", ...options });
      return { id: sent.execution.id, started: sent.started, signal: sent.signal };
    };
    expect(await send("ann")).toEqual({ id: "a/1", started: true, signal: "delivered" });
    expect(await client.execution("a/1").result()).toEqual({ by: "ann" });
    expect(await send("ann")).toEqual({ id: "a/1", started: false, signal: "delivered" });
    await expect(send("bob")).rejects.toMatchObject({ code: "gone" });
    const next = { id: "a/1~2", started: true, signal: "delivered" };
    expect(await send("bob", { ifExists: "startNewWhenDone" })).toEqual(next);
    expect(await client.execution("a/1~2").result()).toEqual({ by: "bob" });
    expect(await send("bob", { ifExists: "startNewWhenDone" })).toEqual({ ...next, started: false });
    await client.start("approval", null, { id: "b" });
    const open = await client.signalWithStart("approval", { n: 1 }, { name: "other" }, { id: "b" });
    expect([open.started, open.signal]).toEqual([false, "kept"]);
  });

  test("takes a signal once for each id, and ids are its own", async () => {
    const { url } = await serve();
    const client = connect({ url });
    const both = [await client.start("approval", null), await client.start("approval", null)];
    for (const execution of [...both, ...both]) await execution.signal("other", 1, { id: "order-17" });
    for (const execution of both) {
      await execution.signal("approved", 42);
      await execution.result();
      const kinds = (await all(execution.events())).map(({ kind }) => kind);
      expect(kinds.filter((kind) => kind === "workflow.signalled")).toHaveLength(2);
    }
  });

  test("that failed or was cancelled makes result() throw, with the execution; retry opens the next round", async () => {
    const { url } = await serve();
    const client = connect({ url });
    const failing = await client.start("broken", null, { id: "f" });
    await expect(failing.result()).rejects.toMatchObject({
      name: "ExecutionFailed",
      execution: { id: "f", status: "failed", error: { code: "task_failed" } },
      cause: { name: "Error", message: expect.any(String), stack: expect.stringContaining("    at ") },
    });
    await failing.retry();
    await expect(failing.result()).rejects.toMatchObject({ name: "ExecutionFailed" });
    const cancelled = await client.start("approval", null);
    await cancelled.cancel({ reason: "no need" });
    await expect(cancelled.result()).rejects.toMatchObject({ name: "ExecutionCancelled" });
  });

  test("gives its events from any on, in summary or in full, and its logs", async () => {
    const { url } = await serve();
    const client = connect({ url });
    await client.run("double", { n: 3 }, { id: "e" });
    const execution = client.execution("e");
    const full = await all(execution.events({ detail: "full" }));
    expect(full.map(({ seq }) => seq)).toEqual(full.map((_, i) => i + 1));
    expect(await all(execution.events({ from: full.length, detail: "full" }))).toEqual(full.slice(-1));
    expect(await all(execution.events({ from: full.length + 1 }))).toEqual([]);
    // In as many events as there were reports: that depends on how busy the machine is.
    const settled = full
      .filter(({ kind, phase }) => kind === "workflow.tasks.settled" && phase === "twice")
      .flatMap(({ tasks }) => tasks as { n: number; result: number }[]);
    expect(settled.map(({ n, result }) => [n, result])).toEqual([
      [0, 0],
      [1, 2],
      [2, 4],
    ]);
    for (const follow of [false, true]) {
      const lines = await all(execution.logs({ follow }));
      expect(lines.map(({ text, task }) => [text, task])).toEqual([0, 1, 2].map((n) => [`doubling ${n}`, n]));
      expect(await all(execution.logs({ follow, after: lines.at(-1)?.order ?? 0 }))).toEqual([]);
    }
  });

  test("stops being waited for by a signal, by a time, and by disposing its handle, and goes on", async () => {
    const { url } = await serve();
    const client = connect({ url });
    const execution = await client.start("approval", null, { id: "w" });
    await expect(execution.result({ timeout: "10ms" })).rejects.toMatchObject({ code: "timeout" });
    await expect(execution.result({ signal: AbortSignal.abort(new Error("enough")) })).rejects.toThrow(
      "enough",
    );
    const abort = new AbortController();
    const aborted = execution.result({ signal: abort.signal });
    abort.abort(new Error("later"));
    await expect(aborted).rejects.toThrow("later");
    const waiting = execution.result();
    const events = all(execution.events());
    await execution[Symbol.asyncDispose]();
    await expect(waiting).rejects.toMatchObject({ code: "not_ready" });
    await events;
    expect(await client.execution("w").status()).toBe("running");
  });

  test("stops being waited for and iterated over when its client is closed, and goes on", async () => {
    const { url } = await serve();
    const client = connect({ url });
    const execution = await client.start("approval", null, { id: "w" });
    const waiting = execution.result();
    const events = all(execution.events());
    await client.close();
    await expect(waiting).rejects.toMatchObject({ code: "not_ready" });
    await events;
    expect(await connect({ url }).execution("w").status()).toBe("running");
  });
});

describe("a refusal of the server", () => {
  test("is a RondoError with its code, hint and path", async () => {
    const { url } = await serve();
    const client = connect({ url });
    await expect(client.execution("absent").describe()).rejects.toMatchObject({
      name: "RondoError",
      code: "not_found",
      hint: expect.stringContaining("id") as string,
    });
    await expect(client.start("double", { n: "x" })).rejects.toMatchObject({ code: "invalid_input" });
    await expect(all(client.execution("absent").events())).rejects.toMatchObject({ code: "not_found" });
    expect(() => connect({})).toThrow("address of a server");
  });

  test("of a missing or wrong token is unauthorised; the right one opens", async () => {
    const { url } = await serve({ adminToken: "a-token-that-is-long" });
    await expect(connect({ url }).list()).rejects.toMatchObject({ code: "unauthorised" });
    await expect(connect({ url, token: "x" }).list()).rejects.toMatchObject({ code: "unauthorised" });
    expect((await connect({ url, token: "a-token-that-is-long" }).list()).data).toEqual([]);
  });
});

describe("a connection", () => {
  test("that breaks in the middle of events is made again, and no event is lost or told twice", async () => {
    const { url } = await serve();
    const proxy = await CuttingProxy.to(url);
    const client = connect({ url: proxy.url });
    const execution = await client.start("double", { n: 2_000 }, { id: "cut" });
    await execution.result();
    const whole = await all(connect({ url }).execution("cut").events({ detail: "full" }));
    const bytes = JSON.stringify(whole).length;
    proxy.bytesMax = Math.floor(bytes / 2);
    proxy.cutAll();
    const seen = await all(execution.events({ detail: "full" }));
    expect(seen).toEqual(whole);
    expect(proxy.cut).toBeGreaterThanOrEqual(1);
  });

  test("that breaks while a result is waited for is made again", async () => {
    const { url } = await serve();
    const proxy = await CuttingProxy.to(url);
    const execution = await connect({ url: proxy.url }).start("approval", null, { id: "r" });
    const result = execution.result();
    const events = execution.events();
    const seen: string[] = [];
    for await (const { kind } of events) {
      seen.push(kind);
      if (kind !== "workflow.handler.started" || seen.length > 3) continue;
      proxy.cutAll();
      await connect({ url }).execution("r").signal("approved", 42);
    }
    expect(await result).toBe(42);
    expect(seen.at(-1)).toBe("workflow.finished");
    expect(new Set(seen.filter((kind) => kind === "workflow.created")).size).toBe(1);
  });

  test("that breaks under a start does not start it twice", async () => {
    const { url } = await serve();
    const proxy = await CuttingProxy.to(url);
    proxy.bytesMax = 10;
    const client = connect({ urls: [proxy.url, url] });
    const execution = await client.start("approval", null);
    expect(proxy.cut).toBe(1);
    expect((await connect({ url }).list()).data.map(({ id }) => id)).toEqual([execution.id]);
  });

  test("that breaks under what must not happen twice is not tried again", async () => {
    const { url } = await serve();
    const proxy = await CuttingProxy.to(url);
    proxy.bytesMax = 10;
    const { requester } = new RemoteRondo({ urls: [proxy.url, url] });
    const body = { name: "x", role: "admin" };
    await expect(requester.json("/v1/tokens", { method: "POST", body })).rejects.toMatchObject({
      code: "not_ready",
    });
    expect(proxy.accepted).toBe(1);
  });

  test("goes to the next address if one refuses it, and stays there", async () => {
    const { url } = await serve();
    const gone = await CuttingProxy.to(url);
    gone.close();
    const counted = await CuttingProxy.to(url);
    const client = connect({ urls: [gone.url, counted.url] });
    for (let i = 0; i < 3; i++) await client.list();
    expect(counted.accepted).toBeGreaterThanOrEqual(1);
    await expect(connect({ url: gone.url }).list()).rejects.toMatchObject({
      code: "not_ready",
      message: expect.stringContaining(`cannot reach ${gone.url}: ECONNREFUSED`) as string,
    });
  });

  test("that cannot be made for too long makes following fail", async () => {
    const { url } = await serve();
    const proxy = await CuttingProxy.to(url);
    const execution = await connect({ url: proxy.url, reconnectMs: 50 }).start("approval", null);
    const following = all(execution.events());
    proxy.close();
    await expect(following).rejects.toMatchObject({ code: "not_ready" });
  });
});

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

test("values that are not JSON, names of dots and an empty choice of statuses are refused with the reason", async () => {
  const { url } = await serve();
  const rondo = connect({ url });
  onTestFinished(() => rondo.close());
  const codeOf = (asked: Promise<unknown>): Promise<unknown> =>
    asked.then(
      () => "done",
      (thrown: unknown) => (thrown as { code: string }).code,
    );
  const cycle: Record<string, unknown> = {};
  cycle["again"] = cycle;
  expect(await codeOf(rondo.send({ name: "x", data: cycle }))).toBe("not_storable");
  expect(await codeOf(rondo.send({ name: "x", data: 1n }))).toBe("not_storable");
  // An execution that is called like the last part of a path is not meant by a name of dots.
  await rondo.start("approval", null, { id: "why" });
  for (const id of [".", ".."]) expect(() => rondo.execution(id)).toThrow("must be the id of an execution");
  expect(await codeOf(rondo.bulk("cancel", { status: [] }))).toBe("invalid_input");
  expect(await codeOf(rondo.list({ status: [] }))).toBe("invalid_input");
  expect(await rondo.execution("why").status()).toBe("running");
});
