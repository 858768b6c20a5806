/** `rondo start`: an engine node and its API, until Ctrl-C or SIGTERM. No user code runs in it. */
import { setFlagsFromString } from "node:v8";
import { EXIT, type ExitCode } from "../exit-code.ts";
import { printLine } from "../output/print.ts";
import { readConfig } from "../server/find-server.ts";
import { type StartFlags, serve } from "./serve.ts";
import { Shutdown } from "./shutdown.ts";

/**
 * By how many per cent the heap may grow over what is alive before V8 collects all of it. V8 by itself lets it grow
 * up to four times over, so that a server with 80 MB of live objects takes 500 MB. A V8 that does not know the flag says so
 * on stderr, and the server starts all the same.
 */
const HEAP_GROWTH = 40;

/** Serves until it is told to end. */
export async function start(options: StartFlags): Promise<ExitCode> {
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWTH}`);
  const loaded = await readConfig({ ...options });
  const shutdown = new Shutdown();
  try {
    const server = await serve(loaded, options);
    await shutdown.asked;
    printLine("closing: what is under way is finished; once more leaves at once");
    await server.close();
    return EXIT.ok;
  } finally {
    shutdown.stop();
  }
}
