// How a node serves its dashboard: what headers say, which addresses are pages, and how much there is to load.
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gunzipSync, gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { serve } from "../fixtures/server/api-fixture.ts";

const BUILT = fileURLToPath(new URL("../../dist/dashboard/", import.meta.url));
const JS_BYTES_MAX = 130_000;

function assets(extension: string): string[] {
  return readdirSync(`${BUILT}assets`).filter((name) => name.endsWith(extension));
}

test("all of its JavaScript together is under 130 KB, compressed", () => {
  const sizes = assets(".js").map((name) => gzipSync(readFileSync(`${BUILT}assets/${name}`)).length);
  expect(sizes.length).toBeGreaterThan(5);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThan(JS_BYTES_MAX);
});

test("the page and its addresses are sent to everybody, and asked for anew each time", async () => {
  const { url, makeToken } = await tokened();
  await makeToken();
  for (const path of ["/", "/executions", "/executions/a~b?tab=logs", "/definitions/x", "/sign-in"]) {
    const response = await fetch(url + path);
    expect([path, response.status, response.headers.get("content-type")]).toEqual([
      path,
      200,
      "text/html; charset=utf-8",
    ]);
    expect(response.headers.get("cache-control")).toBe("no-cache");
    const etag = response.headers.get("etag") ?? "";
    expect((await fetch(url + path, { headers: { "if-none-match": etag } })).status).toBe(304);
  }
  expect((await fetch(`${url}/v1/overview`)).status).toBe(401);
});

test("nothing inline runs, nothing comes from elsewhere, and no text becomes markup", async () => {
  const { url } = await serve();
  const response = await fetch(url);
  const policy = response.headers.get("content-security-policy") ?? "";
  for (const part of [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "frame-ancestors 'none'",
  ])
    expect(policy.split("; ")).toContain(part);
  expect(policy).toContain("require-trusted-types-for 'script'");
  expect(policy).not.toContain("unsafe");
  expect(await response.text()).not.toMatch(/<script(?![^>]*src=)|<style|\son\w+=|style=/);
});

test("files with a hash in their name are kept forever, and come compressed to who can read that", async () => {
  const { url } = await serve();
  const [name = ""] = assets(".js");
  const content = readFileSync(`${BUILT}assets/${name}`, "utf8");
  const response = await fetch(`${url}/assets/${name}`, { headers: { "accept-encoding": "identity" } });
  expect(response.headers.get("cache-control")).toBe("public, max-age=31536000, immutable");
  expect(response.headers.get("content-type")).toBe("text/javascript; charset=utf-8");
  expect(await response.text()).toBe(content);
  const { get } = await import("node:http");
  const zipped = await new Promise<Buffer>((resolve) => {
    get(`${url}/assets/${name}`, { headers: { "accept-encoding": "gzip" } }, (incoming) => {
      const parts: Buffer[] = [];
      incoming.on("data", (part: Buffer) => parts.push(part)).on("end", () => resolve(Buffer.concat(parts)));
    });
  });
  expect(gunzipSync(zipped).toString()).toBe(content);
  const head = await fetch(`${url}/assets/${name}`, { method: "HEAD" });
  expect([head.status, await head.text()]).toEqual([200, ""]);
});

test("what is no page is the API's: a problem, not a page", async () => {
  const { url } = await serve();
  for (const path of [
    "/nowhere",
    "/assets/none.js",
    "/v1/nowhere",
    "/assets/../package.json",
    "/%2e%2e/package.json",
  ]) {
    const response = await fetch(url + path, { headers: { accept: "text/html" } });
    expect([path, response.status]).toEqual([path, 404]);
  }
  expect((await fetch(`${url}/executions`, { method: "POST" })).status).toBe(404);
  expect((await fetch(`${url}/healthz`)).headers.get("content-type")).toBe("application/json");
});

async function tokened() {
  const api = await serve();
  return { url: api.url, makeToken: () => api.makeToken("admin") };
}
