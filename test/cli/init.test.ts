// `rondo init`: the project that it makes runs, and its own tests pass.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { cli, folder } from "../fixtures/cli/cli-process-fixture.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));

test("makes a project whose workflow runs and whose tests pass", async () => {
  const place = folder();
  const made = await cli(["init", "My Project", "--json"], { cwd: place });
  expect(made.code).toBe(0);
  const { files } = JSON.parse(made.stdout) as { files: string[] };
  expect(files).toContain("src/greetings.ts");
  const project = join(place, "My Project");
  const manifest = JSON.parse(readFileSync(join(project, "package.json"), "utf8")) as {
    name: string;
    scripts: { test: string };
  };
  expect(manifest.name).toBe("my-project");
  mkdirSync(join(project, "node_modules"));
  symlinkSync(root, join(project, "node_modules", "rondo"));
  symlinkSync(join(root, "node_modules/@types"), join(project, "node_modules/@types"));
  // Throws with the complaints of the compiler.
  execFileSync(join(root, "node_modules/.bin/tsc"), ["-p", project], { encoding: "utf8" });
  const input = '{"names":["Ada","Grace"]}';
  const ran = await cli(["run", "src/greetings.ts", "-i", input], { cwd: project });
  expect(ran).toMatchObject({ code: 0, stdout: '{"greeted":2}\n' });
  const [, ...args] = manifest.scripts.test.split(" ");
  const tested = execFileSync(process.execPath, args, { cwd: project, encoding: "utf8" });
  expect(tested).toMatch(/^# pass 2$/m);
}, 120_000);

test("overwrites nothing", async () => {
  const made = await cli(["init"], { cwd: folder({ "mine.txt": "mine" }) });
  expect(made.code).toBe(4);
  expect(made.stderr).toContain("is not empty");
});
