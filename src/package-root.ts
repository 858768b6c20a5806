/** The folder of the installed package, and its package.json. */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

interface Manifest {
  readonly version: string;
}

const ROOT = findRoot();

/** The folder of the package, with a trailing separator. */
export const packageRoot = fileURLToPath(ROOT);

/** Reads the package's own package.json. */
export function readManifest(): Manifest {
  return JSON.parse(readFileSync(new URL("package.json", ROOT), "utf8")) as Manifest;
}

/**
 * Finds the nearest folder above this module with a package.json: the module runs from `src/` in tests, else from `dist/src/`.
 */
function findRoot(): URL {
  let folder = new URL("./", import.meta.url);
  while (!existsSync(new URL("package.json", folder))) folder = new URL("../", folder);
  return folder;
}
