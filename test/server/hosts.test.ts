// Names that the server answers to, and sites whose pages may ask it.
import { request } from "node:http";
import { describe, expect, test } from "vitest";
import { HostCheck, isLoopback } from "../../src/net/hosts.ts";
import { serve } from "../fixtures/server/api-fixture.ts";

/** A request with any Host header, which `fetch` does not let one set. */
function ask(
  url: string,
  headers: Record<string, string>,
  method = "GET",
  path = "/v1/executions",
): Promise<number> {
  const { port } = new URL(url);
  return new Promise((resolve, reject) => {
    const asked = request({ host: "127.0.0.1", port, path, method, headers }, (response) => {
      response.resume();
      response.once("end", () => resolve(response.statusCode ?? 0));
    });
    asked.once("error", reject).end();
  });
}

describe("a server on loopback", () => {
  test("answers to loopback names, whatever the port", async () => {
    const { url } = await serve();
    for (const host of [
      "localhost",
      "localhost:7777",
      "LOCALHOST",
      "127.0.0.1",
      "127.0.0.9:1",
      "[::1]:7777",
      "localhost.",
    ])
      expect(await ask(url, { host }), host).toBe(200);
  });

  test("does not answer to a name that another site has made point here", async () => {
    const { url } = await serve();
    const names = [
      "evil.example.com",
      "127.0.0.1.evil.example.com",
      "localhost.evil.example.com",
      "evil.example.com:7777",
    ];
    for (const host of [...names, "169.254.169.254", "0.0.0.0", "[::2]", "127.0.0.1@evil.example.com"])
      expect(await ask(url, { host }), host).toBe(403);
  });

  test("refuses pages of other sites, also where the name is right", async () => {
    const { url } = await serve();
    const { host } = new URL(url);
    expect(await ask(url, { host, origin: `http://${host}` })).toBe(200);
    const origins = [
      "http://evil.example.com",
      "null",
      "http://localhost:1",
      `http://${host}.evil.example.com`,
      "file://",
      "x",
    ];
    for (const origin of origins) {
      expect(await ask(url, { host, origin }), origin).toBe(403);
      expect(await ask(url, { host, origin }, "POST"), origin).toBe(403);
      expect(await ask(url, { host, origin }, "OPTIONS"), origin).toBe(403);
    }
  });

  test("lets no other site read its answers", async () => {
    const api = await serve();
    const { headers } = await api.get("/v1/executions");
    expect([...headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
    expect(headers.get("cross-origin-resource-policy")).toBe("same-origin");
    expect(headers.get("x-content-type-options")).toBe("nosniff");
    expect(headers.get("content-security-policy")).toContain("default-src 'none'");
  });
});

describe("names", () => {
  test("the advertised one and those configured are answered to", async () => {
    const { url } = await serve({
      advertise: "https://rondo.example.com:8443",
      hosts: ["rondo.lan", "Other.lan:7777"],
    });
    for (const host of [
      "rondo.example.com",
      "rondo.example.com:8443",
      "rondo.lan:7777",
      "other.lan",
      "localhost",
    ])
      expect(await ask(url, { host }), host).toBe(200);
    expect(await ask(url, { host: "example.com" })).toBe(403);
    expect(await ask(url, { host: "rondo.lan", origin: "https://rondo.lan" })).toBe(200);
    expect(await ask(url, { host: "rondo.lan", origin: "https://rondo.example.com" })).toBe(403);
  });

  test("the address that is listened on is one, a wildcard is none", () => {
    const check = (host: string, asked: string) =>
      new HostCheck({ host, advertise: null, hosts: [] }).check({ host: asked }) === null;
    expect(check("192.168.1.5", "192.168.1.5:7777")).toBe(true);
    expect(check("192.168.1.5", "192.168.1.6:7777")).toBe(false);
    expect(check("fd00::1", "[fd00::1]:7777")).toBe(true);
    expect(check("0.0.0.0", "0.0.0.0:7777")).toBe(false);
    expect(check("::", "[::]:7777")).toBe(false);
    expect(check("", "")).toBe(false);
  });

  test("the address that a connection was made to is one, as an address; no name is", () => {
    const check = (asked: string, local: string) =>
      new HostCheck({ host: "0.0.0.0", advertise: null, hosts: [] }).check({ host: asked }, local);
    expect(check("192.168.1.5:7777", "192.168.1.5")).toBeNull();
    expect(check("192.168.1.5", "::ffff:192.168.1.5")).toBeNull();
    expect(check("[fd00::1]:7777", "fd00::1")).toBeNull();
    for (const [asked, local] of [
      ["192.168.1.6", "192.168.1.5"],
      ["rondo.lan", "192.168.1.5"],
      ["0.0.0.0", "192.168.1.5"],
      ["rondo.lan", "rondo.lan"],
    ] as const)
      expect(check(asked, local), asked).toMatchObject({
        code: "forbidden",
        hint: expect.stringMatching(/"hosts".*RONDO_ADVERTISE/) as string,
      });
  });

  test("whether it is well it tells under any name", async () => {
    const { url } = await serve();
    const headers = { host: "10.0.0.9:7777" };
    for (const path of ["/healthz", "/readyz"]) expect(await ask(url, headers, "GET", path), path).toBe(200);
    expect(await ask(url, headers)).toBe(403);
  });

  test("loopback is what only this machine has", () => {
    for (const host of ["localhost", "127.0.0.1", "127.1.2.3", "::1", "[::1]", "::ffff:127.0.0.1"])
      expect(isLoopback(host), host).toBe(true);
    for (const host of [
      "127.evil.example.com",
      "127.0.0.1.example.com",
      "128.0.0.1",
      "::2",
      "",
      "local",
      "1270.0.0.1",
    ])
      expect(isLoopback(host), host).toBe(false);
  });
});
