import { CommanderError } from "commander";
import { toCliError } from "./cli-error.ts";
import { EXIT, type ExitCode } from "./exit-code.ts";
import { visible } from "./output/visible.ts";
import { buildProgram } from "./program/program.ts";
import { isColoured, Painter } from "./style.ts";

/** Runs one verb, prints its error if there is one, and returns the exit code. */
export async function runCli(args: readonly string[]): Promise<number> {
  let exit: number = EXIT.ok;
  const program = buildProgram((code) => {
    exit = code;
  });
  try {
    await program.parseAsync(args, { from: "user" });
  } catch (thrown) {
    if (thrown instanceof CommanderError) return thrown.exitCode === 0 ? EXIT.ok : EXIT.usage;
    return printError(thrown);
  }
  return exit;
}

/** Prints an error to stderr: what happened and what to do. Returns the exit code. */
export function printError(thrown: unknown): ExitCode {
  const { exit, message, more } = toCliError(thrown);
  const painter = new Painter(isColoured(process.stderr));
  const lines = [painter.line([["rondo: ", "red"], message]), ...more.map((line) => `  ${visible(line)}`)];
  process.stderr.write(`${lines.join("\n")}\n`);
  return exit;
}
