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

const server = fileServer({ "recorder.mjs": RECORDER });

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
  const { cwd } = server();
  const loaded = join(cwd, `${args[0]}.txt`);
  const { stderr } = await cli(args, {
    cwd,
    env: { LOADED: loaded },
    nodeArgs: ["--import", join(cwd, "recorder.mjs")],
  });
  expect(stderr).not.toContain("no server");
  const modules = readFileSync(loaded, "utf8")
    .split("\n")
    .filter((url) => url.startsWith("file:"));
  expect(modules.filter((url) => HEAVY.test(url))).toEqual([]);
  expect(modules.length).toBeGreaterThan(5);
  expect(modules.length).toBeLessThanOrEqual(MODULES_MAX);
});
