/**
 * Finds files of this package: compiled modules for threads and child processes, which Node 20 cannot run as TypeScript, and
 * the package's folder. If a bundler has put this code into a program's file, the files are found in the installed package.
 */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

/** The part of a path that is the same in `src/`, in `dist/` and in the package's own bundle. */
const WITHIN = /(?:^|\/)((?:src|tools)\/(?!.*\/(?:src|tools)\/).*)$/;

/**
 * Returns the compiled JavaScript file at `path`, relative to the module `from` (its `import.meta.url`). When the caller itself runs
 * from source, in tests, the file of the last build in `dist/` is returned.
 *
 * @throws Error if the program is a bundle and the package is not installed beside it
 */
export function compiledFile(path: string, from: string): URL {
  // In a bundle for CommonJS there is no `import.meta.url`; then `from` is the path of the module inside the package.
  const beside = URL.canParse(from)
    ? new URL(path, from)
    : new URL(path, `file:///${from.replace(/^(?:\.\.\/)+/, "")}`);
  if (from.endsWith(".ts"))
    return new URL(beside.href.replace(/\/(src|tools)\/(?!.*\/(?:src|tools)\/)/, "/dist/$1/"));
  if (URL.canParse(from) && existsSync(beside)) return beside;
  const within = WITHIN.exec(beside.pathname)?.[1] ?? path;
  return new URL(`dist/${within}`, installedPackage(from));
}

/**
 * Returns the folder of this package: the nearest one above `from` with this package's package.json, or the folder of the
 * installed package.
 */
export function packageFolder(from: string): URL {
  if (URL.canParse(from))
    for (let folder = new URL("./", from), last = ""; folder.href !== last; folder = new URL("../", folder)) {
      if (isThisPackage(new URL("package.json", folder))) return folder;
      last = folder.href;
    }
  return installedPackage(from);
}

function isThisPackage(manifest: URL): boolean {
  return (
    existsSync(manifest) &&
    (JSON.parse(readFileSync(manifest, "utf8")) as { name?: unknown }).name === "rondo"
  );
}

/** Returns the folder of the installed package, found by Node's rules from the place of the program. */
function installedPackage(from: string): URL {
  const places = [URL.canParse(from) ? from : null, pathToFileURL(join(process.cwd(), "any.js")).href];
  for (const place of places) {
    if (place === null) continue;
    try {
      return new URL("./", pathToFileURL(createRequire(place).resolve("rondo/package.json")));
    } catch {
      // The package is not installed in this place, so the next place is tried.
    }
  }
  throw new Error(
    "this program is a bundle, and the files of the package rondo are not beside it: install rondo where the program runs, or mark it as external (docs/guides/installing.md)",
  );
}
