/** This package as it is installed: its version and its entry points. */
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";

const ROOT = new URL("../../", import.meta.url);

interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly exports: Readonly<Record<string, string | { readonly default: string }>>;
}

/** The folder of the package, with a separator at its end. */
export const packageRoot = fileURLToPath(ROOT);

/** The package's own package.json. */
export function readManifest(): Manifest {
  return JSON.parse(readFileSync(new URL("package.json", ROOT), "utf8")) as Manifest;
}

/** Every module that others can import from this package, by the name they use. */
export async function loadEntryPoints(): Promise<Record<string, unknown>> {
  const { name, exports } = readManifest();
  const files = Object.entries(exports).flatMap(([subpath, target]) => {
    const file = new URL(typeof target === "string" ? target : target.default, ROOT);
    // What only changes how files are loaded is nothing to import.
    return subpath !== "./register" && file.pathname.endsWith(".js") && existsSync(file)
      ? [[name + subpath.slice(1), file] as const]
      : [];
  });
  const modules = await Promise.all(
    files.map(async ([specifier, file]) => [
      specifier,
      await import(pathToFileURL(fileURLToPath(file)).href),
    ]),
  );
  return Object.fromEntries(modules) as Record<string, unknown>;
}
