// Verbs about the server and what it keeps.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { connect } from "rondo/client";
import { describe, expect, onTestFinished, test } from "vitest";
import { DaprStub } from "../fixtures/broker/dapr-stub-fixture.ts";
import { ask } from "../fixtures/cli/cli-here-fixture.ts";
import {
  cli,
  type Ended,
  fileServer,
  folder,
  jsonLines,
  startCli,
  startServer,
} from "../fixtures/cli/cli-process-fixture.ts";

const FLOW = `
import { workflow } from "rondo";
export const fails = workflow({ name: "fails" }).phase("p", {
  tasks: [0, 1],
  process({ task }) {
    if (task > 0 && process.env["FIXED"] === undefined) throw new Error("no " + task);
    return task;
  },
  retry: { attempts: 1 },
}).returns(({ phases }) => phases.p.count);
export const waits = workflow({ name: "waits" }).waitFor("go");`;

const atServer = fileServer({ "flow.ts": FLOW });

/** The server of all tests. */
function world() {
  return inFolder(atServer().cwd);
}

function inFolder(cwd: string) {
  const rondo = (...args: string[]): Promise<Ended> => ask(args, { cwd });
  const rows = async <T>(...args: string[]): Promise<T[]> => {
    const { code, stdout, stderr } = await rondo(...args, "--json");
    expect({ args, code, stderr }).toEqual({ args, code: 0, stderr });
    return jsonLines<T>(stdout);
  };
  return { cwd, rondo, rows };
}

test("schedules are put, listed, paused, resumed, run and removed", async () => {
  const { cwd, rondo, rows } = world();
  const worker = startCli(["worker", "flow.ts"], { cwd });
  await worker.line(/worker \S+ serves/);
  expect(await rondo("schedules")).toMatchObject({ code: 0, stdout: "", stderr: "no schedules\n" });
  const put = ["schedules", "put", "nightly", "--workflow", "waits", "--cron", "0 3 * * *"];
  const [made] = await rows<{ id: string; timeZone: string }>(
    ...put,
    "--time-zone",
    "Europe/Berlin",
    "-i",
    "5",
  );
  expect(made).toMatchObject({ id: "nightly", timeZone: "Europe/Berlin", input: 5 });
  expect((await rondo("schedules")).stdout).toMatch(/^nightly +waits +0 3 \* \* \* +Europe\/Berlin +in /m);
  await rondo("schedules", "pause", "nightly");
  expect((await rondo("schedules", "list")).stdout).toMatch(/^nightly .* paused/m);
  await rondo("schedules", "resume", "nightly");
  const [started] = await rows<{ execution: string }>("schedules", "run", "nightly");
  expect(await rows<{ id: string }>("ps")).toMatchObject([{ id: started?.execution, input: 5 }]);
  expect((await rondo("schedules", "run", "nightly")).stdout).toMatch(/^nightly~\d+\n$/);
  expect(await rondo("schedules", "rm", "nightly")).toMatchObject({ code: 0 });
  expect(await rows("schedules")).toEqual([]);
  expect(await rondo("schedules", "rm", "nightly")).toMatchObject({ code: 3 });
  expect(await rondo(...put.slice(0, -1), "at noon")).toMatchObject({ code: 2 });
  expect(await rondo("schedules", "put", "x", "--cron", "* * * * *")).toMatchObject({ code: 2 });
});

test("dead letters are listed, retried and dropped", async () => {
  const { cwd, rondo, rows } = world();
  for (const id of ["f", "g"])
    expect(await rondo("run", "flow.ts", "--workflow", "fails", "--id", id)).toMatchObject({ code: 1 });
  expect((await rondo("dlq")).stdout).toMatch(/^\d+ +f +fails +p +p +1 +1 +attempts +Error: no 1$/m);
  const letters = await rows<{ id: number; execution: string }>("dlq");
  expect(letters).toMatchObject([
    {
      execution: "g",
      phase: "p",
      handler: "p",
      count: 1,
      tasks: [{ n: 1, attempt: 1, error: { message: "no 1" } }],
    },
    { execution: "f" },
  ]);
  expect(await rows("dlq", "--limit", "1")).toHaveLength(1);
  expect((await rondo("dlq", "--limit", "1")).stderr).toBe(
    "there are more dead letters; --limit shows more\n",
  );
  expect((await rondo("dlq", "--limit", "2")).stderr).toBe("");
  expect(await rows("dlq", "--workflow", "other")).toEqual([]);
  await rows("dlq", "drop", String(letters[0]?.id));
  expect(await rows("dlq")).toMatchObject([{ execution: "f" }]);
  expect(await rows("dlq", "--execution", "g")).toEqual([]);
  expect(await rondo("dlq", "drop", "9999")).toMatchObject({ code: 3 });

  const [retried] = await rows<{ id: string; status: string }>("dlq", "retry", String(letters[1]?.id));
  expect(retried).toMatchObject({ id: "f", status: "running" });
  const fixed = cli(["run", "flow.ts", "--workflow", "fails", "--id", "f"], { cwd, env: { FIXED: "1" } });
  expect(await fixed).toMatchObject({ code: 0, stdout: "2\n" });
  expect(await rows("dlq")).toEqual([]);
});

test("workers are listed and drained", async () => {
  const { cwd, rondo, rows } = inFolder(folder({ "flow.ts": FLOW }));
  await startServer({ cwd });
  expect(await rondo("workers")).toMatchObject({
    stderr: "no workers are connected; start one: rondo worker FILES\n",
  });
  const worker = startCli(["worker", "flow.ts", "--name", "tester"], { cwd });
  await worker.line(/worker \S+ serves/);
  const known = await rows<{ id: string; name: string; handlers: { use: string }[] }>("workers");
  const coder = known.find(({ handlers }) => handlers.some(({ use }) => use === "fails.p"));
  expect(coder).toMatchObject({ name: "tester" });
  expect((await rondo("workers")).stdout).toMatch(/^tester\S* +tester +0 +\d+ +serving .*fails\.p/m);
  expect(await rondo("workers", "drain", coder?.id ?? "")).toMatchObject({ code: 0 });
  expect(await worker.ended).toMatchObject({ code: 0 });
  expect(await rondo("workers", "drain", "nobody")).toMatchObject({ code: 3 });
});

describe("tokens", () => {
  test("for one execution are made, open it, and are not listed", async () => {
    const { cwd, rondo, rows } = world();
    const worker = startCli(["worker", "flow.ts"], { cwd });
    await worker.line(/worker \S+ serves/);
    await connect({ url: atServer().url }).start("waits", null, { id: "page-7" });
    const made = await rondo("token", "create", "--execution", "page-7", "--scopes", "read,signal");
    expect(made).toMatchObject({ code: 0, stderr: expect.stringContaining("(read, signal)") as string });
    const token = made.stdout.trim();
    const status = async (path: string) =>
      (await fetch(`${atServer().url}${path}`, { headers: { authorization: `Bearer ${token}` } })).status;
    expect([await status("/v1/executions/page-7"), await status("/v1/executions")]).toEqual([200, 403]);
    expect(await rondo("token", "create", "--scopes", "read")).toMatchObject({ code: 2 });
    expect(await rondo("token", "create", "--execution", "page-7", "--role", "admin")).toMatchObject({
      code: 2,
    });
    expect(await rondo("token", "create", "--execution", "nothing")).toMatchObject({ code: 3 });
    expect(await rows("token", "list")).toEqual([]);
  });

  test("are made, shown once, listed without what proves them, and revoked", async () => {
    const { rondo, rows } = world();
    const made = await rondo("token", "create", "--name", "ci", "--role", "viewer", "--expires", "1d");
    expect(made.code).toBe(0);
    const token = made.stdout.trim();
    expect(token).toMatch(/^rondo_\w+_\S+$/);
    const listed = await rondo("token", "list");
    expect(listed.stdout).toMatch(/ ci +viewer /);
    expect(listed.stdout).not.toContain(token);
    const byUrl = ["--url", atServer().url];
    expect(await rondo("ps", ...byUrl)).toMatchObject({
      code: 5,
      stderr: expect.stringContaining("give a token: --token, or RONDO_TOKEN") as string,
    });
    expect(await rondo("ps", ...byUrl, "--token", token)).toMatchObject({ code: 0 });
    expect(await rondo("cancel", "x", ...byUrl, "--token", token)).toMatchObject({ code: 5 });
    // The socket needs none.
    const [{ id }] = (await rows<{ id: string }>("token")) as [{ id: string }];
    expect(await rondo("token", "revoke", id)).toMatchObject({ code: 0 });
    expect(await rondo("token", "revoke", id)).toMatchObject({ code: 3 });
    expect(await rows("token", "list")).toEqual([]);
  });

  test("are made, listed and revoked on the directory while no server works on it; the next one knows them", async () => {
    const cwd = folder();
    expect(await cli(["token", "list"], { cwd })).toMatchObject({ code: 6 });
    expect(existsSync(join(cwd, ".rondo"))).toBe(false);
    const refused = await cli(["start", "--port", "0", "--host", "0.0.0.0"], { cwd });
    expect(refused.stderr).toContain(
      "1. make a token, which needs no server:  rondo token create --role admin",
    );
    const made = await cli(["token", "create", "--role", "admin"], { cwd });
    expect(made).toMatchObject({
      code: 0,
      stderr: expect.stringContaining("the token is stored there for the next server") as string,
    });
    expect(made.stderr).toContain("every request over TCP needs a token from now on");
    const other = await cli(["token", "create", "--json"], { cwd });
    const { id, name } = JSON.parse(other.stdout) as { id: string; name: string };
    expect(name).toMatch(/^operator \d{4}-\d\d-\d\d$/);
    expect(await cli(["token", "revoke", id], { cwd })).toMatchObject({ code: 0 });
    expect(await cli(["token", "create", "--role", "king"], { cwd })).toMatchObject({ code: 2 });
    const listed = await cli(["token", "list"], { cwd });
    expect(listed.stdout.trimEnd().split("\n")).toHaveLength(2);
    expect(listed.stdout).toMatch(/ admin \d{4}-\d\d-\d\d +admin /);

    const server = startCli(["start", "--port", "0", "--host", "0.0.0.0"], { cwd });
    const url = await server.line(/^http:/);
    expect(url).not.toContain("0.0.0.0");
    expect(await server.line(/the server answers to/)).toContain(
      new URL(url).hostname.replace("127.0.0.1", "localhost"),
    );
    const token = made.stdout.trim();
    expect(await cli(["ps", "--url", url, "--token", token], { cwd })).toMatchObject({ code: 0 });
    expect(await cli(["ps", "--url", url, "--token", `${token}x`], { cwd })).toMatchObject({
      code: 5,
      stderr: expect.stringContaining("does not know this token") as string,
    });
  });

  test("may come from the environment of the server and of the client", async () => {
    const cwd = folder();
    const { url } = await startServer({ cwd, env: { RONDO_ADMIN_TOKEN: "a-token-that-is-long" } });
    const env = { RONDO_URL: url, RONDO_TOKEN: "a-token-that-is-long" };
    expect(await cli(["ps"], { cwd, env })).toMatchObject({ code: 0 });
    expect(await cli(["ps"], { cwd, env: { RONDO_URL: url } })).toMatchObject({ code: 5 });
  });
});

test("doctor says which state stores answer, without their passwords", async () => {
  const dapr = await DaprStub.make();
  onTestFinished(() => dapr.close());
  const stateStores = {
    own: "embedded",
    good: { kind: "http", url: dapr.url, token: "hunter2" },
    bad: "redis://u:hunter2@127.0.0.1:1",
    worse: "postgres://u:hunter2@127.0.0.1:1/x",
  };
  const cwd = folder({
    "rondo.config.json": JSON.stringify({ stateStores, webhookSecrets: ["hunter2-hunter2-hunter2"] }),
  });
  const { code, stdout } = await cli(["doctor"], { cwd });
  expect(code).toBe(1);
  expect(stdout).toContain("good (http) answers");
  expect(stdout).toContain("bad (redis) does not answer at 127.0.0.1:1");
  expect(stdout).toContain("worse (postgres) does not answer at 127.0.0.1:1");
  expect(stdout).not.toContain("hunter2");
  expect(dapr.requests.map(({ method }) => method)).toEqual(["GET"]);
});

test("openapi prints the description of the API; doctor says what works, and 1 if something does not", async () => {
  const { rondo, cwd } = world();
  const { stdout } = await rondo("openapi");
  const document = JSON.parse(stdout) as { openapi: string; paths: Record<string, unknown> };
  expect(document.openapi).toMatch(/^3\./);
  expect(Object.keys(document.paths)).toContain("/v1/executions/{id}/why");
  expect((await rondo("openapi", "--json")).stdout.trimEnd().split("\n")).toHaveLength(1);
  // Without a server it is that of this version, whatever token is at hand.
  const none = folder();
  const own = await cli(["openapi", "--json"], { cwd: none, env: { RONDO_TOKEN: "rondo_a_b" } });
  expect(JSON.parse(own.stdout)).toEqual({ ...document, servers: [{ url: "http://127.0.0.1:7777" }] });
  expect(readdirSync(none)).toEqual([]);
  expect(await cli(["openapi", "--url", "http://127.0.0.1:1"], { cwd: none })).toMatchObject({
    code: 6,
    stdout: "",
  });
  const well = await rondo("doctor");
  expect(well.code).toBe(0);
  expect(well.stdout).toMatch(/^✓ server +file:\.rondo answers/m);
  expect(await cli(["doctor", "--url", "http://127.0.0.1:1"], { cwd })).toMatchObject({
    code: 1,
    stdout: expect.stringContaining("✗ server     cannot reach http://127.0.0.1:1: ECONNREFUSED") as string,
  });
  const alone = await cli(["doctor"], { cwd: folder() });
  expect(alone.code).toBe(0);
  expect(alone.stdout).toMatch(/^– server +no server works on file:\.rondo; start one: rondo start$/m);
});

test("doctor says how the server's own broker stands, which only the server was told of", async () => {
  const cwd = folder();
  // Nothing listens at port 1.
  const server = await startServer({ cwd, args: ["--broker", "amqp://127.0.0.1:1"] });
  await server.process.line(/no connection to the broker/);
  const { code, stdout } = await cli(["doctor"], { cwd });
  expect(stdout).toMatch(
    /^✗ broker +the connection of file:\.rondo to its broker is down; its log says why$/m,
  );
  expect(code).toBe(1);
});
