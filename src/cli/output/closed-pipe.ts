import { EXIT } from "../exit-code.ts";

/** Ends the process quietly if the reader of stdout has closed the pipe, as in `rondo ... | head`. */
export function leaveQuietlyOnClosedPipe(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
    process.exit(EXIT.ok);
  });
  // If the reader of stderr has closed the pipe, messages are dropped, and the program continues.
  process.stderr.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE") throw error;
  });
}
