/** `rondo start`: an engine node and its API, until Ctrl-C or SIGTERM. No user code runs in it. */
import { EXIT, type ExitCode } from "../exit-code.ts";
import { tell } from "../output/print.ts";
import { readConfig } from "../server/find-server.ts";
import { type StartFlags, serve } from "./serve.ts";
import { Shutdown } from "./shutdown.ts";

/** Serves until it is told to end. */
export async function start(options: StartFlags): Promise<ExitCode> {
  const loaded = await readConfig({ ...options });
  const shutdown = new Shutdown();
  try {
    const server = await serve(loaded, options);
    await shutdown.asked;
    tell("closing: what is under way is finished; once more leaves at once");
    await server.close();
    return EXIT.ok;
  } finally {
    shutdown.stop();
  }
}
