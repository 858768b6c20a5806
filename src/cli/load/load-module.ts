/**
 * Loads a user's file, in JavaScript or TypeScript, through jiti:
 * 1. `rondo` and its subpaths resolve to this package, even if the user's folder has one installed.
 * 2. `zod` resolves to the user's copy, or to ours if there is none.
 * 3. Errors are shown with their place in the user's code (explain-load-error.ts).
 */
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, extname } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { createJiti } from "../../register-jiti.ts";
import { explainLoadError, explainTsconfigError } from "./explain-load-error.ts";

/** The exports of a module, by name. */
export type ModuleExports = Readonly<Record<string, unknown>>;

const PLAIN = [".js", ".mjs", ".cjs"];

/** Loads the file at an absolute path and returns its exports. Throws a `CliError` if that fails. */
export async function loadModule(path: string): Promise<ModuleExports> {
  return load(path, await loadEntryPoints());
}

/** Loads a file that seldom imports `rondo`, such as a configuration; the runtime itself loads plain JavaScript. */
export async function loadLightModule(path: string): Promise<ModuleExports> {
  const text = await explained(path, () => readFile(path, "utf8"));
  if (PLAIN.includes(extname(path))) {
    const exports = await explained(path, () => importPlain(path));
    if (exports !== null) return exports;
  }
  const needsRondo = /["']rondo(?:\/[\w-]+)?["']/.test(text);
  return load(path, needsRondo ? await loadEntryPoints() : {});
}

/** Imports JavaScript with the runtime itself; null for a syntax error, whose place only jiti reports. */
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
      // Aliases of the nearest tsconfig.json above the file are resolved.
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
