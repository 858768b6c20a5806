/**
 * Loads a user's file, TypeScript or not, through jiti:
 * 1. `rondo` and its subpaths are this very package, whether or not the user's folder has one installed;
 * 2. `zod` is the user's, and ours where there is none;
 * 3. what goes wrong is told with the place in the user's code (explain-load-error.ts).
 */
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, extname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { createJiti } from "jiti";
import { packageRoot, readManifest } from "../../package-root.ts";
import { explainLoadError } from "./explain-load-error.ts";

/** What a module exports, by name. */
export type ModuleExports = Readonly<Record<string, unknown>>;

const PLAIN = [".js", ".mjs", ".cjs"];

/** The exports of the file at an absolute path; throws a `CliError` if it cannot be loaded. */
export async function loadModule(path: string): Promise<ModuleExports> {
  return load(path, await loadEntryPoints());
}

/**
 * The same for a file that hardly ever needs `rondo` itself, such as a configuration: which is then not loaded. What the
 * runtime understands as it is, it loads.
 */
export async function loadLightModule(path: string): Promise<ModuleExports> {
  const text = await explained(path, () => readFile(path, "utf8"));
  if (PLAIN.includes(extname(path))) {
    const exports = await explained(path, () => importPlain(path));
    if (exports !== null) return exports;
  }
  const needsRondo = /["']rondo(?:\/[\w-]+)?["']/.test(text);
  return load(path, needsRondo ? await loadEntryPoints() : {});
}

/** Null if it is no JavaScript: the runtime does not say where, jiti does. */
async function importPlain(path: string): Promise<ModuleExports | null> {
  try {
    return (await import(pathToFileURL(path).href)) as ModuleExports;
  } catch (thrown) {
    if (thrown instanceof SyntaxError) return null;
    throw thrown;
  }
}

async function load(path: string, virtualModules: Record<string, unknown>): Promise<ModuleExports> {
  const jiti = createJiti(path, {
    // A cache in a shared temporary directory would be code that others can change.
    fsCache: false,
    virtualModules,
    alias: ownZodIfNeeded(path),
  });
  return explained(path, () => jiti.import<ModuleExports>(path));
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
    // Not installed beside the user's file: take the one that comes with this package.
    return { zod: dirname(fileURLToPath(import.meta.resolve("zod/package.json"))) };
  }
}

/** Loads the modules that users can import from this package, by the names that they use. */
async function loadEntryPoints(): Promise<Record<string, unknown>> {
  const { name, exports } = readManifest();
  const files = Object.entries(exports).flatMap(([subpath, target]) => {
    const file = join(packageRoot, typeof target === "string" ? target : target.default);
    // `rondo/register` exports nothing: it only changes how files are loaded.
    return subpath !== "./register" && file.endsWith(".js") && existsSync(file)
      ? [[name + subpath.slice(1), file] as const]
      : [];
  });
  const modules = await Promise.all(
    files.map(async ([specifier, file]) => [specifier, await import(pathToFileURL(file).href)]),
  );
  return Object.fromEntries(modules) as Record<string, unknown>;
}
