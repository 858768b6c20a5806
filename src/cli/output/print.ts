/** Data for standard output: JSON on one line each, or text for people. */
import { type Column, tableLines } from "./table.ts";

/** One line. */
export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** A value as JSON on a line of its own. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value));
}

/** Rows as a table, or each as a line of JSON. */
export function printRows<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  options: { readonly json?: boolean | undefined; readonly none: string },
): void {
  if (options.json) for (const row of rows) printJson(row);
  else if (rows.length === 0) process.stderr.write(`${options.none}\n`);
  else print(tableLines(columns, rows, process.stdout).join("\n"));
}

/** Something to know that is not data: on standard error. */
export function tell(line: string): void {
  process.stderr.write(`${line}\n`);
}
