// A copy of the store while it is in use, and a store made of it.
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cli, folder, startServer } from "../fixtures/cli/cli-process-fixture.ts";

const WAITS =
  '{ "rondo": 1, "name": "waits", "phases": [{ "name": "go", "handlers": { "go": { "waitFor": "go" } } }] }';

test("backup copies while the server goes on; restore makes a store of it, once and never over another", async () => {
  const cwd = folder({ "waits.json": WAITS });
  const server = await startServer({ cwd });
  const rondo = (...args: string[]) => cli(args, { cwd });
  expect(await rondo("run", "waits.json", "--id", "before", "--timeout", "1ms")).toMatchObject({ code: 124 });
  const copied = await rondo("backup", "monday.db", "--json");
  expect(copied).toMatchObject({ code: 0, stdout: `{"file":"${join(cwd, "monday.db")}"}\n` });
  expect(statSync(join(cwd, "monday.db")).mode & 0o777).toBe(0o600);
  expect(await rondo("run", "waits", "--id", "after")).toMatchObject({ code: 0 });
  expect(await rondo("backup", "monday.db")).toMatchObject({ code: 4 });
  // It names a file of the server's machine, so it is for those who are there.
  expect(await rondo("backup", "remote.db", "--url", server.url)).toMatchObject({ code: 5 });
  expect(existsSync(join(cwd, "remote.db"))).toBe(false);

  expect(await rondo("restore", "monday.db")).toMatchObject({ code: 4 });
  expect(await rondo("restore", "absent.db", "--store", "file:copy")).toMatchObject({ code: 3 });
  const restored = await rondo("restore", "monday.db", "--store", "file:copy");
  expect(restored).toMatchObject({ code: 0, stdout: "" });
  expect(await rondo("restore", "monday.db", "--store", "file:copy")).toMatchObject({ code: 4 });
  await startServer({ cwd, args: ["--store", "file:copy"] });
  const { stdout } = await rondo("ps", "--store", "file:copy");
  expect(stdout).toMatch(/^before +waits +running/m);
  expect(stdout).not.toContain("after");
  expect(await rondo("signal", "before", "go", "--store", "file:copy")).toMatchObject({ code: 0 });
  expect(await rondo("wait", "before", "--store", "file:copy")).toMatchObject({ code: 0, stdout: "null\n" });
  expect((await rondo("ps", "--status", "running")).stdout).toMatch(/^before/m);
}, 120_000);

test("a backup whose bytes were changed is refused in clear words, and leaves nothing behind", async () => {
  const cwd = folder({ "waits.json": WAITS });
  await startServer({ cwd });
  const rondo = (...args: string[]) => cli(args, { cwd });
  await rondo("run", "waits.json", "--id", "kept", "-i", '"precious data"', "--timeout", "1ms");
  expect(await rondo("backup", "monday.db")).toMatchObject({ code: 0 });
  const bytes = readFileSync(join(cwd, "monday.db"));
  bytes[bytes.indexOf("precious data")] = 0x50;
  writeFileSync(join(cwd, "monday.db"), bytes);
  const { code, stderr } = await rondo("restore", "monday.db", "--store", "file:copy");
  expect({ code, copy: existsSync(join(cwd, "copy")) }).toEqual({ code: 2, copy: false });
  expect(stderr).toMatch(/monday\.db is damaged .*its checksum differs.*restore another backup/);
}, 120_000);
