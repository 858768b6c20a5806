/** Follows a handle until it ends, or until Ctrl-C, which ends only the following. */
import { EXIT, type ExitCode } from "../exit-code.ts";

/** Runs `follow`. A signal disposes of the handle, which ends `follow`. Returns 0, or 130 (143) if it was interrupted. */
export async function interruptible(handle: AsyncDisposable, follow: () => Promise<void>): Promise<ExitCode> {
  let exit: ExitCode = EXIT.ok;
  const leave = (code: ExitCode) => () => {
    exit = code;
    void handle[Symbol.asyncDispose]();
  };
  const [onInterrupt, onTerminate] = [leave(EXIT.interrupted), leave(EXIT.terminated)];
  process.on("SIGINT", onInterrupt);
  process.on("SIGTERM", onTerminate);
  try {
    await follow();
    return exit;
  } catch (thrown) {
    if (exit === EXIT.ok) throw thrown;
    return exit;
  } finally {
    process.off("SIGINT", onInterrupt);
    process.off("SIGTERM", onTerminate);
  }
}
