// Light verbs start quickly because they load little: counted in files, not in time.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cli, fileServer } from "../fixtures/cli/cli-process-fixture.ts";

/** Files that a light verb may load, at most. */
const MODULES_MAX = 20;
/** Files of the bundle are named as in bundle.config.ts. */
const HEAVY = /\/node_modules\/(?!canonicalize\/)|\/dist\/(?:tools|src|rondo\/(?:engine|server|zod)-)/;

/** Writes the address of every module that the process loads to a file. */
const RECORDER = `
import { register } from "node:module";
const hooks = \`
  import { appendFileSync } from "node:fs";
  export async function load(url, context, next) {
    appendFileSync(process.env.LOADED, url + "\\\\n");
    return next(url, context);
  }\`;
register("data:text/javascript," + encodeURIComponent(hooks), import.meta.url);
`;

const FLOW = `
import { flow } from "rondo";
export default flow("light", () => "done");
`;

const server = fileServer({ "recorder.mjs": RECORDER, "light.mjs": FLOW });

/** Runs a verb; the modules that it has loaded from files, and its output. */
async function filesOf(
  args: readonly string[],
): Promise<{ modules: string[]; stdout: string; stderr: string }> {
  const { cwd } = server();
  const loaded = join(cwd, `${args[0]}.txt`);
  const { stdout, stderr } = await cli(args, {
    cwd,
    env: { LOADED: loaded },
    nodeArgs: ["--import", join(cwd, "recorder.mjs")],
  });
  const modules = readFileSync(loaded, "utf8")
    .split("\n")
    .filter((url) => url.startsWith("file:"));
  return { modules, stdout, stderr };
}

test.each([
  [["ps"]],
  [["why", "x"]],
  [["inspect", "x"]],
  [["events", "x"]],
  [["logs", "x"]],
  [["signal", "x", "s"]],
  [["schedules"]],
  [["workers"]],
  [["wait", "x", "--timeout", "1ms"]],
])("rondo %j loads no engine, no store, no zod, no jiti", async (args) => {
  const { modules, stderr } = await filesOf(args);
  expect(stderr).not.toContain("no server");
  expect(modules.filter((url) => HEAVY.test(url))).toEqual([]);
  expect(modules.length).toBeGreaterThan(5);
  expect(modules.length).toBeLessThanOrEqual(MODULES_MAX);
});

test("rondo run loads the engine, but no server and no zod", async () => {
  const { modules, stdout } = await filesOf(["run", "light.mjs", "--store", "memory:"]);
  expect(stdout).toBe('"done"\n');
  expect(modules.filter((url) => /\/dist\/rondo\/engine-/.test(url))).toHaveLength(1);
  expect(modules.filter((url) => /\/dist\/(?:tools|src|rondo\/(?:server|zod)-)/.test(url))).toEqual([]);
});
