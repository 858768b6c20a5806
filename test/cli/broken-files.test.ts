// A file that cannot be loaded: the place and what to do, exit code 2, and nothing of our own insides.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { cli, folder } from "../fixtures/cli/cli-process-fixture.ts";

const IMPORT = 'import { workflow } from "rondo";\n';

const broken: [what: string, source: string, says: readonly string[]][] = [
  [
    "a mistake in the syntax",
    `${IMPORT}export const a: number = ;\n`,
    ["flow.ts:2:26: Unexpected token", "> 2 | export const a: number = ;", "|                          ^"],
  ],
  [
    "a definition that is refused",
    `${IMPORT}\ninterface Some { x: number }\n\nexport const w = workflow({ name: "no name" });\n`,
    ['flow.ts:5: name: "no name" is not a name', "> 5 | export const w", "a letter, then up to 39"],
  ],
  ["a workflow without phases", `${IMPORT}export const w = workflow({ name: "w" });\n`, ["phases"]],
  [
    "an import of what rondo does not have",
    `import { workflov } from "rondo";\nexport const w = workflov({ name: "w" });\n`,
    ["flow.ts:2: TypeError: workflov is not a function"],
  ],
  [
    "a package that is not installed",
    `${IMPORT}import { x } from "@nobody/has-this/deep";\nexport const y = x;\n`,
    ['flow.ts:2: cannot find "@nobody/has-this/deep"', "npm install @nobody/has-this (in "],
  ],
  [
    "a file that is not there",
    `${IMPORT}import { x } from "./missing.ts";\nexport const y = x;\n`,
    ['cannot find "', "missing.ts", "check the path"],
  ],
  [
    "an error thrown by its own code",
    `${IMPORT}const list: string[] = [];\nexport const first = (list[0] as string).length;\n`,
    ["flow.ts:3: TypeError: Cannot read properties of undefined", "> 3 | export const first"],
  ],
  [
    "no workflow among its exports",
    "export const a = 1;\nexport const list = [2];\nexport default function main() {}\n",
    [
      "flow.ts exports no workflow; it exports a (a number)",
      "default (a function)",
      "list (an array)",
      "export const hello",
    ],
  ],
  ["no export at all", "const a = 1;\n", ["flow.ts exports no workflow; it exports nothing"]],
  [
    "two workflows of one name",
    `${IMPORT}const w = workflow({ name: "w" });\nexport const a = w.phase("a", {});\nexport const b = w.phase("b", {});\n`,
    ['flow.ts exports two workflows named "w"'],
  ],
];

test.each(broken)("%s is told with its place", async (_, source, says) => {
  const cwd = folder({ "flow.ts": source });
  const { code, stdout, stderr } = await cli(["run", "flow.ts"], { cwd });
  expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
  for (const part of says) expect(stderr).toContain(part);
  expect(stderr).not.toMatch(/\n\s+at /);
  expect(stderr).not.toMatch(/jiti|dist\/|node:internal/);
});

test("a mistake in a file that the file imports is told at its place", async () => {
  const cwd = folder({
    "flow.ts": 'import { part } from "./lib/part.ts";\nexport const w = part;\n',
    "lib/part.ts": "export const part = {\n  a: 1,\n  b 2,\n};\n",
  });
  const { code, stderr } = await cli(["run", "flow.ts"], { cwd });
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: expect.stringContaining("lib/part.ts:3:5: ") as string,
  });
  expect(existsSync(join(cwd, ".rondo"))).toBe(false);
});

test("a tsconfig.json that extends a file that is not there is told, and is no bug of Rondo", async () => {
  const cwd = folder({
    "flow.ts": `${IMPORT}export const w = workflow({ name: "w" }).phase("p", { process: () => 1 });\n`,
    "tsconfig.json": '{ "extends": "../missing/tsconfig.json" }',
  });
  const { code, stderr } = await cli(["run", "flow.ts"], { cwd });
  expect(code).toBe(2);
  expect(stderr).toContain(
    "flow.ts: its tsconfig.json cannot be read: File '../missing/tsconfig.json' not found",
  );
  expect(stderr).toContain("the tsconfig.json that is nearest above the file");
  expect(stderr).not.toMatch(/\n\s+at /);
});
