// The package as `npm pack` makes it: what is in it, its links, and a project that `rondo init` makes from it.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, posix, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

interface Packed {
  readonly filename: string;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string }[];
}

const LINK = /\]\((?!https?:|mailto:|#)([^)\s#]+)(?:#[^)\s]*)?\)/g;

function pack(folder: string): Packed {
  const args = ["pack", "--json", "--ignore-scripts", "--pack-destination", folder];
  const text = execFileSync("npm", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  return (JSON.parse(text) as [Packed])[0];
}

describe("the packed package", () => {
  let folder = "";
  let packed: Packed;
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "rondo-package-"));
    packed = pack(folder);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test("has no source maps, and is not large", () => {
    expect(packed.files.filter(({ path }) => path.endsWith(".map"))).toEqual([]);
    expect(packed.unpackedSize).toBeLessThan(16_000_000);
  });

  test("has no link to a file that is not in it", () => {
    const shipped = new Set<string>();
    for (const { path } of packed.files)
      for (let at = path; at !== "."; at = posix.dirname(at)) shipped.add(at);
    const dead = packed.files
      .filter(({ path }) => path.endsWith(".md"))
      .flatMap(({ path }) =>
        Array.from(readFileSync(path, "utf8").matchAll(LINK), ([, target = ""]) => ({ path, target })),
      )
      .filter(({ path, target }) => !shipped.has(posix.join(posix.dirname(path), target).replace(/\/$/, "")));
    expect(dead).toEqual([]);
  });

  test("makes a project that type-checks and runs, in an empty folder", () => {
    const modules = join(folder, "node_modules");
    mkdirSync(modules, { recursive: true });
    // The dependencies are those of this repository, so nothing is downloaded.
    for (const name of readdirSync("node_modules"))
      if (!name.startsWith(".") && name !== "rondo")
        symlinkSync(resolve("node_modules", name), join(modules, name));
    execFileSync("tar", ["-xf", join(folder, packed.filename), "-C", modules]);
    execFileSync("mv", [join(modules, "package"), join(modules, "rondo")]);
    const cwd = join(folder, "project");
    const run = (file: string, ...args: string[]) =>
      execFileSync(process.execPath, [join(modules, file), ...args], { cwd, encoding: "utf8" });
    mkdirSync(cwd);
    run("rondo/bin/rondo.js", "init", ".");
    const { scripts } = JSON.parse(readFileSync(join(cwd, "package.json"), "utf8")) as {
      scripts: Record<string, string>;
    };
    const [, ...once] = (scripts["once"] ?? "").split(" ");
    run("typescript/bin/tsc", "--noEmit");
    expect(run("rondo/bin/rondo.js", ...once.map((part) => part.replace(/^'|'$/g, "")))).not.toBe("");
  });
});
