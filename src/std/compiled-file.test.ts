import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/fixtures/temporary-directory-fixture.ts";
import { compiledFile, packageFolder } from "./compiled-file.ts";

/** A program with the package installed, and the place of the package. */
function installed(): { readonly program: string; readonly root: string } {
  const program = temporaryDirectory();
  const root = join(program, "node_modules/rondo");
  mkdirSync(join(root, "dist/src/store/sqlite"), { recursive: true });
  mkdirSync(join(program, "out"));
  writeFileSync(join(root, "package.json"), '{ "name": "rondo" }');
  writeFileSync(join(root, "dist/src/store/sqlite/thread.js"), "");
  writeFileSync(join(program, "package.json"), '{ "name": "program" }');
  return { program, root };
}

const urlOf = (path: string): string => pathToFileURL(path).href;

test("compiled code finds the file beside itself", () => {
  const { root } = installed();
  const from = urlOf(join(root, "dist/src/store/sqlite/store-thread.js"));
  expect(compiledFile("./thread.js", from).href).toBe(urlOf(join(root, "dist/src/store/sqlite/thread.js")));
  expect(packageFolder(from).href).toBe(`${urlOf(root)}/`);
});

test("code in a program's bundle finds the file of the installed package", () => {
  const { program, root } = installed();
  // The package's own bundle names its modules by their places in dist/, which the program's bundle has not.
  const from = new URL("../src/store/sqlite/store-thread.js", urlOf(join(program, "out/program.js"))).href;
  expect(compiledFile("./thread.js", from).href).toBe(urlOf(join(root, "dist/src/store/sqlite/thread.js")));
  expect(packageFolder(urlOf(join(program, "out/program.js"))).href).toBe(`${urlOf(root)}/`);
});

test("code in a bundle for CommonJS, which has no URL of its own, finds the package by the working directory", () => {
  const thread = compiledFile("./thread.js", "../src/store/sqlite/store-thread.js");
  expect(thread.href).toBe(urlOf(join(process.cwd(), "dist/src/store/sqlite/thread.js")));
});

test("a bundle without the package says what to do", () => {
  const from = "file:///nowhere/src/a.js";
  const before = process.cwd();
  process.chdir(temporaryDirectory());
  try {
    expect(() => compiledFile("./thread.js", from)).toThrow("install rondo where the program runs");
  } finally {
    process.chdir(before);
  }
});

test("source code finds the file of the last build", () => {
  expect(compiledFile("./thread.js", "file:///src/rondo/src/store/sqlite/a.ts").pathname).toBe(
    "/src/rondo/dist/src/store/sqlite/thread.js",
  );
  expect(compiledFile("./seed-thread.js", "file:///a/tools/sim/b.ts").pathname).toBe(
    "/a/dist/tools/sim/seed-thread.js",
  );
});
