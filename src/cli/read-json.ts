/** Parses JSON that people wrote. The error shows the position of the mistake. */
import { CliError } from "./cli-error.ts";
import { codeFrame } from "./code-frame.ts";
import { EXIT } from "./exit-code.ts";
import { jsonErrorAt, lineAndColumn } from "./json-position.ts";

/** Parses a text. `from` names its origin in errors, such as "-i" or a file. */
export function readJson(text: string, from: string, flag = "-i"): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    if (text.trim() === "")
      throw new CliError(EXIT.usage, `${from} is empty, but must be JSON`, how(flag), { cause });
    const end = text.trimEnd().length;
    const at = Math.min(jsonErrorAt(text), end);
    const { line, column } = lineAndColumn(text, at);
    const what = at === end ? "the text ends too early" : `unexpected ${JSON.stringify(text[at])}`;
    throw new CliError(
      EXIT.usage,
      `${from} is not JSON: ${what} at position ${at} (line ${line}, column ${column})`,
      [...codeFrame(text, { line, column }), ...(hasBareWords(text) ? how(flag) : [])],
      { cause },
    );
  }
}

function how(flag: string): string[] {
  return [
    `in JSON, names and texts need double quotes; put single quotes around all of it for the shell: ${flag} '{"name":"x"}'`,
  ];
}

/** Whether words in the text have no quotes, usually because the shell removed them. */
function hasBareWords(text: string): boolean {
  return /^[\s{[]*[A-Za-z_']/.test(text);
}
