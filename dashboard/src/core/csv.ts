/** Writes rows as CSV (RFC 4180). */

/** The characters with which a spreadsheet begins a formula. */
const FORMULA = /^[=+\-@\t\r]/;

/** Returns a table with these headings. A text that a spreadsheet would run as a formula gets an apostrophe in front of it. */
export function csv(
  heads: readonly string[],
  rows: readonly (readonly (string | number | null)[])[],
): string {
  return [heads, ...rows].map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

function cell(value: string | number | null): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const text = FORMULA.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
