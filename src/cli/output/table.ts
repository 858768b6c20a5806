/**
 * Formats rows as aligned columns, in the same way on a terminal and in a pipe. Only a terminal gets colours and lines that are cut at
 * its right edge.
 */
import type { Piece, Style } from "../style.ts";
import { isColoured, isLive, Painter } from "../style.ts";
import { visible } from "./visible.ts";

export interface Column<Row> {
  readonly title: string;
  readonly value: (row: Row) => string | number | null;
  readonly align?: "right";
  readonly style?: (row: Row) => Style | null;
}

const GAP = "  ";

/** Returns the lines of a table, with the titles first. An empty cell is shown as a dash, so that programs can count columns. */
export function tableLines<Row>(
  columns: readonly Column<Row>[],
  rows: readonly Row[],
  terminal: { readonly isTTY?: boolean | undefined; readonly columns?: number | undefined },
): string[] {
  const painter = new Painter(isColoured(terminal));
  const width = isLive(terminal) ? Math.max(40, terminal.columns || 80) : Number.POSITIVE_INFINITY;
  const cells = rows.map((row) => columns.map(({ value }) => cell(value(row))));
  const widths = columns.map(({ title }, i) =>
    cells.reduce((widest, row) => Math.max(widest, (row[i] as string).length), title.length),
  );
  const line = (texts: readonly string[], style: (i: number) => Style | null): string => {
    const pieces: Piece[] = texts.map((text, i) => {
      const isLast = i === columns.length - 1;
      const padded =
        columns[i]?.align === "right"
          ? text.padStart(widths[i] as number)
          : isLast
            ? text
            : text.padEnd(widths[i] as number);
      const shown = isLast ? padded : padded + GAP;
      const look = style(i);
      return look === null ? shown : ([shown, look] as const);
    });
    return painter.line(pieces, width).trimEnd();
  };
  return [
    line(
      columns.map(({ title }) => title),
      () => "bold",
    ),
    ...cells.map((texts, n) => line(texts, (i) => columns[i]?.style?.(rows[n] as Row) ?? null)),
  ];
}

/** The text of a cell, on one line. */
function cell(value: string | number | null): string {
  if (value === null || value === "") return "-";
  return visible(String(value).replaceAll(/\s*[\r\n\t]+\s*/g, " "));
}
