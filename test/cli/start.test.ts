// `rondo start`: a server that says where it is, and ends as it should; and where its settings come from.
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cli, folder, startCli, startServer } from "../fixtures/cli/cli-process-fixture.ts";

test("says where it listens, serves there and through the socket, and ends with 0 on SIGTERM", async () => {
  const cwd = folder();
  const { url, socket, process } = await startServer({ cwd });
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  expect(socket).toBe(join(cwd, ".rondo/rondo.sock"));
  expect(statSync(socket).mode & 0o777).toBe(0o600);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  const [bySocket, byUrl] = await Promise.all([
    cli(["ps", "--json"], { cwd }),
    cli(["ps", "--json"], { cwd: folder(), env: { RONDO_URL: url } }),
  ]);
  expect([bySocket, byUrl].map(({ code, stdout }) => ({ code, stdout }))).toEqual([
    { code: 0, stdout: "" },
    { code: 0, stdout: "" },
  ]);
  process.kill("SIGTERM");
  const ended = await process.ended;
  expect(ended).toMatchObject({ code: 0, signal: null });
  expect(ended.stdout.trimEnd().split("\n")).toHaveLength(1);
  expect(existsSync(socket)).toBe(false);
});

test("without --json its address is the first line of stdout; Ctrl-C ends it with 0 too", async () => {
  const cwd = folder();
  const server = startCli(["start", "--port", "0"], { cwd });
  const url = await server.line(/^http:/);
  await server.line(/rondo serves file:\.rondo at http/);
  server.kill("SIGINT");
  expect(await server.ended).toMatchObject({ code: 0, stdout: `${url}\n` });
});

test("a directory, a port or an address that cannot be had is said, with the next step", async () => {
  const cwd = folder();
  const { url } = await startServer({ cwd });
  const port = new URL(url).port;
  const refusals: [args: string[], code: number, says: string][] = [
    [["--port", "0"], 4, "is in use by process"],
    [["--port", port, "--store", "file:other"], 4, "choose another port, or 0 for any: --port"],
    [["--port", "0", "--store", "file:open", "--host", "0.0.0.0"], 5, "rondo token create"],
    [["--port", "x"], 2, '--port: "x" is not a port'],
    [["--broker", "http://localhost"], 2, "amqp://"],
    [["--nodes", "2"], 2, "--nodes needs a PostgreSQL database: only one process can open file:.rondo"],
    [["--nodes", "0"], 2, "--nodes takes a number from 1 to 64"],
  ];
  for (const [args, code, says] of refusals) {
    const ended = await cli(["start", ...args], { cwd });
    expect(ended).toMatchObject({ code, stdout: "", stderr: expect.stringContaining(says) as string });
  }
});

test("settings come from flags, then the environment, then the file; doctor and the server say which", async () => {
  const cwd = folder({
    "rondo.config.json": '{ "store": "file:data", "port": 1, "host": "0.0.0.0", "retention": "7d" }',
  });
  const env = { RONDO_HOST: "127.0.0.1", RONDO_ADMIN_TOKEN: "a-token-that-is-long" };
  const { url, socket } = await startServer({ cwd, env });
  expect(socket).toBe(join(cwd, "data/rondo.sock"));
  const answer = await fetch(`${url}/v1/config`, {
    headers: { authorization: "Bearer a-token-that-is-long" },
  });
  const { data } = (await answer.json()) as { data: { name: string; value: unknown; origin: string }[] };
  const doctor = await cli(["doctor", "--json", "--port", "0"], { cwd, env });
  expect(doctor.code).toBe(0);
  const { settings, findings } = JSON.parse(doctor.stdout) as {
    settings: typeof data;
    findings: { what: string; verdict: string }[];
  };
  const wanted = [
    { name: "port", value: 0, origin: "flag --port" },
    { name: "host", value: "127.0.0.1", origin: "environment RONDO_HOST" },
    { name: "store", value: "file:data", origin: "file rondo.config.json" },
    { name: "prefix", value: "rondo", origin: "default" },
  ];
  expect(settings).toEqual(expect.arrayContaining(wanted));
  expect(data).toEqual(expect.arrayContaining(wanted));
  expect(findings.map(({ what, verdict }) => [what, verdict])).toEqual(
    expect.arrayContaining([
      ["runtime", "ok"],
      ["server", "ok"],
    ]),
  );
  expect(doctor.stdout + JSON.stringify(data)).not.toContain("a-token-that-is-long");
  const table = await cli(["doctor"], { cwd, env });
  expect(table.stdout).toMatch(/^host +127\.0\.0\.1 +environment RONDO_HOST$/m);
  expect(table.stdout).toMatch(/^retention +7 d +file rondo\.config\.json$/m);
});
