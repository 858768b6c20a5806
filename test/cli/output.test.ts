// Tables, and what people see of times.
import { beforeEach, expect, test, vi } from "vitest";
import { type Column, tableLines } from "../../src/cli/output/table.ts";

beforeEach(() => {
  vi.stubEnv("TERM", "xterm");
  vi.stubEnv("NO_COLOR", "");
});

interface Row {
  readonly name: string;
  readonly n: number | null;
  readonly text: string;
}

const COLUMNS: Column<Row>[] = [
  { title: "NAME", value: ({ name }) => name, style: () => "green" },
  { title: "N", value: ({ n }) => n, align: "right" },
  { title: "TEXT", value: ({ text }) => text },
];
const ROWS: Row[] = [
  { name: "a", n: 5, text: "one\nline\tonly" },
  { name: "longer", n: null, text: "" },
  { name: "b", n: 12_345, text: "x".repeat(100) },
];

test("in a pipe, columns are aligned by spaces, nothing is cut, and an empty cell is a dash", () => {
  expect(tableLines(COLUMNS, ROWS, { isTTY: false, columns: 40 })).toEqual([
    "NAME        N  TEXT",
    "a           5  one line only",
    "longer      -  -",
    `b       12345  ${"x".repeat(100)}`,
  ]);
});

test("on a terminal, lines are cut at its edge and coloured", () => {
  const lines = tableLines(COLUMNS, ROWS, { isTTY: true, columns: 40 });
  expect(lines[1]).toBe("\x1b[32ma       \x1b[0m    5  one line only");
  const bare = (lines[3] as string).replaceAll("\x1b[32m", "").replaceAll("\x1b[0m", "");
  expect([bare.length, bare.at(-1)]).toEqual([40, "…"]);
});
