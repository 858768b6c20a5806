/**
 * Returns the compiled JavaScript file at `path`, relative to the module `from` (its `import.meta.url`). Threads and child
 * processes need compiled code, since Node 20 cannot run TypeScript. When the caller itself runs from source, in tests, the
 * file of the last build in `dist/` is returned.
 */
export function compiledFile(path: string, from: string): URL {
  const beside = new URL(path, from);
  if (!from.endsWith(".ts")) return beside;
  return new URL(beside.href.replace(/\/(src|tools)\/(?!.*\/(?:src|tools)\/)/, "/dist/$1/"));
}
