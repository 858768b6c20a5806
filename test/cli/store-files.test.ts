// Files of an embedded store that somebody removes or replaces: a running server notices, and so does the next one.
import { copyFileSync, cpSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cli, folder, type ServerProcess, startServer } from "../fixtures/cli/cli-process-fixture.ts";
import { until } from "../fixtures/until.ts";

const FLOW = { rondo: 2, name: "waits", phases: [{ name: "go", handlers: { go: { waitFor: "go" } } }] };

async function ask(url: string, path: string, body?: object) {
  const headers = { "content-type": "application/json" };
  const post = body === undefined ? {} : { method: "POST", headers, body: JSON.stringify(body) };
  const answer = await fetch(url + path, post);
  return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
}

const begin = (url: string, id: string) => ask(url, "/v1/executions", { workflow: "waits", input: {}, id });
const database = (cwd: string) => join(cwd, ".rondo", "rondo.db");

/** A server with the execution `before`. */
async function startFilled(): Promise<ServerProcess & { cwd: string }> {
  const cwd = folder();
  const server = await startServer({ cwd });
  expect((await ask(server.url, "/v1/workflows", FLOW)).status).toBe(201);
  expect((await begin(server.url, "before")).status).toBe(201);
  return { ...server, cwd };
}

/** Nobody asks for a write: the server finds out by itself. Reads go on. */
async function expectNoticed({ url, process }: ServerProcess, says: RegExp): Promise<void> {
  await process.line(says);
  await until("it is not ready", async () => (await ask(url, "/readyz")).status === 503);
  expect(await ask(url, "/readyz")).toMatchObject({
    body: { code: "store_unavailable", detail: expect.stringMatching(says) },
  });
  expect(process.lines(says)).toBe(1);
  expect(await ask(url, "/v1/executions/before")).toMatchObject({ status: 200 });
}

/** Refuses after the few seconds that a start waits for its store. */
async function expectRefused({ url }: ServerProcess): Promise<void> {
  expect(await begin(url, "after")).toMatchObject({ status: 503, body: { code: "store_unavailable" } });
  expect((await ask(url, "/v1/executions/after")).status).toBe(404);
}

async function expectWhole(cwd: string): Promise<void> {
  const next = await startServer({ cwd });
  expect(await ask(next.url, "/readyz")).toEqual({ status: 200, body: { status: "ready" } });
  expect((await ask(next.url, "/v1/executions/before")).status).toBe(200);
  next.process.kill("SIGTERM");
  expect(await next.process.ended).toMatchObject({ code: 0 });
}

async function expectLost(cwd: string): Promise<void> {
  const next = await startServer({ cwd });
  await next.process.line(/lost at least 1 transaction\./);
  expect(await ask(next.url, "/readyz")).toEqual({
    status: 200,
    body: { status: "ready", lostTransactions: 1 },
  });
  next.process.kill("SIGTERM");
  expect(await next.process.ended).toMatchObject({ code: 0 });
}

test("a WAL that is removed under a server: it says so, and nothing is lost if it is stopped", async () => {
  const server = await startFilled();
  rmSync(`${database(server.cwd)}-wal`);
  await expectNoticed(server, /rondo\.db-wal was removed while .* stop the process with SIGTERM/);
  await expectRefused(server);
  server.process.kill("SIGTERM");
  expect(await server.process.ended).toMatchObject({ code: 0 });
  await expectWhole(server.cwd);
});

test("files that are put back: the server goes on", async () => {
  const server = await startFilled();
  const file = database(server.cwd);
  for (const name of [file, `${file}-wal`]) renameSync(name, `${name}.away`);
  await expectNoticed(server, /rondo\.db was removed while .* put the file back/);
  for (const name of [file, `${file}-wal`]) renameSync(`${name}.away`, name);
  await until("it is ready", async () => (await ask(server.url, "/readyz")).status === 200);
  await until("it takes writes", async () => [200, 201].includes((await begin(server.url, "after")).status));
  server.process.kill("SIGKILL");
  await server.process.ended;
  await expectWhole(server.cwd);
});

test("a database that is removed under a server can still be backed up; the next server knows that it is gone", async () => {
  const server = await startFilled();
  const { cwd } = server;
  for (const name of ["rondo.db", "rondo.db-wal"]) rmSync(join(cwd, ".rondo", name));
  await expectNoticed(server, /rondo\.db was removed while .* rondo backup FILE/);
  expect(await cli(["backup", join(cwd, "copy.db")], { cwd })).toMatchObject({ code: 0 });
  server.process.kill("SIGTERM");
  await server.process.ended;
  await expectLost(cwd);
  const restored = folder();
  expect(await cli(["restore", join(cwd, "copy.db")], { cwd: restored })).toMatchObject({ code: 0 });
  await expectWhole(restored);
});

test("another database in the place of a server's own is noticed", async () => {
  const server = await startFilled();
  const other = await startFilled();
  other.process.kill("SIGTERM");
  await other.process.ended;
  renameSync(database(other.cwd), database(server.cwd));
  await expectNoticed(server, /rondo\.db was replaced while/);
});

test.each(["rondo.db-wal", "rondo.db"])(
  "%s is gone after a kill: it is told at the next start",
  async (gone) => {
    const { process, cwd } = await startFilled();
    process.kill("SIGKILL");
    await process.ended;
    for (const name of new Set([gone, "rondo.db-wal"])) rmSync(join(cwd, ".rondo", name));
    const doctor = await cli(["doctor"], { cwd });
    expect(doctor).toMatchObject({
      code: 1,
      stdout: expect.stringContaining("lost at least 1 transaction;"),
    });
    await expectLost(cwd);
    expect((await cli(["doctor"], { cwd })).code).toBe(0);
  },
);

test("nothing is told of a kill, of a copy of the file alone, or of a stop", async () => {
  const { process, cwd } = await startFilled();
  process.kill("SIGKILL");
  await process.ended;
  const copy = folder();
  cpSync(join(cwd, ".rondo"), join(copy, ".rondo"), {
    recursive: true,
    filter: (path) => !path.endsWith(".sock"),
  });
  await expectWhole(cwd);
  await expectWhole(copy);
  const alone = folder();
  mkdirSync(join(alone, ".rondo"), { mode: 0o700 });
  copyFileSync(database(cwd), database(alone));
  await expectWhole(alone);
});
