import { CommanderError } from "commander";
import { EXIT } from "./exit-code.ts";
import { printError } from "./print-error.ts";
import { buildProgram } from "./program/program.ts";

/** Runs one verb and tells what went wrong; gives its exit code. */
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
