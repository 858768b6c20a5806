// `rondo export`, `rondo import` and `rondo migrate` as processes.
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cli, folder, startServer } from "../fixtures/cli/cli-process-fixture.ts";

const WAITS =
  '{ "rondo": 1, "name": "waits", "phases": [{ "name": "go", "handlers": { "go": { "waitFor": "go" } } }] }';

test("a store goes through a file and through a pipe, and its executions end where it has come to", async () => {
  const cwd = folder({ "waits.json": WAITS });
  const rondo = (...args: string[]) => cli(args, { cwd });
  expect(await rondo("export", "none", "--store", "file:absent")).toMatchObject({ code: 3 });
  const server = await startServer({ cwd });
  expect(await rondo("run", "waits.json", "--id", "one", "--timeout", "1ms")).toMatchObject({ code: 124 });
  // Not while a server works on it.
  expect(await rondo("export", "early")).toMatchObject({ code: 4, stdout: "" });
  expect(existsSync(join(cwd, "early"))).toBe(false);
  server.process.kill("SIGTERM");
  await server.process.ended;

  const out = await rondo("export", "out", "--json");
  expect(out.code).toBe(0);
  expect(JSON.parse(out.stdout)).toMatchObject({ file: "out", executions: 1, definitions: 1 });
  expect(statSync(join(cwd, "out")).mode & 0o777).toBe(0o600);
  expect(await rondo("export", "out")).toMatchObject({ code: 4 });
  expect(await rondo("import", "absent", "--store", "file:copy")).toMatchObject({ code: 3 });
  expect(await rondo("import", "out")).toMatchObject({ code: 4 });
  writeFileSync(join(cwd, "cut"), readFileSync(join(cwd, "out")).subarray(0, -100));
  expect(await rondo("import", "cut", "--store", "file:copy")).toMatchObject({ code: 2 });
  expect(existsSync(join(cwd, "copy"))).toBe(false);

  const piped = await rondo("export", "-");
  expect(piped.stdout.split("\n").length).toBe(readFileSync(join(cwd, "out"), "utf8").split("\n").length);
  const copied = await cli(["import", "-", "--store", "file:copy", "--json"], { cwd, stdin: piped.stdout });
  expect(copied.code).toBe(0);
  expect(JSON.parse(copied.stdout)).toMatchObject({ executions: 1 });
  await startServer({ cwd, args: ["--store", "file:copy"] });
  expect(await rondo("signal", "one", "go", "--store", "file:copy")).toMatchObject({ code: 0 });
  expect(await rondo("wait", "one", "--store", "file:copy")).toMatchObject({ code: 0 });
}, 120_000);

test("migrate is for databases, and says when one cannot be reached", async () => {
  const cwd = folder();
  expect(await cli(["migrate"], { cwd })).toMatchObject({ code: 2 });
  const away = await cli(["migrate", "--store", "postgres://127.0.0.1:1/none"], { cwd });
  expect(away).toMatchObject({ code: 6, stdout: "" });
  expect(away.stderr).toContain("cannot be reached");
});
