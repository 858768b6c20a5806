/** The brand of handlers that `handler()` makes, by which `map` recognises them. */

/** The key of the spec in a handler. */
export const HANDLER: unique symbol = Symbol.for("rondo.handler") as never;

/** Whether a value was made by `handler()`. */
export function isHandler(value: unknown): value is { readonly name?: unknown } {
  return typeof value === "object" && value !== null && HANDLER in value;
}
