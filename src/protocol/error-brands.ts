/**
 * Brands on errors, by which code tells a worker how to treat an error. They are properties under `Symbol.for` and not classes,
 * so that two copies of this package in one process work together.
 */

/** A brand with the value true: the task fails for good, without further attempts. */
export const FATAL: unique symbol = Symbol.for("rondo.fatal") as never;

/** A brand whose value is the number of milliseconds until the next attempt. */
export const RETRY_AFTER: unique symbol = Symbol.for("rondo.retryAfter") as never;

/** Marks the error as fatal and returns it. */
export function brandFatal(error: Error): Error {
  return Object.assign(error, { [FATAL]: true });
}
