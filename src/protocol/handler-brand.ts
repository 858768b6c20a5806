/** The brand of handlers that `handler()` makes, by which `map` recognises them. */

/** The symbol under which a handler keeps the specification that `handler()` was given. */
export const HANDLER: unique symbol = Symbol.for("rondo.handler") as never;

/** Whether a value was made by `handler()`. */
export function isHandler(value: unknown): value is { readonly name?: unknown } {
  return typeof value === "object" && value !== null && HANDLER in value;
}
