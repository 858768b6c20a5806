// Clients that send too much, too slowly, too often, or do not read: each is refused or cut off, and others are served.
import { describe, expect, test } from "vitest";
import { type Got, serve, until } from "../fixtures/server/api-fixture.ts";
import { approval } from "../fixtures/server/api-workflows.ts";
import { RawClient } from "../fixtures/server/raw-client-fixture.ts";

const HEAD = "POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";

describe("a body", () => {
  test("of 10 MB is refused, before and after its length is known", async () => {
    const api = await serve();
    const body = Buffer.alloc(10_485_760, "x");
    const known = await RawClient.connect(api.url);
    known.send(`${HEAD}Content-Length: ${body.length}\r\n\r\n`);
    expect(await known.until((text) => text.includes("\r\n\r\n{"))).toContain('"code":"too_large"');
    known.destroy();
    const sent = await fetch(`${api.url}/v1/executions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    expect(sent.status).toBe(413);
    const chunked = await RawClient.connect(api.url);
    chunked.send(`${HEAD}Transfer-Encoding: chunked\r\n\r\n`);
    for (let i = 0; i < 10; i++) {
      chunked.send("100000\r\n");
      chunked.send(Buffer.alloc(0x100000, "x"));
      if (!chunked.send("\r\n")) await chunked.drain();
    }
    expect(await chunked.until((text) => text.includes("\r\n\r\n{"))).toContain("HTTP/1.1 413");
    chunked.destroy();
    expect((await api.get("/healthz")).status).toBe(200);
  });

  test("that never ends is cut off, not read for ever", async () => {
    const api = await serve();
    const client = await RawClient.connect(api.url);
    client.send(`${HEAD}Transfer-Encoding: chunked\r\n\r\n`);
    let sent = 0;
    while (!client.isClosed && sent < 256) {
      client.send("100000\r\n");
      client.send(Buffer.alloc(0x100000, "x"));
      if (!client.send("\r\n")) await client.drain();
      sent++;
    }
    expect(client.isClosed).toBe(true);
    expect(client.received).toContain("HTTP/1.1 413");
    expect(sent).toBeLessThan(100);
  });

  test("may be as large as configured, and no larger", async () => {
    const api = await serve({ limits: { bodyBytes: 1_000 } });
    const sized = (n: number) => ({ action: "pause", filter: {}, reason: "x".repeat(n) });
    expect((await api.post("/v1/executions/bulk", sized(900))).status).toBe(200);
    expect((await api.post("/v1/executions/bulk", sized(1_000))).status).toBe(413);
  });

  test("that comes slowly is cut off in time", async () => {
    const api = await serve({ limits: { requestMs: 300, headerMs: 200 } });
    const client = await RawClient.connect(api.url);
    client.send(`${HEAD}Content-Length: 100\r\n\r\n{"workflow":`);
    expect(await client.closed()).toContain('"code":"request_timeout"');
    expect(client.received).toMatch(/^HTTP\/1\.1 408 /);
    expect(api.faults).toEqual([]);
  });

  test("whose client goes away in the middle harms nobody", async () => {
    const api = await serve();
    const client = await RawClient.connect(api.url);
    client.send(`${HEAD}Content-Length: 100\r\n\r\n{"workflow":`);
    await new Promise((resolve) => setImmediate(resolve));
    client.destroy();
    expect((await api.get("/healthz")).status).toBe(200);
    expect(api.faults).toEqual([]);
  });
});

describe("headers", () => {
  test("that come slowly are cut off in time", async () => {
    const api = await serve({ limits: { headerMs: 200 } });
    const client = await RawClient.connect(api.url);
    client.send("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ");
    expect(await client.closed()).toMatch(/^HTTP\/1\.1 408 /);
  });

  test("may be given longer than the whole request, which counts then", async () => {
    const api = await serve({ limits: { headerMs: 120_000, requestMs: 60_000 } });
    expect((await api.get("/healthz")).status).toBe(200);
  });

  test("that are too large are refused", async () => {
    const api = await serve();
    const client = await RawClient.connect(api.url);
    client.send(`GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ${"x".repeat(20_000)}\r\n\r\n`);
    expect(await client.closed()).toContain('"code":"headers_too_large"');
  });

  test("that are none are refused", async () => {
    const api = await serve();
    for (const text of ["hello\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01"]) {
      const client = await RawClient.connect(api.url);
      client.send(text);
      expect(await client.closed()).toMatch(/^HTTP\/1\.1 400 .*"code":"bad_request"/s);
    }
    const client = await RawClient.connect(api.url);
    client.send("GET /healthz HTTP/1.1\r\n\r\n");
    expect(await client.until((text) => text.includes("\r\n\r\n"))).toMatch(/^HTTP\/1\.1 400/);
    client.destroy();
  });

  test("an address that cannot be read is refused", async () => {
    const api = await serve();
    const client = await RawClient.connect(api.url);
    client.send("GET /v1\\..\\x HTTP/1.1\r\nHost: localhost\r\n\r\n");
    expect(await client.until((text) => text.includes("}"))).toContain('"code":"bad_request"');
    client.destroy();
  });
});

describe("requests", () => {
  test("that come too often are told when to come again, by peer or by token", async () => {
    const api = await serve({ limits: { requestsPerSecond: 5 } });
    await api.document();
    const burst = await Promise.all(Array.from({ length: 100 }, () => api.get("/version")));
    const refused = burst.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThan(1);
    expect(refused[0]?.body).toMatchObject({ code: "rate_limited" });
    expect(Number(refused[0]?.headers.get("retry-after"))).toBeGreaterThanOrEqual(1);
    await until(async () => (await api.get("/version")).status === 200);
  });

  test("one token does not use up what another has", async () => {
    const api = await serve({ limits: { requestsPerSecond: 5 } });
    await api.makeToken("admin");
    const [a, b] = [await api.makeToken("viewer"), await api.makeToken("viewer")];
    const burst = await Promise.all(Array.from({ length: 200 }, () => api.get("/version", { token: a })));
    expect(burst.some(({ status }) => status === 429)).toBe(true);
    expect((await api.get("/version", { token: b })).status).toBe(200);
  });

  test("with wrong tokens are slowed down sooner", async () => {
    const api = await serve({ limits: { requestsPerSecond: 20 } });
    await api.makeToken("admin");
    const ask = (token: string | null, times: number): Promise<Got[]> =>
      Promise.all(Array.from({ length: times }, () => api.get("/version", { token })));
    const refused = (all: readonly Got[]): number => all.filter(({ status }) => status === 429).length;
    expect(refused(await ask("wrong", 100))).toBeGreaterThan(0);
    expect(refused(await ask(api.token, 30))).toBe(0);
    expect((await api.get("/version")).status).toBe(200);
  });

  test("that take too long are answered all the same", async () => {
    const api = await serve({ limits: { answerMs: 100 } });
    api.rondo.serve(approval);
    await api.post("/v1/executions", { workflow: "approval", id: "a" });
    api.server.engine.inspect = () => new Promise(() => {});
    const got = await api.get("/v1/executions/a");
    expect(got.body).toMatchObject({ code: "timeout", status: 504 });
  });

  test("more than there is room for are not taken", async () => {
    const api = await serve({ limits: { connections: 5 } });
    await api.document();
    const clients = await Promise.all(Array.from({ length: 8 }, () => RawClient.connect(api.url)));
    await until(() => clients.filter(({ isClosed }) => isClosed).length >= 3);
    for (const client of clients) client.destroy();
    await until(async () => (await fetch(`${api.url}/healthz`).catch(() => null))?.status === 200);
  });
});
