/** The entry point of the CLI: runs one verb, and ends the process with the verb's exit code after all output is written. */
import { leaveQuietlyOnClosedPipe } from "./output/closed-pipe.ts";
import { runCli } from "./run-cli.ts";

leaveQuietlyOnClosedPipe();
const exit = await runCli(process.argv.slice(2));
await Promise.all([flush(process.stdout), flush(process.stderr)]);
process.exit(exit);

function flush(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    stream.write("", () => resolve());
  });
}
