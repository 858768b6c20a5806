/** Explains a tsconfig.json that `rondo/register` cannot use. jiti reads it for its path aliases, and its own errors name no file. */
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

/** How jiti's functions that read a tsconfig.json are called in stacks. */
const READS = /at (?:\w+\.)*_?(?:parseTsconfig|getTsconfig|resolveExtends)\b/;

/** The error to throw instead of `thrown`: if a tsconfig.json caused it, one that names the file and the reason. */
export function explainTsconfig(thrown: unknown, directory: string): unknown {
  if (!(thrown instanceof Error) || !READS.test(thrown.stack ?? "")) return thrown;
  const reason =
    thrown instanceof TypeError
      ? 'a value has the wrong type; "paths" has a list of paths for each alias'
      : thrown.message.replace(/\.$/, "");
  const file = nearest(directory) ?? "tsconfig.json";
  const told = new Error(`rondo/register: ${file} cannot be used: ${reason}`);
  // The stack would only show functions of jiti.
  told.stack = told.message;
  return told;
}

/** The tsconfig.json in this directory, or in the nearest one above it. */
function nearest(directory: string): string | null {
  const file = join(directory, "tsconfig.json");
  if (existsSync(file)) return file;
  const above = dirname(directory);
  return above === directory ? null : nearest(above);
}
