/** Reads the stored errors of attempts. */
import type { ErrorCause } from "../event.ts";
import type { HandlerState } from "../execution.ts";

const SHOWN_CHARS = 200;
/** The message that is shown for an error that has none. */
const FAILED = "failed";

/** Keeps the error of an attempt that is retried, so that `why` can show it. */
export function noteError(handler: HandlerState, reason?: string, error?: string | null): void {
  if (reason === "released" || typeof error !== "string") return;
  const { message } = readError(error);
  if (message === FAILED) return;
  handler.lastError =
    message.length > SHOWN_CHARS ? `${message.slice(0, SHOWN_CHARS)}...`.toWellFormed() : message;
}

/** Returns the code and the message of a stored error. If user code threw the error, also returns it in the form of a cause. */
export function readError(text: string | null): { code?: string; message: string; cause?: ErrorCause } {
  if (text === null) return { message: FAILED };
  const parsed = JSON.parse(text) as Partial<Record<keyof ErrorCause, unknown>> | null;
  const message = typeof parsed?.message === "string" ? parsed.message : FAILED;
  const name = typeof parsed?.name === "string" && parsed.name !== "Error" ? `${parsed.name}: ` : "";
  // If an error has neither a stack nor a cause, its message says everything, so no cause is returned.
  const cause = parsed?.stack === undefined && parsed?.cause === undefined ? undefined : causeOf(parsed);
  return {
    ...(typeof parsed?.code === "string" ? { code: parsed.code } : {}),
    message: `${name}${message}`,
    ...(cause === undefined ? {} : { cause }),
  };
}

/** Returns the name, message, code, stack and cause of a stored error; undefined if there is no error. */
function causeOf(error: unknown): ErrorCause | undefined {
  if (typeof error !== "object" || error === null) return undefined;
  const { name, message, code, stack, cause } = error as Partial<Record<keyof ErrorCause, unknown>>;
  const below = causeOf(cause);
  return {
    name: typeof name === "string" ? name : "Error",
    message: typeof message === "string" ? message : FAILED,
    ...(typeof code === "string" ? { code } : {}),
    ...(typeof stack === "string" ? { stack } : {}),
    ...(below === undefined ? {} : { cause: below }),
  };
}
