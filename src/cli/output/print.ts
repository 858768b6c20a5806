/** Prints to standard output: JSON with one value per line, or text for people. */
import { type Column, tableLines } from "./table.ts";
import { jsonText, visible } from "./visible.ts";

/** Prints plain text of one or several lines. */
export function print(line: string): void {
  printPainted(visible(line));
}

/** Prints lines that a `Painter` has made. */
export function printPainted(...lines: readonly string[]): void {
  process.stdout.write(lines.map((line) => `${line}\n`).join(""));
}

/** Prints a value as one line of JSON. */
export function printJson(value: unknown): void {
  printPainted(jsonText(value));
}

/** Prints the answer of a server: as JSON if --json asks for it, else as a sentence. */
export function printAnswer(
  flags: { readonly json?: boolean | undefined },
  answer: unknown,
  sentence: string,
): void {
  if (flags.json) printJson(answer);
  else printLine(sentence);
}

/** Prints rows as a table, or each as a line of JSON. */
export function printRows<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  options: { readonly json?: boolean | undefined; readonly none: string },
): void {
  if (options.json) for (const row of rows) printJson(row);
  else if (rows.length === 0) printLine(options.none);
  else printPainted(...tableLines(columns, rows, process.stdout));
}

/** Prints a message that is not data to standard error. */
export function printLine(line: string): void {
  process.stderr.write(`${visible(line)}\n`);
}
