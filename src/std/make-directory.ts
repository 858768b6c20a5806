import { existsSync, mkdirSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";

/**
 * Makes a directory and its missing parents; returns its absolute path. The directories are made one by one, because Node's
 * `recursive` never ends where the system denies access to an existing parent, as under /proc.
 */
export function makeDirectory(path: string, mode = 0o777): string {
  const directory = resolve(path);
  const missing = [];
  for (let at = directory; !existsSync(at); at = dirname(at)) missing.push(at);
  if (missing.length === 0 && !statSync(directory).isDirectory()) missing.push(directory);
  for (const one of missing.reverse()) makeOne(one, mode);
  return directory;
}

/** Makes one directory. Another process may have made it meanwhile. */
function makeOne(directory: string, mode: number): void {
  try {
    mkdirSync(directory, { mode });
  } catch (thrown) {
    const isThere = (thrown as NodeJS.ErrnoException).code === "EEXIST" && existsSync(directory);
    if (!isThere || !statSync(directory).isDirectory()) throw thrown;
  }
}
