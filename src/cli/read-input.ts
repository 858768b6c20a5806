/** Reads a value from the command line: JSON itself, `@file`, or `-` for standard input. */
import { readFile } from "node:fs/promises";
import { buffer } from "node:stream/consumers";
import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";
import { readJson } from "./read-json.ts";

/** Reads the value of a flag (`-i`, `-d`). */
export async function readInput(
  given: string,
  say: (line: string) => void,
  flag: "-i" | "-d" = "-i",
): Promise<unknown> {
  if (given === "-") {
    if (process.stdin.isTTY) say("reading the input from the terminal; press Ctrl-D to end it");
    return readJson(decode(await buffer(process.stdin), "the input on stdin"), "the input on stdin", flag);
  }
  if (given.startsWith("@")) {
    const file = given.slice(1);
    return readJson(decode(await readInputFile(file, flag), file), file, flag);
  }
  return readJson(given, flag, flag);
}

/** Decodes UTF-8. Other encodings are refused, because they would be misread. */
function decode(bytes: Uint8Array, from: string): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    const at = invalidAt(bytes);
    throw new CliError(
      EXIT.usage,
      `${from} is not UTF-8: byte ${at} (0x${(bytes[at] ?? 0).toString(16).padStart(2, "0")}) is not valid there`,
      ["convert it to UTF-8 first, for example: iconv -f latin1 -t utf-8"],
      { cause },
    );
  }
}

/** Returns the index of the first byte that is not valid UTF-8. */
function invalidAt(bytes: Uint8Array): number {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  for (let at = 0; at < bytes.length; ) {
    const first = bytes[at] as number;
    const length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    try {
      decoder.decode(bytes.subarray(at, at + length));
    } catch {
      return at;
    }
    at += length;
  }
  return bytes.length - 1;
}

async function readInputFile(path: string, flag: string): Promise<Uint8Array> {
  if (path === "") throw new CliError(EXIT.usage, `${flag} @ needs the name of a file: ${flag} @input.json`);
  try {
    return await readFile(path);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT")
      throw new CliError(EXIT.notFound, `there is no file ${path} to read the input from`, [], { cause });
    throw new CliError(EXIT.usage, `the input cannot be read: ${(cause as Error).message}`, [], { cause });
  }
}
