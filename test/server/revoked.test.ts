// What a token or a session has opened is closed with it; and nobody takes all streams.
import { describe, expect, test } from "vitest";
import { type Clock, systemClock } from "../../src/std/clock.ts";
import { type Api, folder, serve, textOf, until } from "../fixtures/server/api-fixture.ts";
import { approval } from "../fixtures/server/api-workflows.ts";
import { EventClient } from "../fixtures/server/event-client-fixture.ts";

async function served(options: Parameters<typeof serve>[0] = {}): Promise<Api> {
  const api = await serve(options);
  api.rondo.serve(approval);
  await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (1 as never));
  await api.post("/v1/executions", { workflow: "approval", id: "a" });
  return api;
}

function follow(api: Api, headers: Readonly<Record<string, string>> = {}): EventClient {
  return new EventClient({ url: api.url, path: "/v1/executions/a/events", headers });
}

const by = (token: string) => ({ authorization: `Bearer ${token}` });

async function makeToken(api: Api, more: object = {}): Promise<{ id: string; token: string }> {
  const { body } = await api.post("/v1/tokens", { name: "v", role: "viewer", ...more });
  return { id: textOf(body["id"]), token: textOf(body["token"]) };
}

test("a claim that waits under a token ends with it, and gets no work", async () => {
  const api = await served();
  await api.makeToken("admin");
  const { id, token } = await makeToken(api, { role: "worker" });
  const worker = { name: "w", capacity: 1, handlers: [{ use: "approval.wait" }] };
  const { body } = await api.post("/v1/workers", worker, { token });
  const claim = api.post(
    `/v1/workers/${textOf(body["worker"])}/claim`,
    { max: 1, waitMs: 60_000 },
    { token },
  );
  expect((await api.delete(`/v1/tokens/${id}`)).status).toBe(204);
  expect((await claim).status).toBeGreaterThanOrEqual(400);
});

describe("streams", () => {
  test("of a revoked token are cut, those of others go on", async () => {
    const api = await served();
    await api.makeToken("admin");
    const [revoked, kept] = [await makeToken(api), await makeToken(api)];
    const session = await api.post("/v1/session", undefined, { token: revoked.token });
    const cookie = String(String(session.headers.get("set-cookie")).split(";")[0]);
    const cut = [follow(api, by(revoked.token)), follow(api, by(revoked.token)), follow(api, { cookie })];
    const other = follow(api, by(kept.token));
    for (const client of [...cut, other]) await client.until(() => client.events.length >= 3);
    expect((await api.delete(`/v1/tokens/${revoked.id}`)).status).toBe(204);
    for (const client of cut) await client.ended();
    expect(cut.map(({ isBroken }) => isBroken)).toEqual([true, true, true]);
    const signal = { name: "approved", data: { by: "jo" } };
    await api.post("/v1/executions/a/signals", signal);
    await other.ended();
    expect(other.events.at(-1)?.data).toMatchObject({ kind: "workflow.finished" });
  });

  test("of a token that has expired are cut soon after", async () => {
    const real = systemClock({ hold: true });
    let passed = 0;
    const clock: Clock = {
      ...real,
      now: () => real.now() + passed,
      after: (ms, run) => real.after(ms / 50, run),
    };
    const api = await served({ clock });
    await api.makeToken("admin");
    const { token } = await makeToken(api, { expiresAt: clock.now() + 3_600_000 });
    const [expires, stays] = [follow(api, by(token)), follow(api, by(String(api.token)))];
    for (const client of [expires, stays]) await client.until(() => client.events.length >= 3);
    passed = 3_600_000;
    await expires.ended();
    expect([expires.isBroken, stays.isEnded]).toEqual([true, false]);
    stays.close();
  });

  test("of one caller are a quarter of all at most, and another still gets one", async () => {
    const api = await served({ limits: { streams: 8 } });
    await api.makeToken("admin");
    const [greedy, other] = [await makeToken(api), await makeToken(api)];
    const open = [follow(api, by(greedy.token)), follow(api, by(greedy.token))];
    for (const client of open) await client.until(() => client.events.length >= 3);
    const sent = { token: greedy.token, headers: { accept: "text/event-stream" } };
    const refused = await api.get("/v1/executions/a/events", sent);
    expect(refused.body).toMatchObject({
      code: "rate_limited",
      status: 429,
      detail: "v has 2 streams open, which is its limit",
    });
    const third = follow(api, by(other.token));
    await third.until(() => third.events.length >= 3);
    expect(third.status).toBe(200);
    // One that is closed makes room.
    open[0]?.close();
    await until(async () => {
      const client = follow(api, by(greedy.token));
      await client.until(() => client.status !== 0);
      client.close();
      return client.status === 200;
    });
    for (const client of [...open, third]) client.close();
  });
});

test("a session that was deleted opens nothing any more, also after a restart; others of its token do", async () => {
  const store = `file:${folder()}`;
  const api = await served({ store });
  await api.makeToken("admin");
  const { token } = await makeToken(api);
  const trade = async (): Promise<string> => {
    const { headers } = await api.post("/v1/session", undefined, { token });
    return String(String(headers.get("set-cookie")).split(";")[0]);
  };
  const ended = await trade();
  let kept = ended;
  while (kept === ended) kept = await trade();
  const status = async (server: Api, cookie: string): Promise<number> =>
    (await server.get("/v1/executions", { token: null, headers: { cookie } })).status;
  expect([await status(api, ended), await status(api, kept)]).toEqual([200, 200]);
  expect((await api.delete("/v1/session", { token: null, headers: { cookie: ended } })).status).toBe(204);
  expect([await status(api, ended), await status(api, kept)]).toEqual([401, 200]);
  const admin = api.token;
  await api.close();
  const next = await serve({ store });
  next.token = admin;
  expect([await status(next, ended), await status(next, kept)]).toEqual([401, 200]);
});
