/** The folder of the installed package, and its package.json. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { packageFolder } from "./std/compiled-file.ts";

interface Manifest {
  readonly version: string;
}

/** Returns the folder of the package, with a trailing separator. */
export function packageRoot(): string {
  return fileURLToPath(packageFolder(import.meta.url));
}

/** Reads the package's own package.json. */
export function readManifest(): Manifest {
  return JSON.parse(
    readFileSync(new URL("package.json", packageFolder(import.meta.url)), "utf8"),
  ) as Manifest;
}
