// A data directory is for its owner's eyes only; one that others can write to is told.
import { chmodSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cli, folder, startCli, startServer } from "../fixtures/cli/cli-process-fixture.ts";

const FLOW = `
import { workflow } from "rondo";
export const one = workflow({ name: "one" }).phase("p", { process: () => 1 }).returns(() => 1);`;

/** Names of files that others than the owner have any right to. */
function open(directory: string): string[] {
  return readdirSync(directory).filter((name) => (statSync(join(directory, name)).mode & 0o077) !== 0);
}

test("the directory and all in it are the owner's only, also a lock of an earlier version", async () => {
  const cwd = folder();
  const directory = join(cwd, ".rondo");
  const server = await startServer({ cwd });
  expect(statSync(directory).mode & 0o777).toBe(0o700);
  expect(readdirSync(directory)).toEqual(
    expect.arrayContaining(["lock.db", "owner.json", "rondo.db", "rondo.sock"]),
  );
  expect(open(directory)).toEqual([]);
  server.process.kill("SIGTERM");
  await server.process.ended;
  chmodSync(join(directory, "lock.db"), 0o644);
  await startServer({ cwd });
  expect(open(directory)).toEqual([]);
}, 120_000);

test("one that everybody can write to is told of by start, run and doctor; a private one is not", async () => {
  const cwd = folder({ "flow.ts": FLOW });
  const directory = join(cwd, ".rondo");
  mkdirSync(directory);
  chmodSync(directory, 0o777);
  const says = /\.rondo can be written to by every user \(mode 777\): .*chmod 700 \.rondo/;
  const run = await cli(["run", "flow.ts"], { cwd });
  expect(run).toMatchObject({ code: 0, stdout: "1\n", stderr: expect.stringMatching(says) });
  expect((await cli(["doctor"], { cwd })).stdout).toMatch(says);
  const server = startCli(["start", "--port", "0"], { cwd });
  await server.line(says);
  await server.line(/rondo serves/);
  server.kill("SIGTERM");
  await server.ended;
  chmodSync(directory, 0o700);
  expect((await cli(["run", "flow.ts"], { cwd })).stderr).not.toContain("everybody");
}, 120_000);
