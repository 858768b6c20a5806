/** Causes of errors as they are stored: bounded in depth and length, since user code and workers make them. */
import type { ErrorCause } from "../kernel/event.ts";

/** The most causes below an error; causes that are nested more deeply are left out. */
const DEPTH_MAX = 4;
const NAME_CHARS = 100;
const TEXT_CHARS = 2_048;
/** What stands in place of the rest of a text. */
const DOTS = "...";

/** The stored form of an error's `cause`; undefined if there is none. A cause may be any value. */
export function storedCause(cause: unknown): ErrorCause | undefined {
  try {
    return read(cause, 1);
  } catch {
    // Getters of a hostile object may throw. The error itself must still be reported.
    return { name: "Error", message: "the cause cannot be shown" };
  }
}

function read(cause: unknown, depth: number): ErrorCause | undefined {
  if (cause === undefined || cause === null || depth > DEPTH_MAX) return undefined;
  if (typeof cause === "string") return { name: "Error", message: cutText(cause, TEXT_CHARS) };
  const { name, message, code, stack, cause: below } = cause as Readonly<Record<string, unknown>>;
  const next = read(below, depth + 1);
  return {
    name: typeof name === "string" ? cutText(name, NAME_CHARS) : "Error",
    message: cutText(typeof message === "string" ? message : (JSON.stringify(cause) ?? ""), TEXT_CHARS),
    ...(typeof code === "string" ? { code: cutText(code, NAME_CHARS) } : {}),
    ...(typeof stack === "string" ? { stack: cutStack(userFrames(stack), message, TEXT_CHARS) } : {}),
    ...(next === undefined ? {} : { cause: next }),
  };
}

/** The name of the function of a worker that calls handler code. The frames below it are those of the worker and of Node. */
const USER_CODE_CALLER = "callUserCode";

/** Leaves out the frames of the worker below handler code. A bundler that renames functions makes that impossible: then all stay. */
export function userFrames(stack: string): string {
  const at = stack.indexOf(USER_CODE_CALLER);
  const end = at < 0 ? -1 : stack.lastIndexOf("\n", at);
  return end >= 0 && stack.startsWith("    at ", end + 1) ? stack.slice(0, end) : stack;
}

/** Cuts a stack to a length. It begins with the message: a long message is cut before the lines that follow it are. */
export function cutStack(stack: string, message: unknown, max: number): string {
  if (stack.length <= max || typeof message !== "string") return cutText(stack, max);
  const end = stack.indexOf(message) + message.length;
  if (end < message.length) return cutText(stack, max);
  const frames = cutText(stack.slice(end), max / 2);
  return cutText(stack.slice(0, end), max - frames.length - DOTS.length) + frames;
}

/** Makes an error object from a stored error. Its name, message, code, stack and causes are those of the error that user code threw. */
export function restoreError({ name, message, code, stack, cause }: ErrorCause): Error {
  const error = new Error(message, cause === undefined ? undefined : { cause: restoreError(cause) });
  Object.defineProperty(error, "name", { value: name, configurable: true, writable: true });
  Object.defineProperty(error, "stack", {
    value: stack ?? `${name}: ${message}`,
    configurable: true,
    writable: true,
  });
  return code === undefined ? error : Object.assign(error, { code });
}

/** Shortens a text to `max` characters, and marks that with three dots. */
export function cutText(text: string, max: number): string {
  return (text.length > max ? text.slice(0, max) + DOTS : text).toWellFormed();
}
