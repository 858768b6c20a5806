/** The input of an execution from the command line: JSON itself, `@file`, or `-` for standard input. */
import { readFile } from "node:fs/promises";
import { text } from "node:stream/consumers";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";
import { readJson } from "./read-json.ts";

/** The value that `-i` names. */
export async function readInput(given: string, say: (line: string) => void): Promise<unknown> {
  if (given === "-") {
    if (process.stdin.isTTY) say("reading the input from the terminal; end it with Ctrl-D");
    return readJson(await text(process.stdin), "the input on stdin");
  }
  if (given.startsWith("@")) return readJson(await readInputFile(given.slice(1)), given.slice(1));
  return readJson(given, "-i");
}

async function readInputFile(path: string): Promise<string> {
  if (path === "") throw new CliError(EXIT.usage, "-i @ needs the name of a file: -i @input.json");
  try {
    return await readFile(path, "utf8");
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT")
      throw new CliError(EXIT.notFound, `there is no file ${path} to read the input from`, [], { cause });
    throw new CliError(EXIT.usage, `the input cannot be read: ${(cause as Error).message}`, [], { cause });
  }
}
