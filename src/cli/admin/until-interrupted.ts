import { EXIT, type ExitCode } from "../exit-code.ts";
import { printLine } from "../output/print.ts";
import { Shutdown } from "../start/shutdown.ts";

/** Runs a task until it ends. The first Ctrl-C or SIGTERM aborts it, and it may still clean up. */
export async function untilInterrupted(
  run: (signal: AbortSignal) => Promise<void | ExitCode>,
): Promise<void | ExitCode> {
  const shutdown = new Shutdown();
  const stopped = new AbortController();
  void shutdown.asked.then(() => stopped.abort());
  try {
    return await run(stopped.signal);
  } catch (thrown) {
    if (!stopped.signal.aborted || thrown !== stopped.signal.reason) throw thrown;
    printLine("stopped; nothing was changed");
    return EXIT.interrupted;
  } finally {
    shutdown.stop();
  }
}
