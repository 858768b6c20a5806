/**
 * How code tells a worker what to make of an error that it throws: by brands under `Symbol.for`, never by instanceof,
 * so that two copies of this package in one process understand each other.
 */

/** True on an error: the task fails now, whatever attempts are left. */
export const FATAL: unique symbol = Symbol.for("rondo.fatal") as never;

/** On an error: milliseconds until the next attempt. */
export const RETRY_AFTER: unique symbol = Symbol.for("rondo.retryAfter") as never;

/** The error, which is fatal from now on. */
export function brandFatal(error: Error): Error {
  return Object.assign(error, { [FATAL]: true });
}
