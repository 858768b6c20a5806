/** What an error says. */
export function messageOf(error: unknown): string {
  if (typeof error !== "object" || error === null) return String(error);
  const { name, message } = error as { name?: unknown; message?: unknown };
  const said = typeof message === "string" ? message : JSON.stringify(error);
  return typeof name === "string" && name !== "Error" ? `${name}: ${said}` : said;
}

/** A field of an event as text. */
export function textOf(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}
