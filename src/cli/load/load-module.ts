/**
 * Loads a user's file, in JavaScript or TypeScript, through jiti:
 * 1. `rondo` and its subpaths resolve to this package, even if another copy is installed in the user's folder.
 * 2. `zod` resolves to the user's copy, or to the copy of this package if the user has none.
 * 3. Errors are shown with their place in the user's code (explain-load-error.ts).
 */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, extname } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { createJiti } from "../../register-jiti.ts";
import { explainLoadError, explainTsconfigError } from "./explain-load-error.ts";

/** The values that a module exports, by name. */
export type ModuleExports = Readonly<Record<string, unknown>>;

const PLAIN = [".js", ".mjs", ".cjs"];

/** Loads the file at an absolute path and returns its exports. Throws a `CliError` if that fails. */
export async function loadModule(path: string): Promise<ModuleExports> {
  return load(path, await loadEntryPoints());
}

/** Loads a file that seldom imports `rondo`, such as a configuration. The runtime itself loads the file if it is plain JavaScript. */
export async function loadLightModule(path: string): Promise<ModuleExports> {
  const text = await explained(path, () => readFile(path, "utf8"));
  if (PLAIN.includes(extname(path))) {
    const exports = await explained(path, () => importPlain(path));
    if (exports !== null) return exports;
  }
  const needsRondo = /["']rondo(?:\/[\w-]+)?["']/.test(text);
  return load(path, needsRondo ? await loadEntryPoints() : {});
}

/**
 * Imports a JavaScript file with the runtime itself. Returns null if it has a syntax error, because only jiti reports the place of the
 * error.
 */
async function importPlain(path: string): Promise<ModuleExports | null> {
  try {
    return (await import(pathToFileURL(path).href)) as ModuleExports;
  } catch (thrown) {
    if (thrown instanceof SyntaxError) return null;
    throw thrown;
  }
}

async function load(path: string, virtualModules: Record<string, unknown>): Promise<ModuleExports> {
  const jiti = jitiFor(path, virtualModules);
  return explained(path, () => jiti.import<ModuleExports>(path));
}

function jitiFor(path: string, virtualModules: Record<string, unknown>): ReturnType<typeof createJiti> {
  try {
    return createJiti(path, {
      virtualModules,
      // jiti resolves the path aliases of the nearest tsconfig.json above the file.
      tsconfigPaths: true,
      alias: ownZodIfNeeded(path),
    });
  } catch (thrown) {
    throw explainTsconfigError(thrown, path);
  }
}

async function explained<T>(path: string, act: () => Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (thrown) {
    throw explainLoadError(thrown, path);
  }
}

function ownZodIfNeeded(path: string): Record<string, string> {
  try {
    createRequire(path).resolve("zod");
    return {};
  } catch {
    // The user has no `zod` installed, so the copy of this package is used.
    return { zod: dirname(fileURLToPath(import.meta.resolve("zod/package.json"))) };
  }
}

/** Loads the modules that users can import from this package, by the names that they use. */
async function loadEntryPoints(): Promise<Record<string, unknown>> {
  const [rondo, client, testing] = await Promise.all([
    import("../../index.ts"),
    import("../../client.ts"),
    import("../../testing.ts"),
  ]);
  return { rondo, "rondo/client": client, "rondo/testing": testing };
}
