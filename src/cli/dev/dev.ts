/** `rondo dev FILES`: runs a server and a worker. It restarts the worker when the files change. */
import { readFileSync, statSync } from "node:fs";
import { dirname, extname, relative, resolve } from "node:path";
import { CliError } from "../cli-error.ts";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { isFileName } from "../load/load-file.ts";
import { printLine } from "../output/print.ts";
import { readConfig } from "../server/find-server.ts";
import { type StartFlags, serve } from "../start/serve.ts";
import { Shutdown } from "../start/shutdown.ts";
import { FileWatch } from "./file-watch.ts";
import { WorkerKeeper } from "./worker-keeper.ts";

/** Serves until Ctrl-C or SIGTERM. */
export async function dev(files: readonly string[], options: StartFlags): Promise<ExitCode> {
  const loaded = await readConfig({ ...options, files });
  const wanted = loaded.config.files;
  if (wanted.length === 0)
    throw new CliError(EXIT.usage, "rondo dev needs files with workflows", [
      "rondo dev flows.ts, or files: [...] in rondo.config.ts",
    ]);
  for (const file of wanted)
    if (!isFileName(file)) throw new CliError(EXIT.usage, `${file} is not a file with workflows`);
  const shutdown = new Shutdown();
  const server = await serve(loaded, options);
  const address = server.socket === null ? ["--url", server.url] : ["--store", loaded.config.store];
  const keeper = new WorkerKeeper({ files: wanted, args: address });
  const watch = new FileWatch((changed) => {
    printLine(`rondo dev: ${changed.map((file) => relative(process.cwd(), file)).join(", ")} changed`);
    watch.follow(importGraph(wanted));
    void keeper.replace();
  });
  process.once("exit", () => keeper.kill());
  try {
    watch.follow(importGraph(wanted));
    void keeper.replace();
    await shutdown.asked;
    printLine("closing: running tasks may finish; press Ctrl-C again to stop at once");
    watch.close();
    await keeper.close();
    await server.close();
    return EXIT.ok;
  } finally {
    shutdown.stop();
  }
}

const SPECIFIER =
  /(?:\bfrom|\bimport|\brequire\s*\(|\bimport\s*\()\s*(?:\(\s*)?["'](\.{1,2}\/[^"'\n]*|\.{1,2})["']/g;
const EXTENSIONS = [".ts", ".mts", ".cts", ".js", ".mjs", ".cjs", ".json"];
/** Extensions in imports, with the extension of the TypeScript source that may be meant. */
const SOURCES: Readonly<Record<string, string>> = { ".js": ".ts", ".mjs": ".mts", ".cjs": ".cts" };
const FILES_MAX = 5_000;

/**
 * Returns the absolute paths of the entry files and of all files that they import. For an import whose file is missing, returns all paths
 * that it could have.
 */
export function importGraph(entries: readonly string[]): string[] {
  const found = new Set(entries.map((entry) => resolve(entry)));
  for (const path of found) {
    if (found.size > FILES_MAX) break;
    for (const specifier of specifiersOf(path)) {
      const candidates = candidatesOf(resolve(dirname(path), specifier));
      const there = candidates.find(isFile);
      for (const file of there === undefined ? candidates : [there])
        if (!/[/\\]node_modules[/\\]/.test(file)) found.add(file);
    }
  }
  return [...found];
}

function specifiersOf(path: string): string[] {
  const extension = extname(path);
  if (extension === ".json" || !EXTENSIONS.includes(extension)) return [];
  try {
    return Array.from(readFileSync(path, "utf8").matchAll(SPECIFIER), (match) => match[1] as string);
  } catch {
    // A file that is missing or cannot be read counts as a file without imports.
    return [];
  }
}

function candidatesOf(path: string): string[] {
  const source = SOURCES[extname(path)];
  return [
    path,
    ...(source === undefined ? [] : [path.slice(0, -extname(path).length) + source]),
    ...EXTENSIONS.map((extension) => path + extension),
    ...EXTENSIONS.map((extension) => resolve(path, `index${extension}`)),
  ];
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}
