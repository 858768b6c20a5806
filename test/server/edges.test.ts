// Small things at the edges: names that are no names, headers that come twice, HEAD, slashes, what texts give away.
import { describe, expect, test } from "vitest";
import { type Api, serve, textOf, until } from "../fixtures/server/api-fixture.ts";
import { approval } from "../fixtures/server/api-workflows.ts";
import { RawClient } from "../fixtures/server/raw-client-fixture.ts";

async function served(): Promise<Api> {
  const api = await serve();
  api.rondo.serve(approval);
  await until(async () => (await api.get("/v1/workflows")).body["data"]?.["length"] === (1 as never));
  return api;
}

describe("a request", () => {
  test("with two Host headers is refused, whichever comes first", async () => {
    const api = await served();
    for (const hosts of [
      ["localhost", "evil.example"],
      ["evil.example", "localhost"],
      ["localhost", "localhost"],
    ]) {
      const client = await RawClient.connect(api.url);
      client.send(`GET /healthz HTTP/1.1\r\n${hosts.map((host) => `Host: ${host}\r\n`).join("")}\r\n`);
      expect(await client.until((text) => text.includes("}"))).toMatch(/^HTTP\/1\.1 400 .*one Host header/s);
      client.destroy();
    }
  });

  test("in absolute form is treated by its path, and its host counts instead of the header", async () => {
    const api = await served();
    const { host } = new URL(api.url);
    const ask = async (target: string, header = "localhost") => {
      const client = await RawClient.connect(api.url);
      client.send(`GET ${target} HTTP/1.1\r\nHost: ${header}\r\nConnection: close\r\n\r\n`);
      return client.closed();
    };
    expect(await ask(`http://${host}/v1/executions?limit=1`)).toMatch(/^HTTP\/1\.1 200 .*"data":\[\]/s);
    expect(await ask(`HTTP://${host}/v1/nothing`)).toMatch(/^HTTP\/1\.1 404 .*no route \/v1\/nothing/s);
    expect(await ask(`http://${host}/v1/executions`, "evil.example")).toMatch(/^HTTP\/1\.1 200 /);
    expect(await ask("http://evil.example/v1/executions")).toMatch(/^HTTP\/1\.1 403 .*evil\.example/s);
  });

  test.each(["//etc/passwd", "//", "///v1/executions", "//localhost/v1/executions"])(
    "for %s is a problem, not a page",
    async (target) => {
      const api = await served();
      const client = await RawClient.connect(api.url);
      client.send(`GET ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
      expect(await client.closed()).toMatch(
        /^HTTP\/1\.1 404 .*application\/problem\+json.*"code":"not_found"/s,
      );
    },
  );

  test("by HEAD for a stream ends at once", async () => {
    const api = await served();
    await api.post("/v1/executions", { workflow: "approval", id: "a" });
    for (const path of ["events", "logs?follow=true"]) {
      const client = await RawClient.connect(api.url);
      const head = `HEAD /v1/executions/a/${path} HTTP/1.1\r\nHost: localhost\r\n`;
      client.send(`${head}Accept: text/event-stream\r\nConnection: close\r\n\r\n`);
      expect(await client.closed()).toMatch(/^HTTP\/1\.1 200 .*content-type: text\/event-stream/is);
    }
  });

  test("for a path with a slash too many is told so", async () => {
    const api = await served();
    const got = await fetch(`${api.url}/v1/executions/`);
    expect([got.status, await got.json()]).toEqual([
      404,
      expect.objectContaining({
        code: "not_found",
        detail: "there is no route /v1/executions/",
        hint: "paths end without a slash: /v1/executions, or /v1/executions/<id>",
      }),
    ]);
    expect((await fetch(`${api.url}/nothing/`)).status).toBe(404);
  });

  test("with __proto__ as a tag or as a field is refused, not half taken", async () => {
    const api = await served();
    const start = '{"workflow":"approval","tags":{"__proto__":"x","a":"b"}}';
    expect((await api.post("/v1/executions", start)).body).toMatchObject({
      code: "invalid_input",
      path: "tags.__proto__",
    });
    const schedule = '{"id":"s","workflow":"approval","cron":"0 6 * * *","tags":{"__proto__":"x"}}';
    expect((await api.post("/v1/schedules", schedule)).body).toMatchObject({ path: "tags.__proto__" });
    for (const path of ["/v1/schedules", "/v1/workflows", "/v1/executions"])
      expect((await api.post(path, '{"__proto__":{"x":1}}')).body).toMatchObject({
        code: "unknown_field",
        path: "__proto__",
      });
    expect((await api.get("/v1/executions")).body["data"]).toEqual([]);
  });
});

test("what a conflict says gives nothing away of another project", async () => {
  const api = await served();
  await api.makeToken("admin");
  const token = await api.makeToken("operator", "books");
  await api.post("/v1/executions", { workflow: "approval", id: "a", project: "music", input: 1 });
  await api.post("/v1/schedules", { id: "s", workflow: "approval", cron: "0 6 * * *", project: "music" });
  const texts: string[] = [];
  for (const input of [1, 2]) {
    const { body } = await api.post("/v1/executions", { workflow: "approval", id: "a", input }, { token });
    expect(body).toMatchObject({ code: "conflict", path: "id" });
    texts.push(textOf(body["detail"]));
  }
  // The same whether the input is the same or not: it does not tell which.
  expect(texts[0]).toBe(texts[1]);
  const schedule = { id: "s", workflow: "approval", cron: "0 6 * * *" };
  texts.push(textOf((await api.post("/v1/schedules", schedule, { token })).body["detail"]));
  for (const text of texts) expect(text).not.toMatch(/music|project|input|workflow "/);
});

test("the versions of a workflow are listed, the newest first", async () => {
  const api = await serve();
  const phases = (seconds: number) => [{ name: "nap", handlers: { nap: { sleep: `${seconds}s` } } }];
  const hashes: string[] = [];
  for (let i = 1; i <= 5; i++) {
    const { body } = await api.post("/v1/workflows", { rondo: 1, name: "w", phases: phases(i) });
    hashes.unshift(textOf(body["hash"]));
    // One that is the newest already is no new version; one of a name that goes on is another's.
    await api.post("/v1/workflows", { rondo: 1, name: "w", phases: phases(i) });
    await api.post("/v1/workflows", { rondo: 1, name: "w-2", phases: phases(i) });
  }
  const listed: string[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const more: string = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const { body } = await api.get(`/v1/workflows/w/versions?limit=2${more}`);
    listed.push(...(body["data"] as unknown as { hash: string }[]).map(({ hash }) => hash));
    cursor = body["next"] as unknown as string | null;
  }
  expect(listed).toEqual(hashes);
  expect((await api.get("/v1/workflows/nope/versions")).status).toBe(404);
  expect((await api.get("/v1/workflows/w/versions?cursor=x")).body).toMatchObject({ path: "cursor" });
});

test("a schema that would stand still is given up, and everybody else is served meanwhile", async () => {
  const api = await serve();
  await api.post("/v1/workflows", {
    rondo: 1,
    name: "evil",
    input: { type: "string", pattern: "^(a+)+$" },
    phases: [{ name: "a", handlers: { a: { waitFor: "go" } } }],
  });
  let isOver = false;
  const slow = api.post("/v1/executions", { workflow: "evil", input: `${"a".repeat(60)}b` }).finally(() => {
    isOver = true;
  });
  let served = 0;
  while (!isOver) {
    expect((await api.get("/healthz")).status).toBe(200);
    served++;
  }
  expect(served).toBeGreaterThan(1);
  expect((await slow).body).toMatchObject({
    code: "invalid_input",
    path: "input",
    detail: "input: its check by the workflow's schema took too long",
  });
  expect((await api.post("/v1/executions", { workflow: "evil", input: "aaa" })).status).toBe(201);
});

test("closing does not wait for a connection on which nobody has said anything", async () => {
  const api = await served();
  const client = await RawClient.connect(api.url);
  await api.get("/healthz");
  await api.server.close({ graceMs: 600_000 });
  expect(await client.closed()).toBe("");
});
