/** `rondo init [directory]`: makes a small project. Existing files are never overwritten. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { packageRoot } from "../../package-root.ts";
import { makeDirectory } from "../../std/make-directory.ts";
import { CliError } from "../cli-error.ts";
import { EXIT } from "../exit-code.ts";
import { print, printJson } from "../output/print.ts";
import { commandLine } from "../run/run-options.ts";
import type { Flags } from "../server/find-server.ts";
import { projectFiles } from "./project-files.ts";

export type InitOptions = Flags<never, "json">;

/** Writes the files and prints the next steps. */
export function init(directory: string | undefined, options: InitOptions): void {
  const at = resolve(directory ?? ".");
  refuseUsed(at);
  const files = projectFiles(nameOf(at), dependencyOf(at, packageRoot()));
  const taken = Object.keys(files).filter((path) => existsSync(join(at, path)));
  if (taken.length > 0)
    throw new CliError(EXIT.conflict, `${shown(at)} already contains ${taken.join(", ")}`, [
      "choose another directory: rondo init my-project",
    ]);
  for (const [path, text] of Object.entries(files)) {
    makeDirectory(dirname(join(at, path)));
    writeFileSync(join(at, path), text, { flag: "wx" });
  }
  if (options.json) printJson({ directory: at, files: Object.keys(files) });
  else {
    for (const path of Object.keys(files)) print(`  ${join(shown(at), path)}`);
    const steps = [
      ...(at === resolve(".") ? [] : [commandLine(["cd", shown(at)])]),
      "npm install",
      "npm run once",
    ];
    print(`\nnext: ${steps.join(" && ")}`);
  }
}

/** Refuses a directory that is not empty, because the user has probably named the wrong one. */
function refuseUsed(at: string): void {
  if (!existsSync(at)) return;
  const inside = readdirSync(at).filter((name) => !name.startsWith("."));
  if (inside.length === 0) return;
  throw new CliError(
    EXIT.conflict,
    `${shown(at)} is not empty: it contains ${inside.slice(0, 3).join(", ")}...`,
    ["choose another directory: rondo init my-project"],
  );
}

/** Returns the package name for a directory: the directory's name, with only the characters that npm allows. */
function nameOf(at: string): string {
  const name = basename(at)
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, "-")
    .replace(/^-+|-+$/g, "");
  return name === "" ? "my-workflows" : name;
}

function shown(at: string): string {
  return relative(resolve("."), at) || ".";
}

const FILE = "file:";

/**
 * Returns the version of `rondo` for the new project's dependencies. It is a path if this package is a checkout, otherwise the version
 * that the installing project names, otherwise the path of the installed package.
 */
export function dependencyOf(at: string, root: string): string {
  if (!root.split(sep).includes("node_modules")) return fileSpecifier(at, root);
  for (let folder = dirname(root); dirname(folder) !== folder; folder = dirname(folder)) {
    const specifier = specifierIn(join(folder, "package.json"));
    if (specifier !== null)
      return specifier.startsWith(FILE)
        ? fileSpecifier(at, resolve(folder, specifier.slice(FILE.length)))
        : specifier;
  }
  // The package may not be in any registry, so the new project depends on the installed copy.
  return fileSpecifier(at, root);
}

/** Returns a `file:` specifier, with slashes on every system, as npm writes it. */
function fileSpecifier(at: string, path: string): string {
  return `${FILE}${relative(at, path).replaceAll(sep, "/")}`;
}

function specifierIn(manifest: string): string | null {
  if (!existsSync(manifest)) return null;
  const { dependencies, devDependencies } = JSON.parse(readFileSync(manifest, "utf8")) as {
    readonly dependencies?: Readonly<Record<string, string>>;
    readonly devDependencies?: Readonly<Record<string, string>>;
  };
  return dependencies?.["rondo"] ?? devDependencies?.["rondo"] ?? null;
}
