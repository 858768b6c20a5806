import { expect, test } from "vitest";
import { csv } from "../../dashboard/src/core/csv.ts";

test("texts with separators are quoted, and formulas of a spreadsheet are not run", () => {
  const rows = [
    [1, "plain", null],
    [2, 'says "no", and\nmore', -5],
    [3, "=HYPERLINK(1)", "-1+2"],
  ];
  expect(csv(["n", "a, b", "c"], rows)).toBe(
    'n,"a, b",c\r\n1,plain,\r\n2,"says ""no"", and\nmore",-5\r\n3,\'=HYPERLINK(1),\'-1+2\r\n',
  );
});
