/** A value from the command line: JSON itself, `@file`, or `-` for standard input. */
import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";
import { readJson } from "./read-json.ts";

/** The value that a flag (`-i`, `-d`) names. */
export async function readInput(
  given: string,
  say: (line: string) => void,
  flag: "-i" | "-d" = "-i",
): Promise<unknown> {
  if (given === "-") {
    if (process.stdin.isTTY) say("reading the input from the terminal; end it with Ctrl-D");
    return readJson(await text(process.stdin), "the input on stdin", flag);
  }
  if (given.startsWith("@")) return readJson(await readInputFile(given.slice(1), flag), given.slice(1), flag);
  return readJson(given, flag, flag);
}

async function readInputFile(path: string, flag: string): Promise<string> {
  if (path === "") throw new CliError(EXIT.usage, `${flag} @ needs the name of a file: ${flag} @input.json`);
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT")
      throw new CliError(EXIT.notFound, `there is no file ${path} to read the input from`, [], { cause });
    throw new CliError(EXIT.usage, `the input cannot be read: ${(cause as Error).message}`, [], { cause });
  }
}
