/** The files that a sandbox child needs, and their places in a jail: its own code and QuickJS, nothing else. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { compiledFile } from "../../std/compiled-file.ts";

export interface ChildFile {
  /** A folder on this machine. */
  readonly file: string;
  /** Its path in the jail. */
  readonly place: string;
  readonly isEntry?: boolean;
}

const ENGINE = "@jitl/quickjs-ng-wasmfile-release-sync";
const PACKAGES = ["quickjs-emscripten-core", ENGINE, "@jitl/quickjs-ffi-types"];

/** Every folder that the child reads. */
export function childFiles(): ChildFile[] {
  const own = childFolder();
  const require = createRequire(join(own, "main.js"));
  // The third package is a dependency of the others and may be nested in one of them.
  const nested = createRequire(require.resolve(ENGINE));
  return [
    { file: own, place: "/app/child", isEntry: true },
    ...PACKAGES.map((name, i) => ({
      file: packageFolder((i < 2 ? require : nested).resolve(name)),
      place: `/app/node_modules/${name}`,
    })),
  ];
}

/** Whether the compiled child exists. A worker that runs from source needs a build first. */
export function isChildBuilt(): boolean {
  return existsSync(join(childFolder(), "main.js"));
}

/** The child's main module, for a jail whose files are under `root`. */
export function entryOf(root: string): string {
  return `${root}/child/main.js`;
}

function childFolder(): string {
  return fileURLToPath(compiledFile("./child", import.meta.url));
}

function packageFolder(file: string): string {
  let folder = dirname(file);
  while (!existsSync(join(folder, "package.json"))) folder = dirname(folder);
  return folder;
}
