// Pages of other origins: tokens for one execution, and CORS.
import { request } from "node:http";
import { workflow } from "rondo";
import { describe, expect, test } from "vitest";
import { type Clock, systemClock } from "../../src/std/clock.ts";
import { type Api, type Got, serve, textOf, until } from "../fixtures/server/api-fixture.ts";
import { approval } from "../fixtures/server/api-workflows.ts";
import { EventClient } from "../fixtures/server/event-client-fixture.ts";

const family = workflow({ name: "family" }).child("call", approval, { enumerate: () => [{}] });
const ALL = ["read", "history", "signal", "update", "cancel"];

async function served(options: Parameters<typeof serve>[0] = {}): Promise<Api> {
  const api = await serve(options);
  api.rondo.serve(approval, family);
  await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (2 as never));
  await api.post("/v1/executions", { workflow: "approval", id: "a" });
  return api;
}

async function tokenFor(api: Api, id: string, more: object = {}, token?: string): Promise<string> {
  const made = await api.post(`/v1/executions/${id}/tokens`, more, token === undefined ? {} : { token });
  expect(made.status, made.text).toBe(201);
  return textOf(made.body["token"]);
}

const approved = { name: "approved", data: { by: "jo" } };

describe("a token for one execution", () => {
  test("reads and signals its execution, and the next one of the same id", async () => {
    const api = await served();
    await api.makeToken("admin");
    const token = await tokenFor(api, "a", { scopes: ["read", "signal"], expires: "15m" });
    expect((await api.get("/v1/executions/a", { token })).body).toMatchObject({ id: "a", status: "running" });
    expect((await api.post("/v1/executions/a/signals", approved, { token })).status).toBe(200);
    const result = await api.get("/v1/executions/a/result?wait=30s", { token });
    expect(result.body).toMatchObject({ status: "done" });
    const start = { workflow: "approval", id: "a", ifExists: "startNewWhenDone" };
    expect((await api.post("/v1/executions", start)).body["id"]).toBe("a~2");
    expect((await api.get("/v1/executions/a~2", { token })).status).toBe(200);
    expect((await api.post("/v1/executions/a~2/signals", approved, { token })).status).toBe(200);
    expect((await api.get("/v1/executions/a~3", { token })).status).toBe(404);
  });

  test("that was made for the first execution of an id opens that one only", async () => {
    const api = await served();
    await api.makeToken("admin");
    const token = await tokenFor(api, "a~1");
    expect((await api.get("/v1/executions/a~1", { token })).body).toMatchObject({ id: "a" });
    for (const id of ["a", "a~2", "a~11"])
      expect((await api.get(`/v1/executions/${id}`, { token })).status, id).toBe(403);
  });

  test("neither starts an execution, nor opens a child, nor leaves out a clean-up, nor makes tokens", async () => {
    const api = await served();
    await api.makeToken("admin");
    await api.post("/v1/executions", { workflow: "family", id: "f" });
    const token = await tokenFor(api, "f", { scopes: ALL });
    const signal = { ...approved, start: { workflow: "approval" } };
    expect((await api.post("/v1/executions/f~2/signals", signal, { token })).body).toMatchObject({
      code: "forbidden",
      path: "start",
    });
    let child = "";
    await until(async () => {
      const { body } = await api.get("/v1/executions?workflow=approval");
      child = (body["data"] as unknown as { id: string }[]).find(({ id }) => id !== "a")?.id ?? "";
      return child !== "";
    });
    expect(child).toMatch(/^f~/);
    const path = `/v1/executions/${encodeURIComponent(child)}`;
    expect((await api.get(path, { token })).body).toMatchObject({ code: "forbidden" });
    expect((await api.post("/v1/executions/f/tokens", {}, { token })).status).toBe(403);
    expect((await api.post("/v1/executions/f/cancel", { force: true }, { token })).body).toMatchObject({
      code: "forbidden",
      path: "force",
    });
    expect((await api.post("/v1/executions/f/cancel", {}, { token })).status).toBe(200);
    expect((await api.get("/nothing", { token })).status).toBe(403);
  });

  test("has its own idempotency keys, apart from those of its maker", async () => {
    const api = await served();
    await api.makeToken("admin");
    const token = await tokenFor(api, "a", { scopes: ["signal"] });
    const headers = { "idempotency-key": "k" };
    expect((await api.post("/v1/executions/a/pause", {}, { headers })).status).toBe(200);
    expect((await api.post("/v1/executions/a/signals", approved, { token, headers })).status).toBe(200);
  });

  test("ends with the token that made it: requests are refused, and streams are cut", async () => {
    const api = await served();
    await api.makeToken("admin");
    const { body } = await api.post("/v1/tokens", { name: "shop", role: "operator" });
    const maker = textOf(body["token"]);
    const token = await tokenFor(api, "a", { scopes: ["history"] }, maker);
    const kept = await tokenFor(api, "a", { scopes: ["history"] });
    const follow = (bearer: string) =>
      new EventClient({
        ...{ url: api.url, path: "/v1/executions/a/events" },
        headers: { authorization: `Bearer ${bearer}` },
      });
    const [cut, stays] = [follow(token), follow(kept)];
    for (const client of [cut, stays]) await client.until(() => client.events.length >= 3);
    expect((await api.delete(`/v1/tokens/${textOf(body["id"])}`)).status).toBe(204);
    await cut.ended();
    expect([cut.isBroken, stays.isEnded]).toEqual([true, false]);
    stays.close();
    expect((await api.get("/v1/executions/a/events", { token })).body).toMatchObject({
      code: "unauthorised",
      detail: "this token is invalid, because the token that made it is revoked or has expired",
    });
  });

  test("ends at its expiry, also for a stream that is open", async () => {
    const real = systemClock({ hold: true });
    let passed = 0;
    const later: { ms: number; run: () => void }[] = [];
    const clock: Clock = {
      ...real,
      now: () => real.now() + passed,
      after: (ms, run) => {
        if (ms > 3_000_000 && ms <= 3_600_000) later.push({ ms, run });
        return real.after(ms, run);
      },
    };
    const api = await served({ clock });
    await api.makeToken("admin");
    const token = await tokenFor(api, "a", { scopes: ["history"] });
    const client = new EventClient({
      ...{ url: api.url, path: "/v1/executions/a/events" },
      headers: { authorization: `Bearer ${token}` },
    });
    await client.until(() => client.events.length >= 3);
    passed = 3_600_000;
    for (const { run } of later) run();
    await client.ended();
    expect(client.isBroken).toBe(true);
    expect((await api.get("/v1/executions/a/events", { token })).status).toBe(401);
  });

  test("has no more rights at a server without tokens", async () => {
    const api = await served();
    const token = await tokenFor(api, "a");
    expect((await api.get("/v1/executions/a", { token })).status).toBe(200);
    expect((await api.get("/v1/executions", { token })).status).toBe(403);
    expect((await api.get("/v1/executions/a", { token: `${token}x` })).status).toBe(401);
  });

  test("is refused for wrong scopes, times and executions", async () => {
    const api = await served();
    const ask = async (body: object, id = "a"): Promise<unknown> =>
      (await api.post(`/v1/executions/${id}/tokens`, body)).body["code"];
    expect(await ask({ scopes: ["admin"] })).toBe("invalid_input");
    expect(await ask({ scopes: [] })).toBe("invalid_input");
    expect(await ask({ expires: "8d" })).toBe("invalid_input");
    expect(await ask({ expires: 0 })).toBe("invalid_input");
    expect(await ask({ expires: "soon" })).toBe("invalid_input");
    expect(await ask({ role: "admin" })).toBe("unknown_field");
    expect(await ask({}, "none")).toBe("not_found");
  });

  test("of a caller of one project is for executions of that project", async () => {
    const api = await served();
    await api.makeToken("admin");
    const token = await api.makeToken("operator", "books");
    expect((await api.post("/v1/executions/a/tokens", {}, { token })).status).toBe(404);
  });
});

describe("CORS", () => {
  const origin = "https://app.example";
  const cors = { origins: [origin] };
  const from = (page: string, more: Record<string, string> = {}) => ({ headers: { origin: page, ...more } });
  const allowed = ({ headers }: Got) => headers.get("access-control-allow-origin");

  /** A preflight request, as browsers send it. */
  async function preflight(api: Api, path: string, page = origin): Promise<Response> {
    return fetch(`${api.url}${path}`, {
      method: "OPTIONS",
      headers: {
        origin: page,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type",
      },
    });
  }

  test("a page of a listed origin may use the API with a token, and reads headers and problems", async () => {
    const api = await served({ cors });
    await api.makeToken("admin");
    const token = await tokenFor(api, "a", { scopes: ["read", "signal"] });
    const asked = await preflight(api, "/v1/executions/a/signals");
    expect(asked.status).toBe(204);
    expect(asked.headers.get("access-control-allow-origin")).toBe(origin);
    expect(asked.headers.get("access-control-allow-headers")).toContain("authorization");
    expect(asked.headers.get("access-control-allow-methods")).toContain("POST");
    expect(asked.headers.get("vary")).toContain("origin");
    const view = await api.get("/v1/executions/a", { token, ...from(origin) });
    expect([view.status, allowed(view)]).toEqual([200, origin]);
    expect(view.headers.get("access-control-expose-headers")).toContain("etag");
    const problem = await api.get("/v1/executions/b", { token, ...from(origin) });
    expect([problem.status, allowed(problem)]).toEqual([403, origin]);
    const stream = await fetch(`${api.url}/v1/executions/a/events`, {
      headers: { origin, accept: "text/event-stream", authorization: `Bearer ${api.token}` },
    });
    expect(stream.headers.get("access-control-allow-origin")).toBe(origin);
    await stream.body?.cancel();
  });

  test("other origins get nothing, and no answer allows cookies", async () => {
    const api = await served({ cors });
    await api.makeToken("admin");
    for (const page of [
      "https://evil.example",
      "http://app.example",
      `${origin}:8443`,
      "null",
      `${origin}.evil.example`,
    ]) {
      const refused = await api.get("/v1/executions/a", from(page));
      expect([refused.status, allowed(refused)], page).toEqual([403, null]);
      const asked = await preflight(api, "/v1/executions/a", page);
      expect([asked.status, asked.headers.get("access-control-allow-origin")], page).toEqual([403, null]);
    }
    const answers = [
      (await preflight(api, "/v1/executions/a")).headers,
      (await api.get("/v1/executions/a", from(origin))).headers,
    ];
    for (const headers of answers) expect(headers.get("access-control-allow-credentials")).toBe(null);
  });

  test("a cookie does not count for a page of another origin, also with *", async () => {
    for (const origins of [[origin], ["*"]]) {
      const api = await served({ cors: { origins } });
      const admin = await api.makeToken("admin");
      const session = await api.post("/v1/session", undefined, { token: admin });
      const cookie = String(String(session.headers.get("set-cookie")).split(";")[0]);
      expect((await api.get("/v1/executions", { token: null, headers: { cookie } })).status).toBe(200);
      const got = await api.get("/v1/executions", { token: null, ...from(origin, { cookie }) });
      expect(got.body).toMatchObject({ code: "unauthorised" });
    }
  });

  test("at a server without tokens, a page of another origin needs one all the same", async () => {
    const api = await served({ cors: { origins: ["*"] } });
    expect((await api.get("/v1/executions")).status).toBe(200);
    expect((await api.get("/v1/executions", from(origin))).status).toBe(401);
    expect((await api.get("/v1/executions", { token: "x", ...from(origin) })).status).toBe(401);
    const token = await tokenFor(api, "a");
    expect((await api.get("/v1/executions/a", { token, ...from(origin) })).status).toBe(200);
  });

  test("sessions, the dashboard and all that is not below /v1/ stay closed", async () => {
    const api = await served({ cors: { origins: [origin, "*"] } });
    await api.makeToken("admin");
    const closed = [
      "/",
      "/executions",
      "/mcp",
      "/metrics",
      "/openapi.json",
      "/v1/session",
      "/v1/session?x=1",
      "/v1/%73ession",
      "/v1/session/",
      "/v1/executions/../session",
      "/v1/../metrics",
      "/v1",
      "//v1/executions",
      "/x/../v1x",
    ];
    for (const path of closed)
      expect(
        (await fetch(`${api.url}${path}`, { headers: { origin, authorization: `Bearer ${api.token}` } }))
          .status,
        path,
      ).toBe(403);
  });

  test("a name that another site has made point here is refused, whatever the origin", async () => {
    const api = await served({ cors: { origins: ["*", "http://evil.example"] } });
    const { port } = new URL(api.url);
    const status = await new Promise<number>((resolve, reject) => {
      const headers = { host: "evil.example", origin: "http://evil.example" };
      const asked = request({ host: "127.0.0.1", port, path: "/v1/executions", headers }, (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      });
      asked.once("error", reject).end();
    });
    expect(status).toBe(403);
  });
});
