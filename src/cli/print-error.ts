/** The last word of a command that failed: what happened and what to do, on stderr; and its exit code. */
import { toCliError } from "./cli-error.ts";
import type { ExitCode } from "./exit-code.ts";
import { visible } from "./output/visible.ts";
import { isColoured, Painter } from "./style.ts";

/** Tells anything thrown. */
export function printError(thrown: unknown): ExitCode {
  const { exit, message, more } = toCliError(thrown);
  const painter = new Painter(isColoured(process.stderr));
  const lines = [painter.line([["rondo: ", "red"], message]), ...more.map((line) => `  ${visible(line)}`)];
  process.stderr.write(`${lines.join("\n")}\n`);
  return exit;
}
