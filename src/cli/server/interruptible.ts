/** Runs code that follows an execution, until it ends or Ctrl-C is pressed. Ctrl-C does not end the execution. */
import { EXIT, type ExitCode } from "../exit-code.ts";

/** Runs `follow`. Ctrl-C or SIGTERM disposes of the handle, which ends `follow`. Returns 0, or 130 or 143 after the signal. */
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
