/**
 * Keeps a process that hosts user code in order: `console` goes to stderr, so that stdout is data only, and an error
 * that user code throws where nobody catches it ends the process with what it was, and what that means.
 */
import { Console } from "node:console";
import { Writable } from "node:stream";
import { EXIT } from "../exit-code.ts";
import type { Screen } from "../progress/screen.ts";

export function guardProcess(screen: Screen): void {
  const stream = new Writable({
    decodeStrings: false,
    write(text: string, _encoding, done) {
      screen.write(text);
      done();
    },
  });
  globalThis.console = new Console({ stdout: stream, stderr: stream });
  process.on("uncaughtException", (error: unknown) => {
    screen.still();
    const what = error instanceof Error ? (error.stack ?? error.message) : String(error);
    screen.say(["✗", "red"], ` code threw outside of any task, which ends this process: ${what}`);
    screen.say("  what is done is kept; start again with the same --id to go on");
    process.exit(EXIT.broken);
  });
}
