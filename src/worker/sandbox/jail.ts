/**
 * The jail is the outer layer of the sandbox: it starts the sandbox process so that it can reach nothing outside. Kinds, best first:
 *   namespaces       user, mount, network, process, IPC and host namespaces; the worker need not be root
 *   root-namespaces  the same without a user namespace, if the worker is root; the sandbox process runs as nobody
 *   none             no jail: only an empty environment and Node's permission model
 * In a jail the root folder of the sandbox process is a read-only tmpfs with the Node binary, its libraries and the code of the
 * sandbox. The process has no /proc, no network device, no capability, and no user of the machine. Every kind also uses Node's
 * permission model. In every kind a separate shell kills the sandbox process when the worker is gone.
 */
import { spawnSync } from "node:child_process";
import { existsSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { compiledFile } from "../../std/compiled-file.ts";

export type JailKind = "namespaces" | "root-namespaces" | "none";

export interface Jail {
  readonly kind: JailKind;
  /**
   * Returns the command that runs the sandbox process in `folder`. File descriptor 3 of the process is a pipe that is open
   * while the worker lives.
   */
  command(folder: string, memoryBytes: number): { file: string; args: string[] };
}

const NOBODY = 65_534;
const TOOL_FOLDERS = ["/usr/bin", "/bin", "/usr/sbin", "/sbin", "/usr/local/bin"];
/** The memory that Node and its heap need, in addition to the memory of the scripts. */
const NODE_DATA_BYTES = 1_024 * 1_048_576;

/**
 * A shell script that kills the sandbox's process group and deletes its folder when the worker's pipe closes. It is needed because a
 * sandbox process in an endless loop would not notice the end of the worker. It runs detached and holds none of the sandbox's pipes.
 */
const WATCH_WORKER = `(
  {
    read -r _ <&3 || {
      # More than once: it may just be about to be mounted.
      for _ in 1 2 3 4 5 6 7 8; do umount -l "$1"; rmdir "$1" && break; sleep 0.03; done
      kill -9 0
    }
  } </dev/null >/dev/null 2>&1 &
)
exec 3<&-
`;

/**
 * A shell script that builds the root folder of the jail. Arguments: the root, the limit on data in KiB, pairs of a file and
 * its place in the jail, `--`, the command.
 */
const BUILD_ROOT = `${WATCH_WORKER}set -e
PATH=/usr/sbin:/usr/bin:/sbin:/bin
root=$1 data=$2
shift 2
mount -t tmpfs -o size=1m,mode=0755,nosuid,nodev rondo "$root"
while [ "$1" != -- ]; do
  place=$root$2 options=remount,bind,ro,nosuid,nodev
  if [ -d "$1" ]; then mkdir -p "$place"; options=$options,noexec
  else mkdir -p "\${place%/*}"; : > "$place"; fi
  mount --bind "$1" "$place"
  mount -o "$options" "$place"
  shift 2
done
shift
echo '{"type":"module"}' > "$root/app/package.json"
mkdir "$root/tmp"
mount -o remount,bind,ro,nosuid,nodev "$root"
ulimit -c 0; ulimit -f 0; ulimit -n 64; ulimit -d "$data"
ulimit -u 4096 2>/dev/null || ulimit -p 4096 2>/dev/null || true
`;

/** Returns the jails for which this machine has the tools. jail-probe.ts finds out which of them works. */
export function possibleJails(): readonly Jail[] | { readonly missing: string } {
  if (process.platform !== "linux") return { missing: `${process.platform} has no namespaces` };
  const unshare = findTool("unshare");
  const env = findTool("env");
  const ldd = findTool("ldd");
  if (unshare === null || env === null || ldd === null)
    return {
      missing: "the programs unshare, env and ldd are needed (packages util-linux, coreutils, libc-bin)",
    };
  if (!isChildBuilt()) return { missing: "the sandbox's child is not built: npm run build" };
  const node = realpathSync(process.execPath);
  const files = [
    ...[node, ...librariesOf(ldd, node)].map((file) => ({ file, place: file })),
    ...childFiles(),
  ];
  const jail = (kind: JailKind, enter: readonly string[], leave: readonly string[]): Jail => ({
    kind,
    command(folder, memoryBytes) {
      const script = `${BUILD_ROOT}exec ${env} -i ${unshare} ${leave.join(" ")} --pid --fork --kill-child --root="$root" --wd=/tmp -- "$@"`;
      return {
        file: unshare,
        args: [
          ...[...enter, "--mount", "--net", "--ipc", "--uts", "--", "/bin/sh", "-c", script, "rondo-jail"],
          ...[folder, String(Math.ceil((NODE_DATA_BYTES + 4 * memoryBytes) / 1_024))],
          ...files.flatMap(({ file, place }) => [file, place]),
          ...["--", node, ...nodeFlags(["/app/*"]), entryOf("/app")],
        ],
      };
    },
  });
  return [
    jail(
      "namespaces",
      ["--user", "--map-root-user"],
      ["--user", `--map-user=${NOBODY}`, `--map-group=${NOBODY}`],
    ),
    ...(process.getuid?.() === 0
      ? [jail("root-namespaces", [], [`--setuid=${NOBODY}`, `--setgid=${NOBODY}`])]
      : []),
  ];
}

/** Runs the sandbox process without a jail, for trusted scripts only: it can reach the network and the processes of the machine. */
export const NO_JAIL: Jail = {
  kind: "none",
  command(folder) {
    const files = childFiles();
    const main = files.find(({ isEntry }) => isEntry === true);
    const readable = files.map(({ file }) => `${file}/*`);
    const args = [...nodeFlags(readable), `${main?.file ?? ""}/main.js`];
    const env = findTool("env");
    if (env === null) return { file: process.execPath, args };
    // The sandbox process is started through `env -i`, because the shell adds environment variables.
    const script = `${WATCH_WORKER}shift\nexec ${env} -i "$@"`;
    return { file: "/bin/sh", args: ["-c", script, "rondo-script", folder, process.execPath, ...args] };
  },
};

/**
 * Returns Node's flags for the sandbox process. It may not read files other than its code, start processes or threads, load
 * addons, or run code from strings. Its stack is deep enough for QuickJS.
 */
function nodeFlags(readable: readonly string[]): string[] {
  const permission = process.allowedNodeEnvironmentFlags.has("--permission")
    ? "--permission"
    : "--experimental-permission";
  return [
    permission,
    ...readable.map((path) => `--allow-fs-read=${path}`),
    ...["--no-warnings", "--disallow-code-generation-from-strings", "--disable-proto=delete"],
    ...["--max-old-space-size=128", "--v8-pool-size=1", "--stack-size=3900"],
  ];
}

function librariesOf(ldd: string, program: string): string[] {
  // ldd fails for a static program, which needs no libraries.
  const { stdout } = spawnSync(ldd, [program], { encoding: "utf8", env: {} });
  return Array.from(stdout.matchAll(/(?:^|\s)(\/\S+)/g), (match) => match[1] ?? "");
}

function findTool(name: string): string | null {
  return TOOL_FOLDERS.map((folder) => `${folder}/${name}`).find((file) => existsSync(file)) ?? null;
}

/** A folder that the sandbox process needs, and its place in a jail. */
interface ChildFile {
  /** The path of the folder on this machine. */
  readonly file: string;
  /** The path of the folder in the jail. */
  readonly place: string;
  readonly isEntry?: boolean;
}

const ENGINE = "@jitl/quickjs-ng-wasmfile-release-sync";

const PACKAGES = ["quickjs-emscripten-core", ENGINE, "@jitl/quickjs-ffi-types"];

/** Returns every folder that the sandbox process reads: its own code and QuickJS, nothing else. */
function childFiles(): ChildFile[] {
  const own = childFolder();
  const require = createRequire(join(own, "main.js"));
  // The third package is a dependency of the other two and may be installed inside one of them.
  const nested = createRequire(require.resolve(ENGINE));
  return [
    { file: own, place: "/app/child", isEntry: true },
    ...PACKAGES.map((name, i) => ({
      file: packageFolder((i < 2 ? require : nested).resolve(name)),
      place: `/app/node_modules/${name}`,
    })),
  ];
}

/** Whether the compiled code of the sandbox process exists. A worker that runs from source needs a build first. */
function isChildBuilt(): boolean {
  return existsSync(join(childFolder(), "main.js"));
}

/** Returns the main module of the sandbox process, for a jail whose files are under `root`. */
function entryOf(root: string): string {
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
