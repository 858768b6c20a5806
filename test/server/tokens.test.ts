// Tokens and the sessions that they are traded for: made, listed, expired, revoked; and which may be the first.
import { describe, expect, test } from "vitest";
import { systemClock } from "../../src/std/clock.ts";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { folder, serve, textOf } from "../fixtures/server/api-fixture.ts";

describe("tokens", () => {
  test("once there is a token, every request needs one that is known", async () => {
    const api = await serve();
    expect((await api.get("/v1/executions")).status).toBe(200);
    const admin = await api.makeToken("admin");
    for (const token of [null, "wrong", `${admin}x`, admin.slice(0, -1), "rondo_a_b"]) {
      const got = await api.get("/v1/executions", { token });
      expect(got.body).toMatchObject({ code: "unauthorised", hint: "send Authorization: Bearer <token>" });
      expect(got.headers.get("www-authenticate")).toBe("Bearer");
      // Nor does anybody learn which routes there are.
      expect((await api.get("/v1/nowhere", { token })).status).toBe(401);
    }
    expect((await api.get("/v1/executions")).status).toBe(200);
    expect((await api.get("/healthz", { token: null })).status).toBe(200);
    expect((await api.get("/readyz", { token: null })).status).toBe(200);
  });

  test("the answer to the first one says that every request needs one from now on, and others do not", async () => {
    const api = await serve();
    await api.document();
    const admin = { name: "a", role: "admin" };
    const first = await api.post("/v1/tokens", admin);
    expect(first.body["notice"]).toContain("every request over TCP needs a token from now on");
    const second = await api.post("/v1/tokens", admin, { token: textOf(first.body["token"]) });
    expect([second.status, second.body["notice"]]).toEqual([201, undefined]);
  });

  test("tokens are listed without what proves them, kept as hashes, and revoked", async () => {
    const store = new MemoryStore();
    const api = await serve({ store });
    const admin = await api.makeToken("admin");
    const viewer = await api.makeToken("viewer");
    const list = await api.get("/v1/tokens");
    expect(list.body["data"]).toMatchObject([
      { role: "admin" },
      { role: "viewer", project: null, createdBy: "admin-all" },
    ]);
    expect(list.text).not.toContain(viewer.split("_").slice(2).join("_"));
    const stored = await store.listDocuments("token", { max: 10 });
    expect(stored).toHaveLength(2);
    expect(JSON.stringify(stored)).not.toContain(admin.split("_").slice(2).join("_"));
    const id = String((list.body["data"] as unknown as { id: string }[])[1]?.id);
    expect((await api.delete(`/v1/tokens/${id}`)).status).toBe(204);
    expect((await api.get("/v1/executions", { token: viewer })).status).toBe(401);
    expect((await api.delete(`/v1/tokens/${id}`)).status).toBe(404);
  });

  test("a token that has expired opens nothing, and none is made that has", async () => {
    const real = systemClock();
    let passed = 0;
    const api = await serve({ clock: { ...real, now: () => real.now() + passed } });
    await api.makeToken("admin");
    const past = await api.post("/v1/tokens", { name: "old", role: "viewer", expiresAt: 1 });
    expect([past.status, past.body["path"]]).toEqual([422, "expiresAt"]);
    const expiresAt = real.now() + 3_600_000;
    const brief = await api.post("/v1/tokens", { name: "brief", role: "viewer", expiresAt });
    expect((await api.get("/v1/executions", { token: textOf(brief.body["token"]) })).status).toBe(200);
    passed = 3_600_001;
    expect((await api.get("/v1/executions", { token: textOf(brief.body["token"]) })).status).toBe(401);
    const soon = await api.post("/v1/tokens", {
      name: "new",
      role: "viewer",
      expiresAt: "2999-01-01T00:00:00Z",
    });
    expect((await api.get("/v1/executions", { token: textOf(soon.body["token"]) })).status).toBe(200);
  });

  test.each([
    ["a viewer's", { role: "viewer" }],
    ["a worker's", { role: "worker" }],
    ["an admin's of one project", { role: "admin", project: "books" }],
    ["an admin's for a while", { role: "admin", expiresAt: "2999-01-01T00:00:00Z" }],
  ])("the first one is not %s, where nobody would be an admin any more", async (_whose, more) => {
    const api = await serve();
    const first = await api.post("/v1/tokens", { name: "first", ...more });
    expect([first.status, first.body["code"], first.body["path"]]).toEqual([409, "conflict", "role"]);
    expect(first.body["hint"]).toContain("RONDO_ADMIN_TOKEN");
    expect((await api.get("/v1/tokens", { token: null })).body["data"]).toEqual([]);
    await api.makeToken("admin");
    expect((await api.post("/v1/tokens", { name: "second", ...more })).status).toBe(201);
    // The socket of a directory lets its owner in.
    const other = await serve({ store: `file:${folder()}` });
    await other.document();
    expect((await other.post("/v1/tokens", { name: "first", ...more })).status).toBe(201);
  });

  test("tokens are there again after a restart", async () => {
    const store = `file:${folder()}`;
    const first = await serve({ store });
    const admin = await first.makeToken("admin");
    await first.close();
    const second = await serve({ store });
    second.token = admin;
    expect((await second.get("/v1/executions")).status).toBe(200);
    expect((await second.get("/v1/executions", { token: null })).status).toBe(401);
  });
});

describe("a session", () => {
  test("is got for a token as a cookie that scripts and other sites cannot use", async () => {
    const api = await serve();
    await api.makeToken("admin");
    const token = await api.makeToken("viewer");
    const got = await api.post("/v1/session", undefined, { token });
    expect(got.body).toMatchObject({ name: "viewer-all", role: "viewer", project: null });
    const set = String(got.headers.get("set-cookie"));
    expect(set).toMatch(/^rondo_session=[\w.-]+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/);
    const cookie = String(set.split(";")[0]);
    const by = (value: string) => ({ token: null, headers: { cookie: value } });
    expect((await api.get("/v1/executions", by(cookie))).status).toBe(200);
    expect((await api.get("/v1/session", by(`a=b; ${cookie}`))).body).toMatchObject({ role: "viewer" });
    expect((await api.get("/v1/tokens", by(cookie))).status).toBe(403);
    expect((await api.get("/v1/executions", by(`${cookie}x`))).status).toBe(401);
    expect((await api.get("/v1/executions", by(cookie.replace(/\.\w+\./, ".zzzzzzzzz.")))).status).toBe(401);
    const end = await api.delete("/v1/session", by(cookie));
    expect(end.headers.get("set-cookie")).toMatch(/^rondo_session=; .*Max-Age=0/);
    // With its token it ends everywhere.
    const tokens = (await api.get("/v1/tokens")).body["data"] as unknown as { id: string; role: string }[];
    await api.delete(`/v1/tokens/${tokens.find(({ role }) => role === "viewer")?.id}`);
    expect((await api.get("/v1/executions", by(cookie))).status).toBe(401);
  });

  test("without a token there is none to get", async () => {
    const api = await serve();
    const got = await api.post("/v1/session");
    expect(got.body).toMatchObject({ name: "local", role: "admin" });
    expect(got.headers.get("set-cookie")).toBeNull();
  });

  test("is for encrypted connections only where the server is reached by them", async () => {
    const api = await serve({ advertise: "https://rondo.example.com" });
    await api.makeToken("admin");
    expect((await api.post("/v1/session")).headers.get("set-cookie")).toContain("; Secure");
  });
});
