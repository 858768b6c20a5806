/** A thrown value as an Error: JavaScript code may throw anything. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
