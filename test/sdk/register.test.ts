// `node --import rondo/register`: stacks name the lines and columns of the TypeScript files.
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../fixtures/temporary-directory-fixture.ts";

const PROGRAM = `interface Order { id: number } export function fail(order: Order): never { const id: number = order.id; throw new Error(\`order \${id}\`); }
type Shape = {
  id: number;
};
class Resource { async [Symbol.asyncDispose](): Promise<void> {} }
await using resource = new Resource();
try { const order: Shape = { id: 7 }; fail(order as Order); } catch (thrown) { console.log((thrown as Error).stack, typeof resource); }
`;

test("a stack has the lines and columns of the file, also when its compiled form is cached", () => {
  const directory = temporaryDirectory();
  const file = join(directory, "program.ts");
  writeFileSync(file, PROGRAM);
  const lines = PROGRAM.split("\n");
  const places = [
    `1:${(lines[0] as string).indexOf("new Error") + 1}`,
    `7:${(lines[6] as string).indexOf("fail(") + 1}`,
  ];
  const args = ["--import", resolve("dist/src/register.js"), file];
  for (const run of ["first", "cached"]) {
    const stack = execFileSync(process.execPath, args, { cwd: directory, encoding: "utf8" });
    const found = [...stack.matchAll(/program\.ts:(\d+:\d+)/g)].map(([, place]) => place);
    expect([run, ...found.slice(0, 2)]).toEqual([run, ...places]);
  }
});

/** Its column is another one in the compiled form: the block of `await using` is inside of a `try`. */
const IMPORTED = `class Resource { async [Symbol.asyncDispose](): Promise<void> {} }
export async function stack(): Promise<string | undefined> {
  await using resource = new Resource();
  return [resource].map(() => new Error("here").stack)[0];
}
`;

test("a file that is imported has its lines and columns too, and so have files that the CLI loads", () => {
  const directory = temporaryDirectory();
  writeFileSync(join(directory, "imported.ts"), IMPORTED);
  const main = `import { flow } from "rondo";
import { stack } from "./imported";
export const f = flow("f", () => stack());
if (process.argv[2] === undefined) console.log(await stack());
`;
  mkdirSync(join(directory, "node_modules"));
  symlinkSync(resolve("."), join(directory, "node_modules/rondo"));
  writeFileSync(join(directory, "main.ts"), main);
  const column = (IMPORTED.split("\n")[3] as string).indexOf("new Error") + 1;
  const register = ["--import", resolve("dist/src/register.js"), "main.ts"];
  const run = [resolve("bin/rondo.js"), "run", "main.ts", "--store", "memory:"];
  for (const args of [register, register, run])
    expect(execFileSync(process.execPath, args, { cwd: directory, encoding: "utf8" })).toContain(
      `imported.ts:4:${column})`,
    );
});

test("aliases of tsconfig.json are resolved", () => {
  const directory = temporaryDirectory();
  mkdirSync(join(directory, "src/lib"), { recursive: true });
  const paths = { "@/*": ["./src/*"] };
  writeFileSync(join(directory, "tsconfig.json"), JSON.stringify({ compilerOptions: { paths } }));
  writeFileSync(join(directory, "package.json"), '{ "type": "module" }');
  writeFileSync(join(directory, "src/lib/seven.ts"), "export const seven: number = 7;");
  writeFileSync(join(directory, "src/main.ts"), 'import { seven } from "@/lib/seven"; console.log(seven);');
  const args = ["--import", resolve("dist/src/register.js"), "src/main.ts"];
  expect(execFileSync(process.execPath, args, { cwd: directory, encoding: "utf8" })).toBe("7\n");
});

test.each([
  ['{ "extends": "./none.json" }', "File './none.json' not found"],
  ['{ "compilerOptions": { "paths": { "@/*": "./src/*" } } }', "a list of paths for each alias"],
])("a tsconfig.json that cannot be used is told with its name: %s", (tsconfig, reason) => {
  const directory = temporaryDirectory();
  mkdirSync(join(directory, "src"));
  mkdirSync(join(directory, "elsewhere"));
  writeFileSync(join(directory, "src/main.ts"), "console.log(7 as number);");
  writeFileSync(join(directory, "src/tsconfig.json"), tsconfig);
  for (const cwd of ["src", "elsewhere"]) {
    const args = ["--import", resolve("dist/src/register.js"), join(directory, "src/main.ts")];
    const { status, stderr } = spawnSync(process.execPath, args, {
      cwd: join(directory, cwd),
      encoding: "utf8",
    });
    expect(status).toBe(1);
    expect(stderr).toContain(`rondo/register: ${join(directory, "src/tsconfig.json")} cannot be used: `);
    expect(stderr).toContain(reason);
    expect(stderr).not.toContain("jiti.cjs");
  }
});

test("a package in CommonJS that imports lazily is required, as OpenTelemetry does it", () => {
  const directory = temporaryDirectory();
  const lazy = join(directory, "node_modules/lazy");
  mkdirSync(lazy, { recursive: true });
  writeFileSync(join(lazy, "package.json"), '{ "name": "lazy", "main": "index.js" }');
  writeFileSync(join(lazy, "index.js"), 'exports.seven = require("./inner.js").seven;');
  writeFileSync(
    join(lazy, "inner.js"),
    'exports.seven = async () => (await import("./later.js")).default.n;',
  );
  writeFileSync(join(lazy, "later.js"), "module.exports = { n: 7 };");
  writeFileSync(join(directory, "package.json"), '{ "type": "module" }');
  writeFileSync(join(directory, "first.js"), 'import { seven } from "lazy"; console.log(await seven());');
  writeFileSync(
    join(directory, "main.ts"),
    'import { seven } from "lazy"; const n: number = await seven(); console.log(n + 1);',
  );
  const args = ["--import", resolve("dist/src/register.js"), "--import", "./first.js", "main.ts"];
  expect(execFileSync(process.execPath, args, { cwd: directory, encoding: "utf8" })).toBe("7\n8\n");
});
