/** Entry point of `npm run demo`. */
import { leaveQuietlyOnClosedPipe } from "../../src/cli/output/closed-pipe.ts";
import { printError } from "../../src/cli/run-cli.ts";
import { runDemo } from "./run-demo.ts";

leaveQuietlyOnClosedPipe();
try {
  process.exitCode = await runDemo(process.argv.slice(2));
} catch (thrown) {
  process.exitCode = printError(thrown);
}
