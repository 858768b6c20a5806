/** Errors as attempts leave them: what of their text the kernel uses. */
import type { HandlerState } from "../execution.ts";

const SHOWN_CHARS = 200;
/** What is said of an error without a message. */
const FAILED = "failed";

/** Keeps why an attempt failed that is tried again, for those who ask what it waits for. */
export function noteError(handler: HandlerState, reason?: string, error?: string | null): void {
  if (reason === "released" || typeof error !== "string") return;
  const { message } = readError(error);
  if (message === FAILED) return;
  handler.lastError =
    message.length > SHOWN_CHARS ? `${message.slice(0, SHOWN_CHARS)}...`.toWellFormed() : message;
}

/** The parts of a stored error that the kernel uses. */
export function readError(text: string | null): { code?: string; message: string } {
  if (text === null) return { message: FAILED };
  const parsed = JSON.parse(text) as { code?: unknown; name?: unknown; message?: unknown } | null;
  const message = typeof parsed?.message === "string" ? parsed.message : FAILED;
  const name = typeof parsed?.name === "string" && parsed.name !== "Error" ? `${parsed.name}: ` : "";
  return { ...(typeof parsed?.code === "string" ? { code: parsed.code } : {}), message: `${name}${message}` };
}
