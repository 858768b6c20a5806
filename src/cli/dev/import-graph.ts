/** The files that files import, and what those import: by the text of their imports, without running anything. */
import { readFileSync, statSync } from "node:fs";
import { dirname, extname, resolve } from "node:path";

const SPECIFIER =
  /(?:\bfrom|\bimport|\brequire\s*\(|\bimport\s*\()\s*(?:\(\s*)?["'](\.{1,2}\/[^"'\n]*|\.{1,2})["']/g;
const EXTENSIONS = [".ts", ".mts", ".cts", ".js", ".mjs", ".cjs", ".json"];
/** What is written as compiled may be there as source. */
const SOURCES: Readonly<Record<string, string>> = { ".js": ".ts", ".mjs": ".mts", ".cjs": ".cts" };
const FILES_MAX = 5_000;

/**
 * Absolute paths of the entries and all they reach; packages are left out. An import that nothing fits is answered by
 * every path that would fit: once one of them is there, that is a change.
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
    // Not there (yet), or not readable: it imports nothing that we know of.
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
