/** Reads the stored errors of attempts. */
import type { HandlerState } from "../execution.ts";

const SHOWN_CHARS = 200;
/** The message that is shown for an error without one. */
const FAILED = "failed";

/** Keeps the error of an attempt that is retried, so that `why` can show it. */
export function noteError(handler: HandlerState, reason?: string, error?: string | null): void {
  if (reason === "released" || typeof error !== "string") return;
  const { message } = readError(error);
  if (message === FAILED) return;
  handler.lastError =
    message.length > SHOWN_CHARS ? `${message.slice(0, SHOWN_CHARS)}...`.toWellFormed() : message;
}

/** The code and the message of a stored error. */
export function readError(text: string | null): { code?: string; message: string } {
  if (text === null) return { message: FAILED };
  const parsed = JSON.parse(text) as { code?: unknown; name?: unknown; message?: unknown } | null;
  const message = typeof parsed?.message === "string" ? parsed.message : FAILED;
  const name = typeof parsed?.name === "string" && parsed.name !== "Error" ? `${parsed.name}: ` : "";
  return { ...(typeof parsed?.code === "string" ? { code: parsed.code } : {}), message: `${name}${message}` };
}
