/** Shows a few lines of a source text, with a `^` below one column. */

const LINES_BEFORE = 2;
const WIDTH_MAX = 100;

/**
 * Returns the lines around a place in a source text, with a mark at the column, or at the line if there is no column. Returns nothing if
 * the text has no such line.
 */
export function codeFrame(text: string, place: { line: number; column?: number }): string[] {
  const lines = text.split("\n");
  const { line, column } = place;
  if (line < 1 || line > lines.length) return [];
  const first = Math.max(1, line - LINES_BEFORE);
  const width = String(line).length;
  const from = Math.max(0, (column ?? 1) - WIDTH_MAX + 20);
  const frame: string[] = [];
  for (let n = first; n <= line; n++) {
    const source = (lines[n - 1] as string).replaceAll("\t", " ").replace(/\r$/, "");
    const shown = source.slice(from, from + WIDTH_MAX).trimEnd();
    frame.push(`${n === line ? ">" : " "} ${String(n).padStart(width)} | ${shown}`);
  }
  if (column !== undefined) frame.push(`  ${" ".repeat(width)} | ${" ".repeat(column - 1 - from)}^`);
  return frame;
}
