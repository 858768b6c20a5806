/** How a new project names this package among its dependencies. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";

interface Installed {
  /** The folder of this package. */
  readonly root: string;
  readonly version: string;
}

const FILE = "file:";

/**
 * A checkout is named by its place. An installed package is named as the project that installed it names it, so that a
 * tarball stays that tarball; else by its version.
 */
export function dependencyOf(at: string, { root, version }: Installed): string {
  if (!root.split(sep).includes("node_modules")) return fileSpecifier(at, root);
  for (let folder = dirname(root); dirname(folder) !== folder; folder = dirname(folder)) {
    const specifier = specifierIn(join(folder, "package.json"));
    if (specifier !== null)
      return specifier.startsWith(FILE)
        ? fileSpecifier(at, resolve(folder, specifier.slice(FILE.length)))
        : specifier;
  }
  return `^${version}`;
}

/** With slashes on every system, as npm writes it. */
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
