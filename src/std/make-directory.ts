/** Making a directory and those above it. */
import { existsSync, mkdirSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";

/**
 * Makes a directory, and those above it that are missing; gives its absolute path. One by one, since Node's own
 * `recursive` never ends where the system denies a parent that is there, as under /proc.
 */
export function makeDirectory(path: string, mode = 0o777): string {
  const directory = resolve(path);
  const missing = [];
  for (let at = directory; !existsSync(at); at = dirname(at)) missing.push(at);
  if (missing.length === 0 && !statSync(directory).isDirectory()) missing.push(directory);
  for (const one of missing.reverse()) makeOne(one, mode);
  return directory;
}

/** Another process may have made it meanwhile. */
function makeOne(directory: string, mode: number): void {
  try {
    mkdirSync(directory, { mode });
  } catch (thrown) {
    const isThere = (thrown as NodeJS.ErrnoException).code === "EEXIST" && existsSync(directory);
    if (!isThere || !statSync(directory).isDirectory()) throw thrown;
  }
}
