/**
 * `node --import rondo/register` lets Node.js load TypeScript files, on every runtime that Rondo supports. Stacks have the
 * lines and columns of the TypeScript files: jiti writes source maps, register-hooks.ts corrects those of its wrapper, and
 * register-jiti.ts makes those of imported files known.
 */
import { register } from "node:module";
import process from "node:process";
import { explainTsconfig } from "./register-tsconfig.ts";

/** This module has no exports, so it is imported by a name that the compiler does not look up. */
const JITI: string = "jiti/register";

// The thread of the hooks gets a copy of the environment, so the variables are set before jiti registers its hooks.
process.env["JITI_SOURCE_MAPS"] ??= "true";
// Aliases of the program's tsconfig.json (`paths`) are resolved.
process.env["JITI_TSCONFIG_PATHS"] ??= "true";
process.setSourceMapsEnabled(true);
try {
  await import(JITI);
} catch (thrown) {
  throw explainTsconfig(thrown, process.cwd());
}
register("./register-hooks.js", import.meta.url);
