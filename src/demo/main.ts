/** Entry point of `npm run demo`. */
import { tellError } from "../cli/tell-error.ts";
import { runDemo } from "./run-demo.ts";

try {
  process.exitCode = await runDemo(process.argv.slice(2));
} catch (thrown) {
  process.exitCode = tellError(thrown);
}
