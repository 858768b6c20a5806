/** Data for standard output: JSON on one line each, or text for people. */
import { type Column, tableLines } from "./table.ts";
import { jsonText, visible } from "./visible.ts";

/** Plain text: a line, or several. */
export function print(line: string): void {
  printPainted(visible(line));
}

/** Lines as a painter has made them. */
export function printPainted(...lines: readonly string[]): void {
  process.stdout.write(lines.map((line) => `${line}\n`).join(""));
}

/** A value as JSON on a line of its own. */
export function printJson(value: unknown): void {
  printPainted(jsonText(value));
}

/** Rows as a table, or each as a line of JSON. */
export function printRows<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  options: { readonly json?: boolean | undefined; readonly none: string },
): void {
  if (options.json) for (const row of rows) printJson(row);
  else if (rows.length === 0) printLine(options.none);
  else printPainted(...tableLines(columns, rows, process.stdout));
}

/** Something to know that is not data: on standard error. */
export function printLine(line: string): void {
  process.stderr.write(`${visible(line)}\n`);
}
