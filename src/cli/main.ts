/** The entry: runs one verb, tells what went wrong, and ends with its exit code. */
import { CommanderError } from "commander";
import { EXIT } from "./exit-code.ts";
import { leaveQuietlyOnClosedPipe } from "./output/closed-pipe.ts";
import { buildProgram } from "./program/program.ts";
import { tellError } from "./tell-error.ts";

process.exit(await main(process.argv.slice(2)));

async function main(args: readonly string[]): Promise<number> {
  leaveQuietlyOnClosedPipe();
  let exit: number = EXIT.ok;
  const program = buildProgram((code) => {
    exit = code;
  });
  try {
    await program.parseAsync(args, { from: "user" });
  } catch (thrown) {
    if (thrown instanceof CommanderError) exit = thrown.exitCode === 0 ? EXIT.ok : EXIT.usage;
    else exit = tellError(thrown);
  }
  await Promise.all([flush(process.stdout), flush(process.stderr)]);
  return exit;
}

function flush(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    stream.write("", () => resolve());
  });
}
