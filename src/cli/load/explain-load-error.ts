/** Explains an error that occurred while a user's file was loaded: its place in the user's code, and what to do. */
import { readFileSync } from "node:fs";
import { dirname, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { packageRoot } from "../../package-root.ts";
import { toError } from "../../std/to-error.ts";
import { CliError } from "../cli-error.ts";
import { codeFrame } from "../code-frame.ts";
import { EXIT } from "../exit-code.ts";

interface Place {
  readonly file: string;
  readonly line: number;
  readonly column?: number;
}

/**
 * Makes the CLI error for a file that could not be loaded. `path` is the file that the user named; the error may be in a file that it
 * imports.
 */
export function explainLoadError(thrown: unknown, path: string): CliError {
  const error = toError(thrown);
  return syntaxError(error) ?? missingModule(error, path) ?? thrownByCode(error, path);
}

/** Makes the CLI error for a file whose tsconfig.json, with its path aliases, cannot be read. */
export function explainTsconfigError(thrown: unknown, path: string): CliError {
  const cause = toError(thrown);
  const what = cause.message.replace(/\.$/, "");
  const hint = "repair the tsconfig.json that is nearest above the file, or a file that it extends";
  return new CliError(EXIT.usage, `${show(path)}: its tsconfig.json cannot be read: ${what}`, [hint], {
    cause,
  });
}

/** Parses jiti's message for a syntax error: "ParseError: <what> \n <file>:<line>:<column>", with the column from 0. */
function syntaxError(error: Error): CliError | null {
  const match = /^\w+: ([\s\S]*?)\s*\n\s*(\S.*):(\d+):(\d+)\s*$/.exec(error.message);
  if (match === null) return null;
  const [, what, file, line, column] = match as unknown as [string, string, string, string, string];
  return at({ file, line: Number(line), column: Number(column) + 1 }, what, { cause: error });
}

function missingModule(error: Error, path: string): CliError | null {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== "MODULE_NOT_FOUND" && code !== "ERR_MODULE_NOT_FOUND") return null;
  const name = /Cannot find (?:module|package) '([^']+)'/.exec(error.message)?.[1];
  if (name === undefined) return null;
  const hint = /^[./]|^file:/.test(name)
    ? "check the path; it is relative to the file that imports it"
    : /^[@~#]\//.test(name)
      ? 'if it is an alias, check "paths" in the nearest tsconfig.json above the file'
      : `install it: npm install ${packageOf(name)} (in ${dirname(path)})`;
  const what = `cannot find "${name}"`;
  const place = userPlace(error);
  if (place === null) return new CliError(EXIT.usage, `${show(path)}: ${what}`, [hint], { cause: error });
  return at(place, what, { cause: error, hint });
}

/** Explains an error that the module's own code threw, such as a refused definition or a failed connection. */
function thrownByCode(error: Error, path: string): CliError {
  const { hint } = error as { hint?: string };
  // jiti compiles a call of an imported function to (0, _module.name)(...). The message shows the name only.
  let what = error.message.replaceAll(/\(0 ?, ?_?[\w$]+\.([\w$]+)\)/g, "$1");
  if (hint !== undefined && what.endsWith(` (${hint})`)) what = what.slice(0, -hint.length - 3);
  if (error.name !== "Error" && error.name !== "RondoError") what = `${error.name}: ${what}`;
  const place = userPlace(error) ?? null;
  if (place === null)
    return new CliError(EXIT.usage, `${show(path)}: ${what}`, hint === undefined ? [] : [hint], {
      cause: error,
    });
  return at(place, what, { cause: error, ...(hint === undefined ? {} : { hint }) });
}

function at(place: Place, what: string, more: { cause: Error; hint?: string }): CliError {
  const where = [show(place.file), place.line, ...(place.column === undefined ? [] : [place.column])].join(
    ":",
  );
  const lines = [...frameOf(place), ...(more.hint === undefined ? [] : [more.hint])];
  return new CliError(EXIT.usage, `${where}: ${what}`, lines, { cause: more.cause });
}

function frameOf(place: Place): string[] {
  try {
    return codeFrame(readFileSync(place.file, "utf8"), place);
  } catch {
    // If the place is not in a file, for example "<anonymous>", no source text is shown.
    return [];
  }
}

/** Returns the first stack frame in the user's code. Its line is right, but compiling changes columns. */
function userPlace(error: Error): Place | null {
  for (const frame of (error.stack ?? "").split("\n")) {
    const match = /(?:\(|at |async )((?:file:\/\/)?(?:[A-Za-z]:)?[/\\][^():]*):(\d+):\d+\)?$/.exec(frame);
    if (match === null) continue;
    const [, found, line] = match as unknown as [string, string, string];
    const file = found.startsWith("file:") ? fileURLToPath(found) : found;
    const isOurs = file.startsWith(`${packageRoot()}dist`) || file.startsWith(`${packageRoot()}src`);
    if (!isOurs && !/[/\\]node_modules[/\\]/.test(file)) return { file, line: Number(line) };
  }
  return null;
}

function packageOf(name: string): string {
  return name
    .split("/")
    .slice(0, name.startsWith("@") ? 2 : 1)
    .join("/");
}

/** Returns a path relative to the current directory, if that is shorter. */
function show(path: string): string {
  const short = relative(process.cwd(), path);
  return short === "" || short.startsWith("..") ? path : short;
}
