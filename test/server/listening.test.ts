// Where a server listens, and whom it lets in there: the directory's socket, loopback, other addresses.
import { statSync } from "node:fs";
import { request } from "node:http";
import { describe, expect, test } from "vitest";
import { openServer } from "../../src/compose/compose-server.ts";
import { MemoryStore } from "../../src/store/memory/memory-store.ts";
import { folder, serve } from "../fixtures/server/api-fixture.ts";

describe("the directory's socket", () => {
  test("is the only way to have a file written", async () => {
    const directory = folder();
    const api = await serve({ store: `file:${directory}` });
    const got = await api.post("/v1/backup", { file: `${directory}/copy.db` });
    expect(got.body).toMatchObject({ code: "forbidden" });
    await api.makeToken("admin");
    expect((await api.post("/v1/backup", { file: `${directory}/copy.db` })).status).toBe(403);
  });

  test("is admin without a token, for the directory's owner only", async () => {
    const directory = folder();
    const api = await serve({ store: `file:${directory}` });
    await api.makeToken("admin");
    const { socket } = api.server;
    expect(socket).toBe(`${directory}/rondo.sock`);
    expect(statSync(String(socket)).mode & 0o777).toBe(0o600);
    const ask = (path: string, headers = {}): Promise<number> =>
      new Promise((resolve, reject) => {
        const asked = request({ socketPath: String(socket), path, headers }, (response) => {
          response.resume();
          response.once("end", () => resolve(response.statusCode ?? 0));
        });
        asked.once("error", reject).end();
      });
    expect(await ask("/v1/tokens")).toBe(200);
    expect(await ask("/v1/tokens", { host: "anything.example.com" })).toBe(200);
    expect((await api.get("/v1/tokens", { token: null })).status).toBe(401);
    await api.close();
    expect(() => statSync(String(socket))).toThrow("ENOENT");
  });

  test("there is none where the path is too long for one", async () => {
    const directory = `${folder()}/${"long/".repeat(25)}`;
    const api = await serve({ store: `file:${directory}` });
    expect(api.server.socket).toBeNull();
    expect(api.faults[0]?.message).toContain("too long for a socket");
    expect((await api.get("/healthz")).status).toBe(200);
  });
});

describe("starting", () => {
  test("on another address than loopback is refused without a token", async () => {
    for (const host of ["0.0.0.0", "::", "example.com"]) {
      const opening = openServer({ host, port: 0, store: new MemoryStore() });
      await expect(opening).rejects.toMatchObject({
        code: "forbidden",
        message: expect.stringContaining("RONDO_ADMIN_TOKEN"),
      });
    }
  });

  test("with RONDO_ADMIN_TOKEN is fine: it is an admin's token", async () => {
    const adminToken = "an-admin-token-of-some-length";
    const api = await serve({ host: "0.0.0.0", adminToken });
    api.token = adminToken;
    expect((await api.get("/v1/tokens", { token: null })).status).toBe(401);
    expect((await api.get("/v1/session")).body).toMatchObject({ name: "RONDO_ADMIN_TOKEN", role: "admin" });
    expect((await api.get("/v1/tokens")).body["data"]).toMatchObject([{ id: "env" }]);
    expect((await api.delete("/v1/tokens/env")).status).toBe(404);
    const short = openServer({ adminToken: "short", port: 0, store: new MemoryStore() });
    await expect(short).rejects.toMatchObject({ code: "invalid_input" });
  });

  test("with a token in the store is fine; without any left, nobody gets in over TCP", async () => {
    const store = `file:${folder()}`;
    const local = await serve({ store });
    const admin = await local.makeToken("admin");
    await local.close();
    const api = await serve({ store, host: "0.0.0.0" });
    api.token = admin;
    const [{ id } = { id: "" }] = (await api.get("/v1/tokens")).body["data"] as unknown as { id: string }[];
    expect((await api.delete(`/v1/tokens/${id}`)).status).toBe(204);
    expect((await api.get("/v1/executions", { token: null })).status).toBe(401);
  });

  test("on an address that is in use is refused, and leaves nothing open", async () => {
    const directory = folder();
    const first = await serve();
    const port = Number(new URL(first.url).port);
    const second = openServer({ port, store: `file:${directory}` });
    await expect(second).rejects.toMatchObject({ code: "conflict" });
    expect((await serve({ store: `file:${directory}` })).url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  });

  test("a second process is told where the first one listens", async () => {
    const store = `file:${folder()}`;
    const first = await serve({ store });
    await expect(openServer({ port: 0, store })).rejects.toThrow(first.url);
  });
});
